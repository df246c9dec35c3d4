"""Two sets of facts of one node compared: every change, and what it means by the class of the fact.

A fact that was known and cannot be read any more is a change of its own kind, at the outermost fact that is missing; the
other way round is information. Facts that were missing before and are missing now say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from rackproof.baseline import Baseline
from rackproof.drift.asked import explained
from rackproof.drift.classes import Allowance, Classes, FactClass, Items, Rule, tolerances
from rackproof.drift.place import ABSENT, Place, named_items
from rackproof.facts import Missing, NodeFacts


class Kind(Enum):
    """What happened to a fact. The value is the word in JSON."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    GREW = "grew"
    WORSE = "worse"
    UNREADABLE = "unreadable"
    UNCLASSIFIED = "unclassified"  # nobody said what a change means, so it is drift
    EXPLAINED = "explained"  # to what the baseline asks
    BETTER = "better"
    READABLE = "readable"

    @property
    def is_drift(self) -> bool:
        return self not in (Kind.EXPLAINED, Kind.BETTER, Kind.READABLE)


@dataclass(frozen=True)
class Change:
    """One fact that is not as it was. `drift` is False for what is only worth knowing."""

    place: Place
    fact_class: FactClass
    kind: Kind
    before: Any
    after: Any
    drift: bool
    identifies: bool = False  # it tells one specimen from another: the item was replaced


@dataclass(frozen=True)
class Yardstick:
    """By what changes are measured. `days` between the two probes; `rebooted` whether a boot lies between them."""

    classes: Classes
    allowances: Mapping[str, Allowance]
    baseline: Baseline | None
    days: float
    rebooted: bool


def compare(before: NodeFacts, after: NodeFacts, by: Yardstick) -> tuple[Change, ...]:
    """Every change that is drift or worth knowing, in the order of the fields."""
    return tuple(_walk(Place(), before, after, by))


def _walk(at: Place, before: Any, after: Any, by: Yardstick) -> Iterator[Change]:
    if isinstance(before, Missing) or isinstance(after, Missing):
        yield from _missing(at, before, after, by)
    elif is_dataclass(before) and is_dataclass(after):
        for field in fields(before):
            yield from _walk(at.field(field.name), getattr(before, field.name), getattr(after, field.name), by)
    elif at.pattern in by.classes.items and isinstance(before, tuple) and isinstance(after, tuple):
        yield from _items(at, before, after, by, by.classes.items[at.pattern])
    elif isinstance(before, Mapping) or isinstance(after, Mapping):
        yield from _mapping(at, before or {}, after or {}, by)
    else:
        yield from _leaf(at, before, after, by)


def _missing(at: Place, before: Any, after: Any, by: Yardstick) -> Iterator[Change]:
    both = isinstance(before, Missing) and isinstance(after, Missing)
    if both or not by.classes.watched(at.pattern):
        return
    kind = Kind.UNREADABLE if isinstance(after, Missing) else Kind.READABLE
    rule = by.classes.rule(at.pattern)
    yield Change(at, rule.fact_class if rule else FactClass.HEALTH, kind, before, after, kind.is_drift)


def _items(at: Place, before: Any, after: Any, by: Yardstick, rule: Items) -> Iterator[Change]:
    if not by.classes.watched(at.pattern):
        return
    old, new = named_items(before, rule), named_items(after, rule)
    for key in sorted({**old, **new}):
        name, was = old.get(key, ("", ABSENT))
        name, now = new.get(key, (name, ABSENT))
        place = at.item(key, name)
        if was is ABSENT or now is ABSENT:
            kind = Kind.ADDED if was is ABSENT else Kind.REMOVED
            drift = (rule.added if was is ABSENT else rule.removed) == "drift"
            first = by.classes.rule(f"{at.pattern}[].{rule.key[0]}")
            yield Change(place, first.fact_class if first else FactClass.CONFIG, kind, was, now, drift)
        else:
            yield from _same_item(place, was, now, by, rule)


def _same_item(at: Place, was: Any, now: Any, by: Yardstick, rule: Items) -> Iterator[Change]:
    """An item in the same place. Another specimen is said once, and its counters are not the old one's."""
    own = [(name, getattr(was, name), getattr(now, name)) for name in rule.who]
    changed = [name for name, old, new in own if old != new and not isinstance(old, Missing | None)
               and not isinstance(new, Missing)]  # fmt: skip
    for change in _walk(at, was, now, by):
        if not changed:
            yield change
        elif change.fact_class is not FactClass.COUNTER:
            identifies = change.place.pattern in {f"{at.pattern}.{name}" for name in changed}
            yield Change(
                change.place, change.fact_class, change.kind, change.before, change.after, change.drift, identifies
            )


def _mapping(at: Place, before: Mapping[Any, Any], after: Mapping[Any, Any], by: Yardstick) -> Iterator[Change]:
    for key in sorted({**before, **after}, key=str):
        was, now = before.get(key, ABSENT), after.get(key, ABSENT)
        whole = next((one for one in (was, now) if is_dataclass(one) and not isinstance(one, Missing)), None)
        place = at.key(key, thing=whole is not None)
        if ABSENT in (was, now) and whole is not None:
            kind = Kind.ADDED if was is ABSENT else Kind.REMOVED
            if by.classes.watched(place.pattern):
                yield Change(place, FactClass.CONFIG, kind, was, now, True)
        else:
            yield from _walk(place, was, now, by)


def _leaf(at: Place, before: Any, after: Any, by: Yardstick) -> Iterator[Change]:
    rule = by.classes.rule(at.pattern)
    if rule is None:
        if before != after:
            yield Change(at, FactClass.CONFIG, Kind.UNCLASSIFIED, before, after, True)
        return
    if _alike(before, after, rule) or rule.fact_class is FactClass.VOLATILE:
        return
    kind = _MEANING[rule.fact_class](at, before, after, by, rule)
    if kind is not None:
        yield Change(at, rule.fact_class, kind, before, after, kind.is_drift)


def _alike(before: Any, after: Any, rule: Rule) -> bool:
    before, after = _told(before, rule), _told(after, rule)
    if isinstance(before, list) and isinstance(after, list) and not rule.ordered:
        return sorted(before) == sorted(after)
    return bool(before == after)


def _told(value: Any, rule: Rule) -> Any:
    """A value without what its rule leaves out; lists and sets as lists of text."""
    if isinstance(value, tuple | frozenset):
        return [str(one) for one in value if not any(fnmatchcase(str(one), glob) for glob in rule.ignore)]
    return re.sub(rule.without, "", value) if rule.without and isinstance(value, str) else value


def _identity(at: Place, before: Any, after: Any, by: Yardstick, rule: Rule) -> Kind:
    return _came_or_went(before, after)


def _config(at: Place, before: Any, after: Any, by: Yardstick, rule: Rule) -> Kind:
    keys = [str(step.name) for step in at.steps if step.kind == "key"]
    asked = explained(rule.asked, keys[-1] if keys else "", after, by.baseline)
    return Kind.EXPLAINED if asked else _came_or_went(before, after)


def _health(at: Place, before: Any, after: Any, by: Yardstick, rule: Rule) -> Kind | None:
    """For the worse is drift; where nobody can tell the direction, any change is."""
    if rule.good:
        return Kind.BETTER if after in rule.good else Kind.WORSE
    if rule.better and _number(before) and _number(after):
        if (after > before) == (rule.better == "more"):
            return Kind.BETTER
        slack = tolerances()[rule.tolerance] if rule.tolerance else 0.0
        return Kind.WORSE if abs(after - before) > abs(before) * slack else None
    return Kind.WORSE


def _counter(at: Place, before: Any, after: Any, by: Yardstick, rule: Rule) -> Kind | None:
    """Growth beyond the allowance. A counter that started again has grown by all it shows, and never shrinks."""
    if not _number(after):
        return None if after is ABSENT else Kind.CHANGED
    start = before if _number(before) else 0
    if after < start or (rule.since == "boot" and by.rebooted):
        start = 0
    return Kind.GREW if after - start > by.allowances[rule.policy].over(by.days) else None


def _came_or_went(before: Any, after: Any) -> Kind:
    return Kind.ADDED if before is ABSENT else Kind.REMOVED if after is ABSENT else Kind.CHANGED


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_MEANING = {
    FactClass.IDENTITY: _identity,
    FactClass.CONFIG: _config,
    FactClass.HEALTH: _health,
    FactClass.COUNTER: _counter,
}
