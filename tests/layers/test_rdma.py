"""Layer rdma: devices, ports, addresses and the path to GPU memory, on two HGX nodes that meet over RoCE or InfiniBand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.eligibility_nodes import Said, view
from rackproof.facts import Missing, NodeFacts
from rackproof.facts_rdma import Gid, Port
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Severity, Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, driver, node
from .fixtures_rdma import (
    GBIT,
    MANAGEMENT,
    devices,
    hcas,
    infiniband,
    interfaces,
    over_rdma,
    rail,
    rail_port,
    rail_ports,
    rails,
    rdma_of,
)
from .fixtures_system import part, system_of

HGX = node("b300", "b300-01")
IB = infiniband(HGX)
TRAY = node()
OVER = over_rdma()
TRAYS = over_rdma("gb300", "gb300-pd")
AMD = replace(OVER, vendor="amd")
NAMED = over_rdma(hcas=("mlx5_0", "mlx5_1:1"))
WITH_INDEX = over_rdma(gid_index=3)
BROKEN_DMABUF = over_rdma(dmabuf="broken")
ONE_NODE = baseline("b300")
LINK_LOCAL = (Gid(0, "fe80::1", "IB/RoCE v1"), Gid(1, "fe80::1", "RoCE v2"))
PEERMEM = frozenset({"nvidia", "nvidia_peermem"})


def cases(
    green: list[Any], red: list[tuple[NodeFacts, str]], garbage: list[NodeFacts], wanted: Any = OVER, not_applicable: Any = ONE_NODE
) -> Cases:
    """Cases that are judged by the baseline of a layout over RDMA, where they name no other."""
    return Cases(
        green=[one if isinstance(one, tuple) else (one, wanted) for one in green],
        red=[Red(facts, says, wanted) for facts, says in red],
        garbage=garbage,
        not_applicable=not_applicable,
        garbage_baseline=wanted,
    )


def unread(change: Callable[[Any], NodeFacts]) -> list[NodeFacts]:
    """The fact missing; no RDMA facts at all; no device listed; which devices count is not known."""
    return [change(GONE), replace(HGX, rdma=GONE), rdma_of(HGX, hcas=GONE), rdma_of(HGX, hcas=()), replace(HGX, pci=GONE)]


TABLE = {
    "rdma.devices": cases(
        [HGX, IB, (TRAY, TRAYS)],
        [(rdma_of(HGX, hcas=()), "no device")],
        [replace(HGX, rdma=GONE), rdma_of(HGX, hcas=GONE)],
    ),
    "rdma.named_devices": cases(
        [HGX],
        [
            (rail(HGX, 1, name="mlx5_9"), "not there: mlx5_1:1"),
            (rdma_of(HGX, hcas=()), "not there: mlx5_0, mlx5_1:1"),
        ],
        [replace(HGX, rdma=GONE), rdma_of(HGX, hcas=GONE)],
        NAMED,
        OVER,
    ),
    "rdma.device_files": cases(
        [HGX, IB],
        [
            (rdma_of(HGX, devices=()), "/dev/infiniband: nothing"),
            (rdma_of(HGX, devices=tuple(f"uverbs{n}" for n in range(9))), "rdma_cm and 9 uverbs"),
            (rdma_of(HGX, devices=("rdma_cm", "uverbs0", "umad0")), "rdma_cm, uverbs0, umad0"),
        ],
        [rdma_of(HGX, devices=GONE), replace(HGX, rdma=GONE), rdma_of(HGX, hcas=()), rdma_of(HGX, devices=("", ""))],
    ),
    "rdma.ports_active": cases(
        [HGX, IB, (TRAY, TRAYS), (rail_port(HGX, 5, state="DOWN"), NAMED), rail_port(HGX, 5, state="DOWN", phys_state="Disabled")],
        [
            (rail_port(HGX, 5, state="DOWN", phys_state="Polling"), "mlx5_5:1: DOWN Polling"),
            (rail_port(HGX, 5, state="INIT"), "mlx5_5:1: INIT LinkUp"),
            (rail_ports(HGX, state="DOWN", phys_state="Polling"), "DOWN Polling"),
            (hcas(HGX, lambda one: replace(one, ports=tuple(replace(p, state="DOWN", phys_state="Disabled") for p in one.ports))),
             "DOWN Disabled"),
            (rail_port(rail_port(HGX, 4, state=GONE), 5, state="DOWN"), "mlx5_5:1: DOWN LinkUp"),
        ],
        [*unread(lambda gone: rail_port(HGX, 5, state=gone)), rail_port(HGX, 5, phys_state=GONE), rails(HGX, ports=(Port(1),))],
    ),
    "rdma.link_layer": cases(
        [HGX, IB],
        [(rail_port(HGX, 5, link_layer="InfiniBand"), "InfiniBand: mlx5_5:1")],
        unread(lambda gone: rail_port(HGX, 5, link_layer=gone)),
    ),
    "rdma.rates_alike": cases(
        [HGX, IB],
        [(rail_port(HGX, 5, rate_bits_per_s=200 * GBIT), "200 Gbit/s: mlx5_5:1"), (rail_ports(HGX, rate_bits_per_s=0), "0 Gbit/s")],
        [*unread(lambda gone: rail_port(HGX, 5, rate_bits_per_s=gone)), rail_ports(HGX, rate_bits_per_s=-1)],
    ),
    "rdma.reliable_connections": cases(
        [HGX, IB],
        [(rails(HGX, driver="efa"), "efa"), (rail(HGX, 2, driver="efa"), "mlx5_2: efa")],
        unread(lambda gone: rail(HGX, 2, driver=gone)),
    ),
    "rdma.gids": cases(
        [HGX, IB, rail_port(HGX, 3, gids=(Gid(5, "fd02::7", "RoCE v2"),))],
        [
            (rail_port(HGX, 3, gids=LINK_LOCAL), "mlx5_3:1: no routable RoCE v2 GID"),
            (rail_port(HGX, 3, gids=()), "mlx5_3:1: no routable RoCE v2 GID"),
            (rail_port(HGX, 3, gids=(Gid(0, "::ffff:10.0.0.1", "IB/RoCE v1"),)), "mlx5_3:1"),
            (rail_port(HGX, 3, gids=(Gid(0, "::ffff:169.254.3.4", "RoCE v2"),)), "mlx5_3:1"),
        ],
        [*unread(lambda gone: rail_port(HGX, 3, gids=gone)), rail_port(HGX, 3, gids=(Gid(0, "x", "RoCE v2"),)), rail_port(HGX, 3, link_layer=GONE)],
    ),
    "rdma.gid_index": cases(
        [HGX],
        [(rail_port(HGX, 3, gids=(Gid(1, "::ffff:10.0.0.1", "RoCE v2"),)), "mlx5_3:1: 1 (ipv4)"), (rail_port(HGX, 3, gids=LINK_LOCAL), "no routable")],
        unread(lambda gone: rail_port(HGX, 3, gids=gone)),
        WITH_INDEX,
        OVER,
    ),
    "rdma.subnet_manager": cases(
        [HGX, IB],
        [(rail_port(IB, 3, sm_lid=0), "mlx5_3:1: subnet manager at 0")],
        [*unread(lambda gone: rail_port(IB, 3, sm_lid=gone)), rail_port(HGX, 3, link_layer=GONE), rail_port(IB, 3, sm_lid=-1)],
    ),
    "rdma.partition_keys": cases(
        [HGX, IB, rail_ports(IB, pkeys=(0xFFFF, 0x8001))],
        [
            (rail_port(IB, 3, pkeys=(0x8001,)), "0x8001: mlx5_3:1"),
            (rail_ports(IB, pkeys=(0x7FFF,)), "0x7fff"),
        ],
        [*unread(lambda gone: rail_port(IB, 3, pkeys=gone)), rail_port(IB, 3, link_layer=GONE)],
    ),
    "rdma.gpudirect": cases(
        [
            HGX,
            driver(HGX, loaded_modules=PEERMEM),
            driver(part(HGX, "gpudirect", dmabuf_symbol=False), loaded_modules=PEERMEM),
            driver(part(HGX, "gpudirect", dmabuf_symbol=GONE), loaded_modules=PEERMEM),
            driver(HGX, loaded_modules=GONE),
        ],
        [
            (part(HGX, "gpudirect", dmabuf_symbol=False), "no nvidia_peermem, dma-buf in the RDMA core: no"),
            (driver(HGX, flavour="proprietary"), "proprietary kernel module"),
        ],
        [
            part(HGX, "gpudirect", dmabuf_symbol=GONE),
            driver(part(HGX, "gpudirect", dmabuf_symbol=False), loaded_modules=GONE),
            driver(HGX, flavour=GONE),
            system_of(HGX, gpudirect=GONE),
            replace(HGX, system=GONE),
        ],
    ),
    "rdma.gpudirect_amd": cases(
        [HGX, part(HGX, "gpudirect", dmabuf_symbol=False), part(HGX, "gpudirect", peer_memory_symbol=False)],
        [(part(HGX, "gpudirect", dmabuf_symbol=False, peer_memory_symbol=False), "dma-buf in the RDMA core: no, peer memory")],
        [
            part(HGX, "gpudirect", dmabuf_symbol=GONE, peer_memory_symbol=False),
            part(HGX, "gpudirect", dmabuf_symbol=False, peer_memory_symbol=GONE),
            replace(HGX, system=GONE),
        ],
        AMD,
        OVER,
    ),
    "rdma.peermem": cases(
        [driver(HGX, loaded_modules=PEERMEM)],
        [(HGX, "loaded: no")],
        [driver(HGX, loaded_modules=GONE), driver(HGX, loaded_modules=frozenset())],
        BROKEN_DMABUF,
        OVER,
    ),
    "rdma.peermem_registered": cases(
        [HGX, driver(part(HGX, "gpudirect", peer_memory_client=True), loaded_modules=PEERMEM)],
        [(driver(HGX, loaded_modules=PEERMEM), "registered with the RDMA core: no")],
        [
            driver(part(HGX, "gpudirect", peer_memory_client=GONE), loaded_modules=PEERMEM),
            driver(HGX, loaded_modules=GONE),
            driver(replace(HGX, system=GONE), loaded_modules=PEERMEM),
        ],
    ),
    "rdma.socket_interface": cases(
        [HGX, (TRAY, baseline("gb300")), (HGX, over_rdma(interface="rail0")), interfaces(HGX, "eth0", ipv4=(), ipv6=("fd00::1",))],
        [
            (interfaces(HGX, "eth0", ipv4=(), ipv6=()), "addresses of eth0: no address beyond the link"),
            (interfaces(HGX, "eth0", ipv4=("169.254.1.1",), ipv6=()), "no address beyond the link"),
            (interfaces(HGX, "eth0", carrier=False), "eth0: carrier no"),
            (interfaces(HGX, "eth0", name="eth1"), "eth0: carrier no"),
            (interfaces(HGX, "eth0", carrier=False, ipv4=GONE), "eth0: carrier no"),
        ],
        [
            replace(HGX, network=GONE),
            interfaces(HGX, "eth0", ipv4=GONE),
            interfaces(HGX, "eth0", carrier=GONE),
            replace(HGX, network=replace(HGX.network, default_routes=())),  # type: ignore[type-var]
            replace(HGX, network=replace(HGX.network, default_routes=GONE)),  # type: ignore[type-var]
            replace(HGX, network=replace(HGX.network, interfaces=GONE)),  # type: ignore[type-var]
        ],
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


@pytest.mark.parametrize(("facts", "wanted"), [(HGX, OVER), (IB, OVER), (TRAY, TRAYS), (HGX, NAMED), (HGX, WITH_INDEX)])
def test_a_healthy_node_passes_whatever_applies(facts: NodeFacts, wanted: Any) -> None:
    found = [one for one in evaluate_node(facts, wanted) if one.requirement.layer == "rdma"]
    applying = [one for one in found if one.status is not Status.NOT_APPLICABLE]
    assert len(applying) >= 23
    assert not [one for one in applying if one.status is not Status.PASS]


def test_a_layout_within_one_node_is_asked_nothing_of_rdma() -> None:
    found = [one for one in evaluate_node(HGX, ONE_NODE) if one.requirement.layer == "rdma"]
    assert {one.status for one in found} == {Status.NOT_APPLICABLE}
    assert all(one.reason for one in found)


def test_a_management_nic_never_counts_where_nothing_is_named() -> None:
    broken = hcas(HGX, lambda one: replace(one, ports=(Port(1, "DOWN", "Polling", GBIT, "InfiniBand"),)) if one.name == MANAGEMENT else one)
    for requirement in ("rdma.ports_active", "rdma.link_layer", "rdma.rates_alike", "rdma.gids"):
        assert outcome(requirement, broken, OVER).status is Status.PASS


def test_on_grace_the_fastest_model_counts() -> None:
    """GPUs hang off the CPU's own link there, so no NIC is below the root port of one."""
    apart = devices(TRAY, "10de", bridges=("c2c",))
    assert outcome("rdma.ports_active", apart, TRAYS).status is Status.PASS
    down = outcome("rdma.ports_active", rail_port(apart, 2, state="DOWN", phys_state="Polling"), TRAYS)
    assert (down.status, down.observed) == (Status.FAIL, "mlx5_2:1: DOWN Polling")


def test_a_site_that_names_its_ports_is_taken_at_its_word() -> None:
    """Ports beside the named ones may be down; a named one may not."""
    assert outcome("rdma.ports_active", rail_ports(rail_port(HGX, 0), state="ACTIVE"), NAMED).status is Status.PASS
    assert outcome("rdma.ports_active", rail_port(HGX, 1, state="DOWN"), NAMED).status is Status.FAIL
    assert outcome("rdma.ports_active", rail_port(HGX, 1, phys_state="Disabled"), NAMED).status is Status.FAIL


def test_whether_pci_was_read_decides_which_ports_count() -> None:
    """Without it another set of ports might be judged, so nothing is."""
    found = outcome("rdma.ports_active", replace(HGX, pci=Missing("not told")), OVER)
    assert (found.status, found.reason) == (Status.UNKNOWN, "not told")
    assert outcome("rdma.ports_active", replace(HGX, pci=Missing("not told")), NAMED).status is Status.PASS


def test_nothing_unverified_is_a_gate() -> None:
    soft = {one.requirement.id for one in evaluate_node(HGX, OVER) if one.requirement.severity is not Severity.GATE}
    assert {"rdma.published_ports", "rdma.mtu", "rdma.errors", "rdma.affinity", "rdma.acs", "rdma.firmware_floor"} <= soft


# --- the same judgement in eligibility ---


@pytest.mark.parametrize("facts", [HGX, IB, TRAY])
def test_eligibility_finds_nothing_wrong_with_healthy_nodes(facts: NodeFacts) -> None:
    assert view(facts, Said()).rdma is None


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (rail_port(HGX, 5, state="DOWN"), "is ACTIVE and LinkUp: mlx5_5:1: DOWN LinkUp"),
        (rail_port(HGX, 5, gids=LINK_LOCAL), "no routable RoCE v2 GID"),
        (part(HGX, "gpudirect", dmabuf_symbol=False), "no nvidia_peermem"),
        (rdma_of(HGX, hcas=()), "no device"),
    ],
)
def test_eligibility_says_no_where_a_gate_fails(facts: NodeFacts, says: str) -> None:
    found = view(facts, Said()).rdma
    assert isinstance(found, str) and says in found


def test_eligibility_is_moved_by_no_warning() -> None:
    assert view(interfaces(HGX, "rail", mtu_bytes=1500), Said()).rdma is None


@pytest.mark.parametrize(
    "facts",
    [
        replace(HGX, rdma=GONE), replace(HGX, pci=GONE), replace(HGX, network=GONE), rdma_of(HGX, devices=GONE),
        rail_port(HGX, 5, state=GONE), part(HGX, "gpudirect", dmabuf_symbol=GONE), replace(HGX, smi=GONE),
    ],
)  # fmt: skip
def test_eligibility_does_not_know_what_was_not_read(facts: NodeFacts) -> None:
    found = view(replace(facts, driver=replace(facts.driver, pci_ids=GONE)), Said()).rdma
    assert isinstance(found, Missing) and found.reason


def test_eligibility_counts_the_ports_that_the_site_names() -> None:
    named = site.shipped().overlaid({"serving": {"rdma": {"hcas": ["mlx5_0"]}}}, "test")
    assert view(rail_port(HGX, 5, state="DOWN"), Said(site=named)).rdma is None
    absent = site.shipped().overlaid({"serving": {"rdma": {"hcas": ["mlx5_77"]}}}, "test")
    assert "not there: mlx5_77" in str(view(HGX, Said(site=absent)).rdma)


def test_without_its_gates_facts_a_node_over_rdma_is_not_accepted() -> None:
    assert verdict_of(evaluate_node(HGX, OVER)) is Verdict.ACCEPT
    for facts in (
        replace(HGX, rdma=GONE), rdma_of(HGX, hcas=GONE), rdma_of(HGX, devices=GONE), replace(HGX, pci=GONE),
        replace(HGX, network=GONE), rail_port(HGX, 0, state=GONE), rail_port(HGX, 0, phys_state=GONE),
        rail_port(HGX, 0, rate_bits_per_s=GONE), rail_port(HGX, 0, link_layer=GONE), rail_port(HGX, 0, gids=GONE),
        rail(HGX, 0, driver=GONE), part(HGX, "gpudirect", dmabuf_symbol=GONE), rail_port(IB, 0, sm_lid=GONE),
    ):  # fmt: skip
        assert verdict_of(evaluate_node(facts, OVER)) is Verdict.UNDETERMINED
