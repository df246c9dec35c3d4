"""From evidence of several nodes to one result: read facts, choose each node's baseline, judge nodes, then units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rackproof import hardware as hardware_profiles
from rackproof import recipes
from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.detecting import detected as product_of
from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import read_facts
from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.gathering import Gathering
from rackproof.inventory import load_targets, planned
from rackproof.plan import Plan, PlannedNode
from rackproof.resolving import layout_wanted, unsupported
from rackproof.site import Site
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult, Result, judge_node
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
    gathering = Gathering(plan.units)
    judged = [judge_one(node, evidence.get(node.name)) for node in plan.nodes]
    for result, facts in judged:
        gathering.learn(result.node, facts)
    for result, facts in judged:
        gathering.add(result, facts)
    return gathering.result()


def judge_one(node: PlannedNode, evidence: Evidence | None) -> tuple[NodeResult, NodeFacts]:
    """One node judged against the baseline it was planned with, or that of the product it says it is."""
    facts = facts_of(node, evidence)
    baseline = node.baseline or detected(node, facts)
    if isinstance(baseline, Missing):
        return _no_profile(node, facts, baseline.reason), facts
    return judge_node(facts, baseline, node.unit), facts


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


def detected(node: PlannedNode, facts: NodeFacts) -> Fact[Baseline]:
    """The baseline of the product that this node says it is; one product, whole and known, or none."""
    if isinstance(facts.evidence, Missing):
        return facts.evidence
    found = product_of(facts)
    if isinstance(found, Missing):
        return found
    cell = node.site.require("recipe")
    recipe, hardware = recipes.load(cell.value, cell.source), hardware_profiles.load(found)
    refused = unsupported(recipe, hardware)
    if refused is None and not node.layout and node.site.get("layout") is None:
        refused = layout_wanted(recipe, hardware)
    return Missing(refused) if refused else baseline_of(node.site, found, node.layout)


_baselines: dict[tuple[int, str, str | None], tuple[Site, Baseline]] = {}


def baseline_of(site: Site, hardware: str, layout: str | None) -> Baseline:
    """A product's baseline at a site, resolved once however many nodes there are. The site is kept with it, so that
    its identity stays its own."""
    key = (id(site), hardware, layout)
    if key not in _baselines:
        _baselines[key] = (site, resolve(site, hardware_id=hardware, layout_id=layout))
    return _baselines[key][1]


def _no_profile(node: PlannedNode, facts: NodeFacts, reason: str) -> NodeResult:
    """Nothing is expected of this node, so nothing is proven: the product first, or the node itself, is unknown."""
    unread = isinstance(facts.evidence, Missing)
    requirement = requirements()["host.evidence"] if unread else HARDWARE
    outcome = Outcome(requirement, Status.UNKNOWN, reason=reason)
    sha256 = facts.evidence if isinstance(facts.evidence, str) else ""
    simulated = isinstance(facts.host.simulated, str)
    return NodeResult(node.name, "unknown", Verdict.UNDETERMINED, (outcome,), sha256, simulated, None, node.unit)
