"""Evidence beside the history: what each run read, and what was accepted. Files are written whole or not at all."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rackproof import __version__
from rackproof.drift.document import finding_data
from rackproof.drift.history import History
from rackproof.drift.records import Accepted, NodeRun, Run, Seen
from rackproof.drift.run import DriftResult, Reference
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.bundle import read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status, Verdict

ORPHAN_S = 24 * 3600  # a run that has not recorded its evidence after a day never will


def reference_of(history: History, node: str) -> Reference:
    """The accepted evidence of a node, or why it cannot be compared with."""
    accepted = history.reference(node)
    if accepted is None:
        return "no evidence of this node was ever accepted: rackproof drift accept"
    path = history.folder / accepted.bundle
    try:
        evidence = read_bundle(path)[0]
    except RackproofError as error:
        return f"the accepted evidence cannot be read: {error}"
    if evidence.problem or evidence.sha256 != accepted.evidence_sha256:
        return f"the accepted evidence in {path} is not what was accepted: {evidence.problem or 'another sha256'}"
    return accepted, evidence


def accept(
    history: History, result: Result, evidence: Iterable[Evidence], at: str, anyway: str | None
) -> list[Accepted]:
    """Make evidence the reference of its nodes: all of it, or none.

    Raises InputError for evidence that is not whole, is redacted, or has another verdict than accept and no reason.
    """
    items = list(evidence)
    verdicts = {node.node: node.verdict for node in result.nodes}
    for item in items:
        if item.problem or item.redacted or not item.sha256:
            why = item.problem or ("it is redacted" if item.redacted else "it carries no sha256")
            raise InputError(item.node, f"its evidence cannot be a reference: {why}", "whole evidence as it was read")
        if anyway is None:
            _refuse(item.node, verdicts.get(item.node, Verdict.UNDETERMINED), result)
    found = []
    for item in items:
        path = history.folder / "accepted" / f"{_stem(item.node)}-{item.sha256[:16]}.tar.gz"
        _write(path, item)
        verdict = verdicts.get(item.node, Verdict.UNDETERMINED).value
        bundle = str(path.relative_to(history.folder))
        found.append(Accepted(item.node, at, item.sha256, item.started, bundle, verdict, anyway))
    history.accept(found)
    return found


def _write(path: Path, evidence: Evidence) -> None:
    """Unless the same evidence lies there already, whole."""
    if path.exists():
        with suppress(RackproofError):
            there = read_bundle(path)[0]
            if there.sha256 == evidence.sha256 and not there.problem:
                return
        path.unlink()
    write_bundle(path, evidence)


def _refuse(node: str, verdict: Verdict, result: Result) -> None:
    units = [outcome for outcome in result.fleet if node in outcome.nodes]
    own = next((one.outcomes for one in result.nodes if one.node == node), ())
    failing = [outcome.requirement.id for outcome in own if _stands_against(outcome)]
    failing = failing or [outcome.requirement.id for outcome in units if _stands_against(outcome)]
    if verdict is Verdict.ACCEPT and not any(o.decides and o.status is Status.FAIL for o in units):
        return
    named = ", ".join(failing[:4]) + (f" and {len(failing) - 4} more" if len(failing) > 4 else "")
    raise InputError(
        node,
        f"its verdict is {verdict.value}{f' ({named})' if named else ''}, and only accepted evidence can be a reference",
        "evidence whose verdict is accept, or --anyway REASON",
    )


def _stands_against(outcome: Outcome) -> bool:
    return outcome.decides and outcome.status not in (Status.PASS, Status.NOT_APPLICABLE)


def keep(history: History, evidence: Iterable[Evidence], started: str) -> dict[str, str]:
    """Write the evidence of a run; bundle by node, as paths below the history's folder."""
    folder = history.folder / "evidence" / f"{started.replace(':', '')}-{secrets.token_hex(3)}"
    found: dict[str, str] = {}
    for number, item in enumerate(evidence):
        path = folder / f"{_stem(item.node)}.tar.gz"
        if path.exists():
            path = folder / f"{_stem(item.node)}-{number}.tar.gz"
        write_bundle(path, item)
        found[item.node] = str(path.relative_to(history.folder))
    return found


def record(history: History, drift: DriftResult, bundles: dict[str, str]) -> int:
    """Write a run to the history."""
    nodes = [
        NodeRun(
            node.node,
            node.result.verdict.value,
            node.problem,
            node.result.evidence_sha256 or None,
            bundles.get(node.node),
            node.reference.evidence_sha256 if node.reference else None,
            node.result.baseline.hash if node.result.baseline else None,
            tuple(
                Seen(f.fingerprint, f.fact_class.value, f.kind, f.subject, json.dumps(finding_data(f)))
                for f in {finding.fingerprint: finding for finding in node.findings}.values()
            ),
        )
        for node in drift.nodes
    ]
    return history.record(Run(drift.started, drift.result.verdict.value, drift.exit_code, __version__), nodes)


def retain(history: History, keep_runs: int | None, keep_days: int | None) -> int:
    """Forget old runs and delete their evidence, never what was accepted; returns how many bundles went."""
    before = None
    if keep_days is not None:
        before = (datetime.now(UTC) - timedelta(days=keep_days)).isoformat(timespec="seconds").replace("+00:00", "Z")
    doomed = history.forget(keep_runs, before)
    top = history.folder / "evidence"
    for bundle in doomed:
        path = history.folder / bundle
        if path.parent.parent == top:  # the database says so; nothing else is ever deleted
            path.unlink(missing_ok=True)
            with suppress(OSError):  # not empty yet
                path.parent.rmdir()
    _sweep(top, history.bundles())
    return len(doomed)


def _sweep(top: Path, known: Sequence[str]) -> None:
    """Folders of runs that ended before they were recorded."""
    named = {Path(bundle).parent.name for bundle in known}
    for folder in top.iterdir() if top.is_dir() else ():
        if folder.name not in named and time.time() - folder.stat().st_mtime > ORPHAN_S:
            shutil.rmtree(folder, ignore_errors=True)


def _stem(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", node).lstrip(".")[:100] or "node"
