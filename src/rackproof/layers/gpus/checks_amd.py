"""Checks of layer gpus for AMD."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, of, seen
from rackproof.layers.words import asked, some
from rackproof.layers.words_gpu import amd_driver, bad_pages, each_amd, mec
from rackproof.layers.words_log import events, log_lines
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("gpus.amd_listed")
def amd_listed(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = of(facts.amd, lambda amd: amd.gpus)
    return all_of("amdgpu describes GPUs", {"amdgpu": seen(found, bool, lambda gpus: f"{len(gpus)} GPUs")})


@check("gpus.architecture")
def architecture(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.amd).architecture
    nodes = known(some(of(amd_driver(facts), lambda driver: driver.kfd_nodes), "GPU is in KFD's topology"))
    readings = {f"KFD node {node.node}": seen(node.architecture, lambda found: found == wanted) for node in nodes}
    return all_of(f"{wanted}, each", readings)


@check("gpus.compute_units")
def compute_units(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(asked(baseline.amd).compute_units)
    nodes = known(some(of(amd_driver(facts), lambda driver: driver.kfd_nodes), "GPU is in KFD's topology"))
    readings = {f"KFD node {node.node}": seen(node.compute_units, lambda found: found == wanted) for node in nodes}
    return all_of(f"{wanted} compute units, each", readings)


@check("gpus.partition")
def partition(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.amd)
    compute = each_amd(facts, lambda gpu: gpu.compute_partition, lambda found: found == wanted.compute_partition)
    memory = each_amd(
        facts, lambda gpu: gpu.memory_partition, lambda found: found == wanted.memory_partition, what="memory"
    )
    return all_of(f"{wanted.compute_partition} and {wanted.memory_partition}, each GPU", {**compute, **memory})


@check("gpus.bad_pages")
def pages(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = each_amd(
        facts, lambda gpu: bad_pages(facts, gpu), lambda found: found == 0, lambda found: f"{found} reported"
    )
    return all_of("no bad page waits for retirement or cannot be retired, each GPU", readings)


@check("gpus.ras")
def ras(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.amd).fatal_events
    readings: dict[str, Reading] = {text: Reading(False, kind) for kind, text in known(events(facts, wanted))}
    return all_of(f"no line of: {', '.join(wanted)}", {"kernel log": log_lines(facts), **readings})


@check("gpus.ras_other")
def ras_other(facts: NodeFacts, baseline: Baseline) -> Judgement:
    judged = asked(baseline.amd).fatal_events
    readings: dict[str, Reading] = {text: Reading(False, kind) for kind, text in known(events(facts, (), judged))}
    return all_of("no reset, time-out or corrected error of a GPU", {"kernel log": log_lines(facts), **readings})


@check("gpus.mec_firmware")
def mec_firmware(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.amd)
    readings = each_amd(facts, lambda gpu: mec(gpu, wanted.mec_name), lambda found: found >= wanted.mec_min)
    return all_of(f"{wanted.mec_name} {wanted.mec_min} or newer, each GPU", readings)
