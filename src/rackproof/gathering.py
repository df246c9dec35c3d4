"""Results of nodes gathered one by one, units judged as soon as their last node is there.

The facts of a node are held only as long as its unit waits for another node, so that memory grows with what reports show
and not with what was probed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackproof import recipes
from rackproof.baseline import Baseline
from rackproof.facts import Fact, Missing, NodeFacts, UnitFacts
from rackproof.identities import identities
from rackproof.plan import Unit
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult, Result, combine, evaluate_unit
from rackproof.verdict.model import Outcome, Status


class Gathering:
    """Takes nodes in any order and ends in one result. Names and verdicts of nodes stay, facts go.

    `order`: names of nodes as the result is to list them; without it, as they were added.
    """

    def __init__(self, units: Sequence[Unit] = (), order: Sequence[str] = ()) -> None:
        self._order = order
        self._units = tuple(units)
        self._unit_of = {name: unit for unit in units for name in unit.nodes}
        self._waiting = {unit.name: set(unit.nodes) for unit in units}
        self._results: dict[str, NodeResult] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._outcomes: dict[str, tuple[Outcome, ...]] = {}  # of units that are whole, by name
        self._shared: dict[object, Outcome] = {}
        self._most: int | None = None
        self._learned: set[str] = set()
        # What nodes are known by -> the first and the last that have it.
        self._known_by: dict[str, tuple[str, ...]] = {}

    def learn(self, node: str, facts: NodeFacts) -> None:
        """What a node is known by. Where all nodes are learned before the first is added, both of two equal ones fail;
        otherwise the one that was added later."""
        self._learned.add(node)
        for identity in identities(facts):
            self._known_by[identity] = (*self._known_by.get(identity, ())[:1], node)

    def add(self, result: NodeResult, facts: NodeFacts) -> None:
        """One node. Its facts are let go once nothing can need them any more."""
        self._results[result.node] = replace(result, outcomes=self._interned(result.outcomes))
        self._facts[result.node] = facts
        if result.node not in self._learned:
            self.learn(result.node, facts)
        unit = self._unit_of.get(result.node)
        if unit is not None:
            self._waiting[unit.name].discard(result.node)
            if not self._waiting[unit.name]:
                self._judge(unit)
        elif self._units:
            del self._facts[result.node]  # a spare
        else:
            self._undeclared(result)

    def result(self) -> Result:
        """Everything that was added. Units of which a node was never added are judged without it."""
        for unit in self._units:
            if unit.name not in self._outcomes:
                self._judge(unit)
        if not self._units:
            self._judge_undeclared()
        fleet = [outcome for outcomes in self._outcomes.values() for outcome in outcomes]
        if self._units:
            fleet = [outcome for unit in self._units for outcome in self._outcomes[unit.name]]
        elif not fleet:
            fleet = self._no_unit()
        ordered = [self._results[name] for name in self._order if name in self._results]
        return combine(ordered or list(self._results.values()), fleet)

    def _judge(self, unit: Unit) -> None:
        found: dict[str, Fact[NodeFacts]] = {}
        for name in unit.nodes:
            read = self._facts.pop(name, None)
            if read is None:
                found[name] = Missing("this node was not judged")
            else:
                found[name] = read if not isinstance(read.evidence, Missing) else Missing(read.evidence.reason)
        judged = [self._results[name].baseline for name in unit.nodes if name in self._results]
        baseline = next((baseline for baseline in judged if baseline is not None), None)
        # Without a baseline each of its nodes is already undetermined for want of a profile.
        outcomes = () if baseline is None else evaluate_unit(UnitFacts(unit.name, unit.nodes, found, self._known_by), baseline)
        self._outcomes[unit.name] = self._interned(outcomes)

    def _undeclared(self, result: NodeResult) -> None:
        """Nobody declared units: a node may serve alone, or all together if they are as many as the layout takes."""
        if result.baseline is not None and result.baseline.layout.nodes == 1:
            facts = self._facts[result.node]
            self._judge(Unit(result.node, (result.node,)))
            self._facts[result.node] = facts
        if self._most is None and result.baseline is not None:
            recipe = recipes.load(result.baseline.recipe, "the baseline")
            self._most = max(layout.nodes for layout in recipe.layouts.values())
        if self._most is not None and len(self._results) > self._most:
            self._facts.clear()  # too many to be one unit

    def _judge_undeclared(self) -> None:
        names = tuple(self._results)
        sizes = {baseline.layout.nodes for baseline in self._baselines()}
        if sizes == {1}:
            return
        self._outcomes.clear()
        if sizes == {len(names)}:
            self._judge(Unit("the nodes given", names))

    def _no_unit(self) -> list[Outcome]:
        """Nodes that only serve together, and nobody said which: that they work together is not proven."""
        wanted = {baseline.layout.id: baseline.layout.nodes for baseline in self._baselines()}
        if not wanted:
            return []
        needs = " and ".join(f"layout {layout} takes {size} nodes together" for layout, size in sorted(wanted.items()))
        reason = f"{needs}; {len(self._results)} were given and no deployment unit is declared"
        members = requirements()["fleet.members"]
        return [Outcome(members, Status.UNKNOWN, reason=reason, unit="undeclared", nodes=tuple(self._results))]

    def _baselines(self) -> list[Baseline]:
        return [result.baseline for result in self._results.values() if result.baseline is not None]

    def _interned(self, outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
        """Equal outcomes of many nodes as one object: most nodes say the same about most requirements."""
        return tuple(self._shared.setdefault(_identity(outcome), outcome) for outcome in outcomes)


def _identity(outcome: Outcome) -> tuple[object, ...]:
    return (
        outcome.requirement.id, outcome.status, outcome.observed, outcome.expected, outcome.reason,
        outcome.blocked_by, outcome.nodes, outcome.unit,
    )  # fmt: skip
