"""A drift run as plain data: schemas/drift.schema.json. Strings are cleaned, as in every report, and never cut."""

from __future__ import annotations

import json
import sys
from typing import Any

from rackproof import __version__
from rackproof.drift.findings import Finding
from rackproof.drift.run import DriftResult, NodeDrift
from rackproof.verdict.report.clean import clean

SCHEMA = 1


def document(drift: DriftResult) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "rackproof", "version": __version__},
        "started": drift.started,
        "verdict": drift.result.verdict.value,
        "exit_code": drift.exit_code,
        "simulated": drift.result.simulated,
        "fail_on": sorted(one.value for one in drift.fail_on),
        "drifted": any(node.drift for node in drift.nodes),
        "nodes": [_node(node) for node in drift.nodes],
    }


def render(drift: DriftResult) -> str:
    """The report as JSON text, ASCII only."""
    return json.dumps(document(drift), indent=1, ensure_ascii=True) + "\n"


def _node(node: NodeDrift) -> dict[str, Any]:
    reference = node.reference
    return {
        "node": _text(node.node),
        "verdict": node.result.verdict.value,
        "verdict_changed": node.verdict_changed,
        "baseline_changed": node.baseline_changed,
        "problem": None if node.problem is None else _text(node.problem),
        "evidence_sha256": node.result.evidence_sha256 or None,
        "reference": None
        if reference is None
        else {
            "evidence_sha256": reference.evidence_sha256,
            "accepted": reference.at,
            "verdict": reference.verdict,
            "reason": None if reference.reason is None else _text(reference.reason),
        },
        "findings": [finding_data(finding) for finding in node.findings],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding; `drift` is false for what is only worth knowing."""
    return {
        "subject": _text(finding.subject),
        "more": finding.more,
        "kind": finding.kind,
        "class": finding.fact_class.value,
        "drift": finding.drift,
        "since": finding.since,
        "fingerprint": finding.fingerprint,
        "requirements": list(finding.requirements),
        "changes": [
            {
                "fact": _text(change.path),
                "kind": change.kind.value,
                "class": change.fact_class.value,
                "from": _text(change.before),
                "to": _text(change.after),
            }
            for change in finding.changes
        ],
    }


def _text(text: str) -> str:
    return clean(text, sys.maxsize)
