"""How the requirements that an advice names stand right now, by node, from evidence that was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Outcome, Status

_ORDER = (Status.FAIL, Status.UNKNOWN, Status.BLOCKED, Status.PASS, Status.NOT_APPLICABLE)


@dataclass(frozen=True)
class Standing:
    """One requirement as it is on some nodes."""

    requirement: str
    status: Status
    nodes: tuple[str, ...]
    observed: str
    expected: str
    reason: str
    remedy: str


def standing(result: Result, ids: Sequence[str]) -> tuple[Standing, ...]:
    """What fails first, then what nobody could read, then what holds; nodes that say the same stand together.

    A requirement that was not judged on a node is unknown there: not looked at is never taken for well.
    """
    groups: dict[tuple[str, Status, str, str, str], list[str]] = {}
    for requirement in ids:
        for outcome, nodes in _outcomes(result, requirement):
            key = (requirement, outcome.status, outcome.observed, outcome.expected, outcome.reason)
            groups.setdefault(key, []).extend(nodes)
    known = requirements()
    found = [
        Standing(name, status, tuple(dict.fromkeys(nodes)), observed, expected, reason, known[name].remedy)
        for (name, status, observed, expected, reason), nodes in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.status), ids.index(one.requirement))))


def _outcomes(result: Result, requirement: str) -> Iterator[tuple[Outcome, Sequence[str]]]:
    if requirements()[requirement].scope == "fleet":
        fleet = [outcome for outcome in result.fleet if outcome.requirement.id == requirement]
        for outcome in fleet:
            yield outcome, outcome.nodes or (outcome.unit,)
        if not fleet:
            reason = "no deployment unit was judged"
            yield _unread(requirement, reason), [node.node for node in result.nodes]
        return
    for node in result.nodes:
        found = next((outcome for outcome in node.outcomes if outcome.requirement.id == requirement), None)
        yield found or _unread(requirement, _why(node)), (node.node,)


def _why(node: NodeResult) -> str:
    """Nothing was expected of such a node; its one outcome says why."""
    return next((outcome.reason for outcome in node.outcomes if outcome.reason), "") or "not judged on this node"


def _unread(requirement: str, reason: str) -> Outcome:
    return Outcome(requirements()[requirement], Status.UNKNOWN, reason=reason)
