"""Checks of layer nvlink: the fabric in detail, its daemons, IMEX in detail, and xGMI on AMD."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

from rackproof.baseline import Baseline
from rackproof.facts import Missing, NodeFacts, known
from rackproof.layers.readings import Reading, all_of, of, same, seen
from rackproof.layers.words import (
    asked,
    branch_package,
    names_by_index,
    on_each_gpu,
    service,
    service_words,
    some,
    yes_no,
)
from rackproof.layers.words_fabric import after_configured, link_counters, open_to_all, own_entries, xgmi_pairs
from rackproof.layers.words_gpu import detail
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

FABRIC_MANAGER, IMEX, SUBNET_MANAGER = "nvidia-fabricmanager", "nvidia-imex", "nvlsm"


@check("nvlink.fabric_bandwidth")
def fabric_bandwidth(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("Full, each GPU", on_each_gpu(facts, detail("fabric_bandwidth"), lambda found: found == "Full"))


@check("nvlink.fabric_routes")
def fabric_routes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    bits = {
        "fabric_route_unhealthy": "route unhealthy",
        "fabric_route_recovery": "route recovery",
        "fabric_access_timeout_recovery": "access timeout recovery",
    }
    readings = [on_each_gpu(facts, detail(name), lambda found: not found, yes_no, word) for name, word in bits.items()]
    return all_of("no route is bad or in recovery, each GPU", {key: one for part in readings for key, one in part.items()})


@check("nvlink.fabric_configuration")
def fabric_configuration(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, detail("fabric_incorrect_configuration"), lambda found: found == "None")
    return all_of("incorrect configuration: None, each GPU", readings)


@check("nvlink.link_rate")
def link_rate(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.nvlink.link_rate_gb_per_s)
    ports = known(some(facts.nvlink.ports, "NVLink port was listed"))
    readings = {
        f"GPU {port.gpu} link {port.link}": seen(
            port.rate_gb_per_s, lambda found: found >= wanted, lambda found: f"{found} GB/s"
        )
        for port in ports
    }
    return all_of(f"{wanted} GB/s, each link", readings)


@check("nvlink.link_errors")
def link_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = baseline.nvlink.error_counters
    found = known(link_counters(facts, names))
    readings = {name: found.get(index, Missing(f"no counter of GPU {index} was listed"))
                for index, name in names_by_index(facts, baseline.gpus.count).items()}  # fmt: skip
    return all_of(
        f"0 of {', '.join(names)} since the driver was loaded, each link",
        {name: seen(errors, lambda one: not one, lambda one: ", ".join(one) or "none") for name, errors in readings.items()},
    )


@check("nvlink.p2p")
def p2p(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found, unread = known(facts.nvlink.p2p), Missing("nvidia-smi topo -p2p shows no such pair")
    pairs = sorted({*combinations(range(baseline.gpus.count), 2), *found})
    readings = {
        f"GPU {one} to GPU {other}": seen(found.get((one, other), unread), lambda word: word == "OK")
        for one, other in pairs
    }
    return all_of("OK between every two GPUs", readings)


@check("nvlink.fabric_modules")
def fabric_modules(facts: NodeFacts, baseline: Baseline) -> Judgement:
    loaded = known(some(facts.driver.loaded_modules, "loaded kernel module was listed"))
    wanted = baseline.nvlink.fabric_modules
    readings = {name: Reading(name in loaded, "loaded" if name in loaded else "not loaded") for name in wanted}
    return all_of(f"loaded: {', '.join(wanted)}", dict(readings))


@check("nvlink.subnet_manager")
def subnet_manager(facts: NodeFacts, baseline: Baseline) -> Judgement:
    versions = branch_package(facts, SUBNET_MANAGER)
    return all_of("installed", {SUBNET_MANAGER: seen(versions, any, lambda found: " and ".join(found) or "not installed")})


@check("nvlink.fabric_manager_restarts")
def fabric_manager_restarts(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.nvlink.fabric_manager_restarts_max
    restarts = of(service(facts, FABRIC_MANAGER), lambda unit: unit.restarts)
    readings = {FABRIC_MANAGER: seen(restarts, lambda found: 0 <= found <= most, lambda found: f"{found} restarts")}
    return all_of(f"<= {most} restarts by systemd", readings)


@check("nvlink.fabric_manager_log")
def fabric_manager_log(facts: NodeFacts, baseline: Baseline) -> Judgement:
    later = after_configured(facts)
    readings = {"log": seen(later, lambda found: not found, lambda found: "; ".join(found) or "configured, and nothing since")}
    return all_of("fabric configured, and no error after that", readings)


@check("nvlink.fabric_mode")
def fabric_mode(facts: NodeFacts, baseline: Baseline) -> Judgement:
    manager = of(facts.system, lambda system: system.fabric_manager)
    mode = of(manager, lambda found: found.mode)
    return all_of("0, which is bare metal", {"FABRIC_MODE": seen(mode, lambda found: found == "0")})


@check("nvlink.imex_owner")
def imex_owner(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of(
        "not running on the host, where Kubernetes starts it",
        {IMEX: seen(service(facts, IMEX), lambda unit: not unit.running, service_words)},
    )


@check("nvlink.imex_duplicates")
def imex_duplicates(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(facts.nvlink.imex_nodes)
    expected = "a list that names each node once"
    if not found:
        return judge(False, "no such file" if found is None else "an empty list", expected)
    twice = [name for name, times in Counter(found).items() if times > 1]
    return judge(not twice, f"twice: {', '.join(twice)}" if twice else f"{len(found)} nodes", expected)


@check("nvlink.imex_member")
def imex_member(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(facts.nvlink.imex_nodes)
    here = own_entries(found or (), known(facts.host.hostname), known(some(facts.host.addresses, "address was listed")))
    observed = ", ".join(here) or f"{len(found or ())} nodes, none of them this one"
    return judge(bool(here), observed, "an entry with an address or the name of this node")


@check("nvlink.rack_health")
def rack_health(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = on_each_gpu(facts, lambda gpu: gpu.fabric_health, lambda found: found == "Healthy")
    return all_of("Healthy, each GPU", readings)


@check("nvlink.imex_quorum")
def imex_quorum(facts: NodeFacts, baseline: Baseline) -> Judgement:
    config, wanted = known(facts.nvlink.imex_config), baseline.nvlink.imex_quorum
    found = (config or {}).get("IMEX_WAIT_FOR_QUORUM", "")
    return judge(not found or found in wanted, found or "not set", f"not set, {' or '.join(wanted)}")


@check("nvlink.imex_one_version")
def imex_one_version(facts: NodeFacts, baseline: Baseline) -> Judgement:
    peers = known(facts.nvlink.imex_domain).peers
    return same("one version of IMEX in the whole domain", {f"peer {peer.host}": peer.version for peer in peers})


@check("nvlink.imex_devices")
def imex_devices(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("yes", {"the driver has IMEX channels": seen(facts.nvlink.imex_major, bool, yes_no)})


@check("nvlink.imex_channel_access")
def imex_channel_access(facts: NodeFacts, baseline: Baseline) -> Judgement:
    modes = known(some(facts.nvlink.imex_channel_modes, "IMEX channel exists"))
    readings = {path: Reading(open_to_all(mode), f"mode {mode}") for path, mode in modes.items()}
    return all_of("every user may read and write", dict(readings))


@check("nvlink.xgmi")
def xgmi(facts: NodeFacts, baseline: Baseline) -> Judgement:
    nodes, joined = known(xgmi_pairs(facts))
    lost = [f"{one} to {other}" for one, other in permutations(nodes, 2) if (one, other) not in joined]
    wanted = baseline.nvlink.links_per_gpu
    few = len(nodes) <= wanted
    observed = f"not joined: KFD nodes {', '.join(lost)}" if lost else f"{len(nodes)} GPUs, each joined to each other"
    return judge(not lost and not few, observed, f"xGMI from every GPU to {wanted} others, both ways")
