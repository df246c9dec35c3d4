"""Layer fleet: two GB300 trays that serve one replica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rackproof.facts import Missing, NodeFacts, UnitFacts
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import (
    CLUSTER,
    DOMAIN,
    GONE,
    NIL,
    baseline,
    driver,
    every_gpu,
    gpu,
    host,
    image,
    node,
    nothing,
    nvlink,
    packages,
    runtime,
    smi,
    strangers,
    unit_of,
)
from .fleet_cases import TABLE as SERVING_TABLE

ONE, TWO = node(name="tray01"), node(name="tray02")
UNIT = unit_of(ONE, TWO)
HGX = baseline("b300")
UNREACHABLE = Missing("no route to host")


def second(change: Callable[[NodeFacts], NodeFacts]) -> UnitFacts:
    return unit_of(ONE, change(TWO))


def both(change: Callable[[NodeFacts], NodeFacts]) -> UnitFacts:
    return unit_of(change(ONE), change(TWO))


def three(change: Callable[[NodeFacts], NodeFacts]) -> UnitFacts:
    """Two that disagree, and one that was not read."""
    unit = second(change)
    return replace(unit, declared=(*unit.declared, "tray03"), nodes={**unit.nodes, "tray03": UNREACHABLE})


def unreadable(change: Callable[[NodeFacts], NodeFacts]) -> list[UnitFacts]:
    """The fact missing on one node, on both; a node not read; no node at all."""
    return [
        second(change),
        both(change),
        replace(UNIT, nodes={"tray01": ONE, "tray02": UNREACHABLE}),
        replace(UNIT, nodes={"tray01": ONE}),
        replace(UNIT, nodes={}),
        replace(UNIT, declared=(), nodes={}),
        both(nothing),
    ]


TABLE = {
    "fleet.members": Cases(
        green=[UNIT, (unit_of(node("b300", "b300-01")), HGX)],
        red=[
            Red(unit_of(ONE), "1 declared: tray01"),
            Red(unit_of(ONE, TWO, node(name="tray03")), "3 declared"),
            Red(unit_of(ONE, TWO, declared=("tray01", "tray01")), "tray01, tray01"),
        ],
        garbage=unreadable(nothing),
    ),
    "fleet.driver": Cases(
        green=[UNIT],
        red=[
            Red(
                second(lambda facts: driver(facts, loaded_version="580.178.04")),
                "580.126.20: tray01; 580.178.04: tray02",
            ),
            Red(three(lambda facts: driver(facts, loaded_version="580.178.04")), "580.178.04: tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: driver(facts, loaded_version=GONE)),
            *unreadable(lambda facts: driver(facts, loaded_version=None)),
            *unreadable(lambda facts: driver(facts, loaded_version="")),
            *unreadable(lambda facts: driver(facts, loaded_version="garbage")),
        ],
    ),
    "fleet.image": Cases(
        green=[
            UNIT,
            second(lambda facts: image(facts, digests=(f"vllm/vllm-openai@{baseline('gb300').image.platform}",))),
        ],
        red=[
            Red(second(lambda facts: image(facts, digests=("vllm/vllm-openai@sha256:0",))), "sha256:0: tray02"),
            Red(second(lambda facts: runtime(facts, images=())), "none: tray02"),
            Red(both(lambda facts: runtime(facts, images=())), "none: tray01, tray02"),
            Red(three(lambda facts: runtime(facts, images=())), "none: tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: runtime(facts, images=GONE)),
            *unreadable(lambda facts: image(facts, digests=())),
            *unreadable(lambda facts: image(facts, digests=("",))),
        ],
        not_applicable=strangers("gb300"),
    ),
    "fleet.clique": Cases(
        green=[UNIT],
        red=[
            Red(second(lambda facts: every_gpu(facts, clique_id=7)), f"clique 7 of cluster {CLUSTER}: tray02"),
            Red(both(lambda facts: every_gpu(facts, clique_id=0)), "clique 0"),
            Red(both(lambda facts: every_gpu(facts, cluster_uuid=NIL)), NIL),
            Red(both(lambda facts: gpu(facts, 1, clique_id=7)), "clique 7"),
            Red(three(lambda facts: every_gpu(facts, clique_id=7)), "tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: every_gpu(facts, clique_id=GONE)),
            *unreadable(lambda facts: gpu(facts, 2, cluster_uuid=GONE)),
            *unreadable(lambda facts: smi(facts, gpus=())),
            *unreadable(lambda facts: every_gpu(facts, cluster_uuid="")),
            *unreadable(lambda facts: every_gpu(facts, clique_id=-1)),
        ],
        not_applicable=HGX,
    ),
    "fleet.imex_nodes": Cases(
        green=[UNIT],
        red=[
            Red(second(lambda facts: nvlink(facts, imex_nodes=DOMAIN[::-1])), "10.1.0.2, 10.1.0.1: tray02"),
            Red(second(lambda facts: nvlink(facts, imex_nodes=None)), "no list: tray02"),
            Red(both(lambda facts: nvlink(facts, imex_nodes=None)), "no list: tray01, tray02"),
            Red(three(lambda facts: nvlink(facts, imex_nodes=())), "no list: tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: nvlink(facts, imex_nodes=GONE)),
            *unreadable(lambda facts: nvlink(facts, imex_nodes=())),
        ],
        not_applicable=HGX,
    ),
    "fleet.imex_version": Cases(
        green=[UNIT],
        red=[
            Red(second(lambda facts: packages(facts, {"nvidia-imex": "580.178.04-1"})), "580.178.04: tray02"),
            Red(both(lambda facts: packages(facts, {"nvidia-imex": None})), "not installed: tray01, tray02"),
            Red(three(lambda facts: packages(facts, {"nvidia-imex": None})), "not installed: tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: host(facts, packages=GONE)),
            *unreadable(lambda facts: host(facts, packages={})),
            *unreadable(lambda facts: packages(facts, {"nvidia-imex": "garbage"})),
        ],
        not_applicable=HGX,
    ),
    "fleet.kernel": Cases(
        green=[UNIT],
        red=[Red(second(lambda facts: host(facts, kernel="6.8.0-1030-nvidia-64k")), "6.8.0-1030-nvidia-64k: tray02")],
        garbage=[
            *unreadable(lambda facts: host(facts, kernel=GONE)),
            *unreadable(lambda facts: host(facts, kernel="")),
        ],
    ),
}


TABLE |= SERVING_TABLE
SOFT = {"fleet.kernel", "fleet.weights_storage", "fleet.engine_version", "fleet.toolkit_version", "fleet.nccl_conf"}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_a_node_that_was_not_read_is_named_with_the_reason() -> None:
    found = outcome("fleet.members", replace(UNIT, nodes={"tray01": ONE, "tray02": UNREACHABLE}))
    assert found.status is Status.UNKNOWN
    assert found.reason == "tray02: no route to host"
