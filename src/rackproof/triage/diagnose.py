"""The decision: lines in, stage, class, confidence and advice out. Pure, and careful never to know too much.

The first cause wins over what it made fail; the health of the node wins over both. What a rule's text means depends on
the stage (memory that runs out while weights load is not the memory of requests), so stages are settled first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rackproof.triage.clock import NEVER, Moment
from rackproof.triage.notes import ENGINE_WORDS, GROUPS, LITERALS, Notes
from rackproof.triage.reader import Line
from rackproof.triage.rules import Rule, rules
from rackproof.triage.runs import Finding, State, Timing, earliest
from rackproof.triage.stages import ENDED_IN, FAILED_IN, FRAMES, MARKERS, MODEL_CODE, STATS, STATS_RUST, WRAPPERS, Stage

LOAD_FIRST = ("container-start", "weights-load", "engine-init", "multi-node", "provisioning")
_ORDER = {"root": 0, "cause": 1, "stated": 2, "hint": 3, "last-line": 3}
_SURE = ("certain", "likely", "possible", "")
_EARLY = ("provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving", "unknown", "none")
_MOST_ORIGINS = 256  # names come from the log; more are judged together

_ENVIRONMENT = (
    "gpu_driver.branch", "gpu_driver.lockstep", "container_runtime.cdi", "nvlink.fabric_state", "gpus.count",
    "gpus.idle", "gpus.memory", "gpus.xid",
)  # fmt: skip
_HEALTH = ("gpus.xid", "gpus.ecc_errors", "nvlink.links")


@dataclass(frozen=True)
class Diagnosis:
    """The answer. `confidence` is certain, likely or possible, or "" where nothing is claimed."""

    stage: str
    class_: str
    confidence: str
    lines: tuple[Line, ...]
    advice: str
    requirements: tuple[str, ...]
    engine: str
    notes: dict[str, str]
    rule: str = ""
    source: str = ""
    ranks: tuple[str, ...] = ()  # that said it, the first one first
    root: bool = False
    moment: Moment = NEVER  # of the line that decided
    timings: tuple[Timing, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    loaded: bool = False  # the log says that the weights are in the GPUs
    roles: dict[int, str] = field(default_factory=dict)  # line number -> stage | cause | around | end | last
    failed: bool = False  # something ended, whether or not the log says why

    def group(self, name: str) -> dict[str, str]:
        """Of the notes: versions, times, memory or tokens."""
        return {label: value for label, value in self.notes.items() if GROUPS[label] == name}


class Log:
    """Lines taken in one at a time, and an answer at any moment: one for each container or host that the log names."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._origin = ""

    def take(self, line: Line) -> None:
        """Take in one line. One that names no origin continues the one before it."""
        origin = line.origin or self._origin
        if origin not in self._states and len(self._states) >= _MOST_ORIGINS:
            origin = next(iter(self._states))
        self._origin = origin
        state = self._states.setdefault(origin, State())
        if state.starts_again(line):
            state = self._states[origin] = State()
        state.take(line)

    def progress(self) -> tuple[int, ...]:
        """Changes whenever an answer may be another than before, apart from where the log ends."""
        return tuple(state.progress for state in self._states.values())

    def answers(self) -> dict[str, Diagnosis]:
        """The answer for each origin that said anything; at least one."""
        spoke = {origin: state for origin, state in self._states.items() if state.said_something}
        states = spoke or dict(list(self._states.items())[:1]) or {"": State()}
        return {origin: _decide(state) for origin, state in states.items()}


def diagnose(lines: Iterable[Line]) -> Diagnosis:
    """Judge a log, or the part of one that is there."""
    log = Log()
    for line in lines:
        log.take(line)
    answers = list(log.answers().values())
    return answers[reconcile(answers)]


def _decide(state: State) -> Diagnosis:
    counting = [found for found in state.findings if _counts(state, found)]
    if counting:
        return _failed(state, _first(counting))
    if state.run.wrapper is not None:
        return _unexplained(state, state.run.wrapper)
    return _ended(state)


def _counts(state: State, found: Finding) -> bool:
    rule = found.rule
    hint = _ORDER[rule.strength] > _ORDER["cause"]  # which is about the log as a whole, not about one moment
    stage = state.run.at(found.line.rank, state.run.stage() if hint else found.reached)
    if rule.strength == "last-line" and found.line is not state.last:
        return False
    if rule.also and rule.also not in state.seen:
        return False
    return ("unknown" if stage is None else stage.name.lower()) in rule.when


def _first(counting: Sequence[Finding]) -> Finding:
    """The strongest, and of these the first by time: ranks that write into one log do not write in order."""
    strength = min(_ORDER[found.rule.strength] for found in counting)
    best = [found for found in counting if _ORDER[found.rule.strength] == strength]
    times = earliest([found.moment for found in best]) or [0.0] * len(best)
    return min(zip(times, best, strict=True), key=lambda pair: (pair[0], pair[1].line.number))[1]


def _failed(state: State, found: Finding) -> Diagnosis:
    rule, rank = found.rule, found.line.rank
    at = state.run.at(rank, found.reached)
    guessed = rule.stage is None and at is None
    stage = rule.stage or (rule.default_stage if at is None else FAILED_IN[at]) or "unknown"
    if _ORDER[rule.strength] > _ORDER["stated"]:
        confidence = "possible"
    elif rule.strength == "stated":
        confidence = "likely"
    else:
        sure = not guessed and not (at is Stage.ENGINE and state.run.model_code and found.reached is None)
        confidence = "certain" if sure else "likely"
    said = [found, *(other for other in state.findings if other.rule is rule)]
    ranks = tuple(dict.fromkeys(other.line.rank for other in said if other.line.rank))
    return _answer(
        state, stage, rule.class_, confidence, rule.advise(state.notes.values), rule.requirements, found.line,
        rule=rule, ranks=ranks, moment=found.moment,
    )  # fmt: skip


def _unexplained(state: State, line: Line) -> Diagnosis:
    at = state.run.at(line.rank, state.run.stage())
    stage = "unknown" if at is None else FAILED_IN[at]
    if "died unexpectedly" in line.text:
        advice = (
            "A process vanished without a word of its own: the kernel killed it, or a driver fault did. "
            "Read the kernel log of that time (out of memory, Xid, segfault) before changing anything."
        )
    elif stage == "serving":
        advice = "Requests failed, and the log does not say why. Read the kernel log of that time for an Xid, and the log before it."
    else:
        advice = (
            "The engine failed to start, and the log does not say why. Verify the environment first, "
            "and find the first traceback of a worker: what the API server prints is its echo."
        )
    ranks = (line.rank,) if line.rank else ()
    return _answer(state, stage, "unknown", "", advice, _to_verify(stage), line, ranks=ranks, moment=state.wrapped)


def _ended(state: State) -> Diagnosis:
    stage = state.run.stage()
    if stage is Stage.SERVING:
        advice = "The engine became ready and nothing failed in this log. If the process is gone, look at the kernel log: it may have been killed."
        return _answer(state, "none", "none", "", advice, (), None)
    if stage is None:
        advice = "Nothing in this log says where the engine was. Give the log from the start of the process, with every rank."
        return _answer(state, "unknown", "unknown", "", advice, (), None)
    advice = (
        "The log ends here without an error. If the process runs, it is still at work or it hangs; if it is gone, it was "
        "killed: look at the kernel log and the exit code. Verify the environment before changing any argument."
    )
    return _answer(state, ENDED_IN[stage], "unknown", "", advice, _to_verify(ENDED_IN[stage]), state.last)


def _to_verify(stage: str) -> tuple[str, ...]:
    return _HEALTH if stage == "serving" else _ENVIRONMENT if stage in LOAD_FIRST else ()


def _answer(
    state: State, stage: str, class_: str, confidence: str, advice: str, requirements: tuple[str, ...],
    line: Line | None, rule: Rule | None = None, ranks: tuple[str, ...] = (), moment: Moment | None = None,
) -> Diagnosis:  # fmt: skip
    notes = dict(state.notes.values)
    if line is not None and rule is not None:  # of several allocations that failed, the one that decided
        notes.update(Notes.of(line))
    wrapper = state.run.wrapper
    role = "cause" if rule is not None else "end" if line is wrapper else "last"
    placed = [(one, name) for one, name in ((state.run.marker, "stage"), (wrapper, "around"), (line, role)) if one]
    shown = {one.number: one for one, _ in placed}
    return Diagnosis(
        stage, class_, confidence, tuple(shown[number] for number in sorted(shown)), advice, requirements,
        state.notes.engine or "unknown", notes, rule.id if rule else "", rule.source if rule else "",
        ranks, rule is not None and rule.strength == "root", moment or state.now, state.timings(moment or state.now),
        dict(state.notes.arguments), (state.run.stage() or 0) >= Stage.ENGINE,
        {one.number: name for one, name in placed}, rule is not None or line is wrapper is not None,
    )  # fmt: skip


def keywords() -> tuple[str, ...]:
    """Every text that a line must hold one of to matter. The statistics of a running engine are left out: they fill
    the log, and that requests are served is known from the line with which it became ready.
    """
    texts = [text for text, _ in (*MARKERS, *FRAMES)] + [*WRAPPERS, MODEL_CODE, *LITERALS, *ENGINE_WORDS]
    texts += [text for rule in rules() for text in (rule.literal, rule.also) if text]
    return tuple(dict.fromkeys(text for text in texts if text not in (STATS, STATS_RUST)))


def reconcile(answers: Sequence[Diagnosis]) -> int:
    """Which of several answers decides: one that condemns the node, then a cause over a guess, and of these the first
    by time. Where no time is printed that all have: the surest, then the one that failed earliest on the way up.
    """
    best = min(_weight(answer) for answer in answers)
    among = [number for number, answer in enumerate(answers) if _weight(answer) == best]
    times = earliest([answers[number].moment for number in among]) if best < 3 else None

    def key(place: int) -> tuple[float, int, int, int]:
        answer = answers[among[place]]
        return times[place] if times else 0.0, _SURE.index(answer.confidence), _EARLY.index(answer.stage), place

    return among[min(range(len(among)), key=key)]


def _weight(answer: Diagnosis) -> int:
    if answer.root:
        return 0
    return 4 if answer.class_ == "none" else {"certain": 1, "likely": 1, "possible": 2, "": 3}[answer.confidence]
