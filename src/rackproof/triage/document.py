"""What `triage` says, as JSON (schemas/triage.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rackproof import __version__
from rackproof.triage.mask import masked
from rackproof.verdict.report.clean import NAME_CHARS, clean

if TYPE_CHECKING:
    from rackproof.triage.arithmetic import Fitting
    from rackproof.triage.now import Standing
    from rackproof.triage.render import Triaged

SCHEMA = 1


def text(triaged: Triaged) -> str:
    """ASCII only, so that no byte of it can steer a terminal."""
    return json.dumps(document(triaged), indent=1, ensure_ascii=True) + "\n"


def document(triaged: Triaged) -> dict[str, Any]:
    """The answer as plain data. Text of the log is cleaned here as well: JSON is often printed by other tools."""
    answer = triaged.answer
    return {
        "schema": SCHEMA,
        "tool": {"name": "rackproof", "version": __version__},
        "log": clean(triaged.name, NAME_CHARS),
        "engine": answer.engine,
        "stage": answer.stage,
        "class": answer.class_,
        "confidence": answer.confidence or "none",
        "ranks": [clean(rank, NAME_CHARS) for rank in answer.ranks],
        "at": clean(answer.moment.shown, NAME_CHARS) or None,
        "lines": [{"number": line.number, "role": answer.roles[line.number], "text": clean(masked(line.raw))} for line in answer.lines],
        "notes": _cleaned(answer.notes),
        "timings": [asdict(timing) | {"began": clean(timing.began, NAME_CHARS)} for timing in answer.timings],
        "versions": _cleaned(answer.group("versions")),
        "memory": _cleaned({**answer.group("memory"), **answer.group("tokens")}),
        "arguments": _cleaned(answer.arguments),
        "advice": answer.advice,
        "requirements": list(answer.requirements),
        "fit": None if triaged.fit is None else _fit(triaged.fit),
        "simulated": triaged.simulated,
        "now": None if triaged.now is None else [_standing(one) for one in triaged.now],
        "rule": answer.rule or None,
        "source": answer.source or None,
        "logs": [
            {
                "log": clean(log, NAME_CHARS), "stage": each.stage, "class": each.class_,
                "confidence": each.confidence or "none", "at": clean(each.moment.shown, NAME_CHARS) or None,
            }
            for log, each in triaged.answers.items()
        ],
    }  # fmt: skip


def _cleaned(values: Mapping[str, str]) -> dict[str, str]:
    return {label: clean(masked(value)) for label, value in values.items()}


def _fit(said: Fitting) -> dict[str, Any]:
    return {
        "layout": said.layout or None, "shape": said.shape, "hardware": said.hardware,
        "memory": {"answer": said.memory.answer.value, "why": said.memory.words},
        "context": {"answer": said.context.answer.value, "why": said.context.words},
        "expand": list(said.expand), "move": list(said.move),
    }  # fmt: skip


def _standing(one: Standing) -> dict[str, Any]:
    return {
        "requirement": one.requirement, "status": one.status.value, "nodes": [clean(node) for node in one.nodes],
        "observed": clean(one.observed), "expected": clean(one.expected), "reason": clean(one.reason),
        "remedy": one.remedy,
    }  # fmt: skip
