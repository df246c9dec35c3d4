"""Checks of layer nvlink."""

from __future__ import annotations

from itertools import combinations

from rackproof.baseline import Baseline
from rackproof.facts import Fact, Missing, NodeFacts, gpus, known
from rackproof.layers.readings import Reading, all_of, same, seen
from rackproof.layers.words import (
    asked,
    at_driver_version,
    clique_words,
    distinct,
    gpu_name,
    is_clique,
    joined_clique,
    names_by_index,
    on_each_gpu,
    service,
    service_words,
    some,
    starts_and_runs,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

FABRIC_MANAGER = "nvidia-fabricmanager"
IMEX = "nvidia-imex"


@check("nvlink.fabric_state")
def fabric_state(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.nvlink
    state = on_each_gpu(facts, lambda gpu: gpu.fabric_state, lambda found: found == wanted.fabric_state)
    status = on_each_gpu(
        facts, lambda gpu: gpu.fabric_status, lambda found: found == wanted.fabric_status, what="status"
    )
    return all_of(f"{wanted.fabric_state}, status {wanted.fabric_status}, each GPU", {**state, **status})


@check("nvlink.fabric_health")
def fabric_health(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, lambda gpu: gpu.fabric_health, lambda found: found == "Healthy")
    return all_of("Healthy, each GPU", readings)


@check("nvlink.clique")
def clique(facts: NodeFacts, baseline: Baseline) -> Judgement:
    cliques = {gpu_name(gpu): joined_clique(gpu, baseline) for gpu in gpus(facts)}
    return same("one clique id above 0 and one cluster UUID that is not zero", cliques, is_clique, clique_words)


@check("nvlink.links")
def links(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, least = baseline.nvlink.links_per_gpu, baseline.nvlink.link_rate_min_gb_per_s
    ports = known(some(facts.nvlink.ports, "NVLink port was listed"))
    readings: dict[str, Fact[Reading]] = {}
    for index, name in names_by_index(facts, baseline.gpus.count).items():
        listed = [port for port in ports if port.gpu == index]
        active = {port.link: port.rate_gb_per_s for port in listed if port.active}
        links = Reading(len(active) == wanted, f"{len(active)} of {wanted} links active")
        readings[name] = links if listed else Missing(f"nvidia-smi lists no link of GPU {index}")
        for link, rate in active.items():
            readings[f"{name} link {link}"] = seen(rate, lambda found: found >= least, lambda found: f"{found} GB/s")
    return all_of(f"{wanted} active links, each >= {least} GB/s, each GPU", readings)


@check("nvlink.topology")
def topology(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = f"NV{baseline.nvlink.links_per_gpu}"
    paths = known(facts.nvlink.gpu_paths)
    unread = Missing("nvidia-smi topo -m shows no such pair")
    pairs = {*combinations(range(baseline.gpus.count), 2), *paths}
    readings = {
        f"GPU {one} to GPU {other}": seen(paths.get((one, other), unread), lambda found: found == wanted)
        for one, other in sorted(pairs)
    }
    return all_of(f"{wanted} between every two GPUs", readings)


@check("nvlink.fabric_manager")
def fabric_manager(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = {
        "service": seen(service(facts, FABRIC_MANAGER), starts_and_runs, service_words),
        "package": at_driver_version(facts, FABRIC_MANAGER),
    }
    return all_of(f"{FABRIC_MANAGER} active, enabled, and at the version of the loaded driver", readings)


@check("nvlink.daemons_forbidden")
def daemons_forbidden(facts: NodeFacts, baseline: Baseline) -> Judgement:
    forbidden = baseline.nvlink.daemons_forbidden
    known(some(facts.host.units, "unit was listed"))
    if not forbidden:
        return judge(True, "no daemon is forbidden on this hardware", "no forbidden daemon active")
    readings = {name: seen(service(facts, name), lambda unit: not unit.running, service_words) for name in forbidden}
    return all_of(f"not active: {', '.join(forbidden)}", readings)


@check("nvlink.imex_service")
def imex_service(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("active, enabled", {IMEX: seen(service(facts, IMEX), starts_and_runs, service_words)})


@check("nvlink.imex_version")
def imex_version(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of(f"{IMEX} at the version of the loaded driver", {IMEX: at_driver_version(facts, IMEX)})


@check("nvlink.imex_nodes")
def imex_nodes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, found = asked(baseline.nvlink.domain), known(facts.nvlink.imex_nodes)
    expected = f"exactly, in this order, one of them this node: {', '.join(wanted)}"
    if found != wanted:
        return judge(False, "no such file" if found is None else ", ".join(found) or "an empty list", expected)
    own = {known(facts.host.hostname), *known(facts.host.addresses)}
    here = ", ".join(sorted(own & set(wanted)))
    return judge(bool(here), f"{', '.join(found)}; this node is {here or 'none of them'}", expected)


@check("nvlink.imex_domain")
def imex_domain(facts: NodeFacts, baseline: Baseline) -> Judgement:
    domain = known(facts.nvlink.imex_domain)
    members = len(baseline.nvlink.domain or ()) or baseline.layout.nodes
    listed = distinct(peer.host for peer in domain.peers)
    readings = {
        "domain": Reading(domain.status == "UP", domain.status or "no state"),
        "peers": Reading(listed >= members, f"{listed} listed"),
        "connections": Reading(not domain.bad_links, "; ".join(domain.bad_links) or "all there"),
        **{f"peer {peer.host}": Reading(peer.status == "READY", peer.status) for peer in domain.peers},
    }
    return all_of(f"domain UP, {members} peers READY, each connected to each", dict(readings))


@check("nvlink.imex_channel")
def imex_channel(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found, wanted = known(facts.nvlink.imex_channels), baseline.nvlink.imex_channel
    ok = wanted in {path.rpartition("/")[-1] for path in found}
    return judge(ok, ", ".join(found) or "no channel", f"/dev/nvidia-caps-imex-channels/{wanted}")
