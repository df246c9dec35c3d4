"""The parts of a baseline, one a layer: what must hold there, with nothing about where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.baseline_container import ContainerRules
from rackproof.package_names import PackageNames, Platform


@dataclass(frozen=True)
class HostBaseline:
    architecture: str  # uname -m
    operating_systems: tuple[str, ...]  # "ubuntu 24.04", "rhel 9"


@dataclass(frozen=True)
class DriverBaseline:
    branch_min: int
    floor: str | None  # the first driver that knows this hardware, where that is published
    version: str | None  # exact, where the site pins one
    flavour: str | None  # open, where the hardware takes no other
    parameters: tuple[tuple[str, str], ...]  # names and values in /proc/driver/nvidia/params
    device_nodes: tuple[str, ...]  # under /dev, beside one for each GPU


@dataclass(frozen=True)
class GpuBaseline:
    count: int
    product: str
    memory_bytes_min: int  # of one GPU
    pci_device_ids: tuple[str, ...] | None
    pci_subsystem_ids: tuple[str, ...] | None
    power_limits_w: tuple[float, ...] | None
    fatal_xids: tuple[int, ...]
    expect_idle: bool
    application_xids: tuple[int, ...]  # errors of programs: no fault of the host
    nvlink_xids: tuple[int, ...]  # of NVLink 5: a fault where their own words say Fatal
    has_sxids: bool  # the NVSwitches of this generation report SXids
    idle_memory_max_bytes: int  # in use on a GPU without programs
    idle_memory_tight_bytes: int | None  # where the layout leaves less room than that
    aggregate_uncorrectable_max: int  # errors over the life of a board
    temperature_above_median_c: float
    pcie_replays_max: int


@dataclass(frozen=True)
class NvlinkBaseline:
    kind: str  # nvl72 | hgx | xgmi
    links_per_gpu: int
    link_rate_min_gb_per_s: float
    link_rate_gb_per_s: float | None  # what a link that trained well has; None: not published
    error_counters: tuple[str, ...]  # names of the counters that stay 0 on a good link
    fabric_state: str
    fabric_status: str
    across_nodes: bool  # traffic of one unit crosses nodes over NVLink
    imex_owner: str | None  # host | kubernetes: who runs IMEX; None where nothing needs it
    host_imex: bool  # the host itself runs it
    imex_quorum: tuple[str, ...]  # values of IMEX_WAIT_FOR_QUORUM with which a daemon does not wait for ever
    imex_channel: str
    domain: tuple[str, ...] | None  # addresses of every tray of the NVLink domain, in order; None: not declared
    daemons_required: tuple[str, ...]
    daemons_forbidden: tuple[str, ...]
    fabric_modules: tuple[str, ...]  # kernel modules Fabric Manager needs before it starts; () where it needs none
    fabric_manager_restarts_max: int


@dataclass(frozen=True)
class RuntimeBaseline:
    engine: str
    engine_package: str
    engine_min: str
    toolkit_min: str
    toolkit_version: str | None
    rules: ContainerRules
    amd_toolkit: str | None = None  # version of AMD's container toolkit; None: the site asks for none


@dataclass(frozen=True)
class ImageBaseline:
    repository: str
    tag: str
    index: str
    platform: str | None  # the digest of the host's own architecture, where it is published
    architecture: str  # as OCI spells it
    cuda_major: int | None  # None: an image without CUDA

    @property
    def reference(self) -> str:
        """What is pulled and run: the image by its index digest."""
        return f"{self.repository}@{self.index}"


@dataclass(frozen=True)
class RdmaPackages:
    """The network stack for RDMA that the site wants installed."""

    stack: str  # inbox | doca
    names: tuple[str, ...]
    shown_by: tuple[str, ...]  # those of them that the reading of a node lists
    repository: str  # of DOCA; "" for what the distribution has
    key_url: str
    key_fingerprint: str


@dataclass(frozen=True)
class PackageBaseline:
    """Where packages come from and what they are called; None in a baseline that nobody deploys."""

    repository: str
    key_url: str
    key_fingerprint: str
    names: PackageNames
    platform: Platform
    rdma: RdmaPackages | None  # None: the site leaves the network stack to somebody else
    origin: str  # of the driver: nvidia | ubuntu | amd; with ubuntu the repository is for NVIDIA's container toolkit
    toolkit_repository: str = ""  # of AMD's container toolkit; "" where the site asks for none
