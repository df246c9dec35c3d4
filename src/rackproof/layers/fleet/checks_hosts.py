"""Checks of layer fleet: no node counts twice, hosts and NICs of a unit are alike, and outliers are named."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import UnitFacts
from rackproof.identities import ADDRESS, BOOT, GID, GPU, HOST_NAME, SERIAL
from rackproof.layers.readings import all_of, of, same
from rackproof.layers.words import gib, of_each_node
from rackproof.layers.words_fleet import (
    addresses_of,
    cpus,
    duplicates,
    firmware_of_models,
    gid_addresses,
    gid_families,
    gid_indexes,
    gpu_identities,
    link_layers,
    machine_model,
    machine_serials,
    mtus,
    near_middle,
    numa_shape,
    own_parameters,
    port_names,
    port_rates,
    rates_words,
)
from rackproof.layers.words_system import below, interface_of, positive_amount, system
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement

ONE_OF_ITS_OWN = "of no other node in this run"


@check("fleet.distinct_hosts")
def distinct_hosts(unit: UnitFacts, baseline: Baseline) -> Judgement:
    names = duplicates(unit, HOST_NAME, lambda facts: facts.host.hostname)
    boots = duplicates(unit, BOOT, lambda facts: facts.host.boot_id)
    named = {f"{node}, host name": reading for node, reading in names.items()}
    return all_of(ONE_OF_ITS_OWN, {**named, **{f"{node}, boot id": reading for node, reading in boots.items()}})


@check("fleet.distinct_addresses")
def distinct_addresses(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return all_of(ONE_OF_ITS_OWN, duplicates(unit, ADDRESS, lambda facts: addresses_of(facts, baseline)))


@check("fleet.distinct_gpus")
def distinct_gpus(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return all_of(ONE_OF_ITS_OWN, duplicates(unit, GPU, gpu_identities))


@check("fleet.distinct_machines")
def distinct_machines(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return all_of(ONE_OF_ITS_OWN, duplicates(unit, SERIAL, machine_serials))


@check("fleet.distinct_gids")
def distinct_gids(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return all_of(ONE_OF_ITS_OWN, duplicates(unit, GID, lambda facts: gid_addresses(facts, baseline)))


@check("fleet.gid_family")
def gid_family(unit: UnitFacts, baseline: Baseline) -> Judgement:
    families = of_each_node(unit, lambda facts: gid_families(facts, baseline))
    return same("one family of GIDs on every port of every node", families)


@check("fleet.gid_index")
def gid_index(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("the same indexes on every node", of_each_node(unit, lambda facts: gid_indexes(facts, baseline)))


@check("fleet.rdma_link_layer")
def rdma_link_layer(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one link layer", of_each_node(unit, lambda facts: link_layers(facts, baseline)))


@check("fleet.rdma_ports")
def rdma_ports(unit: UnitFacts, baseline: Baseline) -> Judgement:
    rates = of_each_node(unit, lambda facts: port_rates(facts, baseline))
    return same("the same number of ports at the same rates", rates, all, rates_words)


@check("fleet.rdma_firmware")
def rdma_firmware(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one firmware for each model", of_each_node(unit, lambda facts: firmware_of_models(facts, baseline)))


@check("fleet.rdma_names")
def rdma_names(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("the same names", of_each_node(unit, lambda facts: port_names(facts, baseline)))


@check("fleet.rdma_mtu")
def rdma_mtu(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one MTU", of_each_node(unit, lambda facts: mtus(facts, baseline)))


@check("fleet.os")
def os(unit: UnitFacts, baseline: Baseline) -> Judgement:
    releases = of_each_node(
        unit, lambda facts: of(facts.host.os_id, lambda name: of(facts.host.os_version, lambda release: (name, release)))
    )
    return same("one release", releases, all, " ".join)


@check("fleet.page_size")
def page_size(unit: UnitFacts, baseline: Baseline) -> Judgement:
    sizes = of_each_node(unit, lambda facts: facts.host.page_size_bytes)
    return same("one page size", sizes, lambda found: found > 0, "{} bytes".format)


@check("fleet.processors")
def processors(unit: UnitFacts, baseline: Baseline) -> Judgement:
    shapes = of_each_node(unit, lambda facts: of(cpus(facts), lambda some: of(numa_shape(facts), lambda numa: (some, numa))))
    return same("the same CPUs and NUMA nodes", shapes, all, " on ".join)


@check("fleet.cmdline")
def cmdline(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("the same kernel parameters", of_each_node(unit, own_parameters))


@check("fleet.memory")
def memory(unit: UnitFacts, baseline: Baseline) -> Judgement:
    share = baseline.system.memory_outlier_fraction
    sizes = of_each_node(unit, lambda facts: positive_amount(system(facts, "kernel", "memory_bytes"), "MemTotal"))
    return all_of(f"within {share:.0%} of the middle one", near_middle(sizes, lambda middle: share * middle, gib))


@check("fleet.clock")
def clock(unit: UnitFacts, baseline: Baseline) -> Judgement:
    most = baseline.system.clock_offset_s_max
    offsets = of_each_node(unit, lambda facts: system(facts, "clock", "offset_s"))
    return all_of(f"within {most} s of the middle one", near_middle(offsets, lambda _: most, "{:+.6f} s".format))


@check("fleet.interface")
def interface(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one name", of_each_node(unit, lambda facts: below(interface_of(facts, baseline), "name")))


@check("fleet.machine")
def machine(unit: UnitFacts, baseline: Baseline) -> Judgement:
    return same("one model with one firmware", of_each_node(unit, machine_model))
