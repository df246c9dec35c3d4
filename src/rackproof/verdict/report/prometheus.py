"""Verdicts and outcomes in Prometheus' text format, for the node exporter's textfile directory.

Label sets are stable: a node has the same series whatever its verdict, so that an alert on a value never waits for a
series to appear. Names and labels are documented in docs/reports.md and do not change their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rackproof import __version__
from rackproof.evidence.evidence import Evidence
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Status, Verdict, verdict_of
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import NAME_CHARS, clean

STATUS_VALUE = {
    Status.PASS: 0, Status.FAIL: 1, Status.UNKNOWN: 2, Status.BLOCKED: 3, Status.NOT_APPLICABLE: 4,
}  # fmt: skip


def render(result: Result, look: Callable[[str], Evidence | None]) -> str:
    """The metrics of one run as text."""
    registry = CollectorRegistry()
    metrics = _Metrics(registry)
    metrics.info.labels(__version__).set(1)
    metrics.simulated.set(result.simulated)
    for verdict in Verdict:
        metrics.verdict.labels(verdict.value).set(verdict is result.verdict)
    for node in result.nodes:
        metrics.add(node, look(node.node))
    for unit, outcomes in words.outcomes_by_unit(result).items():
        for verdict in Verdict:
            metrics.unit.labels(clean(unit, NAME_CHARS), verdict.value).set(verdict is verdict_of(outcomes))
        for outcome in outcomes:
            need = outcome.requirement
            metrics.unit_requirement.labels(clean(unit, NAME_CHARS), need.id, need.severity.value).set(
                STATUS_VALUE[outcome.status]
            )
    return generate_latest(registry).decode("utf-8")


class _Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, words: str, *labels: str) -> Gauge:
            return Gauge(f"rackproof_{name}", words, labels, registry=registry)

        value = "0 pass, 1 fail, 2 unknown, 3 blocked, 4 not applicable"
        self.info = gauge("info", "The version that judged; always 1.", "version")
        self.simulated = gauge("simulated", "1 where a node is a simulation: nothing here is a GPU result.")
        self.verdict = gauge("verdict", "The verdict over all nodes and units: 1 for the one it is.", "verdict")
        self.node = gauge("node_verdict", "The verdict of a node: 1 for the one it is.", "node", "verdict")
        self.node_info = gauge(
            "node_info", "What a node was judged as; always 1.", "node", "unit", "hardware", "layout"
        )
        self.requirement = gauge("requirement_status", f"{value}.", "node", "requirement", "severity")
        self.unit = gauge("unit_verdict", "The verdict of a deployment unit: 1 for the one it is.", "unit", "verdict")
        self.unit_requirement = gauge("unit_requirement_status", f"{value}.", "unit", "requirement", "severity")
        self.read = gauge("evidence_timestamp_seconds", "When a node was read, by its own clock; 0: never.", "node")
        self.took = gauge("evidence_duration_seconds", "How long the probe ran on a node.", "node")

    def add(self, node: NodeResult, evidence: Evidence | None) -> None:
        name = clean(node.node, NAME_CHARS)
        layout = node.baseline.layout.id if node.baseline else ""
        self.node_info.labels(name, clean(node.unit, NAME_CHARS), clean(node.hardware, NAME_CHARS), layout).set(1)
        for verdict in Verdict:
            self.node.labels(name, verdict.value).set(verdict is node.verdict)
        for outcome in node.outcomes:
            need = outcome.requirement
            self.requirement.labels(name, need.id, need.severity.value).set(STATUS_VALUE[outcome.status])
        self.read.labels(name).set(_timestamp(evidence.started if evidence else ""))
        self.took.labels(name).set(evidence.seconds if evidence else 0)


def _timestamp(text: str) -> float:
    """Seconds since 1970 of "2026-01-31T12:00:00Z"; 0 for anything else, which is older than any alert allows."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0
