"""NICs and network of healthy nodes: one RoCE port a GPU, and a slower management NIC whose second port is down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.facts import Missing, NodeFacts
from rackproof.facts_network import Interface, NetworkFacts, Route
from rackproof.facts_pci import PciDevice, PciFacts
from rackproof.facts_rdma import Gid, Hca, Port, RdmaFacts

GBIT = 10**9
FIRMWARE = "40.46.3048"
COUNTERS = {"symbol_error": 0, "link_downed": 0, "port_rcv_errors": 3}
MANAGEMENT = "mlx5_mgmt"


@cache
def over_rdma(hardware: str = "b300", layout: str = "b300-tp16", **rdma: Any) -> Baseline:
    """A baseline whose traffic crosses nodes by RDMA; keywords are keys of serving.rdma."""
    values: dict[str, Any] = {"hardware": hardware, "layout": layout, "allow_derived": True}
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in rdma.items()}
    if "interface" in listed:
        values["serving"] = {"interface": listed.pop("interface")}
    if listed:
        values.setdefault("serving", {})["rdma"] = listed
    return resolve(site.shipped().overlaid(values, "test"))


def nic_address(number: int) -> str:
    return f"00000000:{number + 1:x}a:00.0"


def rdma(gpus: int, name: str) -> RdmaFacts:
    rails = tuple(_hca(number, name) for number in range(gpus))
    management = Hca(
        MANAGEMENT,
        (_port(1, "10.0.0", name, 99, 25 * GBIT), Port(2, "DOWN", "Polling", 25 * GBIT, "Ethernet", gids=())),
        "16.35.4030", "MT41686", "MGMT", "58a2e10300c8ff00", "15b3:a2d6", "00000000:ff:00.0", "mlx5_core", 0,
    )  # fmt: skip
    hcas = (*rails, management)
    files = tuple(f"uverbs{number}" for number in range(len(hcas)))
    return RdmaFacts(
        hcas, "sysfs", ("rdma_cm", *files), frozenset({"mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs"}), "OFED-25.10", None
    )


def _hca(number: int, name: str) -> Hca:
    port = _port(1, f"10.2.{number}", name, number, 800 * GBIT)
    return Hca(
        f"mlx5_{number}", (port,), FIRMWARE, "MT4131", "NVD0000", f"58a2e10300c8{number:04x}", "15b3:1023",
        nic_address(number), "mlx5_core", number % 2,
    )  # fmt: skip


def _port(number: int, net: str, name: str, rail: int, rate: int) -> Port:
    address = f"::ffff:{net}.{name[-1]}"
    gids = (
        Gid(0, f"fe80::{rail:x}:{name[-1]}", "IB/RoCE v1", f"rail{rail}"),
        Gid(1, f"fe80::{rail:x}:{name[-1]}", "RoCE v2", f"rail{rail}"),
        Gid(2, address, "IB/RoCE v1", f"rail{rail}"),
        Gid(3, address, "RoCE v2", f"rail{rail}"),
    )
    return Port(
        number, "ACTIVE", "LinkUp", rate, "Ethernet", 0, 0, Missing("sysfs does not show the active MTU"), (0xFFFF,),
        (f"rail{rail}",), True, gids, COUNTERS,
    )  # fmt: skip


def network(gpus: int, name: str) -> NetworkFacts:
    rails = tuple(
        Interface(f"rail{number}", 9000, True, True, "UP", carrier_changes=2, ipv4=(f"10.2.{number}.{name[-1]}",), ipv6=())
        for number in range(gpus)
    )
    front = Interface("eth0", 1500, True, True, "UP", carrier_changes=2, ipv4=(f"10.1.0.{name[-1]}",), ipv6=())
    bridge = Interface("docker0", 1500, True, False, "DOWN", ipv4=("172.17.0.1",), ipv6=())
    return NetworkFacts((front, bridge, *rails), (Route("default", "eth0", "10.1.0.254", 0),))


def pci(gpu_addresses: tuple[str, ...]) -> PciFacts:
    """Each GPU and its NIC below one switch; the management NIC below a root port of its own."""
    gpus = tuple(
        PciDevice(address, "10de:3182", "0302", numa_node=number % 2, bridges=(_root(number), f"switch{number}"))
        for number, address in enumerate(gpu_addresses)
    )
    nics = tuple(_nic(nic_address(number), number, f"switch{number}") for number in range(len(gpu_addresses)))
    management = replace(_nic("00000000:ff:00.0", 99, "none"), bridges=("root-mgmt",))
    bridges: dict[str, tuple[str, ...]] = {_root(number): () for number in range(len(gpu_addresses))}
    sizes = {nic.address: 4096 for nic in nics}
    return PciFacts((*gpus, *nics, management), bridges, sizes)


def _root(number: int) -> str:
    return f"root{number}"


def _nic(address: str, number: int, switch: str) -> PciDevice:
    return PciDevice(
        address, "15b3:1023", "0200", numa_node=number % 2, link_speed=64e9, link_speed_max=64e9, link_width=16,
        link_width_max=16, bridges=(_root(number), switch), aer_fatal=0, aer_nonfatal=0, aer_correctable=4,
    )  # fmt: skip


# --- one thing changed ---


def rdma_of(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert not isinstance(facts.rdma, Missing)
    return replace(facts, rdma=replace(facts.rdma, **changes))


def hcas(facts: NodeFacts, change: Callable[[Hca], Hca]) -> NodeFacts:
    """Every device changed."""
    assert not isinstance(facts.rdma, Missing) and not isinstance(facts.rdma.hcas, Missing)
    return rdma_of(facts, hcas=tuple(change(one) for one in facts.rdma.hcas))


def rails(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """Every device of the fabric changed."""
    return hcas(facts, lambda one: one if one.name == MANAGEMENT else replace(one, **changes))


def rail(facts: NodeFacts, number: int, **changes: Any) -> NodeFacts:
    return hcas(facts, lambda one: replace(one, **changes) if one.name == f"mlx5_{number}" else one)


def rail_ports(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """Every port of the fabric changed."""
    return hcas(facts, lambda one: one if one.name == MANAGEMENT else _ports(one, changes))


def rail_port(facts: NodeFacts, number: int, **changes: Any) -> NodeFacts:
    return hcas(facts, lambda one: _ports(one, changes) if one.name == f"mlx5_{number}" else one)


def _ports(hca: Hca, changes: dict[str, Any]) -> Hca:
    return replace(hca, ports=tuple(replace(port, **changes) for port in hca.ports))


def interfaces(facts: NodeFacts, start: str, **changes: Any) -> NodeFacts:
    """Interfaces changed whose names begin like this."""
    assert not isinstance(facts.network, Missing) and not isinstance(facts.network.interfaces, Missing)
    found = tuple(replace(one, **changes) if one.name.startswith(start) else one for one in facts.network.interfaces)
    return replace(facts, network=replace(facts.network, interfaces=found))


def devices(facts: NodeFacts, start: str, **changes: Any) -> NodeFacts:
    """PCI functions changed whose ids begin like this."""
    assert not isinstance(facts.pci, Missing) and not isinstance(facts.pci.devices, Missing)
    found = tuple(replace(one, **changes) if str(one.id).startswith(start) else one for one in facts.pci.devices)
    return replace(facts, pci=replace(facts.pci, devices=found))


def infiniband(facts: NodeFacts) -> NodeFacts:
    """The same node on InfiniBand."""
    return rail_ports(facts, link_layer="InfiniBand", lid=7, sm_lid=1, gids=(Gid(0, "fe80::1", Missing("-")),), netdevs=("ib0",))
