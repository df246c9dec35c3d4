"""From facts and baseline to outcomes and a verdict.

The rules that keep the promise live here and nowhere else: a missing fact makes `unknown`, a crash of a check makes
`unknown`, an unknown that stands on something else that is not well becomes `blocked` by the root of it, and whether a
requirement applies is read from the baseline alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rackproof.baseline import Baseline
from rackproof.errors import MissingFact
from rackproof.facts import Fact, Missing, NodeFacts, UnitFacts
from rackproof.facts_podman import of_engine
from rackproof.soundness import sound
from rackproof.verdict.catalogue import EVIDENCE, check_of, requirements
from rackproof.verdict.model import (
    Judgement,
    Outcome,
    Requirement,
    Status,
    SubjectOutcome,
    Verdict,
    verdict_of,
    worst,
)
from rackproof.verdict.parts import Part, parts_of

VENDORS = {"nvidia": "NVIDIA", "amd": "AMD"}


@dataclass(frozen=True)
class NodeResult:
    """Everything judged about one node. `baseline` is None where no hardware profile could be chosen for it."""

    node: str
    hardware: str
    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    evidence_sha256: str
    simulated: bool
    baseline: Baseline | None
    unit: str = ""


@dataclass(frozen=True)
class Result:
    """Everything judged in one run."""

    verdict: Verdict
    nodes: tuple[NodeResult, ...]
    fleet: tuple[Outcome, ...]

    @property
    def simulated(self) -> bool:
        return any(node.simulated for node in self.nodes)


def evaluate_node(facts: NodeFacts, baseline: Baseline) -> tuple[Outcome, ...]:
    """Every node requirement judged on one node, in catalogue order."""
    return _judged((r for r in requirements().values() if r.scope == "node"), _seen(facts, baseline), baseline)


def evaluate_layer(layer: str, facts: NodeFacts, baseline: Baseline) -> tuple[Outcome, ...]:
    """The requirements of one layer judged on one node, without what they rest on in others."""
    seen = of_engine(facts, baseline.runtime.engine)
    return _judged((r for r in requirements().values() if r.layer == layer), seen, baseline)


def evaluate_unit(unit: UnitFacts, baseline: Baseline) -> tuple[Outcome, ...]:
    """Every fleet requirement judged on one unit."""
    nodes = {name: node if isinstance(node, Missing) else _seen(node, baseline) for name, node in unit.nodes.items()}
    unit = replace(unit, nodes=nodes)
    outcomes = _judged((r for r in requirements().values() if r.scope == "fleet"), unit, baseline)
    return tuple(replace(outcome, unit=unit.name, nodes=unit.declared) for outcome in outcomes)


def judge_one(requirement: Requirement, facts: NodeFacts, baseline: Baseline) -> Outcome:
    """One requirement by itself on one node: unknown where it is blocked in the catalogue's order."""
    return _outcome(requirement, _seen(facts, baseline), baseline, {}, {})


def _seen(facts: NodeFacts, baseline: Baseline) -> NodeFacts:
    """Facts as checks get them: what they say they are, and of the container engine that the baseline names."""
    return of_engine(sound(facts), baseline.runtime.engine)


def judge_node(facts: NodeFacts, baseline: Baseline, unit: str = "") -> NodeResult:
    """One node's outcomes and verdict."""
    outcomes = evaluate_node(facts, baseline)
    sha256 = "" if isinstance(facts.evidence, Missing) else facts.evidence
    simulated = baseline.simulated or isinstance(facts.host.simulated, str)
    return NodeResult(facts.node, baseline.hardware, verdict_of(outcomes), outcomes, sha256, simulated, baseline, unit)


def combine(nodes: Sequence[NodeResult], fleet: Sequence[Outcome]) -> Result:
    """The verdict over all: every node and every unit must be accepted."""
    by_unit: dict[str, list[Outcome]] = {}
    for outcome in fleet:
        by_unit.setdefault(outcome.unit, []).append(outcome)
    verdicts = [node.verdict for node in nodes] + [verdict_of(outcomes) for outcomes in by_unit.values()]
    return Result(worst(verdicts), tuple(nodes), tuple(fleet))


def applies(requirement: Requirement, baseline: Baseline) -> bool:
    """Whether the baseline asks for this at all."""
    if requirement.vendor not in ("", baseline.vendor):
        return False
    return all(
        (value not in (None, ())) if wanted == "set" else value == wanted
        for value, wanted in ((_lookup(baseline, key), want) for key, want in (requirement.applies or {}).items())
    )


def _lookup(baseline: Baseline, key: str) -> object:
    value: object = baseline
    for part in key.split("."):
        value = None if value is None else getattr(value, part)
    return value


def _judged(wanted: Iterable[Requirement], facts: NodeFacts | UnitFacts, baseline: Baseline) -> tuple[Outcome, ...]:
    done: dict[str, Outcome] = {}
    parts: dict[str, list[Part]] = {}
    for requirement in wanted:
        done[requirement.id] = _outcome(requirement, facts, baseline, done, parts)
    return tuple(done.values())


def _outcome(
    requirement: Requirement,
    facts: NodeFacts | UnitFacts,
    baseline: Baseline,
    done: Mapping[str, Outcome],
    parts: dict[str, list[Part]],
) -> Outcome:
    """`parts` are those of these facts, by kind: narrowed once, by the first requirement that asks for them."""
    if not applies(requirement, baseline):
        return Outcome(requirement, Status.NOT_APPLICABLE, reason=_why_not(requirement, baseline))
    outcome = answer(requirement, facts, baseline, done)
    if not requirement.each or isinstance(facts, UnitFacts):
        return outcome
    if requirement.each not in parts:
        parts[requirement.each] = parts_of(requirement.each, facts, baseline)
    subjects = tuple(_subject(name, requirement, part, baseline) for name, part in parts[requirement.each])
    return replace(_with_parts(outcome, subjects, done), subjects=subjects)


def _why_not(requirement: Requirement, baseline: Baseline) -> str:
    if requirement.vendor not in ("", baseline.vendor):
        return f"of GPUs by {VENDORS[requirement.vendor]}, and these are by {VENDORS[baseline.vendor]}"
    return requirement.otherwise


def _subject(name: str, requirement: Requirement, part: Fact[NodeFacts], baseline: Baseline) -> SubjectOutcome:
    if isinstance(part, Missing):
        return SubjectOutcome(name, Status.UNKNOWN, reason=part.reason)
    found = answer(requirement, part, baseline, {})
    return SubjectOutcome(name, found.status, found.observed, found.reason)


def _with_parts(outcome: Outcome, subjects: Sequence[SubjectOutcome], done: Mapping[str, Outcome]) -> Outcome:
    """A pass of the node stands only if every part that it should have passes."""
    lost = [subject for subject in subjects if subject.status is not Status.PASS]
    if outcome.status is not Status.PASS or (subjects and not lost):
        return outcome
    reason = "; ".join(f"{subject.subject}: {subject.reason or subject.observed}" for subject in lost)
    return _unknown(outcome.requirement, reason or "the baseline expects no part to look at", done)


def answer(
    requirement: Requirement, facts: NodeFacts | UnitFacts, baseline: Baseline, done: Mapping[str, Outcome]
) -> Outcome:
    """What one check says of these facts. `done` are earlier outcomes, one of which may be what blocks this one."""
    try:
        judgement = check_of(requirement.id)(facts, baseline)
        if not isinstance(judgement, Judgement):
            raise TypeError(f"the check returned {type(judgement).__name__}")
    except MissingFact as missing:
        return _unknown(requirement, missing.reason, done)
    except Exception as error:  # a check must never end a run, and never end as a pass
        return _unknown(requirement, f"the check itself failed: {type(error).__name__}: {error}", done)
    status = Status.PASS if judgement.ok else Status.FAIL
    return Outcome(requirement, status, judgement.observed, judgement.expected)


def _unknown(requirement: Requirement, reason: str, done: Mapping[str, Outcome]) -> Outcome:
    """Unknown, or blocked where something this one rests on is itself not well."""
    needs = requirement.needs or ((EVIDENCE,) if requirement.id != EVIDENCE and requirement.scope == "node" else ())
    for need in needs:
        before = done.get(need)
        if before is None or before.status in (Status.PASS, Status.NOT_APPLICABLE):
            continue
        return Outcome(requirement, Status.BLOCKED, reason=reason, blocked_by=before.blocked_by or need)
    return Outcome(requirement, Status.UNKNOWN, reason=reason)
