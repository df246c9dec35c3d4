"""Node names, folded for people: `rack1-tray[01-03,07]`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from rackproof.verdict.report.clean import NAME_CHARS, clean

# Names come from evidence too. Only what is a host name or an address is handed to the nodeset parser: in its grammar
# "[1-99999999]" is a hundred million nodes and "@x" is a lookup.
_HOST = re.compile(r"(?:[A-Za-z0-9_.:-]{1,80}@)?[A-Za-z0-9_][A-Za-z0-9_.:-]{0,79}")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")
_MANY_GROUPS = 100


def fold(names: Iterable[str], ascii_only: bool = False) -> str:
    """All names in as little room as possible; a name that is no host name stands by itself, cleaned."""
    listed = list(dict.fromkeys(names))
    hosts = [name for name in listed if _HOST.fullmatch(name)]
    others = [clean(name, NAME_CHARS, ascii_only) for name in listed if not _HOST.fullmatch(name)]
    return ",".join([*_folded(hosts), *others])


def counted(names: Iterable[str], ascii_only: bool = False, limit: int = 240, word: str = "node") -> str:
    """Folded names, and how many they are when they are more than one; past `limit` characters they are cut."""
    listed = list(dict.fromkeys(names))
    text = shortened(fold(listed, ascii_only), limit)
    return f"{text} ({len(listed)} {word}s)" if len(listed) > 1 else text


def shortened(nodeset: str, limit: int) -> str:
    """A folded nodeset cut at a comma, between names if that leaves enough of it, and with its bracket closed."""
    if len(nodeset) <= limit:
        return nodeset
    whole = [end for end in outer_commas(nodeset) if limit // 2 < end <= limit]
    if whole:
        return f"{nodeset[: whole[-1]]},..."
    kept = nodeset[:limit].rpartition(",")[0] or nodeset[:limit]
    return f"{kept},...{']' if kept.count('[') > kept.count(']') else ''}"


def outer_commas(nodeset: str) -> list[int]:
    """Where the commas outside brackets stand."""
    found, depth = [], 0
    for position, char in enumerate(nodeset):
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            found.append(position)
    return found


def _folded(hosts: list[str]) -> list[str]:
    """Folding in several dimensions is quadratic; a fleet without any pattern is folded by its last number alone."""
    groups: dict[str, list[str]] = {}
    for host in hosts:
        groups.setdefault(_LAST_NUMBER.sub("#", host), []).append(host)
    if len(groups) <= _MANY_GROUPS:
        return [str(NodeSet.fromlist(hosts, resolver=RESOLVER_NOGROUP))] if hosts else []
    return [str(NodeSet.fromlist(group, resolver=RESOLVER_NOGROUP)) for group in groups.values()]
