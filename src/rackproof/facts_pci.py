"""PCI devices that matter to a GPU node: GPUs, network and accelerator functions, and the bridges above them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing

_NOT_PRINTED: Missing = Missing("not printed")


@dataclass(frozen=True)
class PciDevice:
    """One function. Addresses as Gpu.pci_address; speeds are transfers per second a lane."""

    address: str
    id: Fact[str] = _NOT_PRINTED  # "10de:31c2"
    class_code: Fact[str] = _NOT_PRINTED  # "0302": 3D controller, "0207": InfiniBand, "0604": PCI bridge
    class_name: Fact[str] = _NOT_PRINTED  # lspci's words: "3D controller"
    name: Fact[str] = _NOT_PRINTED  # "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    numa_node: Fact[int] = _NOT_PRINTED
    link_speed: Fact[float] = _NOT_PRINTED  # 32e9
    link_speed_max: Fact[float] = _NOT_PRINTED
    link_width: Fact[int] = _NOT_PRINTED
    link_width_max: Fact[int] = _NOT_PRINTED
    link_downgraded: Fact[bool] = _NOT_PRINTED  # lspci says so of speed or width
    bridges: Fact[tuple[str, ...]] = _NOT_PRINTED  # addresses of the bridges above, root port first
    # Errors that AER counted since boot. Root may read them; not every device has them.
    aer_fatal: Fact[int] = _NOT_PRINTED
    aer_nonfatal: Fact[int] = _NOT_PRINTED
    aer_correctable: Fact[int] = _NOT_PRINTED
    # Latched since they were last cleared, by lspci's names; a correctable one says little about the link today.
    uncorrectable_status: Fact[tuple[str, ...]] = _NOT_PRINTED
    correctable_status: Fact[tuple[str, ...]] = _NOT_PRINTED
    acs: Fact[tuple[str, ...]] = _NOT_PRINTED  # what is on in ACSCtl: SrcValid, ReqRedir, CmpltRedir, UpstreamFwd ...
    max_read_request_bytes: Fact[int] = _NOT_PRINTED
    max_payload_bytes: Fact[int] = _NOT_PRINTED


@dataclass(frozen=True)
class PciFacts:
    devices: Fact[tuple[PciDevice, ...]]  # GPUs, network and accelerator functions, by sysfs
    # Address -> ACSCtl of the bridges, by lspci as root; a bridge that has no ACS is not in it.
    acs: Fact[Mapping[str, tuple[str, ...]]]
    max_read_request_bytes: Fact[Mapping[str, int]]  # of bridges and ConnectX functions
