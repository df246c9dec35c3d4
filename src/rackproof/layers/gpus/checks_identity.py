"""Checks of layer gpus: whether the boards of a node are one build, and which they are."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, same, seen
from rackproof.layers.words import asked, on_each_gpu, on_off
from rackproof.layers.words_gpu import build, by_gpu, detail, firmware, identities, memory_nodes, own, position
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpus.identical")
def identical(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return same("one product and one size of memory", by_gpu(facts, baseline, lambda gpu: build(gpu, baseline)))


@check("gpus.firmware")
def one_firmware(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return same("one VBIOS and one firmware", by_gpu(facts, baseline, firmware))


@check("gpus.subsystem_ids")
def subsystem_ids(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.gpus.pci_subsystem_ids)
    readings = on_each_gpu(facts, detail("subsystem_id"), lambda found: found in wanted)
    return all_of(f"one of: {', '.join(wanted)}", readings)


@check("gpus.inventory")
def inventory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    listed = {name: known(found) for name, found in by_gpu(facts, baseline, identities).items()}
    values = [value for pair in listed.values() for value in pair]
    twice = sorted({value for value in values if values.count(value) > 1})
    observed = f"listed twice: {', '.join(twice)}" if twice else "; ".join(f"{name}: {', '.join(pair)}" for name, pair in listed.items())
    return judge(not twice, observed, "a UUID and a serial number of its own for each GPU")


@check("gpus.c2c")
def c2c(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("NVLink-C2C on, each GPU", on_each_gpu(facts, detail("c2c"), bool, on_off))


@check("gpus.addressing_mode")
def addressing_mode(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return same("one addressing mode", by_gpu(facts, baseline, lambda gpu: detail("addressing_mode")(own(gpu))))


@check("gpus.memory_nodes")
def numa_exposure(facts: NodeFacts, baseline: Baseline) -> Judgement:
    nodes = seen(memory_nodes(facts), lambda found: not found, lambda found: ", ".join(map(str, found)) or "none")
    return all_of("none", {"NUMA nodes of memory alone": nodes})


@check("gpus.position")
def tray_position(facts: NodeFacts, baseline: Baseline) -> Judgement:
    places = by_gpu(facts, baseline, lambda gpu: of(own(gpu).detail, position))
    return same("one chassis, slot and tray", places)
