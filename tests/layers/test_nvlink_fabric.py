"""Layer nvlink: the fabric in detail, its daemons, IMEX in detail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import resolve
from rackproof.facts import NodeFacts
from rackproof.facts_nvlink import ImexDomain, ImexPeer, NvlinkPort
from rackproof.facts_system import FabricEvent, FabricManagerFacts, NvlinkErrors, SystemFacts
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import DOMAIN, DRIVER, GONE, baseline, driver, every_gpu, gpu, host, node, nvlink, packages, smi, units
from .fixtures_gpus import CHANNEL, CONFIGURED, COUNTERS, details, systems

GB300 = node()
B300 = node("b300", "b300-01")
HGX, NVL72, AMD = baseline("b300"), baseline("gb300"), baseline("mi355x")
NO_SMI = replace(GB300, smi=GONE)
SECOND = "GPU 1 (00000009:06:00.0)"
KUBERNETES = resolve(site.shipped().overlaid({"imex": {"owner": "kubernetes"}}, "test"), hardware_id="gb300")
NO_RATE = replace(NVL72, nvlink=replace(NVL72.nvlink, link_rate_gb_per_s=None))
OFF = {"active": "inactive", "enabled": "disabled"}


def unreadable(field: str) -> list[NodeFacts]:
    gone: dict[str, Any] = {field: GONE}
    return [
        NO_SMI,
        smi(GB300, gpus=()),
        every_gpu(GB300, detail=GONE),
        details(GB300, **gone),
        details(GB300, 3, **gone),
    ]


def rates(found: Any) -> NodeFacts:
    assert isinstance(GB300.nvlink.ports, tuple)
    return nvlink(GB300, ports=(NvlinkPort(0, 0, found, True), *GB300.nvlink.ports[1:]))


def counters(change: dict[str, int]) -> NodeFacts:
    assert isinstance(GB300.nvlink.errors, tuple)
    return nvlink(GB300, errors=(*GB300.nvlink.errors[:-1], NvlinkErrors(3, 17, change)))


def p2p(word: str) -> NodeFacts:
    assert isinstance(GB300.nvlink.p2p, dict)
    return nvlink(GB300, p2p={**GB300.nvlink.p2p, (0, 1): word})


def manager(**changes: Any) -> NodeFacts:
    assert isinstance(B300.system, SystemFacts) and isinstance(B300.system.fabric_manager, FabricManagerFacts)
    return systems(B300, fabric_manager=replace(B300.system.fabric_manager, **changes))


def modules(*without: str) -> NodeFacts:
    assert isinstance(B300.driver.loaded_modules, frozenset)
    return driver(B300, loaded_modules=B300.driver.loaded_modules - set(without))


def peers(*versions: Any) -> NodeFacts:
    listed = tuple(ImexPeer(address, "READY", version) for address, version in zip(DOMAIN, versions, strict=True))
    return nvlink(GB300, imex_domain=ImexDomain("UP", listed, ()))


MISMATCH = FabricEvent("version-mismatch", "driver interface version 580.1 don't match with driver version 590.2")

TABLE = {
    "nvlink.fabric_bandwidth": Cases(
        green=[GB300],
        red=[Red(details(GB300, 1, fabric_bandwidth="Degraded"), f"{SECOND}: Degraded")],
        garbage=[*unreadable("fabric_bandwidth"), details(GB300, fabric_bandwidth="")],
        not_applicable=HGX,
    ),
    "nvlink.fabric_routes": Cases(
        green=[GB300, B300],
        red=[
            Red(details(GB300, 1, fabric_route_unhealthy=True), f"{SECOND} route unhealthy: yes"),
            Red(details(GB300, 1, fabric_route_recovery=True), f"{SECOND} route recovery: yes"),
            Red(details(GB300, 1, fabric_access_timeout_recovery=True), f"{SECOND} access timeout recovery: yes"),
        ],
        garbage=[
            *unreadable("fabric_route_unhealthy"),
            *unreadable("fabric_route_recovery")[3:],
            *unreadable("fabric_access_timeout_recovery")[3:],
        ],
    ),
    "nvlink.fabric_configuration": Cases(
        green=[GB300],
        red=[Red(details(GB300, 1, fabric_incorrect_configuration="No Partition"), f"{SECOND}: No Partition")],
        garbage=[*unreadable("fabric_incorrect_configuration"), details(GB300, fabric_incorrect_configuration="")],
        not_applicable=HGX,
    ),
    "nvlink.link_rate": Cases(
        green=[GB300, B300],
        red=[Red(rates(50.0), "GPU 0 link 0: 50.0 GB/s"), Red(replace(rates(50.0), smi=GONE), "GPU 0 link 0")],
        garbage=[nvlink(GB300, ports=GONE), nvlink(GB300, ports=()), rates(GONE), rates(-53.125)],
        not_applicable=NO_RATE,
    ),
    "nvlink.link_errors": Cases(
        green=[GB300, B300, counters({**COUNTERS, "Effective Errors": 12})],
        red=[Red(counters({**COUNTERS, "Replay Errors": 3}), "link 17: 3 Replay Errors")],
        garbage=[
            nvlink(GB300, errors=GONE),
            nvlink(GB300, errors=()),
            counters({}),
            counters({"Replay Errors": 0}),
            nvlink(GB300, errors=(NvlinkErrors(0, 0, dict(COUNTERS)),)),
        ],
        not_applicable=AMD,
    ),
    "nvlink.p2p": Cases(
        green=[GB300, B300],
        red=[Red(p2p("CNS"), "GPU 0 to GPU 1: CNS"), Red(p2p("NS"), "GPU 0 to GPU 1: NS")],
        garbage=[nvlink(GB300, p2p=GONE), nvlink(GB300, p2p={}), nvlink(GB300, p2p={(0, 1): "OK"}), p2p("")],
        not_applicable=AMD,
    ),
    "nvlink.fabric_modules": Cases(
        green=[B300],
        red=[
            Red(modules("ib_umad"), "ib_umad: not loaded"),
            Red(modules("mlx5_ib", "ib_umad"), "mlx5_ib, ib_umad: not loaded"),
        ],
        garbage=[driver(B300, loaded_modules=GONE), driver(B300, loaded_modules=frozenset())],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.subnet_manager": Cases(
        green=[B300],
        red=[Red(packages(B300, {"nvlsm": None}), "nvlsm: not installed")],
        garbage=[host(B300, packages=GONE), host(B300, packages={}), packages(B300, {"nvlsm": ""})],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.fabric_manager_restarts": Cases(
        green=[B300],
        red=[Red(units(B300, nvidia_fabricmanager={"restarts": 14}), "nvidia-fabricmanager: 14 restarts")],
        garbage=[
            host(B300, units=GONE),
            host(B300, units={}),
            units(B300, nvidia_fabricmanager={"restarts": GONE}),
            units(B300, nvidia_fabricmanager={"restarts": -1}),
        ],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.fabric_manager_log": Cases(
        green=[B300, manager(events=(MISMATCH, CONFIGURED))],
        red=[
            Red(manager(events=(CONFIGURED, MISMATCH)), "don't match"),
            Red(manager(events=(FabricEvent("no-devices", "NV_WARN_NOTHING_TO_DO"),)), "NV_WARN_NOTHING_TO_DO"),
            Red(manager(events=(FabricEvent("subnet-manager", "SUBNET UP"),)), "does not say that the fabric"),
        ],
        garbage=[
            manager(events=GONE),
            manager(events=()),
            systems(B300, fabric_manager=GONE),
            replace(B300, system=GONE),
        ],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.fabric_mode": Cases(
        green=[B300],
        red=[Red(manager(mode="1"), "FABRIC_MODE: 1")],
        garbage=[manager(mode=GONE), manager(mode=""), systems(B300, fabric_manager=GONE)],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.imex_owner": Cases(
        green=[(units(GB300, nvidia_imex=OFF), KUBERNETES)],
        red=[Red(GB300, "nvidia-imex: active, enabled", KUBERNETES)],
        garbage=[host(GB300, units=GONE), host(GB300, units={}), units(GB300, nvidia_imex=None)],
        not_applicable=NVL72,
        garbage_baseline=KUBERNETES,
    ),
    "nvlink.imex_duplicates": Cases(
        green=[GB300],
        red=[
            Red(nvlink(GB300, imex_nodes=(*DOMAIN, DOMAIN[0])), f"twice: {DOMAIN[0]}"),
            Red(nvlink(GB300, imex_nodes=None), "no such file"),
            Red(nvlink(GB300, imex_nodes=()), "an empty list"),
        ],
        garbage=[nvlink(GB300, imex_nodes=GONE), nvlink(GB300, imex_nodes=("", ""))],
        not_applicable=KUBERNETES,
    ),
    "nvlink.imex_member": Cases(
        green=[
            GB300,
            nvlink(GB300, imex_nodes=("tray01", "tray02")),
            nvlink(host(GB300, hostname="tray01.example.net"), imex_nodes=("tray01",)),
        ],
        red=[
            Red(nvlink(GB300, imex_nodes=("10.2.0.1", "10.2.0.2")), "2 nodes, none of them this one"),
            Red(nvlink(GB300, imex_nodes=None), "0 nodes"),
            Red(nvlink(GB300, imex_nodes=("tray010", "")), "none of them"),
        ],
        garbage=[
            nvlink(GB300, imex_nodes=GONE),
            host(GB300, addresses=GONE),
            host(GB300, addresses=()),
            host(GB300, hostname=GONE),
            nvlink(host(GB300, hostname=""), imex_nodes=("", ".")),
        ],
        not_applicable=KUBERNETES,
    ),
    "nvlink.rack_health": Cases(
        green=[GB300],
        red=[
            Red(gpu(GB300, 1, fabric_health="Unhealthy"), f"{SECOND}: Unhealthy"),
            Red(gpu(GB300, 1, fabric_health="Limited Capacity"), f"{SECOND}: Limited Capacity"),
        ],
        garbage=[
            NO_SMI,
            smi(GB300, gpus=()),
            every_gpu(GB300, fabric_health=GONE),
            gpu(GB300, 3, fabric_health=GONE),
            every_gpu(GB300, fabric_health=""),
        ],
        not_applicable=HGX,
    ),
    "nvlink.imex_quorum": Cases(
        green=[GB300, nvlink(GB300, imex_config=None), nvlink(GB300, imex_config={"IMEX_WAIT_FOR_QUORUM": "NONE"})],
        red=[Red(nvlink(GB300, imex_config={"IMEX_WAIT_FOR_QUORUM": "FULL"}), "FULL")],
        garbage=[nvlink(GB300, imex_config=GONE), nvlink(GB300, imex_config={"IMEX_WAIT_FOR_QUORUM": "garbage"})],
        not_applicable=KUBERNETES,
    ),
    "nvlink.imex_one_version": Cases(
        green=[GB300],
        red=[Red(peers(DRIVER, "580.178.04"), "580.178.04: peer 10.1.0.2")],
        garbage=[nvlink(GB300, imex_domain=GONE), peers(DRIVER, GONE), peers("", ""), nvlink(GB300, imex_domain=ImexDomain("UP", (), ()))],
        not_applicable=KUBERNETES,
    ),
    "nvlink.imex_devices": Cases(
        green=[GB300],
        red=[Red(nvlink(GB300, imex_major=False), "no")],
        garbage=[nvlink(GB300, imex_major=GONE)],
        not_applicable=HGX,
    ),
    "nvlink.imex_channel_access": Cases(
        green=[GB300, nvlink(GB300, imex_channel_modes={CHANNEL: "777"})],
        red=[Red(nvlink(GB300, imex_channel_modes={CHANNEL: "600"}), f"{CHANNEL}: mode 600")],
        garbage=[nvlink(GB300, imex_channel_modes=modes) for modes in (GONE, {}, {CHANNEL: ""})],
        not_applicable=KUBERNETES,
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_idle_imex_under_kubernetes_is_no_fault() -> None:
    """No daemon, no node list, no channel: Kubernetes makes them when a job needs them."""
    idle = nvlink(
        units(GB300, nvidia_imex=OFF), imex_nodes=None, imex_domain=GONE, imex_channels=(), imex_channel_modes={}
    )
    idle = driver(idle, parameters={"CreateImexChannel0": "0", "ModifyDeviceFiles": "1"})
    assert verdict_of(evaluate_node(idle, KUBERNETES)) is Verdict.ACCEPT
    assert verdict_of(evaluate_node(idle, NVL72)) is Verdict.REJECT  # where the host runs it, the same is a fault


def test_fabric_identity_is_not_asked_of_an_hgx_board() -> None:
    """Clique 0 and a cluster of zeros are what a healthy board says."""
    for requirement in ("nvlink.clique", "nvlink.fabric_bandwidth", "nvlink.fabric_configuration"):
        assert outcome(requirement, B300).status is Status.NOT_APPLICABLE


def test_fabric_manager_that_died_after_it_configured_the_fabric() -> None:
    dead = units(B300, nvidia_fabricmanager={"active": "failed"})
    assert outcome("nvlink.fabric_manager", dead).status is Status.FAIL
    assert outcome("nvlink.fabric_manager_log", dead).status is Status.PASS
