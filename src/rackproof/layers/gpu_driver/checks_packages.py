"""Checks of layer gpu_driver: what an upgrade or the next boot would make of the driver."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, either, of
from rackproof.layers.words import driver_version
from rackproof.layers.words_driver import (
    by_origin,
    dkms,
    driver_packages,
    kernel_facts,
    kernel_modules,
    protection,
    unbuilt,
    upgrades,
)
from rackproof.layers.words_log import log_lines
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpu_driver.kernels")
def kernels(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(kernel_modules(facts))
    readings = {kernel: Reading(bool(module), module or "no NVIDIA module") for kernel, module in found.items()}
    return all_of("an NVIDIA module for each installed kernel", dict(readings))


@check("gpu_driver.next_kernel")
def next_kernel(facts: NodeFacts, baseline: Baseline) -> Judgement:
    kernel, modules = known(of(kernel_facts(facts), lambda found: found.next)), known(kernel_modules(facts))
    loaded, found = known(driver_version(facts)), modules.get(kernel) or "no NVIDIA module"
    return judge(found == loaded, f"{kernel}: {found}", f"driver {loaded} for the kernel that starts next")


@check("gpu_driver.dkms")
def dkms_state(facts: NodeFacts, baseline: Baseline) -> Judgement:
    running, entries = known(facts.host.kernel), known(dkms(facts, "nvidia"))
    waiting = unbuilt(entries, running)
    observed = "; ".join(waiting) or ("installed" if entries else "DKMS builds no NVIDIA module here")
    return judge(not waiting, observed, f"installed for {running}, where DKMS builds the module")


@check("gpu_driver.protected")
def protected(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = {"driver packages": either(*protection(facts))}
    return all_of("a pinning package, a hold, a versionlock, an exclusion, or no automatic upgrades", readings)


@check("gpu_driver.origin")
def one_origin(facts: NodeFacts, baseline: Baseline) -> Judgement:
    groups = by_origin(known(driver_packages(facts)))
    observed = "; ".join(f"{origin}: {', '.join(names)}" for origin, names in groups.items())
    return judge(len(groups) == 1, observed, "all driver packages from one origin")


@check("gpu_driver.upgrade")
def upgrade(facts: NodeFacts, baseline: Baseline) -> Judgement:
    waiting = known(upgrades(facts))
    observed = "; ".join(f"{name} from {change}" for name, change in sorted(waiting.items())) or "none"
    return judge(not waiting, observed, "no driver package that the next upgrade would change")


@check("gpu_driver.complaints")
def complaints(facts: NodeFacts, baseline: Baseline) -> Judgement:
    lines = known(of(facts.system, lambda system: of(system.kernel_events, lambda events: events.nvidia)))
    readings = {line: Reading(False, "in the kernel log") for line in lines}
    return all_of("no complaint of the NVIDIA driver in the kernel log", {"kernel log": log_lines(facts), **readings})
