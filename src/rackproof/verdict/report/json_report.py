"""The machine-readable report. Shape: schemas/verdict.schema.json; keys may be added, none change meaning.

Strings are cleaned here too, though never cut: `jq -r` prints them to a terminal as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rackproof import __version__
from rackproof.baseline import Baseline
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Outcome
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import clean

SCHEMA = 1


def document(result: Result) -> dict[str, Any]:
    """The report as plain data."""
    described = {id(node.baseline): _baseline(node.baseline) for node in result.nodes}
    return {
        "schema": SCHEMA,
        "verdict": result.verdict.value,
        "exit_code": result.verdict.exit_code,
        "simulated": result.simulated,
        "tool": {"name": "rackproof", "version": __version__},
        "baseline": _agreed([described[id(node.baseline)] for node in result.nodes]),
        "counts": {status.value: number for status, number in words.counts(result).items()},
        "nodes": [_node(node, described[id(node.baseline)]) for node in result.nodes],
        "fleet": [
            {"unit": _text(outcome.unit), "nodes": [_text(name) for name in outcome.nodes], **_outcome(outcome)}
            for outcome in result.fleet
        ],
    }


def render(result: Result) -> str:
    """The report as JSON text. ASCII only, so that no byte of it can steer a terminal."""
    return json.dumps(document(result), indent=1, ensure_ascii=True) + "\n"


def _node(node: NodeResult, baseline: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "node": _text(node.node),
        "hardware": _text(node.hardware) or None,
        "unit": _text(node.unit) or None,
        "verdict": node.verdict.value,
        "simulated": node.simulated,
        "evidence_sha256": node.evidence_sha256 or None,
        "baseline": baseline,
        "outcomes": [_outcome(outcome) for outcome in node.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    requirement = outcome.requirement
    return {
        "requirement": requirement.id,
        "code": requirement.code,
        "title": requirement.title,
        "status": outcome.status.value,
        "severity": requirement.severity.value,
        "stage": requirement.stage.value,
        "observed": _text(outcome.observed),
        "expected": _text(outcome.expected),
        "reason": _text(outcome.reason),
        "blocked_by": outcome.blocked_by or None,
        "why": requirement.why,
        "source": "; ".join(requirement.sources),
        "remedy": requirement.remedy,
        "advertised": requirement.advertised,
        "subjects": [
            {
                "subject": _text(part.subject),
                "status": part.status.value,
                "observed": _text(part.observed),
                "reason": _text(part.reason),
            }
            for part in outcome.subjects
        ],
    }


def _baseline(baseline: Baseline | None) -> dict[str, Any] | None:
    if baseline is None:
        return None
    return {
        "hash": baseline.hash,
        "recipe": baseline.recipe,
        "recipe_commit": baseline.recipe_commit,
        "layout": baseline.layout.id,
        "tier": baseline.layout.tier,
    }


def _agreed(baselines: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """What all nodes have in common; null where they differ, and where there is no baseline."""
    keys = ("hash", "recipe", "recipe_commit", "layout", "tier")
    found = {key: {baseline[key] if baseline else None for baseline in baselines} for key in keys}
    return {key: next(iter(values)) if len(values) == 1 else None for key, values in found.items()}


def _text(text: str) -> str:
    return clean(text, sys.maxsize)
