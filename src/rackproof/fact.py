"""A fact: a value, or the reason why there is none. What nodes have in facts is in facts.py and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, Union

from rackproof.errors import MissingFact

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """A fact that could not be read. `reason` is a phrase for a report: "nvidia-smi did not end within 20 s"."""

    reason: str


Fact = Union[T, Missing]  # noqa: UP007 - a generic alias; PEP 695 needs Python 3.12


def known(fact: Fact[T]) -> T:
    """The value of a fact; raises MissingFact with the reason when there is none."""
    if isinstance(fact, Missing):
        raise MissingFact(fact.reason)
    return fact


def known_each(facts: Iterable[Fact[T]], what: str) -> list[T]:
    """Values of one field over several items; raises when there is no item at all, since `all([])` proves nothing."""
    values = [known(fact) for fact in facts]
    if not values:
        raise MissingFact(f"no {what} was read")
    return values
