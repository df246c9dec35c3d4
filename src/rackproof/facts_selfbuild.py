"""Whether a host was ever brought up by the self-build path and not converted since: all places that remember it.

The mark is one file, and a file can be deleted. So the stamp, the stamps before it, the journal and a record of its own
remember it as well, and each of them alone is enough. Only a conversion, which writes to all of them, ends it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.facts_control import Change, ControlFacts

TIER = "unsupported-selfbuild"  # what the stamp of a self-built host says in place of a layout's tier
LAYER = "selfbuild"  # what the journal calls the steps of both
CONVERTED = "Converted"  # how the name of the last step of a conversion begins


def traces(facts: NodeFacts) -> dict[str, Fact[str | None]]:
    """place -> what stands there of a self-build; None where nothing does, Missing where it could not be read."""
    host, control = facts.host, facts.control
    if isinstance(control, Missing):
        return {"mark": host.selfbuild, "stamp": _stamp(host.stamp), "records": control}
    return {
        "mark": host.selfbuild,
        "stamp": _stamp(host.stamp),
        "earlier stamp": _earlier(host.stamp, control),
        "journal": _journal(control.journal),
        "record": control.selfbuild,
    }


def _stamp(stamp: Fact[Mapping[str, object] | None]) -> Fact[str | None]:
    if stamp is None or isinstance(stamp, Missing):
        return stamp
    return f"tier {stamp['tier']}" if stamp.get("tier") == TIER else None


def _earlier(stamp: Fact[Mapping[str, object] | None], control: ControlFacts) -> Fact[str | None]:
    """An earlier stamp counts only where no later one replaced it: an official deploy stamps a converted host alone."""
    if isinstance(control.history, Missing) or isinstance(stamp, Missing):
        return control.history if isinstance(control.history, Missing) else None
    newest = control.history[0] if control.history and stamp is None else None
    return _stamp(newest)


def _journal(journal: Fact[tuple[Change, ...]]) -> Fact[str | None]:
    if isinstance(journal, Missing):
        return journal
    done = [one for one in journal if one.layer == LAYER and (one.event == "begin" or one.rc == 0)]
    last = done[-1] if done else None
    ended = last is not None and last.event == "end" and last.step.startswith(CONVERTED)
    return None if last is None or ended else f"{last.time}: {last.step}"
