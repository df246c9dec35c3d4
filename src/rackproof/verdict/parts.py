"""The parts of a node that are judged one by one: as many as the baseline says, whatever the node lists."""

from __future__ import annotations

from dataclasses import replace

from rackproof.baseline import Baseline
from rackproof.facts import Fact, Gpu, Missing, NodeFacts
from rackproof.facts_amd import AmdFacts, AmdGpu

Part = tuple[str, Fact[NodeFacts]]  # its name, and the node's facts with this part alone


def parts_of(kind: str, facts: NodeFacts, baseline: Baseline) -> list[Part]:
    """The parts of one kind ("gpu"): those the node should have, and any beyond them that it lists."""
    if kind != "gpu":
        raise ValueError(f"requirements know no parts of kind {kind!r}")
    try:
        listed = _amd_gpus(facts) if baseline.vendor == "amd" else _nvidia_gpus(facts)
    except Exception as error:  # a list that is none, by a defect somewhere, must not end the run
        listed = Missing(f"the list of GPUs could not be understood ({type(error).__name__})")
    wanted = range(baseline.gpus.count)
    if isinstance(listed, Missing):
        return [(f"GPU {index}", listed) for index in wanted]
    missing = Missing(f"{len(listed)} of {len(wanted)} GPUs were listed, and this is none of them")
    return [listed.get(index, (f"GPU {index}", missing)) for index in sorted({*wanted, *listed})]


def _nvidia_gpus(facts: NodeFacts) -> Fact[dict[int, Part]]:
    smi = facts.smi
    if isinstance(smi, Missing):
        return smi
    return {gpu.index: (part_name(gpu), replace(facts, smi=replace(smi, gpus=(gpu,)))) for gpu in smi.gpus}


def _amd_gpus(facts: NodeFacts) -> Fact[dict[int, Part]]:
    amd = facts.amd
    if isinstance(amd, Missing):
        return amd
    if isinstance(amd.gpus, Missing):
        return amd.gpus
    return {gpu.index: (part_name(gpu), _only(facts, amd, gpu)) for gpu in amd.gpus}


def _only(facts: NodeFacts, amd: AmdFacts, gpu: AmdGpu) -> NodeFacts:
    return replace(facts, amd=replace(amd, gpus=(gpu,)))


def part_name(gpu: Gpu | AmdGpu) -> str:
    """How reports name a GPU: "GPU 1 (00000009:06:00.0)"."""
    return f"GPU {gpu.index}" if isinstance(gpu.pci_address, Missing) else f"GPU {gpu.index} ({gpu.pci_address})"
