"""Evaluation: crashes, missing facts and wrong answers are unknown, blocks lead to their root, applies is the baseline's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from core_builders import SHA, baseline, evidence

from rackproof.baseline import Baseline
from rackproof.errors import InputError, MissingFact
from rackproof.evidence.read import read_facts
from rackproof.facts import Missing, NodeFacts, UnitFacts
from rackproof.verdict import evaluate
from rackproof.verdict.evaluate import applies, combine, evaluate_node, evaluate_unit, judge_node
from rackproof.verdict.model import Judgement, Outcome, Requirement, Severity, Stage, Status, Verdict, judge

FACTS = read_facts(evidence())
GB300 = baseline("gb300")
Check = Callable[[Any, Baseline], Any]


def requirement(name: str, **changes: Any) -> Requirement:
    base = Requirement(name, name.split(".")[0], "t", "w", Stage.SERVING, Severity.GATE, ("s",), "r")
    return replace(base, **changes)


def passes(facts: object, baseline: Baseline) -> Judgement:
    return judge(True, "there", "there")


def fails(facts: object, baseline: Baseline) -> Judgement:
    return judge(False, "this", "that")


def misses(facts: object, baseline: Baseline) -> Judgement:
    raise MissingFact("it printed N/A")


Install = Callable[[list[tuple[Requirement, Check]]], None]


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a catalogue of the test's own in place of the shipped one."""

    def install(entries: list[tuple[Requirement, Check]]) -> None:
        monkeypatch.setattr(evaluate, "requirements", lambda: {entry.id: entry for entry, _ in entries})
        monkeypatch.setattr(evaluate, "check_of", {entry.id: check for entry, check in entries}.__getitem__)

    return install


def judged(facts: NodeFacts = FACTS, baseline: Baseline = GB300) -> Mapping[str, Outcome]:
    return {outcome.requirement.id: outcome for outcome in evaluate_node(facts, baseline)}


def test_pass_and_fail_carry_words(catalogue: Install) -> None:
    catalogue([(requirement("a.good"), passes), (requirement("a.bad"), fails)])
    good, bad = judged().values()
    assert (good.status, good.observed, good.expected, good.reason) == (Status.PASS, "there", "there", "")
    assert (bad.status, bad.observed, bad.expected, bad.blocked_by) == (Status.FAIL, "this", "that", "")


def raising(error: Exception) -> Check:
    def check(facts: object, baseline: Baseline) -> Judgement:
        raise error

    return check


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), KeyError("k"), ZeroDivisionError(), AssertionError("no"), InputError("x", "y"), RecursionError("deep"),
     StopIteration(), OSError("io"), MemoryError(), NotImplementedError(), UnicodeDecodeError("utf-8", b"x", 0, 1, "r")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_check_that_crashes_is_unknown(catalogue: Install, error: Exception) -> None:
    catalogue([(requirement("a.one"), passes), (requirement("a.two"), raising(error)), (requirement("a.three"), passes)])
    result = judge_node(FACTS, GB300)
    outcome = result.outcomes[1]
    assert outcome.status is Status.UNKNOWN
    assert outcome.reason == f"the check itself failed: {type(error).__name__}: {error}"
    assert [o.status for o in result.outcomes] == [Status.PASS, Status.UNKNOWN, Status.PASS]
    assert result.verdict is Verdict.UNDETERMINED


@pytest.mark.parametrize("answer", [None, True, False, "pass", 0, Status.PASS, (True, "a", "b"), Missing("x")], ids=repr)
def test_a_check_that_returns_no_judgement_is_unknown(catalogue: Install, answer: object) -> None:
    catalogue([(requirement("a.one"), lambda facts, baseline: answer)])
    outcome = judged()["a.one"]
    assert outcome.status is Status.UNKNOWN
    assert outcome.reason == f"the check itself failed: TypeError: the check returned {type(answer).__name__}"
    assert judge_node(FACTS, GB300).verdict is Verdict.UNDETERMINED


def test_a_missing_fact_is_unknown_with_its_reason(catalogue: Install) -> None:
    catalogue([(requirement("a.one"), misses)])
    assert (judged()["a.one"].status, judged()["a.one"].reason) == (Status.UNKNOWN, "it printed N/A")


def test_a_block_leads_to_its_root(catalogue: Install) -> None:
    catalogue(
        [
            (requirement("a.root"), fails),
            (requirement("a.middle", needs=("a.root",)), misses),
            (requirement("a.leaf", needs=("a.middle",)), misses),
            (requirement("a.crash", needs=("a.leaf",)), raising(ValueError("x"))),
            (requirement("a.seen", needs=("a.middle",)), passes),
            (requirement("a.wrong", needs=("a.middle",)), fails),
        ]
    )
    found = judged()
    for name in ("a.middle", "a.leaf", "a.crash"):
        assert (found[name].status, found[name].blocked_by) == (Status.BLOCKED, "a.root")
    assert found["a.leaf"].reason == "it printed N/A"
    assert (found["a.seen"].status, found["a.wrong"].status) == (Status.PASS, Status.FAIL)


@pytest.mark.parametrize(
    ("before", "status", "blocked_by"),
    [(passes, Status.UNKNOWN, ""), (misses, Status.BLOCKED, "a.need"), (fails, Status.BLOCKED, "a.need")],
)
def test_what_blocks(catalogue: Install, before: Check, status: Status, blocked_by: str) -> None:
    catalogue([(requirement("a.need"), before), (requirement("a.one", needs=("a.need",)), misses)])
    assert (judged()["a.one"].status, judged()["a.one"].blocked_by) == (status, blocked_by)


def test_what_does_not_apply_does_not_block(catalogue: Install) -> None:
    gone = requirement("a.need", applies={"hardware": "b300"}, otherwise="only on b300")
    catalogue([(gone, fails), (requirement("a.one", needs=("a.need", "a.nowhere")), misses)])
    found = judged()
    assert (found["a.need"].status, found["a.need"].reason) == (Status.NOT_APPLICABLE, "only on b300")
    assert (found["a.one"].status, found["a.one"].blocked_by) == (Status.UNKNOWN, "")


def test_everything_rests_on_the_evidence(catalogue: Install) -> None:
    catalogue([(requirement("host.evidence"), misses), (requirement("a.one"), misses), (requirement("a.two"), passes)])
    found = judged()
    assert found["host.evidence"].status is Status.UNKNOWN
    assert (found["a.one"].status, found["a.one"].blocked_by) == (Status.BLOCKED, "host.evidence")
    assert found["a.two"].status is Status.PASS


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (None, True), ({}, True),
        ({"hardware": "gb300"}, True), ({"hardware": "b300"}, False),
        ({"nvlink.kind": "nvl72"}, True), ({"nvlink.across_nodes": True}, True), ({"nvlink.across_nodes": False}, False),
        ({"gpus.pci_device_ids": "set"}, True), ({"driver.version": "set"}, False), ({"packages": "set"}, False),
        ({"packages.repository": "set"}, False), ({"nvlink.domain": "set"}, False),
        ({"nvlink.kind": "nvl72", "hardware": "b300"}, False), ({"nvlink.kind": "nvl72", "hardware": "gb300"}, True),
        ({"layout.nodes": 2}, True), ({"gpus.expect_idle": "set"}, True),
    ],
)  # fmt: skip
def test_applies(wanted: Mapping[str, object] | None, there: bool) -> None:
    assert applies(requirement("a.one", applies=wanted), GB300) is there


def test_applying_hangs_on_the_baseline_alone(catalogue: Install) -> None:
    catalogue([(requirement("a.one", applies={"hardware": "gb300"}, otherwise="not here"), misses)])
    blank = read_facts(evidence(problem="unreachable"))
    for facts in (FACTS, blank):
        assert judged(facts)["a.one"].status is Status.UNKNOWN
        outcome = judged(facts, baseline("b300"))["a.one"]
        assert (outcome.status, outcome.reason) == (Status.NOT_APPLICABLE, "not here")
        assert judge_node(facts, baseline("b300")).verdict is Verdict.UNDETERMINED  # nothing passed


def test_scope(catalogue: Install) -> None:
    catalogue([(requirement("a.one"), passes), (requirement("fleet.one", scope="fleet"), fails)])
    assert list(judged()) == ["a.one"]
    (outcome,) = evaluate_unit(UnitFacts("u01", ("t1", "t2"), {}), GB300)
    assert (outcome.requirement.id, outcome.unit, outcome.nodes) == ("fleet.one", "u01", ("t1", "t2"))


def test_judge_node(catalogue: Install) -> None:
    catalogue([(requirement("a.one"), passes)])
    result = judge_node(replace(FACTS, evidence=SHA), GB300, "u01")
    assert (result.node, result.hardware, result.verdict, result.unit) == ("tray01", "gb300", Verdict.ACCEPT, "u01")
    assert (result.evidence_sha256, result.simulated, result.baseline) == (SHA, False, GB300)
    assert judge_node(replace(FACTS, evidence=Missing("x")), GB300).evidence_sha256 == ""
    lab = replace(FACTS, host=replace(FACTS.host, simulated="lab"))
    assert judge_node(lab, GB300).simulated
    assert judge_node(FACTS, replace(GB300, simulated=True)).simulated


def test_combine_judges_unit_by_unit(catalogue: Install) -> None:
    catalogue([(requirement("a.one"), passes)])
    node = judge_node(FACTS, GB300)
    fleet = requirement("fleet.one", scope="fleet")
    good, gone = Outcome(fleet, Status.PASS, unit="u1"), Outcome(fleet, Status.NOT_APPLICABLE, unit="u2")
    assert combine([node], [good]).verdict is Verdict.ACCEPT
    assert combine([node], [good, gone]).verdict is Verdict.UNDETERMINED  # of u2 nothing was proven
    assert combine([node], [good, replace(gone, unit="u1")]).verdict is Verdict.ACCEPT
    assert combine([node], [good, replace(good, status=Status.FAIL, unit="u2")]).verdict is Verdict.REJECT
    assert combine([], []).verdict is Verdict.UNDETERMINED
    assert combine([replace(node, verdict=Verdict.REJECT)], [good]).verdict is Verdict.REJECT
    assert combine([replace(node, simulated=True), node], []).simulated and not combine([node], []).simulated
