"""Checks of layer fleet: driver, GPUs and fabric of all nodes of one unit in lockstep."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import Missing, UnitFacts
from rackproof.layers.readings import all_of, of, same, seen
from rackproof.layers.words import branch_package, of_each_node, watts
from rackproof.layers.words_driver import differences
from rackproof.layers.words_gpu import any_gpus, build, detail, distinct_of, firmware, own
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("fleet.gpus")
def one_product(unit: UnitFacts, baseline: Baseline) -> Judgement:
    builds = of_each_node(unit, lambda facts: distinct_of(facts, baseline, lambda gpu: build(gpu, baseline)))
    return same("one product and one size of memory on every node", builds)


@check("fleet.gpu_count")
def gpu_count(unit: UnitFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.count
    counts = of_each_node(unit, lambda facts: len(any_gpus(facts, baseline)))
    readings = {name: seen(count, lambda found: found == wanted, lambda found: f"{found} GPUs") for name, count in counts.items()}
    return all_of(f"{wanted} GPUs on each of {baseline.layout.nodes} nodes", readings)


@check("fleet.cuda")
def cuda(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one CUDA version", of_each_node(unit, lambda facts: of(facts.smi, lambda smi: smi.cuda_version)))


@check("fleet.firmware")
def one_firmware(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one VBIOS and one firmware on every node", of_each_node(unit, lambda facts: distinct_of(facts, baseline, firmware)))


@check("fleet.addressing_mode")
def addressing_mode(unit: UnitFacts, baseline: Baseline) -> Judgement:
    modes = of_each_node(
        unit, lambda facts: distinct_of(facts, baseline, lambda gpu: detail("addressing_mode")(own(gpu)))
    )
    return same("one addressing mode on every node", modes)


@check("fleet.chassis")
def chassis(unit: UnitFacts, baseline: Baseline) -> Judgement:
    racks = of_each_node(
        unit, lambda facts: distinct_of(facts, baseline, lambda gpu: detail("chassis_serial")(own(gpu)))
    )
    return same("one chassis", racks)


@check("fleet.power_limit")
def power_limit(unit: UnitFacts, baseline: Baseline) -> Judgement:
    limits = of_each_node(
        unit, lambda facts: distinct_of(facts, baseline, lambda gpu: of(gpu.power_limit_w, watts))
    )
    return same("one power limit on every node", limits)


@check("fleet.imex_config")
def imex_config(unit: UnitFacts, baseline: Baseline) -> Judgement:
    unwritten = Missing("there is no config.cfg of IMEX")
    configs = of_each_node(unit, lambda facts: of(facts.nvlink.imex_config, lambda found: found or unwritten))
    return same(
        "one configuration of IMEX",
        configs,
        show=lambda found: ", ".join(f"{name}={value}" for name, value in sorted(found.items())),
    )


@check("fleet.fabric_manager")
def fabric_manager(unit: UnitFacts, baseline: Baseline) -> Judgement:
    versions = of_each_node(unit, lambda facts: branch_package(facts, "nvidia-fabricmanager"))
    return same("one version of Fabric Manager", versions, any, lambda found: " and ".join(found) or "not installed")


@check("fleet.driver_parameters")
def driver_parameters(unit: UnitFacts, baseline: Baseline) -> Judgement:
    differing = differences(of_each_node(unit, lambda facts: facts.driver.parameters))
    return same("one value of each module parameter", differing)


@check("fleet.amdgpu")
def amdgpu(unit: UnitFacts, baseline: Baseline) -> Judgement:
    builds = of_each_node(unit, lambda facts: of(facts.amd, lambda amd: of(amd.driver, lambda driver: driver.loaded_srcversion)))
    return same("one build of amdgpu", builds)
