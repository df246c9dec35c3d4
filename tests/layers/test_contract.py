"""What holds for every requirement and check, whatever it is about."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rackproof.facts import Missing, NodeFacts, SmiFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, AmdGpu
from rackproof.facts_gpu import GpuDetail
from rackproof.verdict.catalogue import LAYERS, check_of, requirements
from rackproof.verdict.evaluate import evaluate_node, evaluate_unit, judge_node
from rackproof.verdict.model import Requirement, Severity, Status, Verdict, verdict_of

from . import (
    test_amd,
    test_container_runtime,
    test_fleet,
    test_fleet_stack,
    test_gpu_driver,
    test_gpus,
    test_gpus_state,
    test_host,
    test_image,
    test_nvlink,
    test_nvlink_fabric,
)
from .cases import Table
from .fixtures import GONE, SECTIONS, baseline, every_gpu, gpu, node, nothing, smi, strangers, unit_of, without
from .fixtures_amd import amd, amd_driver, amd_gpu
from .fixtures_gpus import details

REGISTRY: Table = {
    **test_host.TABLE,
    **test_gpu_driver.TABLE,
    **test_gpus.TABLE,
    **test_gpus_state.TABLE,
    **test_nvlink.TABLE,
    **test_nvlink_fabric.TABLE,
    **test_amd.TABLE,
    **test_container_runtime.TABLE,
    **test_image.TABLE,
    **test_fleet.TABLE,
    **test_fleet_stack.TABLE,
}
NEVER_RED = {"host.evidence"}  # an incomplete probe is unknown, not a fault of the node
MAX_LINES = 15
HARDWARE = ("gb300", "b300", "mi355x")
FOLDER = Path(__file__).parents[2] / "src/rackproof/layers"
SOURCES = sorted(path for layer in LAYERS for path in (FOLDER / layer).glob("checks*.py"))


SECTIONS_OF = {
    "gb300": SECTIONS,
    "b300": SECTIONS,
    "mi355x": ("host", "amd", "pci", "kernel_log", "runtime", "evidence"),
}


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


# Sections and facts that no gate asks of AMD: nobody deploys these hosts yet, and they need no container toolkit.
NVIDIA_ONLY = {
    "driver", "nvlink", "smi", "host.packages", "host.broken_packages", "host.files", "runtime.cdi_devices",
    "runtime.toolkit_version", "runtime.cdi_specs",
}  # fmt: skip


def single_facts(hardware: str) -> Iterator[tuple[str, NodeFacts]]:
    """The healthy node with one fact after the other taken away."""
    facts = healthy(hardware)
    for section in ("host", "driver", "nvlink", "runtime"):
        part = getattr(facts, section)
        for field in fields(part):
            yield f"{section}.{field.name}", replace(facts, **{section: replace(part, **{field.name: GONE})})
    for section in ("smi", "kernel_log", "evidence", "pci", "amd"):
        yield section, without(facts, section)
    yield from single_gpu_facts(facts) if isinstance(facts.smi, SmiFacts) else single_amd_facts(facts)


def single_gpu_facts(facts: NodeFacts) -> Iterator[tuple[str, NodeFacts]]:
    assert isinstance(facts.smi, SmiFacts)
    last = len(facts.smi.gpus) - 1
    for field in fields(facts.smi.gpus[0]):
        if field.name not in ("index", "pci_address"):
            yield f"gpu.{field.name}", every_gpu(facts, **{field.name: GONE})
            yield f"gpu.{field.name} of the last one", gpu(facts, last, **{field.name: GONE})
    for field in fields(GpuDetail):
        yield f"detail.{field.name}", details(facts, **{field.name: GONE})
        yield f"detail.{field.name} of the last one", details(facts, last, **{field.name: GONE})


def single_amd_facts(facts: NodeFacts) -> Iterator[tuple[str, NodeFacts]]:
    for name in ("driver", "gpus", "ras"):
        yield f"amd.{name}", amd(facts, **{name: GONE})
    for field in fields(AmdDriverFacts):
        if field.name not in ("loaded", "gpus"):
            yield f"amd.driver.{field.name}", amd_driver(facts, **{field.name: GONE})
    for field in fields(AmdGpu):
        if field.name != "index":
            yield f"amd.gpu.{field.name}", amd_gpu(facts, None, **{field.name: GONE})
            yield f"amd.gpu.{field.name} of the last one", amd_gpu(facts, 7, **{field.name: GONE})


# Facts that no gate reads: recorded for reports and drift, or judged by a warning.
ONLY_RECORDED = {
    "host.boot_id", "host.kernel", "host.product_name", "host.cmdline", "host.page_size_bytes", "host.is_root",
    "host.reboot_required", "driver.holders", "host.apt_sources", "host.apt_preferences", "host.stamp", "driver.nouveau_blacklisted",
    "runtime.cgroup_version", "runtime.runtimes", "runtime.daemon_config", "gpu.uuid", "gpu.serial", "gpu.vbios",
    "host.uptime_s", "host.dmi", "runtime.cgroup_driver", "runtime.default_runtime", "runtime.data_root",
    "runtime.storage_driver", "runtime.security_options", "nvlink.imex_channel_modes",
    "gpu.ecc_uncorrectable_aggregate", "gpu.remapped_uncorrectable", "gpu.power_limit_w",
    "gpu.power_default_w", "gpu.slowdown_reasons", "gpu.pcie_gen", "gpu.pcie_width", "gpu.pcie_width_max",
    "nvlink.imex_config", "nvlink.p2p", "nvlink.errors",
    *(f"detail.{field.name}" for field in fields(GpuDetail) if field.name != "sram_threshold_exceeded"),
    *(f"amd.driver.{name}" for name in ("loaded_version", "disk_path", "parameters", "kfd_access")),
    *(f"amd.gpu.{name}" for name in (
        "architecture", "compute_units", "uuid", "serial", "vbios", "memory_used_bytes", "memory_used_percent",
        "ecc_correctable_volatile", "ecc_deferred_volatile", "poison_enabled", "bad_pages_retired", "power_w",
        "power_limit_w", "power_max_w", "throttled", "temperature_c", "utilization_percent", "pcie_speed",
        "pcie_speed_max", "pcie_width", "pcie_width_max", "firmware", "driver_version",
    )),
}  # fmt: skip
# What ROCm's tools say, and amdgpu's own files or the kernel log say as well; test_amd takes both away.
TWO_WITNESSES = {
    f"amd.gpu.{name}" for name in (
        "product", "pci_id", "ecc_uncorrectable_volatile", "bad_pages_pending", "bad_pages_unreservable", "processes",
        "pci_address",
    )
}  # fmt: skip
ONLY_ON = {
    "pci": "mi355x", "amd": "mi355x", "nvlink.imex_major": "gb300", "gpu.fabric_health": "gb300",
    "host.addresses": "gb300", "host.hostname": "gb300", "nvlink.imex_nodes": "gb300", "nvlink.imex_domain": "gb300",
    "nvlink.imex_channels": "gb300", "gpu.clique_id": "gb300", "gpu.cluster_uuid": "gb300",
}  # fmt: skip


@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_node_without_one_fact_is_not_accepted(hardware: str) -> None:
    for name, facts in single_facts(hardware):
        fact = name.removesuffix(" of the last one")
        outcomes = evaluate_node(facts, baseline(hardware))
        others = hardware == "mi355x" and (fact in NVIDIA_ONLY or fact.partition(".")[0] in NVIDIA_ONLY)
        if fact in ONLY_RECORDED | TWO_WITNESSES or others or ONLY_ON.get(fact, hardware) != hardware:
            assert verdict_of(outcomes) is Verdict.ACCEPT, name
        else:
            assert verdict_of(outcomes) is Verdict.UNDETERMINED, name


@pytest.mark.parametrize("hardware", HARDWARE)
def test_taking_a_fact_away_never_mends_anything(hardware: str) -> None:
    """No outcome becomes a pass, and none stops applying, when less is known."""
    wanted = baseline(hardware)
    before = {found.requirement.id: found.status for found in evaluate_node(healthy(hardware), wanted)}
    for name, facts in single_facts(hardware):
        for found in evaluate_node(facts, wanted):
            was = before[found.requirement.id]
            assert (found.status is Status.NOT_APPLICABLE) == (was is Status.NOT_APPLICABLE), (name, found)
            assert "the check itself failed" not in found.reason, (name, found)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_nonsense_never_ends_a_run_nor_passes(hardware: str) -> None:
    """Values of the wrong kind altogether, as a bug in a parser might give them."""
    facts = healthy(hardware)
    sections = ("host", "runtime") if hardware == "mi355x" else ("host", "driver", "nvlink", "runtime")
    for nonsense in (None, "", "\x1b[31m", -1, (), {}, object()):
        if hardware == "mi355x":
            outcomes = evaluate_node(replace(facts, amd=AmdFacts(nonsense, nonsense, nonsense)), baseline(hardware))  # type: ignore[arg-type]
            assert verdict_of(outcomes) is not Verdict.ACCEPT, nonsense
        elif isinstance(facts.smi, SmiFacts):
            outcomes = evaluate_node(smi(facts, gpus=nonsense), baseline(hardware))
            assert verdict_of(outcomes) is not Verdict.ACCEPT, nonsense
        for section in sections:
            part = getattr(facts, section)
            changed = replace(part, **{field.name: nonsense for field in fields(part)})
            outcomes = evaluate_node(replace(facts, **{section: changed}), baseline(hardware))
            assert verdict_of(outcomes) is not Verdict.ACCEPT, (section, nonsense)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_applicability_is_the_baselines_alone(hardware: str) -> None:
    for wanted in (baseline(hardware), strangers(hardware)):
        sets = {
            frozenset(found.requirement.id for found in evaluate_node(facts, wanted) if _not_applicable(found))
            for facts in (healthy("gb300"), healthy("b300"), healthy("mi355x"), nothing(healthy(hardware)))
        }
        assert len(sets) == 1


def _not_applicable(found: Any) -> bool:
    return found.status is Status.NOT_APPLICABLE


# --- the shape of checks and requirements ---


@pytest.mark.parametrize("requirement", sorted(REGISTRY))
def test_a_check_is_short(requirement: str) -> None:
    source = [line for line in inspect.getsource(check_of(requirement)).splitlines() if not line.startswith("@")]
    assert len(source) <= MAX_LINES


def of_layer(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("source", SOURCES, ids=of_layer)
def test_checks_hold_no_numbers_and_do_no_io(source: Path) -> None:
    tree = ast.parse(source.read_text())
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
    allowed = {"__future__", "collections", "itertools", "collections.abc", "rackproof.baseline", "rackproof.facts",
               "rackproof.managed", "rackproof.layers.readings", "rackproof.layers.words",
               "rackproof.verdict.catalogue", "rackproof.verdict.model",
               *(f"rackproof.layers.words_{topic}" for topic in ("gpu", "driver", "fabric", "log"))}  # fmt: skip
    assert imported <= allowed
    assert not {found.id for found in ast.walk(tree) if isinstance(found, ast.Name)} & {"open", "exec", "eval"}


@pytest.mark.parametrize("source", SOURCES, ids=of_layer)
def test_checks_never_ask_whether_a_fact_is_missing(source: Path) -> None:
    tree = ast.parse(source.read_text())
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


def test_only_the_self_build_mark_makes_a_node_unsupported() -> None:
    marked = [found.id for found in requirements().values() if found.unsupported]
    assert marked == ["host.selfbuild"]


def test_severities_are_as_designed() -> None:
    soft = {found.id for found in requirements().values() if found.severity is not Severity.GATE}
    assert soft == {
        "host.baseline_stamp", "gpu_driver.nouveau_blacklisted", "gpus.power_limit",
        "gpus.slowdown", "gpus.pcie_width", "nvlink.fabric_health", "nvlink.daemons_forbidden", "fleet.kernel",
        *(f"gpu_driver.{name}" for name in (
            "kernels", "next_kernel", "dkms", "protected", "origin", "upgrade", "complaints", "amdgpu_packaged",
            "amdgpu_dkms", "amdgpu_release", "amdgpu_secure", "kfd_access", "kernel_arguments", "pci_options",
            "numa_balancing",
        )),
        *(f"gpus.{name}" for name in (
            "memory_idle", "firmware", "subsystem_ids", "aggregate_errors", "remapped_rows", "repairs", "unrepairable",
            "other_xids", "confidential_compute", "temperature", "sync_boost", "pcie_generation", "pcie_replays",
            "aer", "holders", "inventory", "c2c", "addressing_mode", "memory_nodes", "position", "compute_units",
            "ras_other", "mec_firmware",
        )),
        *(f"nvlink.{name}" for name in (
            "fabric_bandwidth", "fabric_routes", "fabric_configuration", "link_rate", "link_errors", "p2p",
            "fabric_manager_restarts", "fabric_manager_log", "fabric_mode", "imex_quorum", "imex_one_version",
            "imex_channel_access",
        )),
        *(f"fleet.{name}" for name in (
            "firmware", "addressing_mode", "chassis", "power_limit", "imex_config", "fabric_manager",
            "driver_parameters",
        )),
    }  # fmt: skip


def test_the_reason_of_a_fact_that_is_missing_on_some_gpus_names_them() -> None:
    facts = gpu(healthy("gb300"), 3, memory_bytes=Missing("fb_memory_usage/total: [Unknown Error]"))
    found = next(one for one in evaluate_node(facts, baseline("gb300")) if one.requirement.id == "gpus.memory")
    assert found.reason == "GPU 3 (00000019:06:00.0): fb_memory_usage/total: [Unknown Error]"
