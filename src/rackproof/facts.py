"""What one node is, as far as it could be read.

Every field is either a value in base units (bytes, seconds, watts) or `Missing` with the reason. There is no default
that looks like health: a value a tool printed as N/A, ERR! or not at all is `Missing`, never 0, False or "".
A check gets at a value with `known`, which raises for `Missing`; the evaluator turns that into `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackproof.errors import MissingFact
from rackproof.fact import Fact as Fact
from rackproof.fact import Missing as Missing
from rackproof.fact import T as T
from rackproof.fact import known as known
from rackproof.fact import known_each as known_each

if TYPE_CHECKING:  # they are made of the types below
    from rackproof.facts_amd import AmdFacts
    from rackproof.facts_control import ControlFacts
    from rackproof.facts_driver import Library
    from rackproof.facts_gpu import GpuDetail
    from rackproof.facts_image import ImageChain
    from rackproof.facts_network import NetworkFacts
    from rackproof.facts_nvlink import NvlinkFacts
    from rackproof.facts_pci import PciFacts
    from rackproof.facts_podman import PodmanFacts
    from rackproof.facts_rdma import RdmaFacts
    from rackproof.facts_serving import RunningContainer, ServingFacts
    from rackproof.facts_system import SystemFacts
    from rackproof.facts_weights import WeightsFacts

_UNREAD: Missing = Missing("not read")
_UNNAMED: Missing = Missing("no model directory was named")
_UNPROBED: Missing = Missing("the node was not probed")


@dataclass(frozen=True)
class Unit:
    """State of one systemd unit, as `systemctl show` names it."""

    name: str
    load: str  # loaded | not-found | masked | error
    active: str  # active | inactive | failed | activating
    sub: str
    enabled: str  # enabled | disabled | masked | static | "" (no such unit file)
    restarts: Fact[int]
    result: str
    memlock: Fact[str]  # LimitMEMLOCK: bytes or "infinity"
    exec_start: str
    nofile: Fact[str] = _UNREAD  # LimitNOFILE: a count or "infinity"

    @property
    def installed(self) -> bool:
        return self.load == "loaded"

    @property
    def running(self) -> bool:
        return self.active == "active"


@dataclass(frozen=True)
class ManagedFile:
    """A file the deploy writes: sha256 of its bytes, or None where it does not exist."""

    path: str
    sha256: str | None


@dataclass(frozen=True)
class HostFacts:
    """Operating system and identity of the node."""

    hostname: Fact[str]
    boot_id: Fact[str]
    kernel: Fact[str]  # uname -r
    architecture: Fact[str]  # uname -m: x86_64 | aarch64
    os_id: Fact[str]  # /etc/os-release ID
    os_version: Fact[str]  # /etc/os-release VERSION_ID
    product_name: Fact[str]  # DMI
    cmdline: Fact[tuple[str, ...]]
    page_size_bytes: Fact[int]
    is_root: Fact[bool]  # the probe ran as root (directly or by sudo)
    simulated: Fact[str | None]  # first line of the lab's mark; None on real hardware
    selfbuild: Fact[str | None]  # first line of the self-build mark; None where there is none
    reboot_required: Fact[bool]  # /run/reboot-required
    units: Fact[Mapping[str, Unit]]
    packages: Fact[Mapping[str, str]]  # installed package -> version, as dpkg or rpm spells it
    broken_packages: Fact[tuple[str, ...]]  # half installed or half configured
    apt_sources: Fact[Mapping[str, str]]  # file -> text of /etc/apt/sources.list*
    apt_preferences: Fact[Mapping[str, str]]
    files: Fact[Mapping[str, ManagedFile]]  # path -> what is there now
    stamp: Fact[Mapping[str, object] | None]  # /etc/rackproof/baseline.json; None where no deploy left one
    addresses: Fact[tuple[str, ...]]  # the node's own IP addresses, loopback left out
    uptime_s: Fact[float] = _UNREAD
    # Files of /sys/class/dmi/id: sys_vendor, board_name, bios_version, product_serial ...; serials only root may read.
    dmi: Fact[Mapping[str, Fact[str]]] = _UNREAD


@dataclass(frozen=True)
class DriverFacts:
    """The NVIDIA driver by its four witnesses: loaded module, module on disk, user-space library, packages."""

    loaded_version: Fact[str | None]  # None: no NVIDIA module is loaded
    flavour: Fact[str]  # open | proprietary
    disk_version: Fact[str]  # what the next boot would load for the running kernel
    library_version: Fact[str]  # libnvidia-ml.so.1 points to
    loaded_modules: Fact[frozenset[str]]  # names as in /sys/module
    parameters: Fact[Mapping[str, str]]  # /proc/driver/nvidia/params
    nouveau_blacklisted: Fact[bool]
    proc_gpus: Fact[tuple[str, ...]]  # PCI addresses under /proc/driver/nvidia/gpus
    pci_gpus: Fact[tuple[str, ...]]  # PCI addresses of NVIDIA display-class devices in sysfs
    pci_ids: Fact[tuple[str, ...]]  # "10de:31c2" of each, same order
    # Programs that hold a GPU device open, NVIDIA's own daemons left out. For a deploy: who would be disrupted.
    holders: Fact[tuple[str, ...]] = _UNREAD
    device_nodes: Fact[tuple[str, ...]] = _UNREAD  # character devices /dev/nvidia*, by name
    libraries: Fact[tuple[Library, ...]] = _UNREAD  # () where there is none


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    name: str
    used_bytes: Fact[int]


@dataclass(frozen=True)
class Gpu:
    """One GPU as `nvidia-smi -q -x` describes it."""

    index: int
    pci_address: str  # lower case, 8-digit domain: 00000008:06:00.0
    product: Fact[str]
    uuid: Fact[str]
    serial: Fact[str]
    vbios: Fact[str]
    memory_bytes: Fact[int]  # fb_memory_usage total
    persistence: Fact[bool]
    compute_mode: Fact[str]
    mig_current: Fact[bool]
    mig_pending: Fact[bool]
    ecc_current: Fact[bool]
    ecc_pending: Fact[bool]
    ecc_uncorrectable_volatile: Fact[int]  # SRAM and DRAM, since the driver was loaded
    ecc_uncorrectable_aggregate: Fact[int]  # over the life of the board
    remap_pending: Fact[bool]
    remap_failure: Fact[bool]
    remapped_uncorrectable: Fact[int]
    recovery_action: Fact[str]  # None | Reset | Reboot | Drain P2P | Drain and Reset
    power_limit_w: Fact[float]
    power_default_w: Fact[float]
    slowdown_reasons: Fact[tuple[str, ...]]  # active hw_slowdown, hw_thermal_slowdown, hw_power_brake, sw_thermal
    pcie_gen: Fact[int]
    pcie_width: Fact[int]
    pcie_width_max: Fact[int]
    fabric_state: Fact[str]  # Completed | In Progress | Not Started
    fabric_status: Fact[str]  # Success, or an error text
    fabric_health: Fact[str]  # Healthy | Unhealthy | Limited Capacity
    clique_id: Fact[int]
    cluster_uuid: Fact[str]
    processes: Fact[tuple[GpuProcess, ...]]
    detail: Fact[GpuDetail] = _UNREAD


@dataclass(frozen=True)
class SmiFacts:
    """`nvidia-smi -q -x` as a whole."""

    driver_version: Fact[str]
    cuda_version: Fact[str]
    attached: Fact[int]
    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()  # lines around the document ("infoROM is corrupted at gpu ..."), a bad exit code


@dataclass(frozen=True)
class Xid:
    code: int
    pci_address: str
    text: str


@dataclass(frozen=True)
class KernelLogFacts:
    lines_read: int  # how much there was to read; 0 lines prove nothing
    source: str  # journalctl -k | dmesg
    xids: tuple[Xid, ...]


@dataclass(frozen=True)
class CdiSpec:
    path: str
    driver_versions: tuple[str, ...]  # versions in the names of the libraries it mounts
    devices: tuple[str, ...]  # "0", "1", "all", ...
    nodes: tuple[str, ...] = ()  # of amd.com/gpu alone: the device files it hands over, "/dev/kfd"


@dataclass(frozen=True)
class ImageFacts:
    """One local image as the container engine describes it."""

    id: str
    tags: tuple[str, ...]  # repo:tag
    digests: tuple[str, ...]  # repo@sha256:...
    architecture: Fact[str]  # as OCI spells it: amd64 | arm64
    cuda_version: Fact[str]  # CUDA_VERSION in the image's environment
    labels: Mapping[str, str]


@dataclass(frozen=True)
class RuntimeFacts:
    engine: Fact[str | None]  # "docker"; None where no engine is installed
    engine_version: Fact[str]  # of the running daemon
    cgroup_version: Fact[str]
    runtimes: Fact[tuple[str, ...]]
    cdi_devices: Fact[tuple[str, ...]]  # what the engine itself discovered
    daemon_config: Fact[Mapping[str, object] | None]  # /etc/docker/daemon.json; None where there is no such file
    toolkit_version: Fact[str | None]  # nvidia-ctk --version; None where it is not installed
    cdi_specs: Fact[tuple[CdiSpec, ...]]
    images: Fact[tuple[ImageFacts, ...]]
    cgroup_driver: Fact[str] = _UNREAD  # systemd | cgroupfs
    default_runtime: Fact[str] = _UNREAD
    data_root: Fact[str] = _UNREAD  # DockerRootDir; its free space: facts_system.holding(filesystems, path)
    storage_driver: Fact[str] = _UNREAD  # overlay2 | overlayfs (containerd's image store) | ...
    security_options: Fact[tuple[str, ...]] = _UNREAD  # names: seccomp, apparmor, rootless, userns, selinux
    image_chains: Fact[tuple[ImageChain, ...]] = _UNREAD  # what proves an image without a digest
    running: Fact[tuple[RunningContainer, ...]] = _UNREAD  # all containers that run
    log_driver: Fact[str] = _UNREAD  # of a container for which none is named
    amd_cdi_specs: Fact[tuple[CdiSpec, ...]] = _UNREAD  # of amd.com/gpu


@dataclass(frozen=True)
class UnitFacts:
    """The nodes that together serve one replica, as the inventory declares them."""

    name: str
    declared: tuple[str, ...]
    nodes: Mapping[str, Fact[NodeFacts]]  # Missing: declared, and not read (unreachable, or no evidence given)
    # What a node is known by (identities.py) -> nodes of the whole run that have it: none may count twice.
    known_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeFacts:
    """Everything known about one node."""

    node: str
    host: HostFacts
    driver: DriverFacts
    smi: Fact[SmiFacts]
    nvlink: NvlinkFacts
    kernel_log: Fact[KernelLogFacts]
    runtime: RuntimeFacts
    system: Fact[SystemFacts] = _UNREAD
    rdma: Fact[RdmaFacts] = _UNREAD
    network: Fact[NetworkFacts] = _UNREAD
    pci: Fact[PciFacts] = _UNREAD
    amd: Fact[AmdFacts] = _UNREAD
    control: Fact[ControlFacts] = _UNREAD
    weights: Fact[WeightsFacts] = _UNNAMED
    serving: Fact[ServingFacts] = _UNREAD
    podman: Fact[PodmanFacts] = _UNREAD
    virtual_machine: Fact[str] = _UNREAD  # the hypervisor by its name (kvm, microsoft ...); "none" on bare metal
    evidence: Fact[str] = _UNPROBED  # sha256 of the whole probe output; Missing: incomplete


def gpus(facts: NodeFacts) -> Sequence[Gpu]:
    """The GPUs nvidia-smi listed; raises MissingFact when it listed none, so that no check passes over an empty list."""
    listed = known(facts.smi).gpus
    if not listed:
        raise MissingFact("nvidia-smi listed no GPU")
    return listed
