"""Layer nvlink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rackproof.facts import Fact, NodeFacts
from rackproof.facts_nvlink import ImexDomain, ImexPeer, NvlinkPort
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import (
    CLUSTER,
    DOMAIN,
    DRIVER,
    GONE,
    NIL,
    baseline,
    driver,
    every_gpu,
    gpu,
    host,
    node,
    nvlink,
    packages,
    smi,
    strangers,
    units,
)

GB300 = node()
B300 = node("b300", "b300-01")
HGX, NVL72 = baseline("b300"), baseline("gb300")
NO_SMI = replace(GB300, smi=GONE)
SECOND = "GPU 1 (00000009:06:00.0)"
READY = tuple(ImexPeer(address, "READY", DRIVER) for address in DOMAIN)


def ports(change: Mapping[tuple[int, int], NvlinkPort | None]) -> NodeFacts:
    """Ports changed, or not listed (None)."""
    listed = GB300.nvlink.ports
    assert isinstance(listed, tuple)
    found: dict[tuple[int, int], NvlinkPort | None] = {(port.gpu, port.link): port for port in listed}
    found.update(change)
    return nvlink(GB300, ports=tuple(port for port in found.values() if port is not None))


def paths(change: Mapping[tuple[int, int], str | None]) -> NodeFacts:
    listed = GB300.nvlink.gpu_paths
    assert isinstance(listed, dict)
    found: dict[tuple[int, int], str | None] = {**listed, **change}
    return nvlink(GB300, gpu_paths={pair: path for pair, path in found.items() if path is not None})


def domain(status: str = "UP", peers: tuple[ImexPeer, ...] = READY, bad: tuple[str, ...] = ()) -> NodeFacts:
    return nvlink(GB300, imex_domain=ImexDomain(status, peers, bad))


def unreadable(*fields: str) -> list[NodeFacts]:
    gone: list[dict[str, Fact[str]]] = [{field: GONE} for field in fields]
    return [
        NO_SMI,
        smi(GB300, gpus=()),
        *(every_gpu(GB300, **one) for one in gone),
        *(gpu(GB300, 3, **one) for one in gone),
    ]


DOWN = {"active": "failed", "sub": "failed"}
OTHER = "5a1c6b9e-1ab0-4000-8000-0000000b300b"

TABLE = {
    "nvlink.fabric_state": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, fabric_state="In Progress", fabric_status=GONE), f"{SECOND}: In Progress"),
            Red(gpu(GB300, 1, fabric_status="Insufficient Resources"), f"{SECOND} status: Insufficient Resources"),
            Red(every_gpu(GB300, fabric_state="Not Started"), "Not Started"),
        ],
        garbage=[*unreadable("fabric_state", "fabric_status"), every_gpu(GB300, fabric_state="", fabric_status="")],
    ),
    "nvlink.fabric_health": Cases(
        green=[B300],
        red=[Red(gpu(B300, 1, fabric_health="Limited Capacity"), "GPU 1 (00000000:2e:00.0): Limited Capacity")],
        garbage=[replace(B300, smi=GONE), every_gpu(B300, fabric_health=GONE), every_gpu(B300, fabric_health="")],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.clique": Cases(
        green=[GB300],
        red=[
            Red(gpu(GB300, 1, clique_id=1), f"clique 1 of cluster {CLUSTER}: {SECOND}"),
            Red(gpu(GB300, 1, cluster_uuid=OTHER), OTHER),
            Red(every_gpu(GB300, clique_id=0), "clique 0"),
            Red(every_gpu(GB300, cluster_uuid=NIL), NIL),
            Red(gpu(gpu(GB300, 0, clique_id=GONE), 1, clique_id=1), "clique 1"),
        ],
        garbage=[
            *unreadable("clique_id", "cluster_uuid"),
            every_gpu(GB300, cluster_uuid=""),
            every_gpu(GB300, cluster_uuid="garbage"),
            every_gpu(GB300, clique_id=-1),
        ],
        not_applicable=HGX,
    ),
    "nvlink.links": Cases(
        green=[GB300, B300],
        red=[
            Red(ports({(1, 7): NvlinkPort(1, 7, GONE, False)}), f"{SECOND}: 17 of 18 links active"),
            Red(ports({(1, 7): NvlinkPort(1, 7, 26.562, True)}), f"{SECOND} link 7: 26.562 GB/s"),
            Red(ports({(1, 7): None}), f"{SECOND}: 17 of 18"),
            Red(ports({(1, 18): NvlinkPort(1, 18, 53.125, True)}), "19 of 18"),
            Red(replace(ports({(1, 7): None}), smi=GONE), "GPU 1: 17 of 18"),
        ],
        garbage=[
            nvlink(GB300, ports=GONE),
            nvlink(GB300, ports=()),
            ports({(1, link): None for link in range(18)}),  # a GPU without one link: its absence is gpus.count's
            ports({(1, 7): NvlinkPort(1, 7, GONE, True)}),
            ports({(1, 7): NvlinkPort(1, 7, -53.125, True)}),
            nvlink(GB300, ports=(NvlinkPort(0, 0, 53.125, True),) * 72),
        ],
    ),
    "nvlink.topology": Cases(
        green=[GB300, B300],
        red=[
            Red(paths({(0, 2): "SYS"}), "GPU 0 to GPU 2: SYS"),
            Red(paths({(2, 0): "NV9"}), "GPU 2 to GPU 0: NV9"),
            Red(paths({(0, 1): None, (0, 2): "PIX"}), "GPU 0 to GPU 2: PIX"),
        ],
        garbage=[
            nvlink(GB300, gpu_paths=GONE),
            nvlink(GB300, gpu_paths={}),
            paths({(0, 1): None}),
            paths({(0, 1): ""}),
        ],
    ),
    "nvlink.fabric_manager": Cases(
        green=[B300],
        red=[
            Red(units(B300, nvidia_fabricmanager=DOWN), "service: failed, enabled"),
            Red(units(B300, nvidia_fabricmanager={"enabled": "disabled"}), "service: active, disabled"),
            Red(units(B300, nvidia_fabricmanager={"load": "not-found", "active": "inactive"}), "service: not-found"),
            Red(packages(B300, {"nvidia-fabricmanager": "590.48.01-1"}), "590.48.01 with driver 580.126.20"),
            Red(packages(B300, {"nvidia-fabricmanager": None}), "package: not installed"),
            Red(packages(B300, {"nvidia-fabricmanager-580": "580.173.02-1"}), "580.126.20 and 580.173.02"),
            Red(driver(units(B300, nvidia_fabricmanager=DOWN), loaded_version=GONE), "service: failed"),
        ],
        garbage=[
            host(B300, units=GONE),
            host(B300, units={}),
            units(B300, nvidia_fabricmanager=None),
            host(B300, packages=GONE),
            host(B300, packages={}),
            driver(B300, loaded_version=GONE),
            driver(B300, loaded_version=None),
            packages(B300, {"nvidia-fabricmanager": ""}),
            packages(driver(B300, loaded_version=""), {"nvidia-fabricmanager": ""}),
            units(B300, nvidia_fabricmanager={"enabled": ""}),
            units(B300, nvidia_fabricmanager={"active": ""}),
        ],
        not_applicable=NVL72,
        garbage_baseline=HGX,
    ),
    "nvlink.daemons_forbidden": Cases(
        green=[GB300, B300, units(GB300, nvidia_fabricmanager={"load": "loaded", "active": "failed"})],
        red=[
            Red(
                units(GB300, nvidia_fabricmanager={"load": "loaded", "active": "active"}),
                "nvidia-fabricmanager: active",
            )
        ],
        garbage=[
            host(GB300, units=GONE),
            host(GB300, units={}),
            units(GB300, nvidia_fabricmanager=None),
            host(B300, units={}),
        ],
    ),
    "nvlink.imex_service": Cases(
        green=[GB300],
        red=[
            Red(units(GB300, nvidia_imex=DOWN), "nvidia-imex: failed, enabled"),
            Red(units(GB300, nvidia_imex={"enabled": "disabled"}), "active, disabled"),
            Red(units(GB300, nvidia_imex={"load": "not-found", "active": "inactive"}), "not-found"),
        ],
        garbage=[
            host(GB300, units=GONE),
            host(GB300, units={}),
            units(GB300, nvidia_imex=None),
            units(GB300, nvidia_imex={"active": "", "enabled": ""}),
        ],
        not_applicable=HGX,
    ),
    "nvlink.imex_version": Cases(
        green=[GB300, packages(GB300, {"nvidia-imex": None, "nvidia-imex-580": f"{DRIVER}-0ubuntu1"})],
        red=[
            Red(packages(GB300, {"nvidia-imex": "580.173.02-1"}), "580.173.02 with driver 580.126.20"),
            Red(packages(GB300, {"nvidia-imex": None}), "not installed"),
        ],
        garbage=[
            host(GB300, packages=GONE),
            host(GB300, packages={}),
            driver(GB300, loaded_version=GONE),
            driver(GB300, loaded_version=None),
            packages(GB300, {"nvidia-imex": "garbage"}),
        ],
        not_applicable=HGX,
    ),
    "nvlink.imex_nodes": Cases(
        green=[GB300, node(name="tray02"), (node(name="tray02"), NVL72)],
        red=[
            Red(nvlink(GB300, imex_nodes=DOMAIN[:1]), "10.1.0.1"),
            Red(nvlink(GB300, imex_nodes=DOMAIN[::-1]), "10.1.0.2, 10.1.0.1"),
            Red(nvlink(GB300, imex_nodes=None), "no such file"),
            Red(nvlink(GB300, imex_nodes=()), "an empty list"),
            Red(host(GB300, addresses=("10.9.9.9",)), "this node is none of them"),
            Red(host(nvlink(GB300, imex_nodes=None), addresses=GONE), "no such file"),
        ],
        garbage=[
            nvlink(GB300, imex_nodes=GONE),
            host(GB300, addresses=GONE),
            host(GB300, addresses=()),
            host(GB300, hostname=GONE),
            nvlink(GB300, imex_nodes=("", "")),
        ],
        not_applicable=strangers("gb300"),
    ),
    "nvlink.imex_domain": Cases(
        green=[GB300, (domain(), strangers("gb300"))],
        red=[
            Red(domain("DEGRADED"), "domain: DEGRADED"),
            Red(domain(peers=(READY[0], ImexPeer("10.1.0.2", "UNAVAILABLE", GONE))), "peer 10.1.0.2: UNAVAILABLE"),
            Red(domain(bad=("0 -> 1: VERSION_MISMATCH",)), "0 -> 1: VERSION_MISMATCH"),
            Red(domain(peers=READY[:1]), "peers: 1 listed"),
            Red(domain(peers=READY[:1]), "peers: 1 listed", strangers("gb300")),
        ],
        garbage=[
            nvlink(GB300, imex_domain=GONE),
            domain("", ()),
            domain(peers=()),
            domain(peers=(READY[0], READY[0])),
            domain(peers=tuple(replace(peer, status="") for peer in READY)),
        ],
        not_applicable=HGX,
    ),
    "nvlink.imex_channel": Cases(
        green=[GB300],
        red=[
            Red(nvlink(GB300, imex_channels=()), "no channel"),
            Red(nvlink(GB300, imex_channels=("/dev/nvidia-caps-imex-channels/channel1",)), "channel1"),
            Red(nvlink(GB300, imex_channels=("/dev/nvidia-caps-imex-channels/channel01",)), "channel01"),
        ],
        garbage=[nvlink(GB300, imex_channels=GONE), nvlink(GB300, imex_channels=("",))],
        not_applicable=HGX,
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_an_unread_domain_is_blocked_by_the_daemon_that_is_down() -> None:
    found = outcome("nvlink.imex_domain", units(nvlink(GB300, imex_domain=GONE), nvidia_imex=DOWN))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "nvlink.imex_service")


def test_fabric_state_and_fabric_manager_are_judged_apart() -> None:
    """The state stays Completed when the daemon dies later."""
    dead = units(B300, nvidia_fabricmanager=DOWN)
    assert outcome("nvlink.fabric_state", dead).status is Status.PASS
    assert outcome("nvlink.fabric_manager", dead).status is Status.FAIL
