"""Findings where a CI system shows them: GitHub workflow commands, and GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Status
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import clean
from rackproof.verdict.report.findings import Finding, Variant, findings
from rackproof.verdict.report.fold import counted

# docs.github.com, workflow commands: what has to be escaped in a message, and in a property besides.
_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}


def github(result: Result) -> str:
    """One line a finding: `::error title=gpus.count (GPU-02)::tray03: ...`; gates are errors, the rest warnings."""
    lines = []
    for finding in findings(result):
        level = "error" if finding.gate else "warning"
        title = _escaped(f"{finding.requirement.id} ({finding.requirement.code})", _PROPERTY)
        for variant in finding.variants:
            lines.append(f"::{level} title={title}::{_escaped(_message(finding, variant), _MESSAGE)}")
    level = "notice" if result.verdict.exit_code == 0 else "error"
    said = f"{result.verdict.value.upper()}: {words.meaning(result)}"
    lines.append(f"::{level} title=rackproof::{_escaped(clean(said), _MESSAGE)}")
    return "".join(f"{line}\n" for line in lines)


def gitlab(result: Result) -> str:
    """A JSON list as GitLab's code quality widget takes it. Nodes stand where files would."""
    return json.dumps([_issue(finding, variant) for finding in findings(result) for variant in finding.variants],
                      indent=1, ensure_ascii=True) + "\n"  # fmt: skip


def _issue(finding: Finding, variant: Variant) -> dict[str, Any]:
    where = clean(counted(variant.nodes), 200)
    identity = "\n".join((finding.requirement.id, where, variant.status.value))
    return {
        "description": _message(finding, variant),
        "check_name": finding.requirement.id,
        "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
        "severity": _severity(finding, variant),
        "location": {"path": where, "lines": {"begin": 1}},
    }


def _severity(finding: Finding, variant: Variant) -> str:
    if not finding.gate:
        return "minor"
    return "blocker" if variant.status is Status.FAIL else "critical"


def _message(finding: Finding, variant: Variant) -> str:
    where = counted(variant.nodes)
    if variant.status is Status.FAIL:
        said = f"observed {variant.observed or 'nothing'}, expected {variant.expected}"
    else:
        said = f"{variant.status.value}: {variant.reason}"
    return clean(f"{where}: {finding.requirement.title}: {said}. {finding.requirement.remedy}", 1000)


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(char, char) for char in text)
