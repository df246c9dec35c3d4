"""Checks of layer fleet: weights, engines and serving units over the nodes of one deployment unit."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import UnitFacts
from rackproof.layers.readings import of, same
from rackproof.layers.words import of_each_node, plain_name, sound_version
from rackproof.layers.words_storage import environment, nccl, run
from rackproof.layers.words_weights import model_filesystem
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement

READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"


@check("fleet.weights_revision")
def weights_revision(unit: UnitFacts, baseline: Baseline) -> Judgement:
    commits = of_each_node(unit, lambda facts: of(facts.weights, lambda found: found.revision))
    return same("one recorded revision", commits, bool, lambda found: found or "not recorded")


@check("fleet.weights_size")
def weights_size(unit: UnitFacts, baseline: Baseline) -> Judgement:
    sizes = of_each_node(unit, lambda facts: of(facts.weights, lambda found: found.shard_bytes))
    return same("one size of all shards", sizes, lambda found: found > 0, lambda found: f"{found} bytes")


@check("fleet.weights_storage")
def weights_storage(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one kind", of_each_node(unit, lambda facts: of(model_filesystem(facts), lambda found: found.kind)))


@check("fleet.engine_version")
def engine_version(unit: UnitFacts, baseline: Baseline) -> Judgement:
    name = baseline.runtime.engine
    versions = of_each_node(
        unit, lambda facts: of(facts.runtime.engine_version, lambda text: sound_version(text, name))
    )
    return same(f"one version of {name}", versions)


@check("fleet.toolkit_version")
def toolkit_version(unit: UnitFacts, baseline: Baseline) -> Judgement:
    versions = of_each_node(unit, lambda facts: facts.runtime.toolkit_version)
    return same("one version of nvidia-ctk", versions, bool, lambda found: found or "not installed")


@check("fleet.serving_unit")
def serving_unit(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one image", of_each_node(unit, lambda facts: of(run(facts), lambda found: plain_name(found.image))))


@check("fleet.ready_timeout")
def ready_timeout(unit: UnitFacts, baseline: Baseline) -> Judgement:
    limits = of_each_node(unit, lambda facts: of(environment(facts), lambda env: env.get(READY_TIMEOUT, "")))
    return same(f"one {READY_TIMEOUT}", limits, str.isdigit, lambda found: found or "not set")


@check("fleet.nccl_environment")
def nccl_environment(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one set of NCCL settings", of_each_node(unit, lambda facts: of(environment(facts), nccl)))


@check("fleet.nccl_conf")
def nccl_conf(unit: UnitFacts, baseline: Baseline) -> Judgement:
    files = of_each_node(unit, lambda facts: of(facts.serving, lambda found: of(found.nccl_conf, nccl)))
    return same("one /etc/nccl.conf, or none", files)
