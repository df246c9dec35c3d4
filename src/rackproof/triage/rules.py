"""The rules, as data: rules.yaml beside this module, held against SCHEMA by a test, patterns compiled once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.triage.stages import Stage

CLASSES = ("environment", "tuning", "capacity", "bug-upstream")
STAGES = ("provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving")
WHEN = ("unknown", *(stage.name.lower() for stage in Stage))
RULES = Path(__file__).with_name("rules.yaml")
PLACE = re.compile(r"\{([^{}]+)\}")
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": False,
        "required": ["literal", "class", "advice", "requirements", "source", "examples", "counterexamples"],
        "properties": {
            "literal": {"type": "string", "minLength": 4},
            "pattern": {"type": "string"},
            "also": {"type": "string"},
            "when": {"type": "array", "items": {"enum": list(WHEN)}, "minItems": 1},
            "stage": {"enum": list(STAGES)},
            "default_stage": {"enum": list(STAGES)},
            "class": {"enum": list(CLASSES)},
            "strength": {"enum": ["root", "cause", "stated", "hint", "last-line"]},
            "advice": {"type": "string"},
            "adds": {"type": "string", "pattern": r"\{[^{}]+\}"},
            "requirements": {"type": "array", "items": {"type": "string"}},
            "source": {"type": "string"},
            "examples": _TEXTS,
            "counterexamples": _TEXTS,
        },
    },
}


@dataclass(frozen=True)
class Rule:
    """One thing a log can say, and what follows from it.

    `literal` is looked for first, so that a line which is not about this costs one substring search. `strength`:
    root (health of the node: outranks what it makes fail), cause, stated (a fault that the log states, but not that it
    is the one; only where nothing else decides), hint (a guess, likewise), last-line (a hint, and only where the log stops at it). `adds` is a sentence more,
    with the values of notes in braces. `stage` holds always, `default_stage` where the log does not say.
    """

    id: str
    literal: str
    pattern: re.Pattern[str] | None
    also: str
    when: frozenset[str]
    stage: str | None
    default_stage: str | None
    class_: str
    strength: str
    advice: str
    adds: str
    requirements: tuple[str, ...]
    source: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]

    def advise(self, notes: Mapping[str, str]) -> str:
        """The advice, and `adds` with the values it names, where the log tells them all."""
        labels = PLACE.findall(self.adds)
        if not labels or not set(labels) <= set(notes):
            return self.advice
        return f"{self.advice} {PLACE.sub(lambda found: notes[found[1]], self.adds)}"

    def matches(self, text: str) -> bool:
        return self.literal in text and (self.pattern is None or self.pattern.search(text) is not None)


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the file: of two that match one line the first counts."""
    file = yamlfile.load(RULES)  # a test holds the file against SCHEMA; here that would cost more than a small log
    return tuple(_rule(file, key, fields) for key, fields in file.data.items())


def _rule(file: yamlfile.YamlFile, key: str, fields: Mapping[str, Any]) -> Rule:
    try:
        pattern = re.compile(fields["pattern"]) if "pattern" in fields else None
    except re.error as error:
        raise InputError(file.where(key, "pattern"), f"is no regular expression: {error}") from None
    return Rule(
        id=key,
        literal=fields["literal"],
        pattern=pattern,
        also=fields.get("also", ""),
        when=frozenset(fields.get("when", WHEN)),
        stage=fields.get("stage"),
        default_stage=fields.get("default_stage"),
        class_=fields["class"],
        strength=fields.get("strength", "cause"),
        advice=fields["advice"],
        adds=fields.get("adds", ""),
        requirements=tuple(fields["requirements"]),
        source=fields["source"],
        examples=tuple(fields["examples"]),
        counterexamples=tuple(fields["counterexamples"]),
    )
