"""The form of the test tables: for every requirement, facts that must pass, fail, and never pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, UnitFacts
from rackproof.verdict.evaluate import evaluate_node, evaluate_unit
from rackproof.verdict.model import Outcome, Status

from . import fixtures

Facts = NodeFacts | UnitFacts


@dataclass(frozen=True)
class Red:
    """Facts that must fail, and words that the outcome must say."""

    facts: Facts
    says: str
    baseline: Baseline | None = None


@dataclass(frozen=True)
class Cases:
    """Cases of one requirement. `garbage` must be unknown, blocked or fail: missing, empty, negative, nonsense."""

    green: Sequence[Facts | tuple[Facts, Baseline]]
    red: Sequence[Red]
    garbage: Sequence[Facts]
    not_applicable: Baseline | None = None
    garbage_baseline: Baseline | None = field(default=None)


Table = Mapping[str, Cases]


def default_baseline(facts: Facts) -> Baseline:
    """The baseline of the hardware the facts are of, told by the number of PCI devices or by the unit's nodes."""
    if isinstance(facts, UnitFacts):
        return fixtures.baseline("gb300")
    hardware = facts.node.partition("-")[0]
    return fixtures.baseline(hardware if hardware in ("b300", "mi355x") else "gb300")


def outcome(requirement: str, facts: Facts, baseline: Baseline | None = None) -> Outcome:
    wanted = baseline or default_baseline(facts)
    judged = evaluate_unit(facts, wanted) if isinstance(facts, UnitFacts) else evaluate_node(facts, wanted)
    return next(one for one in judged if one.requirement.id == requirement)


def verify(table: Table, requirement: str) -> None:
    """Every case of one requirement."""
    cases = table[requirement]
    for number, green in enumerate(cases.green):
        facts, baseline = green if isinstance(green, tuple) else (green, None)
        found = outcome(requirement, facts, baseline)
        assert found.status is Status.PASS, (f"green {number}", found)
        assert found.observed and found.expected
    for number, red in enumerate(cases.red):
        found = outcome(requirement, red.facts, red.baseline)
        assert found.status is Status.FAIL, (f"red {number}", found)
        assert red.says in f"{found.observed} | {found.expected}", (f"red {number}", found)
    for number, facts in enumerate(cases.garbage):
        found = outcome(requirement, facts, cases.garbage_baseline)
        assert found.status in (Status.UNKNOWN, Status.BLOCKED, Status.FAIL), (f"garbage {number}", found)
        assert found.reason or found.observed
    if cases.not_applicable is not None:
        any_facts = next(green[0] if isinstance(green, tuple) else green for green in cases.green)
        found = outcome(requirement, any_facts, cases.not_applicable)
        assert found.status is Status.NOT_APPLICABLE and found.reason, found
