"""One node while its engine starts: the stages it has passed and when, by its unit, its container, its log and its port."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rackproof.errors import RackproofError
from rackproof.triage.diagnose import Diagnosis, Log, reconcile
from rackproof.triage.mask import masked
from rackproof.triage.reader import parse

LAST_LINES = 6  # shown where nothing else explains a failure
STAGES = ("container", "weights", "engine", "port")


@dataclass(frozen=True)
class Look:
    """One look at a node. `health`: the HTTP status of /health, "none" where no port is opened, "unknown"."""

    active: str
    sub: str
    restarts: int
    result: str
    running: bool
    image: str
    driver: str
    health: str
    piece: bytes

    @property
    def gone(self) -> bool:
        """Whether the unit's process has ended, or ends and begins again."""
        return self.active in ("failed", "inactive", "deactivating") or self.sub == "auto-restart" or self.restarts > 0


def parse_look(node: str, text: str) -> Look:
    """What the look printed; a node that answers otherwise is an error that names it."""
    head, mark, rest = text.partition("\nlog ")
    size, _, piece = rest.partition("\n")
    members = dict(line.partition(" ")[::2] for line in head.splitlines())
    state = [*members.get("state", "").split(" "), "", "", "", ""][:4]
    if not mark or not size.strip().isdigit() or not state[0]:
        raise RackproofError(f"{node}: the look at its serving unit was not answered: {text[-200:]!r}")
    raw = piece.encode("utf-8", "surrogateescape")[: int(size)]
    raw += b"\n" * (int(size) - len(raw))  # line ends at the end are lost on the way
    running, _, image = members.get("container", "none").partition(" ")
    return Look(
        state[0], state[1], int(state[2]) if state[2].isdigit() else 0, state[3], running == "true", image,
        members.get("driver", "unknown"), members.get("health", "unknown"), raw,
    )  # fmt: skip


@dataclass
class Starting:
    """A node on its way up. `port` is None for a rank that opens none."""

    node: str
    port: int | None
    since: int | None = None
    offset: int = 0
    log: Log = field(default_factory=Log)
    passed: dict[str, float] = field(
        default_factory=dict
    )  # stage -> seconds after the start when it was seen to be over
    last: Look | None = None
    ending: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))  # the log's last lines
    _rest: bytes = b""
    _lines: int = 0

    def see(self, look: Look, now_s: float) -> list[str]:
        """Take in a look; returns the stages that are newly reached."""
        self.last = look
        self.offset += len(look.piece)
        *whole, self._rest = (self._rest + look.piece).split(b"\n")
        for line in whole:
            self._take(line)
        new = [stage for stage in self._reached(look) if stage not in self.passed]
        self.passed |= dict.fromkeys(new, now_s)
        return new

    def end(self) -> None:
        """The last line, complete or not: nothing comes after it."""
        self._take(self._rest)
        self._rest = b""

    def _take(self, raw: bytes) -> None:
        self._lines += 1
        line = parse(self._lines, raw)
        if line.text:
            self.log.take(line)
            self.ending.append(masked(line.raw))

    def _reached(self, look: Look) -> list[str]:
        """A stage counts when the log says it was begun; the port when it answers."""
        said = {timing.stage for timing in self.answer().timings}
        found = ["container"] if look.running or said else []
        found += [name for name, mark in (("weights", "weights-load"), ("engine", "engine-init")) if mark in said]
        return [*found, "port"] if self.port is not None and look.health == "200" else found

    @property
    def failed(self) -> bool:
        """The unit ended, or its log says that the engine did."""
        return self.last is not None and (self.last.gone or (self.answer().failed and not self.last.running))

    @property
    def ready(self) -> bool:
        """A port that answers, or a rank without one whose container runs."""
        return "port" in self.passed if self.port is not None else bool(self.last and self.last.running)

    def answer(self) -> Diagnosis:
        answers = list(self.log.answers().values())
        return answers[reconcile(answers)]


def seconds(passed: Mapping[str, float]) -> dict[str, float]:
    """Stage -> seconds after the start, in order."""
    return {stage: round(passed[stage], 1) for stage in STAGES if stage in passed}
