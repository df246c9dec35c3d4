"""Checks of layer fleet: over the nodes of one deployment unit."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import UnitFacts, gpus, known
from rackproof.layers.readings import all_of, same, seen
from rackproof.layers.words import (
    branch_package,
    clique_words,
    driver_version,
    is_clique,
    joined_clique,
    of_each_node,
    recipe_digest,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("fleet.members")
def members(unit: UnitFacts, baseline: Baseline) -> Judgement:
    wanted, names = baseline.layout.nodes, sorted(unit.declared)
    expected = f"{wanted} declared nodes, each one read"
    if len(names) != wanted or len(set(names)) != wanted:
        return judge(False, f"{len(names)} declared: {', '.join(names) or 'none'}", expected)
    evidence = of_each_node(unit, lambda facts: facts.evidence)
    return all_of(expected, {name: seen(sha256, bool, lambda _: "read") for name, sha256 in evidence.items()})


@check("fleet.driver")
def driver(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one loaded driver version", of_each_node(unit, driver_version))


@check("fleet.image")
def image(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one image digest", of_each_node(unit, lambda facts: recipe_digest(facts, baseline)))


@check("fleet.clique")
def clique(unit: UnitFacts, baseline: Baseline) -> Judgement:
    cliques = of_each_node(unit, lambda facts: sorted({known(joined_clique(gpu, baseline)) for gpu in gpus(facts)}))
    return same(
        "one clique of one cluster on every node",
        cliques,
        lambda found: len(found) == 1 and is_clique(found[0]),
        lambda found: " and ".join(map(clique_words, found)),
    )


@check("fleet.imex_nodes")
def imex_nodes(unit: UnitFacts, baseline: Baseline) -> Judgement:
    lists = of_each_node(unit, lambda facts: facts.nvlink.imex_nodes)
    return same("one IMEX node list", lists, bool, lambda found: ", ".join(found or ()) or "no list")


@check("fleet.imex_version")
def imex_version(unit: UnitFacts, baseline: Baseline) -> Judgement:
    versions = of_each_node(unit, lambda facts: branch_package(facts, "nvidia-imex"))
    return same("one nvidia-imex version", versions, any, lambda found: " and ".join(found) or "not installed")


@check("fleet.kernel")
def kernel(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one kernel release", of_each_node(unit, lambda facts: facts.host.kernel))
