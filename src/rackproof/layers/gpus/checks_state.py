"""Checks of layer gpus: wear and errors of memory, links and board, and what the kernel log says of them."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked, gib, on_each_gpu, positive, yes_no
from rackproof.layers.words_gpu import above_median, by_gpu, detail, each_gpu, memory_used, pci_device
from rackproof.layers.words_log import log_lines, severities, sxids, xid_words
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpus.memory_idle")
def memory_idle(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.gpus.idle_memory_max_bytes
    return all_of(f"<= {gib(most)} in use, each GPU", each_gpu(facts, baseline, memory_used, lambda used: 0 <= used <= most, gib))


@check("gpus.memory_idle_tight")
def memory_idle_tight(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = asked(baseline.gpus.idle_memory_tight_bytes)
    return all_of(f"<= {gib(most)} in use, each GPU", each_gpu(facts, baseline, memory_used, lambda used: 0 <= used <= most, gib))


@check("gpus.sram_threshold")
def sram_threshold(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, detail("sram_threshold_exceeded"), lambda found: not found, yes_no)
    return all_of("SRAM error threshold exceeded: no, each GPU", readings)


@check("gpus.aggregate_errors")
def aggregate_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.gpus.aggregate_uncorrectable_max
    readings = on_each_gpu(
        facts, lambda gpu: gpu.ecc_uncorrectable_aggregate, lambda found: 0 <= found <= most, lambda found: f"{found} errors"
    )
    return all_of(f"<= {most} uncorrectable errors over the life of the board, each GPU", readings)


@check("gpus.remapped_rows")
def remapped_rows(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(
        facts, lambda gpu: gpu.remapped_uncorrectable, lambda found: found == 0, lambda found: f"{found} rows"
    )
    return all_of("0 rows remapped for uncorrectable errors, each GPU", readings)


@check("gpus.repairs")
def repairs(facts: NodeFacts, baseline: Baseline) -> Judgement:
    channel = on_each_gpu(facts, detail("channel_repair_pending"), lambda found: not found, yes_no, "channel repair pending")
    tpc = on_each_gpu(facts, detail("tpc_repair_pending"), lambda found: not found, yes_no, "TPC repair pending")
    return all_of("no repair waits for a reset, each GPU", {**channel, **tpc})


@check("gpus.unrepairable")
def unrepairable(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, detail("unrepairable_memory"), lambda found: not found, yes_no)
    return all_of("unrepairable memory: no, each GPU", readings)


@check("gpus.nvlink_xid")
def nvlink_xid(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.nvlink_xids
    found = {"kernel log": log_lines(facts), **severities(facts, wanted)}
    return all_of(f"none of Xid {', '.join(map(str, wanted))} that calls itself Fatal", found)


@check("gpus.other_xids")
def other_xids(facts: NodeFacts, baseline: Baseline) -> Judgement:
    log, wanted = known(facts.kernel_log), baseline.gpus
    judged = {*wanted.fatal_xids, *wanted.application_xids}
    others = [xid for xid in log.xids if xid.code not in judged]
    observed = xid_words(others) or f"none in {known(positive(log.lines_read, 'kernel log to read'))} lines"
    return judge(not others, observed, "no Xid besides those of programs and those judged as faults")


@check("gpus.sxid")
def sxid(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("no fatal SXid", {**sxids(facts), "kernel log": log_lines(facts)})


@check("gpus.confidential_compute")
def confidential_compute(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(
        facts, detail("protected_bytes"), lambda found: found == 0, lambda found: f"{gib(found)} protected"
    )
    return all_of("no protected memory, which is confidential compute off, each GPU", readings)


@check("gpus.temperature")
def temperature_outlier(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.gpus.temperature_above_median_c
    readings = {
        name: seen(above, lambda found: found <= most, lambda found: f"{found:+g} C")
        for name, above in above_median(facts, baseline).items()
    }
    return all_of(f"no GPU more than {most} C above the median of the node", readings)


@check("gpus.sync_boost")
def sync_boost(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("sync boost not active, each GPU", on_each_gpu(facts, detail("sync_boost"), lambda found: not found, yes_no))


@check("gpus.pcie_generation")
def pcie_generation(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(
        facts,
        lambda gpu: of(gpu.pcie_gen, lambda now: of(detail("pcie_gen_max")(gpu), lambda most: (now, most))),
        lambda found: found[0] == found[1] > 0,
        lambda found: f"generation {found[0]} of {found[1]}",
    )
    return all_of("the highest generation that GPU and slot have, each GPU", readings)


@check("gpus.pcie_replays")
def pcie_replays(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.gpus.pcie_replays_max
    readings = on_each_gpu(facts, detail("pcie_replays"), lambda found: 0 <= found <= most, lambda found: f"{found} replays")
    return all_of(f"<= {most} replays since the driver was loaded, each GPU", readings)


@check("gpus.aer")
def aer(facts: NodeFacts, baseline: Baseline) -> Judgement:
    counts = by_gpu(facts, baseline, lambda gpu: of(pci_device(facts, gpu), lambda device: device.aer_fatal))
    readings = {name: seen(count, lambda found: found == 0, lambda found: f"{found} errors") for name, count in counts.items()}
    return all_of("0 fatal errors by AER since boot, each GPU", readings)


@check("gpus.holders")
def holders(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = seen(facts.driver.holders, lambda names: not names, lambda names: ", ".join(names) or "nobody")
    return all_of("no program besides NVIDIA's own daemons", {"GPU devices are open in": found})
