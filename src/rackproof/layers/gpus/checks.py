"""Checks of layer gpus."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, either, of, seen
from rackproof.layers.words import asked, gib, on_each_gpu, on_off, positive, watts, yes_no
from rackproof.layers.words_gpu import (
    default_power,
    each_gpu,
    gpu_counts,
    gpu_ids,
    lanes,
    slowdowns,
    uncorrectable,
    users,
)
from rackproof.layers.words_gpu import product as market_name
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpus.query")
def query(facts: NodeFacts, baseline: Baseline) -> Judgement:
    answer = known(facts.smi)
    observed = "; ".join(answer.warnings) or f"a complete answer about {len(answer.gpus)} GPUs"
    return judge(bool(answer.gpus) and not answer.warnings, observed, "a complete answer without warnings or errors")


@check("gpus.count")
def count(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.count
    readings = {
        name: seen(number, lambda found: found == wanted, lambda found: f"{found} GPUs")
        for name, number in gpu_counts(facts, baseline).items()
    }
    return all_of(f"{wanted} GPUs by every source", readings)


@check("gpus.product")
def product(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.product
    readings = each_gpu(facts, baseline, lambda gpu: market_name(gpu, baseline), lambda found: found == wanted)
    return all_of(f"{wanted}, each", readings)


@check("gpus.pci_ids")
def pci_ids(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.pci_device_ids or ()
    readings = {name: seen(found, lambda one: one in wanted) for name, found in gpu_ids(facts, baseline).items()}
    return all_of(f"one of: {', '.join(wanted)}", readings)


@check("gpus.memory")
def memory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.gpus.memory_bytes_min
    readings = each_gpu(facts, baseline, lambda gpu: gpu.memory_bytes, lambda found: found >= least, gib)
    return all_of(f">= {gib(least)} each", readings)


@check("gpus.ecc_mode")
def ecc_mode(facts: NodeFacts, baseline: Baseline) -> Judgement:
    now = on_each_gpu(facts, lambda gpu: gpu.ecc_current, bool, on_off, "now")
    pending = on_each_gpu(facts, lambda gpu: gpu.ecc_pending, bool, on_off, "after a reset")
    return all_of("ECC on, now and after a reset, each GPU", {**now, **pending})


@check("gpus.ecc_errors")
def ecc_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = each_gpu(
        facts, baseline, lambda gpu: uncorrectable(facts, gpu), lambda found: found == 0, lambda found: f"{found} errors"
    )
    return all_of("0 uncorrectable errors since the driver was loaded, each GPU", readings)


@check("gpus.row_remap")
def row_remap(facts: NodeFacts, baseline: Baseline) -> Judgement:
    pending = on_each_gpu(facts, lambda gpu: gpu.remap_pending, lambda found: not found, yes_no, "remap pending")
    failed = on_each_gpu(facts, lambda gpu: gpu.remap_failure, lambda found: not found, yes_no, "remap failed")
    return all_of("no remap pending and none failed, each GPU", {**pending, **failed})


@check("gpus.recovery_action")
def recovery_action(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, lambda gpu: gpu.recovery_action, lambda found: found == "None")
    return all_of("GPU Recovery Action None, each GPU", readings)


@check("gpus.xid")
def xid(facts: NodeFacts, baseline: Baseline) -> Judgement:
    log = known(facts.kernel_log)
    fatal = [f"Xid {xid.code} on {xid.pci_address}" for xid in log.xids if xid.code in baseline.gpus.fatal_xids]
    observed = ", ".join(fatal) or f"none in {known(positive(log.lines_read, 'kernel log to read'))} lines"
    return judge(not fatal, observed, f"none of Xid {', '.join(map(str, baseline.gpus.fatal_xids))}")


@check("gpus.mig")
def mig(facts: NodeFacts, baseline: Baseline) -> Judgement:
    now = on_each_gpu(facts, lambda gpu: gpu.mig_current, lambda found: not found, on_off, "now")
    pending = on_each_gpu(facts, lambda gpu: gpu.mig_pending, lambda found: not found, on_off, "after a reset")
    return all_of("MIG off, now and after a reset, each GPU", {**now, **pending})


@check("gpus.compute_mode")
def compute_mode(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, lambda gpu: gpu.compute_mode, lambda found: found == "Default")
    return all_of("compute mode Default, each GPU", readings)


@check("gpus.power_limit")
def power_limit(facts: NodeFacts, baseline: Baseline) -> Judgement:
    usual = asked(baseline.gpus.power_limits_w)
    listed = each_gpu(facts, baseline, lambda gpu: gpu.power_limit_w, lambda limit: limit in usual, watts)
    default = each_gpu(
        facts,
        baseline,
        lambda gpu: of(gpu.power_limit_w, lambda limit: of(default_power(gpu), lambda usual: (limit, usual))),
        lambda found: found[1] == found[0] > 0,
        lambda found: f"the board's default is {watts(found[1])}",
    )
    readings = {name: either(listed[name], default[name]) for name in listed}
    return all_of(f"{', '.join(map(str, usual))} W, or the board's default, each GPU", readings)


@check("gpus.slowdown")
def slowdown(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = each_gpu(
        facts, baseline, slowdowns, lambda found: not found, lambda found: ", ".join(found) or "none"
    )
    return all_of("no hardware or thermal slowdown active, each GPU", readings)


@check("gpus.idle")
def idle(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = each_gpu(
        facts, baseline, lambda gpu: users(gpu, baseline), lambda found: not found, lambda found: found or "no process"
    )
    return all_of("no process, each GPU", readings)


@check("gpus.pcie_width")
def pcie_width(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = each_gpu(
        facts,
        baseline,
        lambda gpu: lanes(facts, gpu),
        lambda found: found[0] == found[1] > 0,
        lambda found: f"x{found[0]} of x{found[1]}",
    )
    return all_of("all lanes that GPU and slot have, each GPU", readings)


@check("gpus.persistence")
def persistence(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("persistence on, each GPU", on_each_gpu(facts, lambda gpu: gpu.persistence, bool, on_off))
