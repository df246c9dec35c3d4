"""Checks of layer weights: the local disks that were advertised."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked
from rackproof.layers.words_offer import as_advertised, enough
from rackproof.layers.words_weights import nvme_disks, total
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("weights.offered_disks")
def offered_disks(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.nvme_count)
    return all_of(as_advertised(f"{sold} local NVMe disks"), {"NVMe disks": enough(of(nvme_disks(facts), len), sold)})


@check("weights.offered_bytes")
def offered_bytes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold, tolerance = asked(baseline.offer.nvme_bytes), baseline.offer.rules.disk_tolerance
    size = of(nvme_disks(facts), lambda disks: total(disk.size_bytes for disk in disks))
    enough_of_it = seen(size, lambda found: found >= sold * (1 - tolerance), lambda found: f"{found} bytes")
    return all_of(as_advertised(f"{sold} bytes of local NVMe, less {tolerance:.0%}"), {"NVMe disks": enough_of_it})
