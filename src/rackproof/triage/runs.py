"""What the lines of one process group came to so far: its stage, its time, and every rule that matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from rackproof.triage.clock import NEVER, Moment
from rackproof.triage.notes import Notes
from rackproof.triage.reader import Line
from rackproof.triage.rules import Rule, rules
from rackproof.triage.stages import NAMES, NEW_RUN, Run, Stage

_PER_RULE = 16  # findings kept of one rule and rank: enough to name the ranks
_FINDINGS = 4096
# Text of users, and of the command line: it can hold any word, and none of them is the engine's.
_REQUEST = "Received request "
_ECHOES = ("non-default args:", "Initializing a V", "server_args=ServerArgs(")
_ACCESS = "INFO:     "  # uvicorn


@dataclass(frozen=True)
class Finding:
    """A rule that matched a line, when, and the furthest stage the run had reached by then."""

    rule: Rule
    line: Line
    reached: Stage | None
    moment: Moment = NEVER


@dataclass(frozen=True)
class Timing:
    """How long a run was in a stage. `seconds` is None where the log has no stamps to tell."""

    stage: str
    began: str  # the stamp as printed
    seconds: float | None
    left: bool  # False: the log ends, or the run failed, in it


@dataclass
class State:
    """One run of one container, or of a whole log that does not name any."""

    run: Run = field(default_factory=Run)
    notes: Notes = field(default_factory=Notes)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    last: Line | None = None
    now: Moment = NEVER
    wrapped: Moment = NEVER  # when the first line came that says that something ended

    @property
    def said_something(self) -> bool:
        return bool(self.run.furthest or self.findings or self.run.wrapper or self.notes.engine)

    @property
    def progress(self) -> int:
        """A number that changes with the stage, the findings and the first line that says that something ended."""
        wrapper = self.run.wrapper.number if self.run.wrapper else 0
        return hash((self.run.stage(), len(self.findings), wrapper, len(self.run.frames)))

    def starts_again(self, line: Line) -> bool:
        """The container was restarted: the last run is the one that is judged."""
        return line.text.startswith(NEW_RUN) and (self.run.stage() or 0) > Stage.START

    def take(self, line: Line) -> None:
        """Take in one line."""
        self.last = line
        self.now = _at(line.moment, self.now)
        if line.text.startswith(_REQUEST) or (line.text.startswith(_ACCESS) and ' - "' in line.text):
            return  # prompt and path are the client's, and could hold an error's name
        self.notes.see(line)
        if line.text.startswith(_ECHOES):
            self.run.see(line, self.now)
            return
        self._follow(line)
        self.seen.update(text for text in _extras() if text in line.text)
        for rule in rules():
            if rule.matches(line.text):
                self._found(rule, line)

    def _follow(self, line: Line) -> None:
        before, wrapper = self.run.stage(), self.run.wrapper
        self.run.see(line, self.now)
        if self.run.wrapper is not wrapper:
            self.wrapped = self.now
        if self.run.stage() is Stage.SERVING and before is not Stage.SERVING:
            # it survived what came before: only the node's health still counts
            self.findings = [found for found in self.findings if found.rule.strength == "root"]
            self.counts = dict.fromkeys(self.counts, 0)
            self.notes.survived()

    def _found(self, rule: Rule, line: Line) -> None:
        key = (rule.id, line.rank)
        known = self.counts.get(key, 0)
        if known < _PER_RULE and len(self.findings) < _FINDINGS:
            self.counts[key] = known + 1
            self.findings.append(Finding(rule, line, self.run.stage(), self.now))

    def timings(self, end: Moment) -> tuple[Timing, ...]:
        """Every stage the run was in, up to a moment."""
        began = [(stage, self.run.began[stage]) for stage in sorted(self.run.began)]
        ends = [*(moment for _, moment in began[1:]), end][: len(began)]
        return tuple(
            Timing(NAMES[stage], start.shown, _positive(until.after(start)), number < len(began))
            for number, ((stage, start), until) in enumerate(zip(began, ends, strict=True), 1)
        )


def _at(printed: Moment, before: Moment) -> Moment:
    """When a line was written: as it says, and where it has no stamp at all, when the one before it was."""
    if printed.outer:
        return printed
    return Moment(printed.own, before.outer) if printed.own else before


def _positive(seconds: float | None) -> float | None:
    """Ranks do not write in order, so that a stage may seem to end a moment before it began."""
    return None if seconds is None else max(0.0, round(seconds, 3))


@cache
def _extras() -> tuple[str, ...]:
    return tuple(dict.fromkeys(rule.also for rule in rules() if rule.also))


def earliest(moments: Sequence[Moment]) -> list[float] | None:
    """Seconds of each after the first of them; None where they share no kind of stamp that all have."""
    for kind in ("own", "outer"):
        only = [Moment(**{kind: getattr(moment, kind)}) for moment in moments]
        found = [moment.after(only[0]) for moment in only]
        known = [seconds for seconds in found if seconds is not None]
        if len(known) == len(moments):
            return known
    return None
