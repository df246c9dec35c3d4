"""What RDMA between the nodes of a unit must be. Asked only of layouts whose traffic crosses nodes by RDMA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rackproof.recipes import Layout
from rackproof.resolving import Resolving

GIGABIT = 10**9


@dataclass(frozen=True)
class RdmaPorts:
    """The ports that one provider's node of this product has, as published; not verified for most."""

    provider: str  # "any" where it is not tied to one
    count: int
    rate_bits_per_s: int
    link_layer: str | None


@dataclass(frozen=True)
class RdmaBaseline:
    """Values of rules/rdma.yaml, of the hardware profile and of the site's `serving`."""

    needed: bool  # the layout's traffic between nodes goes over RDMA
    hcas: tuple[str, ...] | None  # the devices the site names, with ":PORT" where it names a port; None: it does not say
    interface: str | None  # through which nodes meet; None: the site does not say
    gid_index: int | None  # None: the site leaves it to NCCL
    peermem_needed: bool | None  # the site says that dma-buf does not work, so nothing else is left; None: it may
    published: tuple[RdmaPorts, ...]  # (): not published, or the site names its ports, which then are what counts
    switched_off: tuple[str, ...]
    drivers_without_rc: tuple[str, ...]
    error_limits: tuple[tuple[str, int], ...]
    roce_mtu_bytes_min: int
    shell_memlock_bytes_min: int
    max_read_request_bytes: int | None
    firmware_floor: tuple[tuple[str, int], ...]
    arp: tuple[tuple[str, tuple[str, ...]], ...]
    acs_redirects: tuple[str, ...] | None  # bits that bridges shared by a GPU and a NIC must not have on; None: no one value
    gdr_module: str


def crosses_by_rdma(layout: Layout) -> bool:
    """Whether nodes of a layout talk by RDMA. KV cache between prefill and decode does, also on NVL72 trays."""
    return layout.nodes > 1 and (layout.fabric == "rdma" or layout.strategy == "pd_cluster")


def rdma_baseline(r: Resolving) -> RdmaBaseline:
    def rule(name: str) -> Any:
        return r.rule(f"rdma.{name}", "rdma", name)

    r.notes["rdma.needed"] = r.layout.source
    redirects = rule("acs_redirects")
    return RdmaBaseline(
        needed=crosses_by_rdma(r.layout),
        hcas=r.choose("rdma.hcas", "serving", "rdma", "hcas"),
        interface=r.choose("rdma.interface", "serving", "interface"),
        gid_index=r.choose("rdma.gid_index", "serving", "rdma", "gid_index"),
        peermem_needed=True if r.choose("rdma.peermem_needed", "serving", "rdma", "dmabuf") == "broken" else None,
        published=_published(r),
        switched_off=rule("switched_off"),
        drivers_without_rc=rule("drivers_without_rc"),
        error_limits=tuple(sorted(rule("error_limits").items())),
        roce_mtu_bytes_min=rule("roce_mtu_bytes_min"),
        shell_memlock_bytes_min=rule("shell_memlock_bytes_min"),
        max_read_request_bytes=rule("max_read_request_bytes").get(r.hardware.cpu_architecture.value),
        firmware_floor=tuple(sorted(rule("firmware_floor").items())),
        arp=tuple(sorted((name, tuple(values)) for name, values in rule("arp").items())),
        acs_redirects=redirects if r.hardware.id in r.rule("rdma.acs_redirects", "rdma", "acs_off") else None,
        gdr_module=r.rule("rdma.gdr_module", "rdma", "gdr_modules")[r.hardware.vendor],
    )


def _published(r: Resolving) -> tuple[RdmaPorts, ...]:
    nics = () if r.site.get("serving", "rdma", "hcas") else r.hardware.nics
    r.notes["rdma.published"] = ", ".join(dict.fromkeys(nic.source for nic in nics)) or r.notes["hardware"]
    return tuple(
        RdmaPorts(nic.provider or "any", nic.ports, nic.rate_gbit_per_s * GIGABIT, nic.link_layer) for nic in nics
    )
