"""What holds for every requirement and check, whatever it is about."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rackproof.facts import Missing, NodeFacts
from rackproof.verdict.catalogue import check_of, requirements
from rackproof.verdict.evaluate import evaluate_node, evaluate_unit, judge_node
from rackproof.verdict.model import Requirement, Status, Verdict, verdict_of

from . import (
    test_amd,
    test_container_runtime,
    test_fleet,
    test_fleet_hosts,
    test_fleet_stack,
    test_gpu_driver,
    test_gpus,
    test_gpus_state,
    test_host,
    test_host_state,
    test_image,
    test_nvlink,
    test_nvlink_fabric,
    test_offer,
    test_rdma,
    test_rdma_health,
    test_serving,
    test_weights,
)
from .cases import Table
from .fixtures import SECTIONS, baseline, gpu, node, nothing, strangers, unit_of, without

REGISTRY: Table = {
    **test_host.TABLE,
    **test_host_state.TABLE,
    **test_gpu_driver.TABLE,
    **test_gpus.TABLE,
    **test_gpus_state.TABLE,
    **test_nvlink.TABLE,
    **test_nvlink_fabric.TABLE,
    **test_amd.TABLE,
    **test_rdma.TABLE,
    **test_rdma_health.TABLE,
    **test_container_runtime.TABLE,
    **test_image.TABLE,
    **test_weights.TABLE,
    **test_serving.TABLE,
    **test_offer.TABLE,
    **test_fleet.TABLE,
    **test_fleet_hosts.TABLE,
    **test_fleet_stack.TABLE,
}
NEVER_RED = {
    "host.evidence",  # an incomplete probe is unknown, not a fault of the node
    "rdma.gdrdrv",  # recorded, whichever it is
}
MAX_LINES = 15
HARDWARE = ("gb300", "b300", "mi355x")
SECTIONS_OF = {
    "gb300": SECTIONS,
    "b300": SECTIONS,
    "mi355x": ("host", "amd", "pci", "kernel_log", "runtime", "evidence"),
}
LAYER_FOLDERS = Path(__file__).parents[2] / "src/rackproof/layers"
SOURCES = [path.relative_to(LAYER_FOLDERS).as_posix() for path in sorted(LAYER_FOLDERS.glob("*/*checks*.py"))]

NVIDIA_ONLY = {"driver", "nvlink"}  # parts of the facts that nothing asks of AMD GPUs


def healthy(hardware: str) -> NodeFacts:
    return node(hardware, "tray01" if hardware == "gb300" else f"{hardware}-01")


# --- every requirement is tested, both ways and against garbage ---


def test_every_requirement_has_cases_and_no_other() -> None:
    assert sorted(REGISTRY) == sorted(requirements())


@pytest.mark.parametrize("requirement", sorted(REGISTRY))
def test_cases_are_green_red_and_garbage(requirement: str) -> None:
    cases = REGISTRY[requirement]
    assert cases.green and cases.garbage
    assert cases.red or requirement in NEVER_RED
    assert (requirements()[requirement].applies is None) or cases.not_applicable or requirement in _ALWAYS_HERE


_ALWAYS_HERE = {"gpu_driver.module_flavour"}  # no hardware profile takes another flavour yet; see below


def test_a_requirement_of_a_flavour_does_not_apply_where_any_will_do() -> None:
    wanted = baseline("gb300")
    any_flavour = replace(wanted, driver=replace(wanted.driver, flavour=None))
    found = {outcome.requirement.id: outcome for outcome in evaluate_node(healthy("gb300"), any_flavour)}
    assert found["gpu_driver.module_flavour"].status is Status.NOT_APPLICABLE


# --- healthy nodes are accepted ---


@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_healthy_node_passes_every_requirement_that_applies(hardware: str) -> None:
    outcomes = evaluate_node(healthy(hardware), baseline(hardware))
    wrong = [found for found in outcomes if found.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert not wrong
    assert verdict_of(outcomes) is Verdict.ACCEPT


def test_a_healthy_unit_is_accepted() -> None:
    outcomes = evaluate_unit(unit_of(node(name="tray01"), node(name="tray02")), baseline("gb300"))
    assert {found.status for found in outcomes} <= {Status.PASS, Status.NOT_APPLICABLE}
    assert verdict_of(outcomes) is Verdict.ACCEPT


# --- no look, no pass ---


@pytest.mark.parametrize("wanted", [*map(baseline, HARDWARE), *map(strangers, HARDWARE)], ids=lambda b: b.hardware)
def test_nothing_read_passes_nothing(wanted: Any) -> None:
    result = judge_node(nothing(healthy(wanted.hardware)), wanted)
    assert {found.status for found in result.outcomes} <= {Status.UNKNOWN, Status.BLOCKED, Status.NOT_APPLICABLE}
    assert result.verdict is Verdict.UNDETERMINED
    blocked = [found for found in result.outcomes if found.status is Status.BLOCKED]
    assert {found.blocked_by for found in blocked} == {"host.evidence"}
    assert all(found.reason for found in result.outcomes)


@pytest.mark.parametrize(
    ("hardware", "section"), [(hardware, section) for hardware in HARDWARE for section in SECTIONS_OF[hardware]]
)
def test_a_node_without_one_section_is_not_accepted(hardware: str, section: str) -> None:
    outcomes = evaluate_node(without(healthy(hardware), section), baseline(hardware))
    lost = [found for found in outcomes if found.status in (Status.UNKNOWN, Status.BLOCKED)]
    gates = [found for found in lost if found.decides]
    assert gates, "no gate reads this section"
    assert verdict_of(outcomes) is Verdict.UNDETERMINED



@pytest.mark.parametrize("hardware", HARDWARE)
def test_nonsense_never_ends_a_run_nor_passes(hardware: str) -> None:
    """Values of the wrong kind altogether, as a bug in a parser might give them."""
    facts = healthy(hardware)
    for nonsense in (None, "", "\x1b[31m", -1, (), {}, object()):
        for section in {"host", "driver", "nvlink", "runtime"} - (NVIDIA_ONLY if hardware == "mi355x" else set()):
            part = getattr(facts, section)
            changed = replace(part, **{field.name: nonsense for field in fields(part)})
            outcomes = evaluate_node(replace(facts, **{section: changed}), baseline(hardware))
            assert verdict_of(outcomes) is not Verdict.ACCEPT, (section, nonsense)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_applicability_is_the_baselines_alone(hardware: str) -> None:
    for wanted in (baseline(hardware), strangers(hardware)):
        sets = {
            frozenset(found.requirement.id for found in evaluate_node(facts, wanted) if _not_applicable(found))
            for facts in (healthy("gb300"), healthy("b300"), nothing(healthy(hardware)))
        }
        assert len(sets) == 1


def _not_applicable(found: Any) -> bool:
    return found.status is Status.NOT_APPLICABLE


# --- the shape of checks and requirements ---


@pytest.mark.parametrize("requirement", sorted(REGISTRY))
def test_a_check_is_short(requirement: str) -> None:
    source = [line for line in inspect.getsource(check_of(requirement)).splitlines() if not line.startswith("@")]
    assert len(source) <= MAX_LINES


@pytest.mark.parametrize("module", SOURCES)
def test_checks_hold_no_numbers_and_do_no_io(module: str) -> None:
    tree = ast.parse((LAYER_FOLDERS / module).read_text())
    numbers = {
        found.value
        for found in ast.walk(tree)
        if isinstance(found, ast.Constant)
        and isinstance(found.value, int | float)
        and not isinstance(found.value, bool)
    }
    assert numbers <= {0, 1, 2}, "an expected value belongs in YAML, with its source"
    imported = {
        name
        for found in ast.walk(tree)
        if isinstance(found, ast.Import | ast.ImportFrom)
        for name in ([found.module] if isinstance(found, ast.ImportFrom) else [alias.name for alias in found.names])
    }
    words = {f"rackproof.layers.{path.stem}" for path in LAYER_FOLDERS.glob("*.py")}
    allowed = {"__future__", "collections", "itertools", "collections.abc", "rackproof.baseline", "rackproof.facts", "rackproof.facts_selfbuild",
               "rackproof.identities", "rackproof.managed", "rackproof.verdict.catalogue", "rackproof.verdict.model", *words}  # fmt: skip
    assert imported <= allowed
    assert not {found.id for found in ast.walk(tree) if isinstance(found, ast.Name)} & {"open", "exec", "eval"}


@pytest.mark.parametrize("module", SOURCES)
def test_checks_never_ask_whether_a_fact_is_missing(module: str) -> None:
    tree = ast.parse((LAYER_FOLDERS / module).read_text())
    calls = [found for found in ast.walk(tree) if isinstance(found, ast.Call) and isinstance(found.func, ast.Name)]
    asked = [found for found in calls if found.func.id == "isinstance" and "Missing" in ast.unparse(found)]  # type: ignore[attr-defined]
    caught = [found for found in ast.walk(tree) if isinstance(found, ast.Try)]
    assert not asked and not caught


@pytest.mark.parametrize("requirement", list(requirements().values()), ids=lambda requirement: requirement.id)
def test_a_requirement_can_be_acted_on(requirement: Requirement) -> None:
    assert requirement.title[0].isupper() or requirement.title.startswith("nvidia-")
    assert not requirement.title.endswith(".") and len(requirement.title) <= 80
    assert requirement.why.endswith(".") and len(requirement.why) >= 60
    assert requirement.remedy and requirement.sources
    text = " ".join((requirement.why, requirement.remedy, *requirement.sources))
    assert not [word for word in ("/work", "shared/", "nvidia-host.md", "recipe.md", "verifiers.md") if word in text]


def test_only_what_says_self_built_makes_a_node_unsupported() -> None:
    marked = [found.id for found in requirements().values() if found.unsupported]
    assert marked == ["host.selfbuild", "image.selfbuild"]


def test_the_reason_of_a_fact_that_is_missing_on_some_gpus_names_them() -> None:
    facts = gpu(healthy("gb300"), 3, memory_bytes=Missing("fb_memory_usage/total: [Unknown Error]"))
    found = next(one for one in evaluate_node(facts, baseline("gb300")) if one.requirement.id == "gpus.memory")
    assert found.reason == "GPU 3 (00000019:06:00.0): fb_memory_usage/total: [Unknown Error]"
