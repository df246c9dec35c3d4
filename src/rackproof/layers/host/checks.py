"""Checks of layer host."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import Fact, NodeFacts, known
from rackproof.facts_selfbuild import traces
from rackproof.layers.readings import Reading, all_of, either, of, seen
from rackproof.layers.words import (
    absence,
    as_rendered,
    as_trace,
    is_off,
    on_off,
    service,
    service_words,
    sha256_of,
    some,
)
from rackproof.layers.words_system import parameters, system
from rackproof.managed import UPGRADES, managed_files
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("host.evidence")
def evidence(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sha256 = known(of(facts.evidence, sha256_of))
    return judge(True, f"complete evidence, sha256 {sha256}", "complete evidence")


@check("host.selfbuild")
def selfbuild(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = {place: of(trace, as_trace) for place, trace in traces(facts).items()}
    readings = {place: seen(words, lambda said: not said[0], lambda said: said[0] or "none") for place, words in found.items()}
    return all_of("nothing that says that this host was self-built", readings)


@check("host.simulation")
def simulation(facts: NodeFacts, baseline: Baseline) -> Judgement:
    mark = known(facts.host.simulated)
    observed = "real hardware" if mark is None else f"a simulated host: {mark}"
    if baseline.simulated:
        return judge(bool(mark), observed, "a simulated host, because this site declares a simulation")
    return judge(mark is None, observed, "real hardware")


@check("host.os")
def os(facts: NodeFacts, baseline: Baseline) -> Judgement:
    name, release = known(facts.host.os_id), known(facts.host.os_version)
    spellings = {f"{name} {release}", f"{name} {release.split('.')[0]}"}
    supported = baseline.host.operating_systems
    return judge(bool(spellings & set(supported)), f"{name} {release}", f"one of: {', '.join(supported)}")


@check("host.architecture")
def architecture(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.host.architecture
    return all_of(wanted, {"uname -m": seen(facts.host.architecture, lambda found: found == wanted)})


@check("host.automatic_upgrades")
def automatic_upgrades(facts: NodeFacts, baseline: Baseline) -> Judgement:
    spared = as_rendered(facts, [file for file in managed_files(baseline) if file.path == UPGRADES])
    timers = {"unattended-upgrades": "apt-daily-upgrade.timer", "dnf-automatic": "dnf-automatic.timer"}
    tools = {
        tool: either(
            absence(facts, tool),
            seen(service(facts, timer), is_off, lambda unit: f"its timer {service_words(unit)}"),
            *((_left_to_people(facts), *spared.values()) if tool == "unattended-upgrades" else ()),
        )
        for tool, timer in timers.items()
    }
    return all_of("not installed, its timer disabled, switched off, or driver, kernel and engine excluded from it", tools)


def _left_to_people(facts: NodeFacts) -> Fact[Reading]:
    """Whether apt's own settings keep its daily job from upgrading: APT::Periodic::Unattended-Upgrade "0"."""
    apt = of(facts.system, lambda system: system.apt)
    runs = of(apt, lambda found: found.upgrades_itself)
    return seen(runs, lambda found: not found, lambda found: f"APT::Periodic switches it {'on' if found else 'off'}")


@check("host.baseline_stamp")
def baseline_stamp(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.hash
    stamp = of(facts.host.stamp, lambda found: (found or {}).get("baseline", "none"))
    return all_of(f"baseline {wanted}", {"stamped baseline": seen(stamp, lambda found: found == wanted)})


# --- kernel and boot ---


@check("host.reboot_pending")
def reboot_pending(facts: NodeFacts, baseline: Baseline) -> Judgement:
    flag = seen(facts.host.reboot_required, lambda found: not found, lambda found: "set" if found else "not set")
    return all_of("no reboot is asked for", {"/run/reboot-required": flag})


@check("host.kernel_next_boot")
def kernel_next_boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    running, following = facts.host.kernel, system(facts, "kernels", "next")
    pair = of(running, lambda now: of(following, lambda then: (now, then)))
    words = seen(pair, lambda found: found[0] == found[1] != "", lambda found: f"runs {found[0]}, next is {found[1]}")
    return all_of("the kernel that runs is the one that starts next", {"kernel": words})


@check("host.cmdline_required")
def cmdline_required(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.cmdline_required
    given = of(some(facts.host.cmdline, "kernel parameter was read"), lambda found: parameters(found, wanted))
    lacking = of(given, lambda found: tuple(one for one in wanted if one not in found))
    words = seen(lacking, lambda found: not found, lambda found: f"without {' '.join(found)}" if found else "all given")
    return all_of(" ".join(wanted), {"/proc/cmdline": words})


@check("host.cmdline_banned")
def cmdline_banned(facts: NodeFacts, baseline: Baseline) -> Judgement:
    banned = baseline.system.cmdline_banned
    given = of(some(facts.host.cmdline, "kernel parameter was read"), lambda found: parameters(found, banned))
    words = seen(given, lambda found: not found, lambda found: " ".join(found) or "none")
    return all_of(f"none of: {' '.join(banned)}", {"/proc/cmdline": words})


@check("host.iommu")
def iommu(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.iommu_passthrough
    given = of(some(facts.host.cmdline, "kernel parameter was read"), lambda found: parameters(found, wanted))
    words = seen(given, bool, lambda found: " ".join(found) or "no parameter says passthrough")
    return all_of(f"one of: {' '.join(wanted)}", {"/proc/cmdline": words})


@check("host.secure_boot")
def secure_boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    module = "amdgpu" if baseline.vendor == "amd" else "nvidia"
    state = seen(system(facts, "kernel", "secure_boot"), lambda on: not on, lambda on: f"Secure Boot {on_off(on)}")
    loads = seen(
        facts.driver.loaded_modules, lambda found: module in found, lambda found: f"{module} loaded: {module in found}"
    )
    return all_of(f"Secure Boot off, or {module} loaded in spite of it", {"firmware": either(state, loads)})


@check("host.lockdown")
def lockdown(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none", {"kernel lockdown": seen(system(facts, "kernel", "lockdown"), lambda mode: mode == "none")})


@check("host.page_size")
def page_size(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.page_size_bytes
    return all_of(f"{wanted} bytes", {"page size": seen(facts.host.page_size_bytes, lambda found: found == wanted)})
