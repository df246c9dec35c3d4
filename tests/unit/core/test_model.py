"""The verdict: every combination of status and severity of up to three outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from rackproof.verdict.model import (
    Judgement,
    Outcome,
    Requirement,
    Severity,
    Stage,
    Status,
    Verdict,
    judge,
    verdict_of,
    worst,
)

ALL = list(itertools.product(Status, Severity))


def requirement(severity: Severity, unsupported: bool = False) -> Requirement:
    return Requirement("layer.one", "layer", "t", "w", Stage.SERVING, severity, ("s",), "r", unsupported=unsupported)


def outcome(status: Status, severity: Severity = Severity.GATE, unsupported: bool = False) -> Outcome:
    return Outcome(requirement(severity, unsupported), status)


def expected(gates: Iterable[Status]) -> Verdict:
    """The rule in other words than the code's."""
    found = list(gates)
    if found.count(Status.FAIL):
        return Verdict.REJECT
    if found.count(Status.UNKNOWN) + found.count(Status.BLOCKED) or not found.count(Status.PASS):
        return Verdict.UNDETERMINED
    return Verdict.ACCEPT


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_every_combination(size: int) -> None:
    number = 0
    for combination in itertools.product(ALL, repeat=size):
        outcomes = [outcome(status, severity) for status, severity in combination]
        gates = [status for status, severity in combination if severity is Severity.GATE]
        assert verdict_of(outcomes) is expected(gates), combination
        number += 1
    assert number == 15**size


@pytest.mark.parametrize("size", [1, 2])
def test_the_self_build_mark_before_anything_else(size: int) -> None:
    """A failed requirement that says "unsupported" decides, whatever stands beside it; passing it is a pass."""
    for combination in itertools.product(ALL, repeat=size):
        outcomes = [outcome(status, severity) for status, severity in combination]
        mark = outcome(Status.FAIL, unsupported=True)
        for order in ([mark, *outcomes], [*outcomes, mark]):
            assert verdict_of(order) is Verdict.UNSUPPORTED
        without = [status for status, severity in combination if severity is Severity.GATE]
        for status in set(Status) - {Status.FAIL}:
            assert verdict_of([*outcomes, outcome(status, unsupported=True)]) is expected([*without, status])
    assert verdict_of([outcome(Status.FAIL, Severity.INFO, unsupported=True)]) is Verdict.UNDETERMINED


def test_worst_of_every_combination() -> None:
    assert worst([]) is Verdict.UNDETERMINED
    for size in (1, 2, 3, 4):
        for combination in itertools.product(Verdict, repeat=size):
            result = worst(iter(combination))
            assert result in combination
            assert (result is Verdict.ACCEPT) == (set(combination) == {Verdict.ACCEPT})
            assert (result is Verdict.REJECT) == (Verdict.REJECT in combination)
            if result is Verdict.UNDETERMINED:
                assert Verdict.UNSUPPORTED not in combination


def test_words_and_exit_codes_are_the_published_ones() -> None:
    assert {verdict.value: verdict.exit_code for verdict in Verdict} == {
        "accept": 0, "reject": 1, "undetermined": 2, "unsupported": 4,
    }  # fmt: skip
    assert [status.value for status in Status] == ["pass", "fail", "unknown", "not_applicable", "blocked"]
    assert [severity.value for severity in Severity] == ["gate", "warn", "info"]
    assert [stage.value for stage in Stage] == [
        "provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving",
    ]  # fmt: skip


def test_judge_makes_words() -> None:
    assert judge(True, 4, [4]) == Judgement(True, "4", "[4]")
    assert judge([], None, "x") == Judgement(False, "None", "x")  # type: ignore[arg-type]
