"""Checks of layer host: memory, CPUs and kind of machine that were advertised."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked, gib
from rackproof.layers.words_offer import GIB, as_advertised, cores, cpu, enough, is_product, ram
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("host.offered_ram")
def offered_ram(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold, tolerance = asked(baseline.offer.ram_gib), baseline.offer.rules.ram_tolerance
    found = seen(ram(facts), lambda size: size >= sold * GIB * (1 - tolerance), gib)
    return all_of(as_advertised(f"{sold:g} GiB, less {tolerance:.0%}"), {"memory": found})


@check("host.offered_sockets")
def offered_sockets(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.sockets)
    return all_of(as_advertised(f"{sold} sockets"), {"sockets": enough(of(cpu(facts), lambda one: one.sockets), sold)})


@check("host.offered_cores")
def offered_cores(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.cores)
    return all_of(as_advertised(f"{sold} physical cores"), {"cores": enough(cores(facts), sold)})


@check("host.offered_cpu")
def offered_cpu(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold = asked(baseline.offer.cpu_model)
    model = seen(of(cpu(facts), lambda one: one.model), lambda found: is_product(found, sold))
    return all_of(as_advertised(sold), {"CPU": model})


@check("host.offered_machine")
def offered_machine(facts: NodeFacts, baseline: Baseline) -> Judgement:
    sold, none = asked(baseline.offer.bare_metal), baseline.offer.rules.bare_metal
    kind = seen(
        facts.virtual_machine,
        lambda found: not sold or found == none,
        lambda found: "bare metal" if found == none else f"a virtual machine ({found})",
    )
    return all_of(as_advertised("bare metal" if sold else "a virtual machine, or better"), {"machine": kind})
