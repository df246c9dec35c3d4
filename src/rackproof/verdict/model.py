"""Requirements, outcomes and verdicts: the words every report uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Stage(Enum):
    """When a deployment would have failed, had nobody looked."""

    PROVISIONING = "provisioning"
    CONTAINER_START = "container-start"
    WEIGHTS_LOAD = "weights-load"
    ENGINE_INIT = "engine-init"
    MULTI_NODE = "multi-node"
    SERVING = "serving"


class Severity(Enum):
    """Only a gate decides a verdict."""

    GATE = "gate"
    WARN = "warn"
    INFO = "info"


class Status(Enum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"  # could not look: never accepts
    NOT_APPLICABLE = "not_applicable"  # by the baseline, never by what was or was not found on a node
    BLOCKED = "blocked"  # could not look, because something else is wrong: never accepts


class Verdict(Enum):
    """The value is the word in JSON; `exit_code` is what every verifying command returns."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDETERMINED = "undetermined"
    UNSUPPORTED = "unsupported"

    @property
    def exit_code(self) -> int:
        return {"accept": 0, "reject": 1, "undetermined": 2, "unsupported": 4}[self.value]


@dataclass(frozen=True)
class Requirement:
    """One thing that must hold, as data: layers/*/requirements.yaml."""

    id: str
    layer: str
    title: str
    why: str
    stage: Stage
    severity: Severity
    sources: tuple[str, ...]
    remedy: str
    needs: tuple[str, ...] = ()  # requirements without which this one cannot be read
    applies: Mapping[str, object] | None = None  # dotted baseline key -> value, or "set"; None: always
    otherwise: str = ""  # the reason given where it does not apply
    unsupported: bool = False  # failing it means "unsupported", not "reject": the self-build mark
    scope: str = "node"  # node | fleet
    code: str = ""  # fault code for tickets: GPU-02. Never reused, never changed
    vendor: str = ""  # nvidia | amd: GPUs of the other vendor are not asked; "": all are
    each: str = ""  # "gpu": one answer for each GPU that the node should have; "": one for the node
    advertised: bool = False  # a difference means "not as advertised", not "unfit"


@dataclass(frozen=True)
class Judgement:
    """What a check says: whether it holds, what was there and what should be, in words a provider can act on."""

    ok: bool
    observed: str
    expected: str


def judge(ok: bool, observed: object, expected: object) -> Judgement:
    """A judgement; observed and expected may be anything printable."""
    return Judgement(bool(ok), str(observed), str(expected))


@dataclass(frozen=True)
class SubjectOutcome:
    """One requirement on one part of a node: "GPU 3 (00000019:06:00.0)"."""

    subject: str
    status: Status
    observed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """One requirement on one node, or on one unit (`nodes` then names those that stand out, else all of the unit)."""

    requirement: Requirement
    status: Status
    observed: str = ""
    expected: str = ""
    reason: str = ""  # why unknown, not applicable or blocked
    blocked_by: str = ""  # id of the requirement at the root
    nodes: tuple[str, ...] = ()
    unit: str = ""
    subjects: tuple[SubjectOutcome, ...] = ()  # one for each part the node should have, of a requirement that says `each`

    @property
    def decides(self) -> bool:
        return self.requirement.severity is Severity.GATE


def verdict_of(outcomes: Iterable[Outcome]) -> Verdict:
    """Accept only if every gate passes or does not apply, and at least one gate passed: no outcomes prove nothing."""
    gates = [outcome for outcome in outcomes if outcome.decides]
    failed = [outcome for outcome in gates if outcome.status is Status.FAIL]
    if any(outcome.requirement.unsupported for outcome in failed):
        return Verdict.UNSUPPORTED
    if failed:
        return Verdict.REJECT
    seen = {outcome.status for outcome in gates}
    if Status.PASS in seen and seen <= {Status.PASS, Status.NOT_APPLICABLE}:
        return Verdict.ACCEPT
    return Verdict.UNDETERMINED


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over several nodes and units. None at all is undetermined: nothing was looked at."""
    order = (Verdict.REJECT, Verdict.UNSUPPORTED, Verdict.UNDETERMINED, Verdict.ACCEPT)
    found = set(verdicts)
    return next((verdict for verdict in order if verdict in found), Verdict.UNDETERMINED)
