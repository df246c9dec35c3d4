"""Known failures of GPU hosts, each from a healthy node's raw evidence with one change to a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Status

from . import cases_fabric, cases_gpus, cases_host, cases_innocent
from .healthy import Context, judged
from .table import SOFTER, UNREADABLE, Case

COLLECTION = Path(__file__).parents[3] / "shared" / "cases"
CASES: tuple[Case, ...] = (*cases_gpus.CASES, *cases_fabric.CASES, *cases_host.CASES, *cases_innocent.CASES)
CONTEXTS: tuple[Context, ...] = tuple(dict.fromkeys(case.context for case in CASES))
# What Hopper's driver prints as N/A, so that these can say nothing of an H200.
UNSAID = {"h200": {"nvlink.fabric_health", "nvlink.fabric_routes"}}


def named(case: Case) -> str:
    return f"{case.id} ({case.form})" if case.form else case.id


def failures(result: Result) -> dict[str, str]:
    """Requirement -> severity of what failed, of the first node or of its unit."""
    outcomes = (*result.nodes[0].outcomes, *result.fleet)
    return {found.requirement.id: found.requirement.severity.value for found in outcomes if found.status is Status.FAIL}


@pytest.mark.parametrize(
    "context", CONTEXTS, ids=lambda context: f"{context.layout_id}{'-serves' if context.serve else ''}"
)
def test_the_healthy_evidence_is_accepted_and_leaves_nothing_open(context: Context) -> None:
    result = judged(context)
    outcomes = [outcome for node in result.nodes for outcome in node.outcomes] + list(result.fleet)
    said = {Status.PASS, Status.NOT_APPLICABLE}
    assert result.verdict.value == "accept"
    assert {found.requirement.id for found in outcomes if found.status not in said} == UNSAID.get(
        context.hardware, set()
    )


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_case_fails_what_it_should_and_nothing_else(case: Case) -> None:
    result = judged(case.context, *case.edits)
    assert failures(result) == case.fails
    assert result.verdict.value == case.verdict
    unanswered = {found.requirement.id for found in result.nodes[0].outcomes if found.status is Status.UNKNOWN}
    assert set(case.unknown) <= unanswered
    for node in result.nodes[1:]:
        assert node.verdict.value == "accept" and not [one for one in node.outcomes if one.status is Status.FAIL]


def test_every_row_changes_something_or_says_that_nothing_is_to_be_seen() -> None:
    """A row without a change is a host that looks healthy; such a case must accept it."""
    assert {case.verdict for case in CASES if not case.edits} == {"accept"}
    assert [name for name, count in Counter(map(named, CASES)).items() if count > 1] == []


@pytest.fixture(scope="module")
def collected() -> Mapping[str, Any]:
    if not COLLECTION.is_dir():
        pytest.skip(f"the collection of cases is not at {COLLECTION}")
    found = [yaml.safe_load(file.read_text()) for file in sorted(COLLECTION.glob("*.yaml"))]
    return {case["id"]: case["expected_verdict"] for case in found}


def test_no_case_of_the_collection_is_left_out(collected: Mapping[str, Any]) -> None:
    told = {case.id for case in CASES}
    assert told.isdisjoint(UNREADABLE)
    assert told | set(UNREADABLE) == set(collected)
    assert set(SOFTER) <= told


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_case_is_as_severe_as_it_is_told(case: Case, collected: Mapping[str, Any]) -> None:
    """A failure of the collection rejects; a warning never does; what is not the host's fault fails at most information."""
    status = collected[case.id]["status"]
    rejected, severities = case.verdict == "reject", set(case.fails.values())
    if status == "pass":
        assert not rejected and severities <= {"info"}
    elif status == "warn":
        assert case.verdict == "accept" and severities <= {"warn", "info"}
    else:
        others = [one for one in CASES if one.id == case.id]
        assert any(one.verdict == "reject" and "gate" in one.fails.values() for one in others) or case.id in SOFTER
        assert case.verdict != "accept" or severities & {"warn", "gate"}
    assert rejected == ("gate" in severities)


def test_no_excuse_is_left_over(collected: Mapping[str, Any]) -> None:
    for name in SOFTER:
        assert collected[name]["status"] == "fail"
        assert all(case.verdict != "reject" for case in CASES if case.id == name), (
            f"{name} rejects: no excuse is needed"
        )
    innocent = {name for name, expected in collected.items() if expected["status"] != "fail"}
    assert innocent.isdisjoint(UNREADABLE) and len(innocent) >= 21
