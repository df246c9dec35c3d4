"""The lock, the journal and the earlier stamps that deploys keep on a node; written by rackproof.deploy.onhost.

The journal is JSON lines; its end is read, so the first line may be cut off. A line that is no JSON object is skipped:
a full disk leaves such lines, and a journal is an account, never a proof.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import load_object
from rackproof.facts import Fact, Missing
from rackproof.facts_control import Change, ControlFacts, Lock
from rackproof.managed import BUSY, HISTORY, JOURNAL, LOCK, SELFBUILD_RECORD

TAIL_LINES, TAIL_BYTES = 40, 24_000
STAMPS = 4  # how many earlier stamps are read

_SCRIPT = f"""
show {LOCK}
if [ -f {LOCK} ]; then say idle "$(( $(date +%s) - $(stat -c %Y {LOCK}) ))"; fi
if [ -f {BUSY} ]; then if flock -n -s {BUSY} true; then say working no; else say working yes; fi; fi
if [ -f {JOURNAL} ]; then
  say generation "$(tail -n 1 {JOURNAL} | cksum)"
  echo "= journal"; tail -n {TAIL_LINES} {JOURNAL} | tail -c {TAIL_BYTES} | content
else gone {JOURNAL}; fi
if [ -f {SELFBUILD_RECORD} ]; then
  echo "= selfbuild"; tail -n 1 {SELFBUILD_RECORD} | cut -c 1-400 | content
else gone {SELFBUILD_RECORD}; fi
mark {HISTORY}
n=0
for f in $(ls -r {HISTORY} 2>/dev/null); do
  [ $n -lt {STAMPS} ] || break
  n=$((n + 1)); echo "= stamp $n"; head -c 8000 "{HISTORY}/$f" | content
done
"""

COMMANDS = (Command("control", script(_SCRIPT), requires="flock", root=Root.HELPS),)


def control(evidence: Evidence) -> Fact[ControlFacts]:
    group = read_group(evidence, "control", "rackproof's lock and journal")
    if isinstance(group, Missing):
        return group
    journal = group.text(JOURNAL) if JOURNAL in group.entries else group.text("journal")
    return ControlFacts(
        lock=_lock(group),
        journal=journal if isinstance(journal, Missing) else parse_journal(journal or ""),
        generation=_generation(group),
        history=_history(group),
        selfbuild=_selfbuild(group),
    )


def _lock(group: Group) -> Fact[Lock | None]:
    text = group.text(LOCK)
    if text is None or isinstance(text, Missing):
        return text
    data = load_object(text, LOCK)
    if isinstance(data, Missing):
        data = {}  # somebody holds it all the same
    idle, working, pid = group.needed("idle"), group.needed("working"), data.get("pid")
    return Lock(
        run=_word(data, "run"), operator=_word(data, "operator"), pid=pid if isinstance(pid, int) else 0,
        process=_word(data, "process"), since=_word(data, "since"),
        idle_s=idle if isinstance(idle, Missing) else _seconds(idle),
        working=working if isinstance(working, Missing) else working == "yes",
        sha256=hashlib.sha256(f"{text}\n".encode()).hexdigest(),
    )  # fmt: skip


def _seconds(text: str) -> Fact[int]:
    try:
        return int(text)
    except ValueError:
        return Missing(f"the age of {LOCK} is {text[:40]!r}")


def _generation(group: Group) -> Fact[str]:
    if JOURNAL in group.entries:
        absent = group.text(JOURNAL)
        return "" if absent is None else Missing(f"{JOURNAL} could not be read")
    return group.needed("generation")


def parse_journal(text: str) -> tuple[Change, ...]:
    """The changes of a journal's end, oldest first; what is no line of a journal is left out."""
    return tuple(change for line in text.split("\n") if (change := _change(line)) is not None)


def _change(line: str) -> Change | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not _word(data, "time"):
        return None
    rc = data.get("rc")
    return Change(
        time=_word(data, "time"), run=_word(data, "run"), operator=_word(data, "operator"),
        layer=_word(data, "layer"), step=_word(data, "step"), event=_word(data, "event"),
        rc=rc if isinstance(rc, int) else None, before=_words(data.get("before")), after=_words(data.get("after")),
        note=_word(data, "note"),
    )  # fmt: skip


def _selfbuild(group: Group) -> Fact[str | None]:
    """A record that is empty was emptied by somebody, and says as much as one with a build in it."""
    if SELFBUILD_RECORD in group.entries:
        absent = group.text(SELFBUILD_RECORD)
        return None if absent is None else Missing(f"{SELFBUILD_RECORD} could not be read")
    text = group.needed("selfbuild")
    if isinstance(text, Missing):
        return text
    line = text.strip()
    return None if line.startswith("converted ") else line or "(an empty record)"


def _history(group: Group) -> Fact[tuple[Mapping[str, object], ...]]:
    there = group.exists(HISTORY)
    if isinstance(there, Missing):
        return there
    stamps = []
    for number in range(1, STAMPS + 1):
        text = group.entries.get(f"stamp {number}")
        found = load_object(text, HISTORY) if isinstance(text, str) else None
        if found is not None and not isinstance(found, Missing):
            stamps.append(found)
    return tuple(stamps)


def _word(data: Mapping[str, object], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _words(value: object) -> Mapping[str, str]:
    return {str(key): str(item) for key, item in value.items()} if isinstance(value, dict) else {}
