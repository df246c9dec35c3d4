"""An AMD node from facts to a verdict, with its product named and with its product detected, and nothing of a site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rackproof import judging, site
from rackproof.evidence.evidence import Evidence
from rackproof.facts import NodeFacts
from rackproof.facts_amd import AmdGpu, join_by_address
from rackproof.inventory import planned
from rackproof.plan import Plan
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Verdict

from .fixtures import GONE, node
from .fixtures_amd import ADDRESSES, amd, amd_driver, amd_gpu, bare, gpu, ras, without_tools

NODE = node("mi355x", "mi355x-01")


@pytest.fixture(params=["mi355x", None], ids=["named", "detected"])
def judge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[NodeFacts], Result]:
    def judged(facts: NodeFacts) -> Result:
        monkeypatch.setattr(judging, "read_facts", lambda _: facts)
        plan = Plan((planned(facts.node, site.shipped(), request.param, None),))
        return judging.judge_all(plan, {facts.node: Evidence(facts.node)})

    return judged


@pytest.mark.parametrize("facts", [NODE, without_tools(NODE)], ids=["with tools", "without"])
def test_a_healthy_node_is_accepted(judge: Callable[[NodeFacts], Result], facts: NodeFacts) -> None:
    result = judge(facts)
    assert (result.verdict, result.nodes[0].hardware) == (Verdict.ACCEPT, "mi355x")


@pytest.mark.parametrize(
    "facts",
    [
        amd(NODE, gpus=NODE.amd.gpus[:7]),  # type: ignore[union-attr,index]
        amd_gpu(NODE, 3, ecc_uncorrectable_volatile=1),
        amd_gpu(NODE, 3, memory_bytes=1),
        amd_gpu(NODE, 3, compute_partition="CPX"),
        amd_driver(NODE, disk_srcversion="FFFF"),
        amd_driver(NODE, kfd_device=False),
        amd_driver(NODE, xgmi=frozenset()),
        ras(NODE, "uncorrectable"),
        ras(without_tools(NODE), "bad-pages"),
    ],
)
def test_a_fault_rejects(judge: Callable[[NodeFacts], Result], facts: NodeFacts) -> None:
    assert judge(facts).verdict is Verdict.REJECT


@pytest.mark.parametrize(
    "facts",
    [
        amd(NODE, ras=GONE),
        amd_driver(NODE, xgmi=GONE),
        amd_driver(NODE, kfd_nodes=GONE),
        amd_gpu(NODE, 7, memory_bytes=GONE),
        amd_gpu(NODE, 7, compute_partition=GONE),
        amd(without_tools(NODE), ras=GONE),
        replace(NODE, kernel_log=GONE),
        replace(NODE, amd=GONE, pci=GONE),
        replace(NODE, pci=GONE),
        replace(NODE, evidence=GONE),
    ],
)
def test_what_could_not_be_read_is_undetermined(judge: Callable[[NodeFacts], Result], facts: NodeFacts) -> None:
    assert judge(facts).verdict is Verdict.UNDETERMINED


def test_a_gpu_that_only_the_driver_sees_keeps_a_place_of_its_own() -> None:
    """amd-smi counts without it, and its own number is one that amd-smi gave to another."""
    tool = tuple(replace(gpu(index + (index > 2)), index=index) for index in range(7))  # all but the fourth
    joined = join_by_address(tool, tuple(bare(gpu(index)) for index in range(8)))
    assert isinstance(joined, tuple)
    assert sorted(one.index for one in joined) == list(range(8))
    assert {one.pci_address for one in joined} == set(ADDRESSES)
    assert [one.index for one in joined if isinstance(one, AmdGpu) and one.pci_address == ADDRESSES[3]] == [7]
