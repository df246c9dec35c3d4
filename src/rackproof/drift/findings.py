"""Changes put together into findings: one for each thing that changed, however many of its facts did.

A swapped GPU is one finding, the packages of an upgrade are one, and eighteen links at half their rate are one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rackproof.drift.classes import FactClass
from rackproof.drift.compare import Change, Kind
from rackproof.drift.place import ABSENT
from rackproof.facts import Missing

VALUE_CHARS = 96
_WEIGHT = (FactClass.IDENTITY, FactClass.CONFIG, FactClass.HEALTH, FactClass.COUNTER, FactClass.VOLATILE)


@dataclass(frozen=True)
class Told:
    """One change in words; texts are not cleaned yet."""

    path: str
    what: str  # the field, in the item: "uuid"
    kind: Kind
    fact_class: FactClass
    before: str
    after: str
    drift: bool


@dataclass(frozen=True)
class Finding:
    """One thing that changed on one node. `requirements`: gates that it made fail (attribution.py)."""

    subject: str  # "GPU 00000008:06:00.0", "host.packages", "driver.loaded_version"
    kind: str  # a Kind's word, or "replaced"
    fact_class: FactClass
    drift: bool
    changes: tuple[Told, ...]
    fingerprint: str
    more: int = 0  # further things that changed in the same way
    requirements: tuple[str, ...] = ()
    since: str = ""  # when it was first seen

    @property
    def unreadable(self) -> bool:
        return self.kind == Kind.UNREADABLE.value


@dataclass(frozen=True)
class Group:
    """The changes behind a finding, for putting them back."""

    finding: Finding
    changes: tuple[Change, ...]


def findings(changes: Iterable[Change]) -> tuple[Group, ...]:
    """Findings of one node, drift first, then by class and name."""
    by_subject: dict[tuple[str, str, bool], list[Change]] = {}
    for change in changes:
        by_subject.setdefault(_subject(change), []).append(change)
    groups = [_group(subject, tuple(items)) for (_, subject, _), items in by_subject.items()]
    merged = _merged(groups)
    return tuple(sorted(merged, key=_order))


def _subject(change: Change) -> tuple[str, str, bool]:
    """Things of a list and values of a mapping belong together; a field by itself stands alone."""
    place = change.place
    return place.listed, place.subject or place.listed or place.path, change.drift


def _group(subject: str, changes: tuple[Change, ...]) -> Group:
    told = tuple(_told(change) for change in changes)
    replaced = any(change.identifies for change in changes)
    kinds = list(dict.fromkeys(change.kind for change in changes))
    # What could still be read says more than what no longer could.
    known = [kind for kind in kinds if kind is not Kind.UNREADABLE] or kinds
    kind = "replaced" if replaced else known[0].value if len(known) == 1 else Kind.CHANGED.value
    heaviest = min((change.fact_class for change in changes), key=_WEIGHT.index)
    text = "\n".join([subject, kind, *(_mark(change) for change in changes)])
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Group(Finding(subject, kind, heaviest, changes[0].drift, told, fingerprint), changes)


def _mark(change: Change) -> str:
    """What makes a finding the same one tomorrow: where, and to what; of a counter or an unread fact only where."""
    moving = change.fact_class is FactClass.COUNTER or change.kind is Kind.UNREADABLE
    return change.place.path if moving else f"{change.place.path}={value_words(change.after)}"


def _merged(groups: Sequence[Group]) -> list[Group]:
    """Items of one list with the very same changes as one finding."""
    found: dict[object, Group] = {}
    for group in groups:
        first = group.changes[0].place
        told = tuple((one.what, one.kind, one.before, one.after) for one in group.finding.changes)
        same = (
            (first.listed, group.finding.kind, group.finding.drift, told)
            if first.subject
            else group.finding.fingerprint
        )
        known = found.get(same)
        if known is None:
            found[same] = group
            continue
        finding = replace(known.finding, more=known.finding.more + 1)
        found[same] = Group(finding, (*known.changes, *group.changes))
    return list(found.values())


def _told(change: Change) -> Told:
    place = change.place
    what = place.inner or (place.path if not place.subject else "")
    return Told(
        place.path, what, change.kind, change.fact_class, *two_words(change.before, change.after), drift=change.drift
    )


def _order(group: Group) -> tuple[bool, int, str]:
    return not group.finding.drift, _WEIGHT.index(group.finding.fact_class), group.finding.subject


def two_words(before: Any, after: Any) -> tuple[str, str]:
    """From and to. Of two lists, what only one of them has, where they have more in common than not."""
    if isinstance(before, tuple | frozenset) and isinstance(after, tuple | frozenset):
        lost = [str(one) for one in before if one not in after]
        new = [str(one) for one in after if one not in before]
        if len(before) + len(after) > 4 and lost + new:
            return _joined(lost, "without"), _joined(new, "with")
    return value_words(before), value_words(after)


def _joined(items: list[str], word: str) -> str:
    return f"with {_cut(', '.join(sorted(items)))}" if items else "without them" if word == "with" else "without"


def value_words(value: Any) -> str:
    """A value in words: short enough for a line, and different where values differ."""
    if value is ABSENT or value is None:
        return "none"
    if isinstance(value, Missing):
        return f"cannot be read: {value.reason}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | frozenset):
        return _cut(", ".join(sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value))) or "none"
    if hasattr(value, "__dataclass_fields__"):
        return "there"
    return _cut(str(value)) or "empty"


def _cut(text: str) -> str:
    if len(text) <= VALUE_CHARS and "\n" not in text:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{' '.join(text[: VALUE_CHARS // 2].split())}... ({len(text)} characters, sha256 {digest})"
