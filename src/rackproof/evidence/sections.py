"""The unit of evidence: one command of the probe, and what came back from it.

A tool module declares `Command`s; the probe runs them all on the node; the stream is cut into `Section`s again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rackproof.facts import Missing


class Root(Enum):
    """Whether a command needs root. HELPS: runs without, and the parser says what stayed hidden."""

    NO = "no"
    HELPS = "helps"
    NEEDED = "needed"


@dataclass(frozen=True)
class Command:
    """One thing the probe runs.

    `script` is POSIX sh, run with LC_ALL=C, no standard input, in a process group of its own, beside the others.
    `requires` names an executable without which the section is `absent`. `deadline_s` is wall seconds.
    """

    name: str
    script: str
    requires: str = ""
    root: Root = Root.NO
    deadline_s: int = 10


class Status(Enum):
    RAN = "ran"  # it ended by itself; the exit code is in rc
    ABSENT = "absent"  # the executable is not installed
    NEEDS_ROOT = "needs-root"
    DEADLINE = "deadline"  # did not end in time, and was left behind or killed


@dataclass(frozen=True)
class Section:
    """What one command printed. `stdout` and `stderr` are the bytes as they left the command."""

    name: str
    status: Status
    rc: int | None
    seconds: float
    stdout: bytes
    stderr: bytes
    deadline_s: int = 0

    @property
    def text(self) -> str:
        """Standard output as text: undecodable bytes are replaced, CRLF becomes LF. Never raises."""
        return self.stdout.decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def error_text(self) -> str:
        return self.stderr.decode("utf-8", "replace").replace("\r\n", "\n")

    def unusable(self, what: str) -> Missing | None:
        """The reason why this section proves nothing, or None when the command ran (with whatever exit code)."""
        if self.status is Status.ABSENT:
            return Missing(f"{what} is not installed")
        if self.status is Status.NEEDS_ROOT:
            return Missing(f"{what} needs root, and the probe had none (run it with --sudo)")
        if self.status is Status.DEADLINE:
            return Missing(f"{what} did not end within {self.deadline_s} s")
        return None
