"""The rules of the recipe: conditions over facts, arguments and environment, with a closed set of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rackproof.errors import InputError
from rackproof.recipes.settings import Rule

Facts = Mapping[str, Any]
Condition = Mapping[str, Mapping[str, Any]]


def broken(rules: tuple[Rule, ...], facts: Facts) -> list[Rule]:
    """The rules that these facts break."""
    return [rule for rule in rules if holds(rule.when, facts) and not holds(rule.require, facts)]


def applying(rules: tuple[Rule, ...], facts: Facts) -> list[Rule]:
    """The rules (warnings) whose condition these facts meet."""
    return [rule for rule in rules if holds(rule.when, facts)]


def holds(condition: Condition, facts: Facts) -> bool:
    """Whether every part of a condition is met; one without parts always is."""
    return all(
        OPERATORS[operator](facts.get(key), wanted)
        for key, operators in condition.items()
        for operator, wanted in operators.items()
    )


def refuse(rules: list[Rule], facts: Facts, where: Mapping[str, str], layout: str) -> None:
    """Raise InputError naming every broken rule with what was found, what it needs and its source."""
    if not rules:
        return
    lines = [
        f"rule {rule.id}: {rule.title}; found {_found(rule, facts)}; it would break {rule.stage} [{rule.source}]"
        for rule in rules
    ]
    keys = [key for rule in rules for key in (*rule.when, *rule.require) if key in where]
    place = where[keys[0]] if keys else f"layout {layout}"
    raise InputError(place, "\n  ".join(lines), "; ".join(_words(rule.require) for rule in rules))


def _found(rule: Rule, facts: Facts) -> str:
    keys = dict.fromkeys((*rule.when, *rule.require))
    return ", ".join(f"{key} {_text(facts.get(key))}" for key in keys)


def _words(condition: Condition) -> str:
    return ", ".join(
        f"{key} {operator.replace('_', ' ')} {_wanted(wanted)}"
        for key, operators in condition.items()
        for operator, wanted in operators.items()
    )


def _wanted(wanted: Any) -> str:
    return " or ".join(_text(item) for item in wanted) if isinstance(wanted, list) else _text(wanted)


def _text(value: Any) -> str:
    if value is None:
        return "is not set"
    return "a bare flag" if value == "" else str(value)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _at_least(value: Any, floor: float) -> bool:
    number = _number(value)
    return number is not None and number >= floor


def _divides(value: Any, total: int) -> bool:
    number = _number(value)
    return number is not None and number >= 1 and number == int(number) and total % int(number) == 0


def _multiple_of(value: Any, unit: int) -> bool:
    number = _number(value)
    return number is not None and number >= 0 and number == int(number) and int(number) % unit == 0


def _starts(value: Any, prefixes: list[str]) -> bool:
    return value is not None and str(value).startswith(tuple(prefixes))


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "is": lambda value, wanted: value in wanted,
    "not": lambda value, wanted: value not in wanted,
    "set": lambda value, wanted: (value is not None) == wanted,
    "contains": lambda value, wanted: value is not None and wanted in value,
    "starts": _starts,
    "not_starts": lambda value, wanted: not _starts(value, wanted),
    "at_least": _at_least,
    "divides": _divides,
    "multiple_of": _multiple_of,
}
