"""The verdict on each node of a deploy, in the words a deploy reports. Stands between the two: a deploy file hands
`acceptance` to the deploy, which knows nothing of checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rackproof.deploy.verify import Acceptance
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Status as Read
from rackproof.judging import judge_all
from rackproof.plan import Plan
from rackproof.verdict.model import Outcome, Status, Verdict, verdict_of

# Registration of GPUs with the fabric, and IMEX between trays, go on for a while after their daemons have started.
_COMES_UP = "nvlink"
_HOLDS = (Status.PASS, Status.NOT_APPLICABLE)


def acceptance(plan: Plan, evidence: Mapping[str, Evidence]) -> dict[str, Acceptance]:
    """Each node judged by itself and with its deployment unit, where the whole unit is in the plan."""
    result = judge_all(plan, evidence)
    units = {unit.name for unit in plan.units}
    found = {}
    for node in result.nodes:
        shared = [outcome for outcome in result.fleet if outcome.unit in units and node.node in outcome.nodes]
        outcomes = [*node.outcomes, *shared]
        lacking = [outcome for outcome in outcomes if outcome.decides and outcome.status not in _HOLDS]
        verdict = node.verdict if node.verdict is not Verdict.ACCEPT else verdict_of(outcomes)
        together = {node.node, *(name for unit in plan.units if node.node in unit.nodes for name in unit.nodes)}
        late = any(_late(item) for name, item in evidence.items() if name in together)
        found[node.node] = Acceptance(verdict.value, tuple(map(_words, _roots(lacking))), _settling(lacking, late))
    return found


def _roots(lacking: Iterable[Outcome]) -> list[Outcome]:
    """What is blocked follows from something else, which stands in the list by itself."""
    listed = list(lacking)
    return [outcome for outcome in listed if outcome.status is not Status.BLOCKED] or listed


def _words(outcome: Outcome) -> str:
    name = outcome.requirement.id
    if outcome.status is Status.FAIL:
        return f"{name}: {outcome.observed}, wanted {outcome.expected}"
    return f"{name}: {outcome.status.value}, {outcome.reason}"


def _late(evidence: Evidence) -> bool:
    """Whether a command did not end in time: a node that has just started daemons and unpacked an image is busy."""
    return any(section.status is Read.DEADLINE for section in evidence.sections.values())


def _settling(lacking: list[Outcome], late: bool) -> bool:
    """Whether a later reading may say otherwise. What is known to be wrong outside the fabric stays wrong."""
    passing = {Status.BLOCKED, Status.UNKNOWN} if late else {Status.BLOCKED}
    return bool(lacking) and all(o.requirement.layer == _COMES_UP or o.status in passing for o in lacking)
