"""Places in facts: where a value stands, by names that stay the same from one probe to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from rackproof.drift.classes import Classes, Items
from rackproof.facts import Missing


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()  # an item or a key that is not there, which is known, other than a Missing
Key = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """From a value to one inside of it: a field's name, a mapping's key, or an item's key in a list."""

    kind: str  # field | key | item
    name: Any


@dataclass(frozen=True)
class Place:
    """`pattern` names the rule (`smi.gpus[].uuid`), `path` the value (`smi.gpus[00000008:06:00.0].uuid`)."""

    pattern: str = ""
    path: str = ""
    steps: tuple[Step, ...] = ()
    subject: str = ""  # words for the outermost item of a list: "GPU 00000008:06:00.0"
    inner: str = ""  # where in that item, in words
    listed: str = ""  # pattern of that outermost list, or of the mapping a value stands in

    def field(self, name: str) -> Place:
        return self._to(Step("field", name), f".{name}", f".{name}", name if self.subject or self.inner else "")

    def key(self, key: Any, thing: bool = False) -> Place:
        """`thing`: the value has facts of its own, such as a unit; values of other mappings are told together."""
        text = "-".join(map(str, key)) if isinstance(key, tuple) else str(key)
        place = self._to(Step("key", key), "{}", f"{{{text}}}", text)
        if self.subject:
            return place
        place = replace(place, listed=self.pattern)
        return replace(place, subject=place.path, inner="") if thing else place

    def item(self, key: Key, name: str) -> Place:
        place = self._to(Step("item", key), "[]", f"[{','.join(key)}]", "")
        inner = " ".join([*self.inner.split()[:-1], name])  # the item's name instead of its list's
        return replace(place, inner=inner) if self.subject else replace(place, subject=name, listed=self.pattern)

    def _to(self, step: Step, pattern: str, path: str, inner: str) -> Place:
        return replace(
            self,
            pattern=f"{self.pattern}{pattern}".lstrip("."),
            path=f"{self.path}{path}".lstrip("."),
            steps=(*self.steps, step),
            inner=f"{self.inner} {inner}".strip(),
        )


def named_items(items: tuple[Any, ...], rule: Items) -> dict[Key, tuple[str, Any]]:
    """Items by key, each with its name in words. A key that appears twice gets a number, so that none is lost."""
    found: dict[Key, tuple[str, Any]] = {}
    for item in items:
        for key in _keys(item, rule):
            if any(fnmatchcase(part, glob) for part in key for glob in rule.ignore):
                continue
            unique, number = key, 1
            while unique in found:
                number += 1
                unique = (*key, f"#{number}")
            words = dict.fromkeys((*rule.otherwise, *rule.key), "") | dict(zip(rule.key, key, strict=False))
            found[unique] = (rule.name.format(**words) + (f" ({number})" if number > 1 else ""), item)
    return found


def _keys(item: Any, rule: Items) -> list[Key]:
    values = [getattr(item, name) for name in rule.key]
    if rule.each:
        listed = values[0] if isinstance(values[0], tuple) else ()
        return [(str(one),) for one in sorted(listed)] or [tuple(str(getattr(item, name)) for name in rule.otherwise)]
    return [tuple("?" if isinstance(value, Missing) else str(value) for value in values)]


def put(root: Any, steps: tuple[Step, ...], value: Any, classes: Classes, pattern: str = "") -> Any:
    """A copy of facts with one value changed; ABSENT takes an item or a key away, a whole item may be put back."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step.kind == "field":
        if not is_dataclass(root):
            return root
        below = f"{pattern}.{step.name}".lstrip(".")
        return replace(root, **{step.name: put(getattr(root, step.name), rest, value, classes, below)})  # type: ignore[type-var]
    if step.kind == "key":
        table = dict(root) if isinstance(root, Mapping) else {}
        new = put(table.get(step.name), rest, value, classes, f"{pattern}{{}}")
        table = {key: item for key, item in table.items() if key != step.name}
        return table if new is ABSENT else {**table, step.name: new}
    named = named_items(root, classes.items[pattern])
    old = named.pop(step.name, ("", None))[1]
    new = put(old, rest, value, classes, f"{pattern}[]")
    kept = [item for item in root if item is not old]
    return tuple(kept if new is ABSENT else [*kept, new])
