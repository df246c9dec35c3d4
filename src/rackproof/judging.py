"""From evidence of several nodes to one result: read facts, choose each node's baseline, judge nodes, then units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rackproof import hardware as hardware_profiles
from rackproof import recipes
from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.detecting import detected
from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import read_facts
from rackproof.facts import Fact, Missing, NodeFacts, UnitFacts
from rackproof.inventory import load_targets, planned
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.resolving import layout_wanted, unsupported
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult, Result, combine, evaluate_unit, judge_node
from rackproof.verdict.model import Outcome, Requirement, Severity, Stage, Status, Verdict

# Not in the catalogue: it decides which baseline the catalogue is judged against.
HARDWARE = Requirement(
    id="host.hardware",
    code="HST-00",
    layer="host",
    title="The product is one that a hardware profile describes",
    why="Without a profile nothing is expected of a node, and a node of which nothing is expected proves nothing.",
    stage=Stage.PROVISIONING,
    severity=Severity.GATE,
    sources=("rackproof",),
    remedy="Name the product with --hardware, or add a hardware profile for it.",
)


def judge_all(plan: Plan, evidence: Mapping[str, Evidence]) -> Result:
    """Every node and every unit of a plan judged. A declared node without evidence is not passed over."""
    facts = {node.name: facts_of(node, evidence.get(node.name)) for node in plan.nodes}
    results: list[NodeResult] = []
    for node in plan.nodes:
        baseline = node.baseline or _detected(node, facts[node.name])
        if isinstance(baseline, Missing):
            results.append(_no_profile(node, facts[node.name], baseline.reason))
        else:
            results.append(judge_node(facts[node.name], baseline, node.unit))
    return combine(results, _fleet(plan, facts, {result.node: result.baseline for result in results}))


def plan_for_evidence(
    evidence: Sequence[Evidence],
    hardware: str | None = None,
    layout: str | None = None,
    site_file: Path | None = None,
    inventory: str | None = None,
) -> Plan:
    """The plan under which evidence from files is judged: an inventory's, or the evidence's own nodes."""
    if inventory is not None:
        return load_targets([inventory])
    site = sites.from_file(site_file) if site_file else sites.shipped()
    unnamed = [item for item in evidence if not item.node]
    if unnamed:
        raise InputError("evidence", unnamed[0].problem or "names no node", "the output of a rackproof probe")
    return Plan(tuple(planned(item.node, site, hardware, layout) for item in evidence))


def facts_of(node: PlannedNode, evidence: Evidence | None) -> NodeFacts:
    """Facts of a planned node; without evidence they carry the reason."""
    if evidence is None:
        why = "left out by --limit" if node.left_out else "no evidence of this node was given"
        evidence = Evidence(node.name, problem=why)
    return replace(read_facts(evidence), node=node.name)


def _detected(node: PlannedNode, facts: NodeFacts) -> Fact[Baseline]:
    """The baseline of the product that this node says it is; one product, whole and known, or none."""
    if isinstance(facts.evidence, Missing):
        return facts.evidence
    found = detected(facts)
    if isinstance(found, Missing):
        return found
    cell = node.site.require("recipe")
    recipe, hardware = recipes.load(cell.value, cell.source), hardware_profiles.load(found)
    refused = unsupported(recipe, hardware)
    if refused is None and not node.layout and node.site.get("layout") is None:
        refused = layout_wanted(recipe, hardware)
    return Missing(refused) if refused else resolve(node.site, hardware_id=found, layout_id=node.layout)


def _no_profile(node: PlannedNode, facts: NodeFacts, reason: str) -> NodeResult:
    """Nothing is expected of this node, so nothing is proven: the product first, or the node itself, is unknown."""
    unread = isinstance(facts.evidence, Missing)
    requirement = requirements()["host.evidence"] if unread else HARDWARE
    outcome = Outcome(requirement, Status.UNKNOWN, reason=reason)
    sha256 = facts.evidence if isinstance(facts.evidence, str) else ""
    simulated = isinstance(facts.host.simulated, str)
    return NodeResult(node.name, "unknown", Verdict.UNDETERMINED, (outcome,), sha256, simulated, None, node.unit)


def _fleet(
    plan: Plan, facts: Mapping[str, NodeFacts], baselines: Mapping[str, Baseline | None]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for unit in plan.units or _undeclared_units(plan, baselines):
        baseline = next((baselines[name] for name in unit.nodes if baselines.get(name)), None)
        if baseline is None:
            continue  # each of its nodes is already undetermined for want of a profile
        nodes: dict[str, Fact[NodeFacts]] = {}
        for name in unit.nodes:
            read = facts[name]
            nodes[name] = read if not isinstance(read.evidence, Missing) else Missing(read.evidence.reason)
        others = {name: read for name, read in facts.items() if name not in nodes}
        outcomes += evaluate_unit(UnitFacts(unit.name, unit.nodes, nodes, others), baseline)
    if not plan.units and not outcomes:
        outcomes += _no_unit(plan, baselines)
    return outcomes


def _undeclared_units(plan: Plan, baselines: Mapping[str, Baseline | None]) -> list[Unit]:
    """Units where nobody declared any: each node alone if the layout takes one, all together if they are as many."""
    known = [baseline for baseline in baselines.values() if baseline is not None]
    names = tuple(node.name for node in plan.nodes)
    sizes = {baseline.layout.nodes for baseline in known}
    if sizes == {1}:
        return [Unit(name, (name,)) for name in names if baselines[name]]
    if sizes == {len(names)}:
        return [Unit("the nodes given", names)]
    return []


def _no_unit(plan: Plan, baselines: Mapping[str, Baseline | None]) -> list[Outcome]:
    """Nodes that only serve together, and nobody said which: that they work together is not proven."""
    wanted = {baseline.layout.id: baseline.layout.nodes for baseline in baselines.values() if baseline is not None}
    if not wanted:
        return []
    needs = " and ".join(f"layout {layout} takes {size} nodes together" for layout, size in sorted(wanted.items()))
    reason = f"{needs}; {len(plan.nodes)} were given and no deployment unit is declared"
    members = requirements()["fleet.members"]
    return [Outcome(members, Status.UNKNOWN, reason=reason, unit="undeclared", nodes=tuple(n.name for n in plan.nodes))]
