"""RDMA devices (host channel adapters), their ports and GIDs. Paths from GPU memory: facts_system.GpuDirectFacts.

The same facts come from sysfs (/sys/class/infiniband), `ibv_devinfo`, `ibstat` and `rdma link`; what a tool does not
print is `Missing`. Rates are bits per second, MTUs bytes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing

_NOT_PRINTED: Missing = Missing("not printed")


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table; empty entries are left out."""

    index: int
    address: str  # IPv6 as RFC 5952 writes it; "::ffff:10.0.0.1" carries an IPv4 address
    version: Fact[str]  # "RoCE v2" | "IB/RoCE v1"
    netdev: Fact[str] = _NOT_PRINTED

    @property
    def scope(self) -> str:
        """ipv4 (IPv4-mapped) | global | link-local | other: only the first two can be routed."""
        try:
            address = ipaddress.IPv6Address(self.address)
        except ValueError:
            return "other"
        if address.ipv4_mapped is not None:
            return "link-local" if address.ipv4_mapped.is_link_local else "ipv4"
        if address.is_link_local:
            return "link-local"
        return "other" if address.is_multicast or address.is_loopback or address.is_unspecified else "global"


@dataclass(frozen=True)
class Port:
    number: int
    state: Fact[str] = _NOT_PRINTED  # ACTIVE | DOWN | INIT | ARMED | ACTIVE_DEFER | NOP
    phys_state: Fact[str] = _NOT_PRINTED  # LinkUp | Disabled | Polling | Sleep | ...
    rate_bits_per_s: Fact[int] = _NOT_PRINTED  # what is printed; of a port that is down it says nothing about the link
    link_layer: Fact[str] = _NOT_PRINTED  # InfiniBand | Ethernet
    lid: Fact[int] = _NOT_PRINTED
    sm_lid: Fact[int] = _NOT_PRINTED  # 0: no subnet manager has swept the port
    active_mtu_bytes: Fact[int] = _NOT_PRINTED
    pkeys: Fact[tuple[int, ...]] = _NOT_PRINTED  # distinct and not 0; bit 15 is full membership
    netdevs: Fact[tuple[str, ...]] = _NOT_PRINTED
    netdev_up: Fact[bool] = _NOT_PRINTED  # what ibdev2netdev says of the interface, which is not the port's state
    gids: Fact[tuple[Gid, ...]] = _NOT_PRINTED
    # Counters of errors since the driver was loaded, by the name of their file. They count, they do not say when.
    errors: Fact[Mapping[str, int]] = _NOT_PRINTED


@dataclass(frozen=True)
class Hca:
    """One RDMA device: mlx5_0, rocep1s0f0, rdmap0s6, ionic_0, bnxt_re0, rxe0."""

    name: str
    ports: tuple[Port, ...]
    fw_version: Fact[str] = _NOT_PRINTED
    product: Fact[str] = _NOT_PRINTED  # hca_type: MT4129
    board_id: Fact[str] = _NOT_PRINTED
    node_guid: Fact[str] = _NOT_PRINTED  # 16 hexadecimal digits
    pci_id: Fact[str] = _NOT_PRINTED  # vendor:device, "15b3:1021" (mlx5), "1d0f:efa2" (EFA), "1dd8:1002" (ionic)
    pci_address: Fact[str] = _NOT_PRINTED  # as Gpu.pci_address
    driver: Fact[str] = _NOT_PRINTED  # mlx5_core | efa | ionic | bnxt_en
    numa_node: Fact[int] = _NOT_PRINTED


@dataclass(frozen=True)
class RdmaFacts:
    """What there is for RDMA on a node. `hcas` is empty where the kernel was asked and knows no RDMA device."""

    hcas: Fact[tuple[Hca, ...]]
    source: str  # sysfs | ibv_devinfo | ibstat | rdma link: who listed the devices
    devices: Fact[tuple[str, ...]]  # names under /dev/infiniband: uverbs0, rdma_cm, umad0, issm0
    modules: Fact[frozenset[str]]  # RDMA modules in the kernel
    ofed_version: Fact[str | None]  # `ofed_info -s`; None where no DOCA or MLNX_OFED is installed
    mlx5_version: Fact[str | None]  # version of the loaded mlx5_core; None: not loaded, or the kernel's own


@dataclass(frozen=True)
class MlxLink:
    """One port as `mlxlink` describes it. Its words: "Active", "LinkUp", "400G", "4x", "No issue was observed"."""

    state: Fact[str]
    phys_state: Fact[str]
    speed: Fact[str]
    width: Fact[str]
    recommendation: Fact[str]
    fw_version: Fact[str]
    raw_ber: Fact[float]
    effective_ber: Fact[float]
