"""The history of one node, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rackproof.drift.records import Accepted, NodeRun, Run, Seen
from rackproof.verdict.report.clean import NAME_CHARS, clean

Runs = Sequence[tuple[Run, NodeRun]]


def render_text(node: str, runs: Runs, accepted: Sequence[Accepted]) -> str:
    """One line a run, its findings below it; references between them, by time."""
    lines = [(run.started, _run(run, one)) for run, one in runs]
    lines += [(one.at, [_reference(one)]) for one in accepted]
    body = [line for _, block in sorted(lines, key=lambda item: item[0]) for line in block]
    return "\n".join([f"{clean(node, NAME_CHARS)}: {len(runs)} runs, {len(accepted)} references", *body]) + "\n"


def _run(run: Run, node: NodeRun) -> list[str]:
    drift = [finding for finding in map(_detail, node.findings) if finding.get("drift")]
    said = f"{len(drift)} findings" if drift else "no drift"
    if node.problem:
        said = f"not compared: {clean(node.problem)}"
    head = f"  {clean(run.started, NAME_CHARS)}  {node.verdict:<12}  {said}"
    return [head, *(f"      {clean(str(one['subject']))}: {one['kind']} ({one['class']})" for one in drift)]


def _reference(one: Accepted) -> str:
    anyway = f" with verdict {one.verdict}: {clean(one.reason)}" if one.reason else ""
    return f"  {clean(one.at, NAME_CHARS)}  reference     evidence {one.evidence_sha256[:12]}{anyway}"


def _detail(finding: Seen) -> dict[str, object]:
    data: dict[str, object] = json.loads(finding.detail)
    return data


def render_json(node: str, runs: Runs, accepted: Sequence[Accepted]) -> str:
    data = {
        "schema": 1,
        "node": node,
        "runs": [
            {
                "started": run.started,
                "verdict": one.verdict,
                "problem": one.problem,
                "evidence_sha256": one.evidence_sha256,
                "bundle": one.bundle,
                "reference_sha256": one.reference_sha256,
                "baseline": one.baseline,
                "findings": [_detail(finding) for finding in one.findings],
            }
            for run, one in runs
        ],
        "references": [
            {
                "accepted": a.at,
                "evidence_sha256": a.evidence_sha256,
                "bundle": a.bundle,
                "verdict": a.verdict,
                "reason": a.reason,
            }
            for a in accepted
        ],
    }
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"
