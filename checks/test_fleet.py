"""One item per fleet requirement, over every deployment unit."""

from __future__ import annotations

from typing import Any

from conftest import report
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status


def test_unit(unit_requirement: str, result: Result, record_property: Any) -> None:
    """A requirement of the units; the first unit that does not meet it is the one reported."""
    order = (Status.FAIL, Status.UNKNOWN, Status.BLOCKED, Status.NOT_APPLICABLE, Status.PASS)
    found = [outcome for outcome in result.fleet if outcome.requirement.id == unit_requirement]
    if not found:
        members = [outcome for outcome in result.fleet if outcome.requirement.id == "fleet.members"]
        reason = members[0].reason if members else "no node could be judged"
        found = [Outcome(requirements()[unit_requirement], Status.UNKNOWN, reason=reason)]
    worst = min(found, key=lambda outcome: order.index(outcome.status))
    record_property("unit", worst.unit)
    report(worst, record_property)
