"""From several readings to one judgement.

One rule runs through all of it: what is known to be wrong fails, even where something else could not be read; where
nothing is known to be wrong and something is missing, the answer is unknown; and no reading at all is unknown too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rackproof.errors import MissingFact
from rackproof.facts import Fact, Missing, known
from rackproof.verdict.model import Judgement, judge

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Reading:
    """One thing that was looked at: whether it is as it should be, and what was there."""

    ok: bool
    text: str


def of(fact: Fact[A], read: Callable[[A], Fact[B]]) -> Fact[B]:
    """What `read` makes of a fact; Missing stays Missing."""
    try:
        return read(known(fact))
    except MissingFact as missing:
        return Missing(missing.reason)


def seen(fact: Fact[A], ok: Callable[[A], bool], show: Callable[[A], object] = str) -> Fact[Reading]:
    """A fact as a reading."""
    return of(fact, lambda value: Reading(bool(ok(value)), str(show(value)) or "nothing"))


def all_of(expected: object, readings: Mapping[str, Fact[Reading]]) -> Judgement:
    """Every reading, by the name of what was read, must be ok. Those that are not are named."""
    present = {name: reading for name, reading in readings.items() if not isinstance(reading, Missing)}
    wrong = {name: reading.text for name, reading in present.items() if not reading.ok}
    if wrong:
        return judge(False, "; ".join(f"{names}: {text}" for text, names in grouped(wrong)), expected)
    if not readings:
        raise MissingFact("there was nothing to look at")
    _refuse_missing(readings)
    return judge(True, _summary({name: reading.text for name, reading in present.items()}), expected)


def same(
    expected: object, values: Mapping[str, Fact[A]], ok: Callable[[A], bool] = bool, show: Callable[[A], object] = str
) -> Judgement:
    """All must have one value, and an ok one. Observed is grouped by value: "580.126.20: tray01, tray02"."""
    present = {name: value for name, value in values.items() if not isinstance(value, Missing)}
    words = {name: str(show(value)) or "none" for name, value in present.items()}
    if len(set(words.values())) > 1 or not all(ok(value) for value in present.values()):
        return judge(False, "; ".join(f"{text}: {names}" for text, names in grouped(words)), expected)
    if not values:
        raise MissingFact("there was nothing to compare")
    _refuse_missing(values)
    return judge(True, _summary(words), expected)


def either(*readings: Fact[Reading]) -> Fact[Reading]:
    """One reading out of several of which one has to be ok."""
    present = [reading for reading in readings if not isinstance(reading, Missing)]
    good = next((reading for reading in present if reading.ok), None)
    missing = next((reading for reading in readings if isinstance(reading, Missing)), None)
    return good or missing or Reading(False, ", ".join(reading.text for reading in present))


def grouped(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """(text, names that share it) in the order of their first name."""
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    return [(text, ", ".join(names)) for text, names in groups.items()]


def _refuse_missing(facts: Mapping[str, Fact[Any]]) -> None:
    reasons = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Missing)}
    if not reasons:
        return
    if len(reasons) == len(facts) and len(set(reasons.values())) == 1:
        raise MissingFact(next(iter(reasons.values())))
    raise MissingFact("; ".join(f"{names}: {reason}" for reason, names in grouped(reasons)))


def _summary(texts: Mapping[str, str]) -> str:
    """What is well, in short: shared texts are counted instead of naming all who share them."""
    shared = Counter(texts.values())
    if len(shared) == 1 < len(texts):
        return f"{next(iter(shared))} ({len(texts)} of {len(texts)})"
    return "; ".join(
        f"{text} ({shared[text]})" if shared[text] > 1 else f"{names}: {text}" for text, names in grouped(texts)
    )
