"""One look at nodes against their references: verdicts, findings, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rackproof.baseline import Baseline
from rackproof.drift.attribution import attributed
from rackproof.drift.classes import FactClass, allowances, classes
from rackproof.drift.compare import Yardstick, compare
from rackproof.drift.findings import Finding, findings
from rackproof.drift.records import Accepted
from rackproof.evidence.evidence import Evidence
from rackproof.facts import Missing, NodeFacts
from rackproof.gathering import Gathering
from rackproof.judging import facts_of, judge_one
from rackproof.plan import Plan, PlannedNode
from rackproof.verdict.evaluate import NodeResult, Result, judge_node
from rackproof.verdict.model import Verdict

# What answers for a node: its reference and that evidence, or why there is none.
Reference = tuple[Accepted, Evidence] | str


@dataclass(frozen=True)
class NodeDrift:
    """One node. `problem`: why it could not be compared. `then` is the verdict of the reference under today's baseline."""

    result: NodeResult
    reference: Accepted | None
    problem: str | None
    findings: tuple[Finding, ...] = ()
    then: Verdict | None = None

    @property
    def node(self) -> str:
        return self.result.node

    @property
    def drift(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.drift)

    @property
    def verdict_changed(self) -> bool:
        return self.reference is not None and self.reference.verdict != self.result.verdict.value

    @property
    def baseline_changed(self) -> bool:
        """The reference itself is judged otherwise today: the expectations changed, not only the node."""
        return self.reference is not None and self.then is not None and self.reference.verdict != self.then.value


@dataclass(frozen=True)
class DriftResult:
    """One run over all nodes."""

    started: str
    result: Result
    nodes: tuple[NodeDrift, ...]
    fail_on: frozenset[FactClass]

    @property
    def exit_code(self) -> int:
        """Reject and unsupported as the verdict says; then drift that counts; then whatever could not be looked at."""
        if self.result.verdict in (Verdict.REJECT, Verdict.UNSUPPORTED):
            return self.result.verdict.exit_code
        found = [finding for node in self.nodes for finding in node.drift]
        if any(finding.fact_class in self.fail_on and not finding.unreadable for finding in found):
            return Verdict.REJECT.exit_code
        unseen = any(node.problem for node in self.nodes) or any(finding.unreadable for finding in found)
        if unseen or not self.nodes or self.result.verdict is not Verdict.ACCEPT:
            return Verdict.UNDETERMINED.exit_code
        return Verdict.ACCEPT.exit_code


def look(
    plan: Plan,
    evidence: Mapping[str, Evidence],
    reference: Callable[[str], Reference],
    since: Callable[[str, str, str], str | None],
    fail_on: frozenset[FactClass],
    started: str,
) -> DriftResult:
    """Judge every node and compare those that were read. `since` knows (node, fingerprint, reference sha256)."""
    gathering = Gathering(plan.units)
    compared: list[tuple[str, NodeDrift]] = []
    for node in plan.nodes:
        found = evidence.get(node.name)
        result, facts = judge_one(node, found)
        gathering.add(result, facts)
        if not node.left_out:
            compared.append((node.name, _node(node, result, facts, found, reference(node.name))))
    dated = tuple(replace(one, findings=tuple(_dated(one, since, started))) for _, one in compared)
    return DriftResult(started, gathering.result(), dated, fail_on)


def _dated(node: NodeDrift, since: Callable[[str, str, str], str | None], started: str) -> Iterator[Finding]:
    sha256 = node.reference.evidence_sha256 if node.reference else ""
    for finding in node.findings:
        yield replace(finding, since=since(node.node, finding.fingerprint, sha256) or started)


def _node(
    node: PlannedNode, result: NodeResult, facts: NodeFacts, evidence: Evidence | None, reference: Reference
) -> NodeDrift:
    if isinstance(reference, str):
        unread = facts.evidence.reason if isinstance(facts.evidence, Missing) else None
        return NodeDrift(result, None, unread or reference)
    accepted, before = reference
    if isinstance(facts.evidence, Missing) or evidence is None:
        reason = facts.evidence.reason if isinstance(facts.evidence, Missing) else "no evidence of this node was given"
        return NodeDrift(result, accepted, reason)
    if evidence.redacted:
        return NodeDrift(result, accepted, "the evidence is redacted: its names are not those of the reference")
    old = facts_of(node, before)
    by = _yardstick(node, result.baseline, before, evidence, old, facts)
    groups = findings(compare(old, facts, by))
    found = attributed(groups, old, facts, result.baseline, by.classes)
    then = None if result.baseline is None else judge_node(old, result.baseline).verdict
    return NodeDrift(result, accepted, None, found, then)


def _yardstick(
    node: PlannedNode, baseline: Baseline | None, before: Evidence, after: Evidence, old: NodeFacts, new: NodeFacts
) -> Yardstick:
    rebooted = old.host.boot_id != new.host.boot_id
    return Yardstick(classes(), allowances(node.site), baseline, days_between(before.started, after.started), rebooted)


def days_between(before: str, after: str) -> float:
    """Days between two times of a node's own clock; 0 where either cannot be read, so that no allowance is made up."""
    try:
        span = datetime.fromisoformat(after) - datetime.fromisoformat(before)
    except (ValueError, TypeError):
        return 0.0
    return max(span.total_seconds() / 86400, 0.0)


def now() -> str:
    """The time of a run, as the history keeps it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
