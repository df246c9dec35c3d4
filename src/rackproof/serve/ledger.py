"""The evidence of one start, as one JSON object: what was run, on what, how long each stage took."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackproof import __version__
from rackproof.errors import InputError
from rackproof.evidence.tools.serving import parse_unit
from rackproof.facts import Missing
from rackproof.facts_serving import DockerRun
from rackproof.plan import PlannedNode
from rackproof.serve.watch import Starting, seconds
from rackproof.triage.mask import masked
from rackproof.verdict.report.clean import clean

DEFAULT = "ledger.jsonl"


def entry(unit: str, outcome: str, members: Sequence[PlannedNode], found: Mapping[str, Starting]) -> dict[str, Any]:
    """One start of one unit. `outcome`: ready | failed | not ready in time."""
    baseline = members[0].baseline
    assert baseline is not None
    return {
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "event": "start",
        "unit": unit,
        "outcome": outcome,
        "layout": baseline.layout.id,
        "recipe_commit": baseline.recipe_commit,
        "baseline": baseline.hash,
        "image": baseline.image.reference,
        "simulated": baseline.simulated,
        "tool": f"rackproof {__version__}",
        "nodes": [_node(node, rank, found[node.name]) for rank, node in enumerate(members)],
    }


def _node(node: PlannedNode, rank: int, one: Starting) -> dict[str, Any]:
    run, answer = run_of(node), one.answer()
    return {
        "node": node.name,
        "rank": rank,
        "arguments": [masked(word) for word in run.arguments],
        "driver": clean(one.last.driver) if one.last else None,
        "running_image": clean(one.last.image) if one.last else None,
        "stages_s": seconds(one.passed),
        "log_stages": [{"stage": timing.stage, "seconds": timing.seconds} for timing in answer.timings],
        "versions": _cleaned(answer.group("versions")),
        "memory": _cleaned({**answer.group("memory"), **answer.group("tokens")}),
        "triage": {
            "stage": answer.stage,
            "class": answer.class_,
            "confidence": answer.confidence or "none",
            "rule": answer.rule or None,
        },
    }


def run_of(node: PlannedNode) -> DockerRun:
    """`docker run` or `podman run` of the unit that the baseline renders for this node."""
    baseline = node.baseline
    texts = dict(baseline.serving.files) if baseline is not None else {}
    found = parse_unit(next(iter(texts.values()), ""))
    if isinstance(found, Missing):
        raise InputError(node.name, "its site installs no serving unit", "serving.install: true, and a deploy")
    return found


def _cleaned(values: Mapping[str, str]) -> dict[str, str]:
    return {label: clean(masked(value)) for label, value in values.items()}


def line(record: Mapping[str, Any]) -> str:
    """ASCII, so that no byte of it can steer a terminal."""
    return json.dumps(record, ensure_ascii=True, separators=(", ", ": "))


def append(path: Path, text: str) -> None:
    """Add a line in one write, so that two that end at once do not mix."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, (text + "\n").encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written: {error.strerror}", "a file that can (serving.ledger)"
        ) from None
