"""Nodeset syntax (`rack1-tray[01-18]`), as ClusterShell and Slurm write it: expanding, folding, and no silent loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet, NodeSetException

from rackproof.errors import InputError

ACCEPTED = "rack1-tray[01-18] or a,b,c"

def expand(text: str, where: str) -> tuple[str, ...]:
    """Names in the order written. Raises InputError for bad syntax and for a name that appears twice."""
    names: list[str] = []
    for part in _parts(text):
        try:
            for simple in _simple(part):
                names += [str(name) for name in NodeSet(simple)]
        except NodeSetException as error:
            raise InputError(where, f"{text!r} is not a nodeset: {error}", ACCEPTED) from None
    if not names:
        raise InputError(where, f"{text!r} names no node", ACCEPTED)
    odd = next((name for name in names if any(char.isspace() for char in name)), None)
    if odd is not None:
        raise InputError(where, f"{odd!r} cannot be the name of a host", ACCEPTED)
    refuse_duplicates(names, where)
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """`tray[01-03,07]`; names ClusterShell cannot fold are joined by commas."""
    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed))
    except NodeSetException:
        return ",".join(listed)


def refuse_duplicates(names: Iterable[str], where: str) -> None:
    """A nodeset would swallow a name given twice; an inventory that names a host twice is a mistake."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(where, f"host {', '.join(twice)} is named twice", "each host once")


def _parts(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _simple(part: str) -> list[str]:
    """One range a bracket: `a[3,1-2]` as a[3], a[1-2]. A NodeSet sorts, and swallows what a bracket says twice."""
    head, bracket, rest = part.partition("[")
    inside, closing, tail = rest.partition("]")
    if not (bracket and closing):
        return [part]
    return [f"{head}[{item}]{more}" for item in inside.split(",") for more in _simple(tail)]
