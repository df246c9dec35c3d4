"""The classes of facts, loaded from classes.yaml, and the allowances of counters, from policy.yaml and the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.drift.fields import leaves, lists
from rackproof.errors import InputError
from rackproof.site import Site
from rackproof.sourced import freeze

FILE = Path(__file__).parent / "classes.yaml"
POLICY = Path(__file__).parent / "policy.yaml"


class FactClass(Enum):
    """The value is the word in YAML, in JSON and on the command line."""

    IDENTITY = "identity"
    CONFIG = "config"
    HEALTH = "health"
    COUNTER = "counter"
    VOLATILE = "volatile"


@dataclass(frozen=True)
class Rule:
    """What a change of one fact means."""

    fact_class: FactClass
    good: tuple[Any, ...] = ()
    better: str = ""  # more | less
    asked: str = ""  # what explains a change: a key of the baseline, or a word of asked.py
    policy: str = ""
    since: str = "life"  # boot | life: when a counter starts at zero
    ordered: bool = False
    tolerance: str = ""
    without: str = ""  # pattern taken out of a text before it is compared
    ignore: tuple[str, ...] = ()  # globs of values of a list that are left out


@dataclass(frozen=True)
class Items:
    """How items of one list are told apart."""

    key: tuple[str, ...]
    name: str
    who: tuple[str, ...] = ()
    each: bool = False  # the key field is a list: an item is known by each of its values
    otherwise: tuple[str, ...] = ()  # the key where that list is empty
    added: str = "drift"
    removed: str = "drift"
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allowance:
    """Growth of a counter that is no drift."""

    grow: float
    per_day: float

    def over(self, days: float) -> float:
        return self.grow + self.per_day * max(days, 0.0)


@dataclass(frozen=True)
class Classes:
    """Rules by path. A path without one is unclassified; nothing may compare it as if nothing had happened."""

    rules: Mapping[str, Rule]
    items: Mapping[str, Items]

    def rule(self, path: str) -> Rule | None:
        """The rule of a leaf: its own, or that of the nearest `.**` above it."""
        found = self.rules.get(path)
        while found is None and path:
            path = path.rpartition(".")[0]
            found = self.rules.get(f"{path}.**")
        return found

    @cache  # noqa: B019 - one instance lives as long as the process
    def watched(self, path: str) -> bool:
        """Whether anything at or below a path can be drift."""
        below = [leaf for leaf in leaves() if leaf == path or leaf.startswith((f"{path}.", f"{path}[", f"{path}{{"))]
        rules = [self.rule(leaf) for leaf in below or [path]]
        return any(rule is None or rule.fact_class is not FactClass.VOLATILE for rule in rules)

    def __hash__(self) -> int:
        return id(self)


_RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["class"],
    "properties": {
        "class": {"enum": [one.value for one in FactClass]},
        "why": {"type": "string"},
        "good": {"type": "array", "minItems": 1},
        "better": {"enum": ["more", "less"]},
        "asked": {"type": "string"},
        "policy": {"type": "string"},
        "since": {"enum": ["boot", "life"]},
        "ordered": {"type": "boolean"},
        "tolerance": {"type": "string"},
        "without": {"type": "string", "format": "regex"},
        "ignore": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "allOf": [
        {"if": {"required": [key]}, "then": {"properties": {"class": {"const": wanted}}}}
        for key, wanted in (("good", "health"), ("better", "health"), ("asked", "config"), ("policy", "counter"))
    ],
}
_NAMES = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_ITEMS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["key", "name"],
    "properties": {
        "key": _NAMES, "name": {"type": "string"}, "who": _NAMES, "each": {"type": "boolean"}, "otherwise": _NAMES,
        "added": {"enum": ["drift", "information"]}, "removed": {"enum": ["drift", "information"]}, "ignore": _NAMES,
    },
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "items", "facts"],
    "properties": {
        "schema": {"const": 1},
        "items": {"type": "object", "additionalProperties": _ITEMS},
        "facts": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"enum": [one.value for one in FactClass if one.value != "counter"]}, _RULE]
            },
        },
    },
}


@cache
def classes() -> Classes:
    """The classification that ships with the package."""
    return load(FILE)


def load(path: Path) -> Classes:
    """Read a classification; raises InputError with file and line for a rule that is none."""
    data = yamlfile.load(path, SCHEMA).data
    items = {
        name: Items(**{key: freeze(value) for key, value in fields.items()}) for name, fields in data["items"].items()
    }
    return Classes({name: _rule(value) for name, value in data["facts"].items()}, items)


def _rule(value: Any) -> Rule:
    fields = {"class": value} if isinstance(value, str) else dict(value)
    fields.pop("why", None)
    fact_class = FactClass(fields.pop("class"))
    return Rule(fact_class, **{key: freeze(item) for key, item in fields.items()})


def complaints(found: Classes) -> list[str]:
    """What is wrong with a classification, each with the line that would mend it."""
    said = [
        f"{leaf} is not classified: add `  {leaf}: identity|config|health|volatile` (or class: counter with a policy) "
        f"under facts: in drift/classes.yaml"
        for leaf in leaves()
        if found.rule(leaf) is None
    ]
    for path, fields in lists().items():
        if path not in found.items:
            said.append(
                f'{path} is a list: add `  {path}: {{key: [FIELD], name: "WORD {{FIELD}}"}}` under items: in '
                f"drift/classes.yaml; fields: {', '.join(sorted(fields))}"
            )
        else:
            rule = found.items[path]
            strange = {*rule.key, *rule.who, *rule.otherwise} - fields
            said += [f"items: {path}: {name} is no field of it" for name in sorted(strange)]
    known = {*leaves(), *lists()}
    for name in found.rules:
        start = name.removesuffix(".**")
        if not any(path == start or (name != start and path.startswith(f"{start}.")) for path in known):
            said.append(f"facts: {name} is no field of NodeFacts (any more): take the line out")
    said += [f"items: {name} is no list of NodeFacts (any more)" for name in found.items if name not in lists()]
    return said


def allowances(site: Site) -> Mapping[str, Allowance]:
    """Allowance of each policy: as shipped, with what the site says under `drift:` on top."""
    shipped = yamlfile.load(POLICY).data["allowances"]
    return {
        name: Allowance(
            site.value("drift", name, "grow", default=values["grow"]),
            site.value("drift", name, "per_day", default=values["per_day"]),
        )
        for name, values in shipped.items()
    }


@cache
def tolerances() -> Mapping[str, float]:
    """Share by which a number may fall before that is for the worse."""
    return {name: float(values["share"]) for name, values in yamlfile.load(POLICY).data["tolerances"].items()}


def fact_classes(text: str) -> frozenset[FactClass]:
    """`identity,config` as classes; `none` is none of them. Raises InputError for a word that is no class."""
    accepted = [one.value for one in FactClass if one is not FactClass.VOLATILE]
    words = [word.strip() for word in text.split(",") if word.strip()]
    strange = [word for word in words if word not in [*accepted, "none"]]
    if strange or not words:
        raise InputError("--fail-on", f"{', '.join(strange) or 'nothing'} is no class of facts", [*accepted, "none"])
    return frozenset(FactClass(word) for word in words if word != "none")
