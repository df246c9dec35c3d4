"""The parts of a baseline, one a layer: what must hold there, with nothing about where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.baseline_container import ContainerRules
from rackproof.package_names import PackageNames


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


@dataclass(frozen=True)
class GpuBaseline:
    count: int
    product: str
    memory_bytes_min: int  # of one GPU
    pci_device_ids: tuple[str, ...] | None
    power_limits_w: tuple[float, ...] | None
    fatal_xids: tuple[int, ...]
    expect_idle: bool


@dataclass(frozen=True)
class NvlinkBaseline:
    kind: str  # nvl72 | hgx
    links_per_gpu: int
    link_rate_min_gb_per_s: float
    fabric_state: str
    fabric_status: str
    across_nodes: bool  # traffic of one unit crosses nodes over NVLink
    imex_channel: str
    domain: tuple[str, ...] | None  # addresses of every tray of the NVLink domain, in order; None: not declared
    daemons_required: tuple[str, ...]
    daemons_forbidden: tuple[str, ...]


@dataclass(frozen=True)
class RuntimeBaseline:
    engine: str
    engine_package: str
    engine_min: str
    toolkit_min: str
    toolkit_version: str | None
    rules: ContainerRules


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
class PackageBaseline:
    """Where packages come from and what they are called; None in a baseline that nobody deploys."""

    repository: str
    key_url: str
    key_fingerprint: str
    names: PackageNames
