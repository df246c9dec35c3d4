"""Layer fleet: no node counts twice, hosts and NICs of a unit are alike, and outliers are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rackproof.facts import Missing, NodeFacts, UnitFacts
from rackproof.facts_rdma import Gid
from rackproof.identities import identities
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, every_gpu, host, node, nothing, smi, unit_of
from .fixtures_rdma import GBIT, infiniband, interfaces, over_rdma, rail, rail_port, rail_ports, rdma_of
from .fixtures_system import GIB, kernel, part, system_of

Change = Callable[[NodeFacts], NodeFacts]
TRAYS = (node(name="tray01"), node(name="tray02"))
HGX = (node("b300", "b300-01"), node("b300", "b300-02"))
UNIT = unit_of(*TRAYS)
OVER = over_rdma()
ONE_NODE = baseline("b300")
UNREACHABLE = Missing("no route to host")


def second(change: Change, nodes: tuple[NodeFacts, ...] = TRAYS) -> UnitFacts:
    return unit_of(nodes[0], change(nodes[1]))


def both(change: Change, nodes: tuple[NodeFacts, ...] = TRAYS) -> UnitFacts:
    return unit_of(*map(change, nodes))


def unreadable(change: Change, nodes: tuple[NodeFacts, ...] = TRAYS) -> list[UnitFacts]:
    """The fact missing on one node, on both; a node not read; no node at all; nothing of either read."""
    unit = unit_of(*nodes)
    one, two = unit.declared
    return [
        second(change, nodes),
        both(change, nodes),
        replace(unit, nodes={one: nodes[0], two: UNREACHABLE}),
        replace(unit, nodes={one: nodes[0]}),
        replace(unit, nodes={}),
        replace(unit, declared=(), nodes={}),
        both(nothing, nodes),
    ]


def twice(change: Change) -> UnitFacts:
    """A unit of one node, and a node of another unit that has something of it."""
    return replace(unit_of(HGX[0]), known_by=dict.fromkeys(identities(change(HGX[1])), ("b300-02",)))


def same_table(change: Change, says: str, gone: Change, not_applicable: Any = None, *more: UnitFacts) -> Cases:
    """One value must be the same on all nodes."""
    return Cases(
        green=[UNIT],
        red=[Red(second(change), says)],
        garbage=[*unreadable(gone), *more],
        not_applicable=not_applicable,
    )


def rdma_table(change: Change, says: str, gone: Change, green: tuple[UnitFacts, ...] = (), red: tuple[Red, ...] = ()) -> Cases:
    """The same of two HGX nodes that meet over RDMA."""
    cases = [*unreadable(gone, HGX), *unreadable(lambda facts: rdma_of(facts, hcas=()), HGX)]
    return Cases(
        green=[(unit_of(*HGX), OVER), *((unit, OVER) for unit in green)],
        red=[Red(second(change, HGX), says, OVER), *red],
        garbage=cases,
        not_applicable=ONE_NODE,
        garbage_baseline=OVER,
    )


def gids(facts: NodeFacts, *found: Gid) -> NodeFacts:
    return rail_ports(facts, gids=found)


def clone(facts: NodeFacts) -> NodeFacts:
    """The other node's evidence under this one's name."""
    return replace(HGX[0], node=facts.node)


TABLE = {
    "fleet.distinct_hosts": Cases(
        green=[UNIT, twice(lambda facts: facts), (twice(nothing), ONE_NODE)],
        red=[
            Red(second(lambda facts: host(facts, hostname="tray01")), "tray01, host name: tray01, as tray02"),
            Red(second(lambda facts: host(facts, boot_id="boot-of-tray01")), "tray02, boot id: boot-of-tray01, as tray01"),
            Red(twice(lambda facts: host(facts, boot_id="boot-of-b300-01")), "as b300-02", ONE_NODE),
            Red(twice(clone), "as b300-02", ONE_NODE),
            Red(second(lambda facts: host(facts, hostname="tray01", boot_id=GONE)), "as tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: host(facts, hostname=GONE)),
            *unreadable(lambda facts: host(facts, boot_id=GONE)),
            *unreadable(lambda facts: host(facts, boot_id="", hostname="")),
        ],
    ),
    "fleet.distinct_addresses": Cases(
        green=[UNIT],
        red=[
            Red(second(lambda facts: interfaces(facts, "eth0", ipv4=("10.1.0.1",))), "10.1.0.1, as tray02"),
            Red(second(lambda facts: interfaces(facts, "eth0", ipv4=("10.1.0.1", "10.1.0.2"))), "10.1.0.1, as tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: replace(facts, network=GONE)),
            *unreadable(lambda facts: interfaces(facts, "eth0", ipv4=(), ipv6=())),
            *unreadable(lambda facts: interfaces(facts, "eth0", ipv4=GONE)),
        ],
        not_applicable=ONE_NODE,
    ),
    "fleet.distinct_gpus": Cases(
        green=[UNIT],
        red=[
            Red(second(lambda facts: every_gpu(facts, uuid="GPU-tray01-3")), "GPU-tray01-3, as tray01"),
            Red(twice(clone), "GPU-b300-01-0, as b300-02", ONE_NODE),
        ],
        garbage=[
            *unreadable(lambda facts: every_gpu(facts, uuid=GONE)),
            *unreadable(lambda facts: every_gpu(facts, uuid="")),
            *unreadable(lambda facts: smi(facts, gpus=())),
        ],
    ),
    "fleet.distinct_machines": Cases(
        green=[UNIT],
        red=[Red(second(lambda facts: host(facts, dmi=TRAYS[0].host.dmi)), "serial-of-tray01, as tray01")],
        garbage=[
            *unreadable(lambda facts: host(facts, dmi=GONE)),
            *unreadable(lambda facts: host(facts, dmi={})),
            *unreadable(lambda facts: host(facts, dmi={"product_serial": "Not Specified"})),
            *unreadable(lambda facts: host(facts, dmi={"product_serial": ""})),
        ],
    ),
    "fleet.distinct_gids": rdma_table(
        lambda facts: gids(facts, Gid(3, "::ffff:10.2.0.1", "RoCE v2")),
        "::ffff:10.2.0.1, as b300-01",
        lambda facts: rail_port(facts, 3, gids=GONE),
        red=(Red(twice(clone), "as b300-02", OVER),),
    ),
    "fleet.gid_family": rdma_table(
        lambda facts: gids(facts, Gid(3, "fd02::1", "RoCE v2")),
        "global: b300-02",
        lambda facts: rail_port(facts, 3, gids=GONE),
        green=(both(infiniband, HGX), both(lambda facts: gids(facts, Gid(3, "fd02::1", "RoCE v2")), HGX)),
        red=(
            Red(both(lambda facts: gids(facts, Gid(3, "fe80::1", "RoCE v2")), HGX), "none: b300-01, b300-02", OVER),
            Red(second(lambda facts: rail_port(facts, 3, gids=(Gid(3, "fd02::1", "RoCE v2"),)), HGX), "none: b300-02", OVER),
        ),
    ),
    "fleet.gid_index": rdma_table(
        lambda facts: gids(facts, Gid(5, "::ffff:10.2.0.9", "RoCE v2")),
        "5 (ipv4): b300-02",
        lambda facts: rail_port(facts, 3, gids=GONE),
    ),
    "fleet.rdma_link_layer": rdma_table(
        infiniband, "InfiniBand: b300-02", lambda facts: rail_port(facts, 3, link_layer=GONE), green=(both(infiniband, HGX),)
    ),
    "fleet.rdma_ports": rdma_table(
        lambda facts: rail_ports(facts, rate_bits_per_s=400 * GBIT),
        "8 of 400 Gbit/s: b300-02",
        lambda facts: rail_port(facts, 3, rate_bits_per_s=GONE),
        red=(
            Red(second(lambda facts: rail_port(facts, 3, phys_state="Disabled"), HGX), "7 of 800 Gbit/s: b300-02", OVER),
            Red(both(lambda facts: rail_ports(facts, rate_bits_per_s=0), HGX), "8 of 0 Gbit/s", OVER),
        ),
    ),
    "fleet.rdma_firmware": rdma_table(
        lambda facts: rail(facts, 3, fw_version="40.45.1"),
        "15b3:1023 with 40.45.1, 15b3:1023 with 40.46.3048: b300-02",
        lambda facts: rail(facts, 3, fw_version=GONE),
    ),
    "fleet.rdma_names": rdma_table(
        lambda facts: rail(facts, 3, name="mlx5_11"), "mlx5_11:1", lambda facts: rdma_of(facts, hcas=GONE)
    ),
    "fleet.rdma_mtu": rdma_table(
        lambda facts: interfaces(facts, "rail", mtu_bytes=1500),
        "1500: b300-02",
        lambda facts: interfaces(facts, "rail3", mtu_bytes=GONE),
        green=(both(infiniband, HGX),),
    ),
    "fleet.os": same_table(
        lambda facts: host(facts, os_version="22.04"), "ubuntu 22.04: tray02", lambda facts: host(facts, os_version=GONE), None,
        both(lambda facts: host(facts, os_id="")),
    ),
    "fleet.page_size": same_table(
        lambda facts: host(facts, page_size_bytes=4096), "4096 bytes: tray02", lambda facts: host(facts, page_size_bytes=GONE),
        None, both(lambda facts: host(facts, page_size_bytes=0)),
    ),
    "fleet.processors": same_table(
        lambda facts: kernel(facts, cpus_online="0-71"), "CPUs 0-71 on 2 nodes, 2 with CPUs: tray02",
        lambda facts: kernel(facts, numa=GONE), None, both(lambda facts: kernel(facts, cpus_online="")),
    ),
    "fleet.cmdline": Cases(
        green=[UNIT, second(lambda facts: host(facts, cmdline=(*facts.host.cmdline, "root=UUID=77")))],  # type: ignore[misc]
        red=[Red(second(lambda facts: host(facts, cmdline=("ro", "maxcpus=4"))), "maxcpus=4 ro: tray02")],
        garbage=unreadable(lambda facts: host(facts, cmdline=GONE)),
    ),
    "fleet.memory": Cases(
        green=[UNIT, second(lambda facts: kernel(facts, memory_bytes=900 * GIB))],
        red=[Red(unit_of(*TRAYS, kernel(node(name="tray03"), memory_bytes=700 * GIB)), "tray03: 700.0 GiB")],
        garbage=[
            *unreadable(lambda facts: kernel(facts, memory_bytes=GONE)),
            *unreadable(lambda facts: kernel(facts, memory_bytes=0)),
        ],
    ),
    "fleet.clock": Cases(
        green=[UNIT],
        red=[Red(unit_of(*TRAYS, part(node(name="tray03"), "clock", offset_s=-90.0)), "tray03: -90.000000 s")],
        garbage=[
            *unreadable(lambda facts: part(facts, "clock", offset_s=GONE)),
            *unreadable(lambda facts: system_of(facts, clock=GONE)),
            both(lambda facts: part(facts, "clock", offset_s=float("nan"))),
        ],
    ),
    "fleet.interface": same_table(
        lambda facts: replace(
            interfaces(facts, "eth0", name="ens1"),
            network=replace(facts.network, default_routes=(replace(facts.network.default_routes[0], interface="ens1"),)),  # type: ignore
        ),
        "ens1: tray02",
        lambda facts: replace(facts, network=GONE),
        ONE_NODE,
    ),
    "fleet.machine": same_table(
        lambda facts: host(facts, dmi={**facts.host.dmi, "bios_version": "02.00"}),  # type: ignore[dict-item]
        "NVIDIA a server 02.00: tray02",
        lambda facts: host(facts, dmi=GONE),
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_a_node_of_another_unit_that_was_not_read_accuses_nobody() -> None:
    unit = twice(nothing)
    assert outcome("fleet.distinct_gpus", unit, ONE_NODE).status is Status.PASS


def test_an_unnamed_serial_number_accuses_nobody() -> None:
    unit = both(lambda facts: host(facts, dmi={"product_serial": "To be filled by O.E.M."}))
    assert outcome("fleet.distinct_machines", unit).reason == "the firmware has no serial number"
