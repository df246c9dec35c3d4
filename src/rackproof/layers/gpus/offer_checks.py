"""Checks of layer gpus: the GPUs that were advertised."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of, seen
from rackproof.layers.words import asked, gib
from rackproof.layers.words_offer import GIB, as_advertised, enough, gpu_count, gpu_memory, gpu_products, is_product
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("gpus.offered_count")
def offered_count(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.gpus)
    return all_of(as_advertised(f"{sold} GPUs"), {"GPUs": enough(gpu_count(facts, baseline), sold)})


@check("gpus.offered_product")
def offered_product(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.gpu_product)
    products = gpu_products(facts, baseline)
    readings = {name: seen(product, lambda found: is_product(found, sold)) for name, product in products.items()}
    return all_of(as_advertised(sold), readings)


@check("gpus.offered_memory")
def offered_memory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.gpu_memory_gib)
    least = sold * GIB * (1 - baseline.offer.rules.gpu_memory_tolerance)
    sizes = gpu_memory(facts, baseline)
    readings = {name: seen(size, lambda found: found >= least, gib) for name, size in sizes.items()}
    return all_of(as_advertised(f"{sold:g} GiB a GPU, less {baseline.offer.rules.gpu_memory_tolerance:.0%}"), readings)
