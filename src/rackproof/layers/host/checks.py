"""Checks of layer host."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import Fact, NodeFacts, known
from rackproof.facts_selfbuild import traces
from rackproof.layers.readings import Reading, all_of, either, of, seen
from rackproof.layers.words import absence, as_rendered, as_trace, is_off, service, service_words, sha256_of
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
