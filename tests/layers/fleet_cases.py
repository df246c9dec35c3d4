"""Cases of layer fleet about weights, engines and serving units: two GB300 trays that serve one replica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rackproof.baseline import Baseline
from rackproof.facts import Missing, NodeFacts, UnitFacts

from .cases import Cases, Red
from .fixtures import GONE, baseline, node, nothing, runtime, unit_of
from .fixtures_storage import keeps, on_filesystem, rendered, serves, serving, weights, with_unit

Change = Callable[[NodeFacts], NodeFacts]
LAYOUT = "gb300-tp8"
ONE, TWO = (with_unit(node(name=name), LAYOUT) for name in ("tray01", "tray02"))
UNIT = unit_of(ONE, TWO)
NONE, KEEPS, SERVES = baseline("gb300"), keeps(), serves()


def second(change: Change) -> UnitFacts:
    return unit_of(ONE, change(TWO))


def both(change: Change) -> UnitFacts:
    return unit_of(change(ONE), change(TWO))


def unreadable(*changes: Change) -> list[UnitFacts]:
    """Each fact missing on one node, and on both; a node not read; none at all."""
    lost = [made for change in changes for made in (second(change), both(change))]
    unreachable = Missing("no route to host")
    return [*lost, replace(UNIT, nodes={"tray01": ONE, "tray02": unreachable}), replace(UNIT, nodes={}), both(nothing)]


def env(**variables: str | None) -> Change:
    found = {**rendered(LAYOUT).env, **variables}
    return lambda facts: with_unit(
        facts, LAYOUT, env={name: value for name, value in found.items() if value is not None}
    )


def case(wanted: Baseline, green: list[UnitFacts], red: list[tuple[UnitFacts, str]], garbage: list[UnitFacts]) -> Cases:
    applies_always = wanted is NONE
    return Cases(
        green=[(unit, wanted) for unit in green],
        red=[Red(unit, says, wanted) for unit, says in red],
        garbage=garbage,
        not_applicable=None if applies_always else NONE,
        garbage_baseline=wanted,
    )


def no_weights(facts: NodeFacts) -> NodeFacts:
    return replace(facts, weights=GONE)


def no_serving(facts: NodeFacts) -> NodeFacts:
    return replace(facts, serving=GONE)


def change(function: Any, **values: Any) -> Change:
    return lambda facts: function(facts, **values)


TABLE = {
    "fleet.weights_revision": case(
        KEEPS,
        [UNIT, both(change(weights, revision="0" * 40))],
        [
            (second(change(weights, revision="0" * 40)), f"{'0' * 40}: tray02"),
            (second(change(weights, revision=None)), "not recorded: tray02"),
            (both(change(weights, revision=None)), "not recorded: tray01, tray02"),
        ],
        [*unreadable(no_weights, change(weights, revision=GONE)), both(change(weights, revision=""))],
    ),
    "fleet.weights_size": case(
        KEEPS,
        [UNIT],
        [
            (second(change(weights, shard_bytes=1)), "1 bytes: tray02"),
            (both(change(weights, shard_bytes=0)), "0 bytes"),
        ],
        [*unreadable(no_weights, change(weights, shard_bytes=GONE)), both(change(weights, shard_bytes=-1))],
    ),
    "fleet.weights_storage": case(
        KEEPS,
        [UNIT],
        [(second(change(on_filesystem, kind="nfs4")), "nfs4: tray02")],
        [*unreadable(no_weights, change(weights, filesystem=GONE)), both(change(on_filesystem, kind=""))],
    ),
    "fleet.engine_version": case(
        NONE,
        [UNIT],
        [(second(change(runtime, engine_version="29.1.0")), "29.1.0: tray02")],
        [*unreadable(change(runtime, engine_version=GONE)), both(change(runtime, engine_version="garbage"))],
    ),
    "fleet.toolkit_version": case(
        NONE,
        [UNIT],
        [
            (second(change(runtime, toolkit_version="1.20.0")), "1.20.0: tray02"),
            (both(change(runtime, toolkit_version=None)), "not installed"),
        ],
        [*unreadable(change(runtime, toolkit_version=GONE)), both(change(runtime, toolkit_version=""))],
    ),
    "fleet.serving_unit": case(
        SERVES,
        [UNIT],
        [(second(lambda facts: with_unit(facts, LAYOUT, image="vllm/vllm-openai@sha256:0")), "sha256:0: tray02")],
        [
            *unreadable(no_serving, change(serving, units=GONE), change(serving, units=())),
            both(lambda facts: with_unit(facts, LAYOUT, image="")),
        ],
    ),
    "fleet.ready_timeout": case(
        SERVES,
        [UNIT],
        [
            (second(env(VLLM_ENGINE_READY_TIMEOUT_S="600")), "600: tray02"),
            (second(env(VLLM_ENGINE_READY_TIMEOUT_S=None)), "not set: tray02"),
            (both(env(VLLM_ENGINE_READY_TIMEOUT_S=None)), "not set: tray01, tray02"),
        ],
        [
            *unreadable(no_serving, change(serving, units=()), change(serving, env_file=GONE)),
            both(env(VLLM_ENGINE_READY_TIMEOUT_S="garbage")),
        ],
    ),
    "fleet.nccl_environment": case(
        SERVES,
        [UNIT, second(env(NCCL_SOCKET_IFNAME="eth9", NCCL_IB_GID_INDEX="3", VLLM_HOST_IP="10.0.0.9"))],
        [
            (second(env(NCCL_NVLS_ENABLE="0")), "NCCL_NVLS_ENABLE=0: tray02"),
            (second(env(NCCL_DEBUG="INFO")), "NCCL_DEBUG=INFO"),
        ],
        unreadable(no_serving, change(serving, units=()), change(serving, env_file=GONE)),
    ),
    "fleet.nccl_conf": case(
        NONE,
        [UNIT, both(change(serving, nccl_conf={"NCCL_DEBUG": "WARN"}))],
        [(second(change(serving, nccl_conf={"NCCL_P2P_DISABLE": "1"})), "NCCL_P2P_DISABLE=1: tray02")],
        unreadable(no_serving, change(serving, nccl_conf=GONE)),
    ),
}
