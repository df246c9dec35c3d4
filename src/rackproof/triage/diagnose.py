"""The decision: lines in, stage, class, confidence and advice out. Pure, and careful never to know too much.

The first cause wins over what it made fail; the health of the node wins over both. What a rule's text means depends on
the stage (memory that runs out while weights load is not the memory of requests), so stages are settled first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rackproof.triage.notes import ENGINE_WORDS, LITERALS, Notes
from rackproof.triage.reader import Line
from rackproof.triage.rules import Rule, rules
from rackproof.triage.stages import (
    ENDED_IN,
    FAILED_IN,
    FRAMES,
    MARKERS,
    MODEL_CODE,
    NEW_RUN,
    STATS,
    STATS_RUST,
    WRAPPERS,
    Run,
    Stage,
)

LOAD_FIRST = ("container-start", "weights-load", "engine-init", "multi-node", "provisioning")
_ORDER = {"root": 0, "cause": 1, "hint": 2, "last-line": 2}
_PER_RULE = 16  # findings kept of one rule: the first of each rank is enough
# Text of users and of the command line, echoed: it can hold any word, and none of them is the engine's.
_ECHOES = ("Received request ", "non-default args:", "Initializing a V")
_ACCESS = "INFO:     "  # uvicorn

_ENVIRONMENT = (
    "gpu_driver.branch", "gpu_driver.lockstep", "container_runtime.cdi", "nvlink.fabric_state", "gpus.count",
    "gpus.idle", "gpus.memory", "gpus.xid",
)  # fmt: skip
_HEALTH = ("gpus.xid", "gpus.ecc_errors", "nvlink.links")


@dataclass(frozen=True)
class Finding:
    """A rule that matched a line, and the furthest stage the run had reached by then."""

    rule: Rule
    line: Line
    reached: Stage | None


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
    ranks: tuple[str, ...] = ()
    root: bool = False


@dataclass
class _State:
    run: Run = field(default_factory=Run)
    notes: Notes = field(default_factory=Notes)
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    last: Line | None = None


def diagnose(lines: Iterable[Line]) -> Diagnosis:
    """Judge a log, or the part of one that is there."""
    state = _State()
    every = rules()
    extras = tuple({rule.also for rule in every if rule.also})
    for line in lines:
        if line.text.startswith(NEW_RUN) and (state.run.stage() or 0) > Stage.START:
            state = _State()  # restarted: the last run is the one that is judged
        _take(state, line, every, extras)
    return _decide(state)


def _take(state: _State, line: Line, every: tuple[Rule, ...], extras: tuple[str, ...]) -> None:
    state.last = line
    state.notes.see(line)
    if line.text.startswith(_ECHOES):
        if not line.text.startswith(_ECHOES[0]):
            state.run.see(line)
        return
    if line.text.startswith(_ACCESS) and ' - "' in line.text:
        return  # the path is the client's, and could hold an error's name
    before = state.run.stage()
    state.run.see(line)
    reached = state.run.stage()
    if reached is Stage.SERVING and before is not Stage.SERVING:  # survived: only the node's health still counts
        state.findings = [found for found in state.findings if found.rule.strength == "root"]
    state.seen.update(text for text in extras if text in line.text)
    for rule in every:
        if rule.matches(line.text) and state.counts.get(rule.id, 0) < _PER_RULE:
            state.counts[rule.id] = state.counts.get(rule.id, 0) + 1
            state.findings.append(Finding(rule, line, reached))


def _decide(state: _State) -> Diagnosis:
    counting = [found for found in state.findings if _counts(state, found)]
    if counting:
        return _failed(state, min(counting, key=lambda found: (_ORDER[found.rule.strength], found.line.number)))
    if state.run.wrapper is not None:
        return _unexplained(state, state.run.wrapper)
    return _ended(state)


def _counts(state: _State, found: Finding) -> bool:
    rule = found.rule
    hint = rule.strength == "hint"  # which is about the log as a whole, not about one moment
    stage = state.run.at(found.line.rank, state.run.stage() if hint else found.reached)
    if rule.strength == "last-line" and found.line is not state.last:
        return False
    if rule.also and rule.also not in state.seen:
        return False
    return ("unknown" if stage is None else stage.name.lower()) in rule.when


def _failed(state: _State, found: Finding) -> Diagnosis:
    rule, rank = found.rule, found.line.rank
    at = state.run.at(rank, found.reached)
    guessed = rule.stage is None and at is None
    stage = rule.stage or (rule.default_stage if at is None else FAILED_IN[at]) or "unknown"
    if _ORDER[rule.strength] > 1:
        confidence = "possible"
    else:
        sure = not guessed and not (at is Stage.ENGINE and state.run.model_code and found.reached is None)
        confidence = "certain" if sure else "likely"
    ranks = tuple(dict.fromkeys(other.line.rank for other in state.findings if other.rule is rule and other.line.rank))
    return _answer(
        state, stage, rule.class_, confidence, rule.advice, rule.requirements, found.line,
        rule=rule, ranks=ranks,
    )  # fmt: skip


def _unexplained(state: _State, line: Line) -> Diagnosis:
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
    return _answer(state, stage, "unknown", "", advice, _to_verify(stage), line)


def _ended(state: _State) -> Diagnosis:
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
    state: _State, stage: str, class_: str, confidence: str, advice: str, requirements: tuple[str, ...],
    line: Line | None, rule: Rule | None = None, ranks: tuple[str, ...] = (),
) -> Diagnosis:  # fmt: skip
    shown = {one.number: one for one in (state.run.marker, line, state.run.wrapper) if one is not None}
    return Diagnosis(
        stage, class_, confidence, tuple(shown[number] for number in sorted(shown)), advice, requirements,
        state.notes.engine or "unknown", dict(state.notes.values), rule.id if rule else "", rule.source if rule else "",
        ranks, rule is not None and rule.strength == "root",
    )  # fmt: skip


def keywords() -> tuple[str, ...]:
    """Every text that a line must hold one of to matter. The statistics of a running engine are left out: they fill
    the log, and that requests are served is known from the line with which it became ready.
    """
    texts = [text for text, _ in (*MARKERS, *FRAMES)] + [*WRAPPERS, MODEL_CODE, *LITERALS, *ENGINE_WORDS]
    texts += [text for rule in rules() for text in (rule.literal, rule.also) if text]
    return tuple(dict.fromkeys(text for text in texts if text not in (STATS, STATS_RUST)))


def reconcile(answers: Sequence[Diagnosis]) -> int:
    """Which of several logs decides: one that condemns the node, then the surest, then the one that failed earliest."""

    def key(number: int) -> tuple[bool, int, bool, int, int]:
        answer = answers[number]
        sure = ("certain", "likely", "possible", "").index(answer.confidence)
        return (not answer.root, sure, answer.class_ == "none", _EARLY.index(answer.stage), number)

    return min(range(len(answers)), key=key)


_EARLY = ("provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving", "unknown", "none")
