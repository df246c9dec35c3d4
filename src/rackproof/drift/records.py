"""What the history keeps, as rows of its tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """The reference of one node. `bundle` is below the folder of the history."""

    node: str
    at: str
    evidence_sha256: str
    started: str
    bundle: str
    verdict: str
    reason: str | None


@dataclass(frozen=True)
class Seen:
    """A finding as it is kept: `detail` is its JSON."""

    fingerprint: str
    fact_class: str
    kind: str
    subject: str
    detail: str


@dataclass(frozen=True)
class NodeRun:
    """One node in one run."""

    node: str
    verdict: str
    problem: str | None
    evidence_sha256: str | None
    bundle: str | None
    reference_sha256: str | None
    baseline: str | None
    findings: tuple[Seen, ...]


@dataclass(frozen=True)
class Run:
    started: str
    verdict: str
    exit_code: int
    tool: str
    id: int = 0
