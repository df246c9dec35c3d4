"""One item per node and requirement."""

from __future__ import annotations

from typing import Any

from conftest import report
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status


def test_requirement(node_requirement: tuple[str, str], result: Result, record_property: Any) -> None:
    """A requirement of a node. A node that could not be judged at all gives its one reason for every requirement."""
    name, wanted = node_requirement
    node = next(node for node in result.nodes if node.node == name)
    record_property("node", name)
    outcomes = {outcome.requirement.id: outcome for outcome in node.outcomes}
    first = node.outcomes[0]
    report(outcomes.get(wanted) or Outcome(first.requirement, Status.UNKNOWN, reason=first.reason), record_property)
