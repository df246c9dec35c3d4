"""Outcomes grouped the way a person works them off: one finding a requirement, nodes with the same trouble together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Requirement, Severity, Status
from rackproof.verdict.report.fold import counted


@dataclass(frozen=True)
class Variant:
    """The nodes (and units) on which one requirement went wrong in the same way."""

    status: Status
    observed: str
    expected: str
    reason: str
    nodes: tuple[str, ...]
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One requirement that is not met or not proven somewhere; `blocks` are the ids that could not be read for it."""

    requirement: Requirement
    variants: tuple[Variant, ...]
    blocks: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(variant.status is Status.FAIL for variant in self.variants)

    @property
    def gate(self) -> bool:
        return self.requirement.severity is Severity.GATE


def findings(result: Result) -> list[Finding]:
    """Fails before unknowns, gates before warnings, then in the order a host is built up."""
    located = list(_located(result))
    roots = {outcome.requirement.id for _, outcome in located if outcome.status in (Status.FAIL, Status.UNKNOWN)}
    groups: dict[str, list[tuple[tuple[str, ...], Outcome]]] = {}
    blocks: dict[str, dict[str, None]] = {}
    for nodes, outcome in located:
        if outcome.status is Status.BLOCKED and outcome.blocked_by in roots:
            blocks.setdefault(outcome.blocked_by, {})[outcome.requirement.id] = None
        elif outcome.status not in (Status.PASS, Status.NOT_APPLICABLE):
            groups.setdefault(outcome.requirement.id, []).append((nodes, outcome))
    found = [
        Finding(group[0][1].requirement, _variants(group), tuple(blocks.get(name, ())))
        for name, group in groups.items()
    ]
    return sorted(found, key=lambda finding: (not finding.failed, not finding.gate))


def _located(result: Result) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    for node in result.nodes:
        for outcome in node.outcomes:
            yield (node.node,), outcome
    for outcome in result.fleet:
        yield outcome.nodes, outcome


def _variants(group: Iterable[tuple[tuple[str, ...], Outcome]]) -> tuple[Variant, ...]:
    """Fails first, then the variant with the most nodes."""
    alike: dict[tuple[Status, str, str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for names, outcome in group:
        key = (outcome.status, outcome.observed, outcome.expected, outcome.reason)
        nodes, units = alike.setdefault(key, ({}, {}))
        nodes.update(dict.fromkeys(names))
        units.update({outcome.unit: None} if outcome.unit else {})
    found = [Variant(*key, tuple(nodes), tuple(units)) for key, (nodes, units) in alike.items()]
    return tuple(sorted(found, key=lambda variant: (variant.status is not Status.FAIL, -len(variant.nodes))))


def not_proven(result: Result, ascii_only: bool = False) -> list[str]:
    """What nobody may read into the verdict, one clause each."""
    unread = [node.node for node in result.nodes if not node.evidence_sha256]
    unmatched = [node.node for node in result.nodes if node.evidence_sha256 and node.baseline is None]
    units = {name for outcome in result.fleet for name in outcome.nodes}
    alone = [node.node for node in result.nodes if node.node not in units]
    said = []
    if unread:
        said.append(f"anything about {counted(unread, ascii_only)}: no complete evidence")
    if unmatched:
        said.append(f"anything about {counted(unmatched, ascii_only)}: no hardware profile, so no baseline")
    if not result.fleet:
        said.append("that nodes work together: no deployment unit was declared")
    elif alone:
        said.append(f"that {counted(alone, ascii_only)} works with other nodes: in no deployment unit")
    return said


def not_asked(result: Result) -> list[tuple[str, tuple[str, ...]]]:
    """Reasons why requirements did not apply, each with the requirements it let off, on any node."""
    reasons: dict[str, dict[str, None]] = {}
    for _, outcome in _located(result):
        if outcome.status is Status.NOT_APPLICABLE:
            reasons.setdefault(outcome.reason, {})[outcome.requirement.id] = None
    return [(reason, tuple(ids)) for reason, ids in reasons.items()]
