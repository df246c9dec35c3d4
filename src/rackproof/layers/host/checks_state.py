"""Checks of layer host: CPUs, memory, limits, services, and what the kernel logged."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import asked, gib, some, yes_no
from rackproof.layers.words_system import (
    below,
    dmi,
    is_loopback,
    listed,
    logged,
    numa_with_cpus,
    positive_amount,
    shared_memory,
    sysctl,
    system,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement

# --- CPUs and memory ---


@check("host.cpus_online")
def cpus_online(facts: NodeFacts, baseline: Baseline) -> Judgement:
    possible, online = system(facts, "kernel", "cpus_possible"), system(facts, "kernel", "cpus_online")
    pair = of(possible, lambda all_: of(online, lambda now: (all_, now)))
    words = seen(pair, lambda found: found[0] == found[1] != "", lambda found: f"{found[1]} of {found[0]}")
    return all_of("every possible CPU is online", {"CPUs": words})


@check("host.governor")
def governor(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.governor
    return all_of(wanted, {"governor": seen(system(facts, "kernel", "governor"), lambda found: found == wanted)})


@check("host.numa_balancing")
def numa_balancing(facts: NodeFacts, baseline: Baseline) -> Judgement:
    name, wanted = "kernel.numa_balancing", baseline.system.numa_balancing
    return all_of(f"{name} = {wanted}", {name: seen(sysctl(facts, name), lambda found: found == wanted)})


@check("host.numa_nodes")
def numa_nodes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of(
        "memory on every NUMA node that has CPUs",
        {
            f"node {node.number}": seen(node.memory_bytes, lambda size: size > 0, gib)
            for node in known(numa_with_cpus(facts))
        },
    )


@check("host.memory")
def memory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = asked(baseline.system.host_memory_bytes)
    total = positive_amount(system(facts, "kernel", "memory_bytes"), "MemTotal")
    return all_of(f">= {gib(least)}", {"MemTotal": seen(total, lambda found: found >= least, gib)})


@check("host.hugepages")
def hugepages(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.system.hugepages_bytes_max
    size, count = system(facts, "kernel", "hugepage_bytes"), system(facts, "kernel", "hugepages")
    taken = of(size, lambda one: of(count, lambda number: one * number))
    return all_of(f"at most {gib(most)}", {"set aside": seen(taken, lambda found: 0 <= found <= most, gib)})


@check("host.transparent_hugepages")
def transparent_hugepages(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.transparent_hugepages
    mode = system(facts, "kernel", "transparent_hugepages")
    return all_of(" or ".join(wanted), {"transparent hugepages": seen(mode, lambda found: found in wanted)})


@check("host.swap")
def swap(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none in use", {"swap": seen(system(facts, "kernel", "swap_used_bytes"), lambda used: used == 0, gib)})


@check("host.shared_memory")
def host_shared_memory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.system.shared_memory_bytes_min
    size = below(shared_memory(facts), "size_bytes")
    return all_of(f">= {gib(least)}", {"/dev/shm": seen(size, lambda found: found >= least, gib)})


@check("host.shared_memory_roomy")
def shared_memory_roomy(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.system.shared_memory_bytes
    size = below(shared_memory(facts), "size_bytes")
    return all_of(f">= {gib(wanted)}", {"/dev/shm": seen(size, lambda found: found >= wanted, gib)})


# --- limits and services ---


@check("host.failed_units")
def failed_units(facts: NodeFacts, baseline: Baseline) -> Judgement:
    watched = frozenset(baseline.system.watched_units)
    failed = of(system(facts, "state", "failed_units"), lambda found: tuple(name for name in found if name in watched))
    words = seen(failed, lambda found: found == (), lambda found: f"failed: {', '.join(found)}" if found else "none failed")
    return all_of("no failed unit among those that matter to serving", {"systemd": words})


@check("host.blocked_processes")
def blocked_processes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    stuck = of(system(facts, "state", "blocked"), lambda found: tuple(one for one in found if not one.kernel))
    words = seen(
        stuck, lambda found: found == (), lambda found: listed([f"{one.name} ({one.pid})" for one in found]) or "none"
    )
    return all_of("no process that nothing can kill (state D)", {"processes": words})


@check("host.time_synchronised")
def time_synchronised(facts: NodeFacts, baseline: Baseline) -> Judgement:
    state = system(facts, "clock", "synchronized")
    return all_of("synchronised", {"NTPSynchronized": seen(state, lambda found: found is True, yes_no)})


@check("host.clock_offset")
def clock_offset(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.system.clock_offset_s_max
    offset = system(facts, "clock", "offset_s")
    return all_of(
        f"within {most} s", {"chrony": seen(offset, lambda found: abs(found) <= most, lambda found: f"{found:+.6f} s")}
    )


@check("host.own_name")
def own_name(facts: NodeFacts, baseline: Baseline) -> Judgement:
    addresses = system(facts, "own_addresses")
    words = seen(
        addresses,
        lambda found: bool(found) and not any(map(is_loopback, found)),
        lambda found: ", ".join(found) or "does not resolve",
    )
    return all_of("an address that other nodes can reach", {"own host name": words})


# --- disks and the kernel's log ---


@check("host.nvme_state")
def nvme_state(facts: NodeFacts, baseline: Baseline) -> Judgement:
    disks = known(some(system(facts, "kernel", "nvme"), "NVMe controller was listed"))
    return all_of("live", {disk.name: seen(disk.state, lambda found: found == "live") for disk in disks})


@check("host.machine_checks")
def machine_checks(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none since boot", {"machine checks": logged(facts, "machine_checks")})


@check("host.oom_kills")
def oom_kills(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none since boot", {"killed for memory": logged(facts, "oom_kills")})


@check("host.nvme_errors")
def nvme_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none since boot", {"NVMe errors": logged(facts, "nvme_errors")})


@check("host.hung_tasks")
def hung_tasks(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none since boot", {"tasks that hung": logged(facts, "hung_tasks")})


@check("host.pcie_fatal")
def pcie_fatal(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("none since boot", {"fatal PCIe errors": logged(facts, "pcie_fatal")})


# --- recorded ---


@check("host.boot")
def boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    up = seen(facts.host.uptime_s, lambda found: found > 0, lambda found: f"up {found:.0f} s")
    return all_of("recorded", {"boot id": seen(facts.host.boot_id, bool), "uptime": up})


@check("host.machine")
def machine(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = ("sys_vendor", "product_name", "product_serial", "bios_version")
    return all_of("recorded", {name: seen(dmi(facts, name), bool) for name in names})
