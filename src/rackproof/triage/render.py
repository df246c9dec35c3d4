"""What `triage` says: a page for people, and the same as JSON (schemas/triage.schema.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackproof import __version__
from rackproof.triage.diagnose import Diagnosis, reconcile
from rackproof.verdict.report.clean import NAME_CHARS, clean
from rackproof.verdict.report.page import Options, Page

SCHEMA = 1
_STAGES = {
    "provisioning": "before the engine: the node", "container-start": "while the process started",
    "weights-load": "while weights were loaded", "engine-init": "while the engine started",
    "multi-node": "between nodes", "serving": "while requests ran",
    "none": "no failure in this log", "unknown": "the log does not say where",
}  # fmt: skip
_CLASSES = {
    "environment": "the host, not the arguments", "tuning": "arguments", "capacity": "more or larger GPUs",
    "bug-upstream": "the software", "none": "nothing to do", "unknown": "the log does not say why",
}  # fmt: skip
# A log repeats the command line, and a command line can hold a key.
_SECRET = re.compile(
    r"(?i)(\b(?:api[_-]?key|hf[_-]?token|token|password|secret)['\"]? ?[:=] ?)"
    r"(\[[^\]]{0,300}\]?|'[^']{0,300}'?|\"[^\"]{0,300}\"?|[^\s,}]{1,300})"
)
_STYLE = {"none": "bold green", "unknown": "bold yellow"}


@dataclass(frozen=True)
class Triaged:
    """The answers of one run, by the name of each log."""

    answers: Mapping[str, Diagnosis]

    @property
    def decisive(self) -> tuple[str, Diagnosis]:
        return list(self.answers.items())[reconcile(list(self.answers.values()))]


def document(triaged: Triaged) -> dict[str, Any]:
    """The answer as plain data. Text of the log is cleaned here as well: JSON is often printed by other tools."""
    name, answer = triaged.decisive
    return {
        "schema": SCHEMA,
        "tool": {"name": "rackproof", "version": __version__},
        "log": clean(name, NAME_CHARS),
        "engine": answer.engine,
        "stage": answer.stage,
        "class": answer.class_,
        "confidence": answer.confidence or "none",
        "ranks": list(answer.ranks),
        "lines": [{"number": line.number, "text": clean(_masked(line.raw))} for line in answer.lines],
        "notes": {label: clean(_masked(value)) for label, value in answer.notes.items()},
        "advice": answer.advice,
        "requirements": list(answer.requirements),
        "rule": answer.rule or None,
        "source": answer.source or None,
        "logs": [
            {"log": clean(log, NAME_CHARS), "stage": each.stage, "class": each.class_} for log, each in _each(triaged)
        ],
    }


def _masked(text: str) -> str:
    return _SECRET.sub(r"\1[hidden]", text)


def render_json(triaged: Triaged) -> str:
    """The answer as JSON text. ASCII only, so that no byte of it can steer a terminal."""
    return json.dumps(document(triaged), indent=1, ensure_ascii=True) + "\n"


def render(triaged: Triaged, options: Options) -> str:
    """The answer as a page; one line where `quiet`."""
    name, answer = triaged.decisive
    page = Page(options)
    sure = f" ({answer.confidence})" if answer.confidence else ""
    style = _STYLE.get(answer.class_, "bold red")
    page.line((f"{answer.stage}  {answer.class_}", style), f"{sure}  ", (page.clean(name, NAME_CHARS), "dim"))
    if options.quiet:
        return str(page)
    page.line("")
    page.field("stage", f"{answer.stage}: {_STAGES[answer.stage]}", indent=2)
    page.field("class", f"{answer.class_}: {_CLASSES[answer.class_]}", indent=2)
    page.field("engine", answer.engine, indent=2)
    if answer.ranks:
        page.field("said by", ", ".join(page.clean(rank, NAME_CHARS) for rank in answer.ranks), indent=2)
    _lines(page, answer)
    _notes(page, answer.notes)
    page.line("")
    page.field("next", answer.advice, indent=2)
    if answer.requirements:
        page.field("verify", ", ".join(answer.requirements), indent=2)
    if answer.source:
        page.field("source", f"{answer.source} (rule {answer.rule})", "dim", indent=2)
    if len(triaged.answers) > 1:
        _others(page, triaged)
    return str(page)


def _lines(page: Page, answer: Diagnosis) -> None:
    if answer.lines:
        page.line("")
    for line in answer.lines:
        page.field(f"line {line.number}", page.clean(_masked(line.raw), 300), indent=2)


def _notes(page: Page, notes: Mapping[str, str]) -> None:
    if notes:
        page.line("")
    for label, value in notes.items():
        page.field(label, page.clean(_masked(value), 300), indent=2, label_width=16)


def _others(page: Page, triaged: Triaged) -> None:
    page.line("")
    for log, each in _each(triaged):
        page.line(f"  {each.stage:<16} {each.class_:<13} {page.clean(log, NAME_CHARS)}")


def _each(triaged: Triaged) -> Sequence[tuple[str, Diagnosis]]:
    return list(triaged.answers.items())
