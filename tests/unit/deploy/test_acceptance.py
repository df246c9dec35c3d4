"""What a deploy is told of the verdict: the node's own, and its unit's where the whole unit took part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackproof import acceptance as module
from rackproof.acceptance import acceptance
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section
from rackproof.evidence.sections import Status as Read
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.site import Site
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Outcome, Requirement, Severity, Stage, Status, Verdict, verdict_of

GATE = Requirement("nvlink.imex_domain", "nvlink", "t", "w", Stage.MULTI_NODE, Severity.GATE, ("s",), "r")
ECC = replace(GATE, id="gpus.ecc", layer="gpus")
FLEET = replace(GATE, id="fleet.driver", layer="fleet", scope="fleet")
GOOD = Outcome(ECC, Status.PASS, "on", "on")
UNIT = Unit("u1", ("a", "b"))


def read(late: bool) -> Evidence:
    """A reading, in which one command was cut off by its deadline."""
    sections = {"docker": Section("docker", Read.DEADLINE, None, 10.0, b"", b"", deadline_s=10)} if late else {}
    return Evidence("any", sections)


def judged(
    monkeypatch: pytest.MonkeyPatch,
    *outcomes: Outcome,
    fleet: tuple[Outcome, ...] = (),
    units: tuple[Unit, ...] = (UNIT,),
    late: str = "",
) -> module.Acceptance:
    """Node "a" with these outcomes, "b" healthy."""

    def node(name: str, found: tuple[Outcome, ...]) -> NodeResult:
        return NodeResult(name, "gb300", verdict_of(found), found, "", True, None)

    result = Result(Verdict.ACCEPT, (node("a", outcomes), node("b", (GOOD,))), fleet)
    monkeypatch.setattr(module, "judge_all", lambda plan, evidence: result)
    return acceptance(Plan(tuple(PlannedNode(name, Site()) for name in "ab"), units), {name: read(name == late) for name in "ab"})["a"]


def test_accepted_is_accept_with_nothing_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(
        monkeypatch, GOOD, fleet=(Outcome(FLEET, Status.PASS, unit="u1", nodes=("a", "b")),)
    ) == module.Acceptance("accept")


def test_what_fails_is_named_with_what_is_there_and_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, GOOD, Outcome(ECC, Status.FAIL, "off", "on"))
    assert (found.verdict, found.lacks, found.settling) == ("reject", ("gpus.ecc: off, wanted on",), False)


def test_unknown_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, GOOD, Outcome(ECC, Status.UNKNOWN, reason="nvidia-smi hangs"))
    assert (found.verdict, found.lacks) == ("undetermined", ("gpus.ecc: unknown, nvidia-smi hangs",))


def test_a_unit_that_does_not_hold_together_fails_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = Outcome(FLEET, Status.FAIL, "580.1 and 580.2", "one", unit="u1", nodes=("a", "b"))
    found = judged(monkeypatch, GOOD, fleet=(apart,))
    assert found.verdict == "reject" and found.lacks == ("fleet.driver: 580.1 and 580.2, wanted one",)
    assert judged(monkeypatch, GOOD, fleet=(apart,), units=()).verdict == "accept", (
        "a unit that is not wholly in the run"
    )


def test_the_fabric_is_given_time_and_what_is_wrong_elsewhere_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    down = Outcome(GATE, Status.FAIL, "DEGRADED", "UP")
    blocked = Outcome(replace(ECC, id="nvlink.x"), Status.BLOCKED, blocked_by="nvlink.imex_domain")
    assert judged(monkeypatch, GOOD, down).settling
    found = judged(monkeypatch, GOOD, down, blocked)
    assert found.settling and found.lacks == ("nvlink.imex_domain: DEGRADED, wanted UP",), "what is blocked is no news"
    assert not judged(monkeypatch, GOOD, down, Outcome(ECC, Status.FAIL, "off", "on")).settling


@pytest.mark.parametrize(("late", "given"), [("a", True), ("b", True), ("", False)])
def test_what_was_not_read_in_time_is_given_time(monkeypatch: pytest.MonkeyPatch, late: str, given: bool) -> None:
    """A node that has just unpacked an image may be too busy to answer, and so may its neighbour."""
    unread = Outcome(ECC, Status.UNKNOWN, reason="docker did not end within 10 s")
    found = judged(monkeypatch, GOOD, unread, late=late)
    assert (found.verdict, found.settling) == ("undetermined", given)
    assert not judged(monkeypatch, unread, Outcome(replace(ECC, id="gpus.mig"), Status.FAIL, "on", "off"), late=late).settling


def test_what_does_not_decide_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = Outcome(replace(ECC, severity=Severity.WARN), Status.FAIL, "x", "y")
    assert judged(monkeypatch, GOOD, warning) == module.Acceptance("accept")
