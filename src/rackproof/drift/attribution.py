"""Which gates a finding made fail: its facts are put back as they were, and the node is judged again.

A gate that fails now, did not fail on the accepted evidence under the same baseline, and does not fail either once one
finding is undone, fails because of that finding. No table of facts and requirements has to be kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackproof.baseline import Baseline
from rackproof.drift.classes import Classes
from rackproof.drift.findings import Finding, Group
from rackproof.drift.place import put
from rackproof.facts import NodeFacts
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Outcome, Status

_GOOD = (Status.PASS, Status.NOT_APPLICABLE)


def attributed(
    groups: Sequence[Group], before: NodeFacts, after: NodeFacts, baseline: Baseline | None, classes: Classes
) -> tuple[Finding, ...]:
    """The findings, each with the gates that hold again without it."""
    if baseline is None:
        return tuple(group.finding for group in groups)
    now = {outcome.requirement.id for outcome in evaluate_node(after, baseline) if _bad(outcome)}
    then = {outcome.requirement.id for outcome in evaluate_node(before, baseline) if _bad(outcome)}
    broken = now - then
    if not broken:
        return tuple(group.finding for group in groups)
    return tuple(_one(group, after, baseline, classes, broken) for group in groups)


def _one(group: Group, after: NodeFacts, baseline: Baseline, classes: Classes, broken: set[str]) -> Finding:
    facts = after
    for change in group.changes:
        facts = put(facts, change.place.steps, change.before, classes)
    still = {outcome.requirement.id for outcome in evaluate_node(facts, baseline) if _bad(outcome)}
    return replace(group.finding, requirements=tuple(sorted(broken - still)))


def _bad(outcome: Outcome) -> bool:
    return outcome.decides and outcome.status not in _GOOD
