"""One answer for each GPU that a node should have, whatever it lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackproof.facts import Missing, NodeFacts
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import applies, evaluate_node, judge_node
from rackproof.verdict.model import Outcome, Requirement, Status, Verdict

from .fixtures import GONE, baseline, gpu, node, smi

GB300 = node()
EACH = [found for found in requirements().values() if found.each and applies(found, baseline("gb300"))]


def outcomes(facts: NodeFacts) -> dict[str, Outcome]:
    return {found.requirement.id: found for found in evaluate_node(facts, baseline("gb300"))}


def three_of_four() -> NodeFacts:
    assert not isinstance(GB300.smi, Missing)
    return smi(GB300, gpus=tuple(one for one in GB300.smi.gpus if one.index != 2), attached=3)


@pytest.mark.parametrize("requirement", EACH, ids=lambda found: found.id)
@pytest.mark.parametrize("facts", [GB300, three_of_four(), replace(GB300, smi=GONE)], ids=["four", "three", "none"])
def test_four_gpus_declared_are_four_answers(requirement: Requirement, facts: NodeFacts) -> None:
    found = outcomes(facts)[requirement.id]
    assert len(found.subjects) == 4
    assert [part.subject.split()[1] for part in found.subjects] == ["0", "1", "2", "3"]
    assert all(part.observed if part.status is Status.PASS else part.reason for part in found.subjects)


@pytest.mark.parametrize("requirement", EACH, ids=lambda found: found.id)
def test_a_gpu_that_is_not_listed_leaves_its_answers_unknown(requirement: Requirement) -> None:
    found = outcomes(three_of_four())[requirement.id]
    assert [part.status for part in found.subjects] == [Status.PASS, Status.PASS, Status.UNKNOWN, Status.PASS]
    assert found.subjects[2].subject == "GPU 2"
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "gpus.count")


def test_the_count_fails_and_rejects() -> None:
    assert outcomes(three_of_four())["gpus.count"].status is Status.FAIL
    assert judge_node(three_of_four(), baseline("gb300")).verdict is Verdict.REJECT


def test_one_bad_gpu_is_named_and_the_others_keep_their_answers() -> None:
    found = outcomes(gpu(GB300, 1, ecc_current=False))["gpus.ecc_mode"]
    assert found.status is Status.FAIL
    assert [part.status for part in found.subjects] == [Status.PASS, Status.FAIL, Status.PASS, Status.PASS]


def test_a_gpu_too_many_has_an_answer_too() -> None:
    assert not isinstance(GB300.smi, Missing)
    fifth = replace(GB300.smi.gpus[0], index=4, pci_address="00000020:06:00.0", ecc_current=False)
    found = outcomes(smi(GB300, gpus=(*GB300.smi.gpus, fifth)))["gpus.ecc_mode"]
    assert [part.status for part in found.subjects][4] is Status.FAIL
