"""What checks ask of the kernel log: Xids, SXids, and what amdgpu reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rackproof.facts import Fact, Missing, NodeFacts, Xid, known
from rackproof.layers.readings import Reading, of, seen


def xid_words(xids: Iterable[Xid]) -> str:
    """Each kind once for each GPU: "Xid 79 on 00000009:06:00.0"."""
    return ", ".join(dict.fromkeys(f"Xid {xid.code} on {xid.pci_address}" for xid in xids))


def severities(facts: NodeFacts, codes: Collection[int]) -> dict[str, Fact[Reading]]:
    """One reading an Xid of these codes, by the word Fatal or Nonfatal on its line; a fatal one is kept over others."""
    found: list[tuple[str, Fact[bool]]] = []
    for xid in known(facts.kernel_log).xids:
        said = {"Fatal", "Nonfatal"} & {*xid.text.split()}
        name = f"Xid {xid.code} on {xid.pci_address}"
        silent = Missing("its line does not say whether it is fatal")
        found += [(name, "Fatal" in said if said else silent)] if xid.code in codes else []
    ordered = sorted(found, key=lambda item: (item[1] is True, isinstance(item[1], Missing)))
    return {name: seen(fatal, lambda yes: not yes, lambda yes: "fatal" if yes else "not fatal") for name, fatal in ordered}


def sxids(facts: NodeFacts) -> dict[str, Fact[Reading]]:
    """One reading an SXid of the kernel log."""
    events = known(of(facts.system, lambda system: system.kernel_events))
    return {
        f"SXid {sxid.code} on {sxid.pci_address}": seen(
            sxid.fatal, lambda fatal: not fatal, lambda fatal: "fatal" if fatal else "not fatal"
        )
        for sxid in sorted(events.sxids, key=lambda one: one.fatal is True)  # a fatal one is kept over others
    }


def events(facts: NodeFacts, kinds: Collection[str], but: Collection[str] = ()) -> Fact[list[tuple[str, str]]]:
    """(kind, words) of what amdgpu reports in the kernel log; of any kind but those in `but` where none is named."""
    listed = of(facts.amd, lambda amd: amd.ras)
    return of(
        listed,
        lambda found: [
            (event.kind, f"{event.pci_address} {event.text}")
            for event in found
            if (event.kind in kinds if kinds else event.kind not in but)
        ],
    )


def log_lines(facts: NodeFacts) -> Fact[Reading]:
    """That there was a kernel log to look into."""
    unread = Missing("there was no kernel log to read")
    lines: Fact[int] = of(facts.kernel_log, lambda log: log.lines_read if log.lines_read > 0 else unread)
    return seen(lines, lambda _: True, lambda number: f"nothing in {number} lines")
