"""Facts of the system under the GPUs: kernel settings, memory, CPUs, storage, time, package policy, fabric daemons.

Same rules as facts.py: base units, and a value nobody could read is Missing with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackproof.facts import Fact, Missing

if TYPE_CHECKING:  # it is made of types below
    from rackproof.facts_state import NodeState

_UNREAD: Missing = Missing("not read")


@dataclass(frozen=True)
class Limit:
    """A resource limit as the kernel keeps it; None is unlimited. Bytes for memory, a count for files."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node. GPU memory that the kernel sees (Grace without CDMM) is a node without CPUs."""

    number: int
    cpus: str  # "0-71"; "" for a node of memory alone
    memory_bytes: Fact[int]


@dataclass(frozen=True)
class NvmeController:
    name: str  # nvme0
    model: Fact[str]
    firmware: Fact[str]
    state: Fact[str]  # live | dead | resetting ...


@dataclass(frozen=True)
class KernelState:
    """What the kernel says about itself in /proc and /sys."""

    sysctl: Fact[Mapping[str, str]]  # vm.max_map_count -> "262144"; one the kernel lacks is left out
    memory_bytes: Fact[int]  # MemTotal
    memory_available_bytes: Fact[int]
    hugepages: Fact[int]  # how many of the default size are set aside
    hugepage_bytes: Fact[int]
    transparent_hugepages: Fact[str]  # always | madvise | never
    swap_bytes: Fact[int]
    swap_used_bytes: Fact[int]
    memlock: Fact[Limit]  # of a process of the user who probed
    open_files: Fact[Limit]
    cpus_possible: Fact[str]  # "0-143"
    cpus_online: Fact[str]
    governor: Fact[str]  # of the first CPU
    numa: Fact[tuple[NumaNode, ...]]
    secure_boot: Fact[bool]
    lockdown: Fact[str]  # none | integrity | confidentiality
    nvme: Fact[tuple[NvmeController, ...]]


@dataclass(frozen=True)
class GpuDirectFacts:
    """What a NIC can use to reach GPU memory: the peer-memory interface, dma-buf, GDRCopy."""

    peer_memory_client: Fact[bool]  # nvidia_peermem has registered itself: /sys/kernel/mm/memory_peers/nv_mem
    peer_memory_symbol: Fact[bool]  # the RDMA core of this kernel has the peer-memory interface
    dmabuf_symbol: Fact[bool]  # ... and can register dma-buf memory
    gdrdrv_device: Fact[bool]


@dataclass(frozen=True)
class CpuFacts:
    """`lscpu`. Excerpts and old versions leave fields out."""

    architecture: Fact[str]
    model: Fact[str]
    cpus: Fact[int]
    sockets: Fact[int]
    cores_per_socket: Fact[int]
    threads_per_core: Fact[int]
    numa_cpus: tuple[str, ...]  # CPUs of each NUMA node in order; "" for a node without any


@dataclass(frozen=True)
class Filesystem:
    device: str
    mount: str
    kind: str  # ext4, xfs, nfs4, tmpfs ...
    options: tuple[str, ...]
    size_bytes: Fact[int]
    available_bytes: Fact[int]


@dataclass(frozen=True)
class Disk:
    """One block device of `lsblk`: a disk, a partition, a RAID or LVM volume."""

    name: str
    kind: str
    size_bytes: Fact[int]
    rotational: Fact[bool]
    model: Fact[str]
    transport: Fact[str]  # nvme | sata | ...
    mounts: tuple[str, ...]


@dataclass(frozen=True)
class TimeFacts:
    synchronized: Fact[bool]  # timedatectl NTPSynchronized
    offset_s: Fact[float]  # chrony: how far the system clock is from its reference, signed
    reference: Fact[str]  # chrony: name of the source, or its id
    stratum: Fact[int]


@dataclass(frozen=True)
class DkmsModule:
    module: str
    version: str
    kernel: str  # "" for one that is only added
    state: str  # installed | built | added | broken ...


@dataclass(frozen=True)
class KernelFacts:
    """Kernels on disk, the one that starts next, and the NVIDIA module each would load."""

    nvidia: Fact[Mapping[str, str | None]]  # installed kernel -> module version; None: it has no NVIDIA module
    next: Fact[str]  # kernel of the next boot
    dkms: Fact[tuple[DkmsModule, ...]]  # by /var/lib/dkms


@dataclass(frozen=True)
class AptFacts:
    """What apt does by itself, by its own account (`apt-config dump`)."""

    periodic: Mapping[str, str]  # keys below APT::Periodic:: -> value
    blacklist: tuple[str, ...]  # Unattended-Upgrade::Package-Blacklist
    upgrades_itself: Fact[bool]  # whether its daily job runs unattended-upgrade


@dataclass(frozen=True)
class Candidate:
    installed: str
    candidate: str  # what an upgrade would install now


@dataclass(frozen=True)
class FabricEvent:
    """One telling line of a fabric daemon's log."""

    kind: str  # configured | version-mismatch | no-devices | switch-error | subnet-manager | error
    text: str


@dataclass(frozen=True)
class FabricManagerFacts:
    version: Fact[str]  # nv-fabricmanager --version
    mode: Fact[str]  # FABRIC_MODE: 0 bare metal, 1 and 2 shared with virtual machines
    events: Fact[tuple[FabricEvent, ...]]  # telling lines in the tail of its log, oldest first
    nvlsm_events: Fact[tuple[FabricEvent, ...]]  # the same of the NVLink subnet manager


@dataclass(frozen=True)
class SXid:
    code: int
    pci_address: str
    fatal: Fact[bool]
    text: str


@dataclass(frozen=True)
class KernelEvents:
    """Kernel messages besides Xids, and how far back the log goes."""

    sxids: tuple[SXid, ...]
    machine_checks: tuple[str, ...]
    oom_kills: tuple[str, ...]  # name of each program the kernel killed for memory, "?" where it is not told
    nvidia: tuple[str, ...]  # what the driver complains about: NVRM lines besides Xids, nvidia-peermem errors
    first: Fact[str]  # time stamp of the oldest line
    boots: Fact[int]  # boots the log covers
    nvme_errors: tuple[str, ...] = ()  # timeouts, resets and I/O errors of NVMe disks
    hung_tasks: tuple[str, ...] = ()  # names of tasks that hung for two minutes and more
    pcie_fatal: tuple[str, ...] = ()  # AER: errors the kernel calls fatal


@dataclass(frozen=True)
class NvlinkErrors:
    """Error counters of one link: name as printed -> count."""

    gpu: int
    link: int
    counters: Mapping[str, int]


@dataclass(frozen=True)
class EngineFacts:
    """Container engines besides Docker."""

    containerd: Fact[str]  # version
    podman: Fact[str]
    containerd_config: Fact[Mapping[str, str] | None]  # settings that concern GPUs; None where there is no config.toml


@dataclass(frozen=True)
class NvmeHealth:
    """`nvme smart-log` of one controller. critical_warning is a bit field: 1 spare, 2 temperature, 4 reliability,
    8 read-only, 16 backup."""

    name: str  # nvme0
    critical_warning: Fact[int]
    percent_used: Fact[int]  # of the endurance it was sold with; can pass 100
    spare_percent: Fact[int]
    media_errors: Fact[int]


@dataclass(frozen=True)
class SystemFacts:
    """All of the above about one node."""

    kernel: Fact[KernelState] = _UNREAD
    gpudirect: Fact[GpuDirectFacts] = _UNREAD
    cpu: Fact[CpuFacts] = _UNREAD
    filesystems: Fact[tuple[Filesystem, ...]] = _UNREAD
    disks: Fact[tuple[Disk, ...]] = _UNREAD
    clock: Fact[TimeFacts] = _UNREAD
    kernels: Fact[KernelFacts] = _UNREAD
    kernel_events: Fact[KernelEvents] = _UNREAD
    apt: Fact[AptFacts] = _UNREAD
    candidates: Fact[Mapping[str, Candidate]] = _UNREAD  # packages an upgrade would change
    held: Fact[tuple[str, ...]] = _UNREAD  # dpkg: apt-mark hold
    versionlocks: Fact[tuple[str, ...]] = _UNREAD  # lines of dnf's versionlock list; () where there is none
    engines: Fact[EngineFacts] = _UNREAD
    fabric_manager: Fact[FabricManagerFacts] = _UNREAD
    state: Fact[NodeState] = _UNREAD
    own_addresses: Fact[tuple[str, ...]] = _UNREAD  # what the node's own name resolves to; () where it does not
    nvme_health: Fact[tuple[NvmeHealth, ...]] = _UNREAD


def holding(filesystems: Sequence[Filesystem], path: str) -> Fact[Filesystem]:
    """The filesystem an absolute path lies on, of those that were listed; of two on one mount point the later one."""
    found = [item for item in filesystems if f"{path}/".startswith(f"{item.mount.rstrip('/')}/")]
    deepest = max((len(item.mount) for item in found), default=0)
    return next((item for item in reversed(found) if len(item.mount) == deepest), Missing(f"no filesystem holds {path}"))
