"""What deploys left on a node: who holds its lock, what was changed last, which baselines it had before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact


@dataclass(frozen=True)
class Lock:
    """The lock of a deploy that works on the node, or of one that died doing so."""

    run: str
    operator: str  # user@machine
    pid: int
    process: str  # identity of that process on its machine: boot id, pid namespace, pid, start time
    since: str  # ISO 8601, UTC, by the node's clock
    idle_s: Fact[int]  # seconds since its last sign of life, by the node's clock
    working: Fact[bool]  # a step is running on the node right now
    sha256: str  # of the lock file: names exactly this lock


@dataclass(frozen=True)
class Change:
    """One line of the journal. `before` and `after` hold only what differs: file hashes, versions, unit states."""

    time: str  # ISO 8601, UTC, by the node's clock
    run: str
    operator: str
    layer: str
    step: str
    event: str  # begin | end | locked | released
    rc: int | None  # exit code of a step that ended
    before: Mapping[str, str]
    after: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class ControlFacts:
    lock: Fact[Lock | None]
    journal: Fact[tuple[Change, ...]]  # the last lines, oldest first
    generation: Fact[str]  # cksum of the journal's last line: tells whether somebody changed the node since
    history: Fact[tuple[Mapping[str, object], ...]]  # earlier stamps, newest first
    selfbuild: Fact[str | None] = None  # last line of the record of self-builds, unless it says that it was converted
