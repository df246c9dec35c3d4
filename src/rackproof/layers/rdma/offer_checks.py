"""Checks of layer rdma: the network ports that were advertised."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of
from rackproof.layers.words_offer import as_advertised, nics_reading, nics_words
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("rdma.offered_nics")
def offered_nics(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = {nics_words(sold): nics_reading(facts, sold) for sold in baseline.offer.nics}
    return all_of(as_advertised("; ".join(readings)), readings)
