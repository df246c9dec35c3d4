"""What checks over several nodes share: what a node is known by, what its NICs look like, and how far it is from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from rackproof.baseline import Baseline
from rackproof.facts import Fact, Missing, NodeFacts, UnitFacts, gpus, known
from rackproof.identities import FILLERS, named
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words_rdma import ETHERNET, fabric, gigabits, model, mtu_of, port_name, ports, routable_gids
from rackproof.layers.words_system import dmi, interface_of, routable, system

# --- no node counts twice ---


def duplicates(unit: UnitFacts, kind: str, read: Callable[[NodeFacts], Fact[Any]]) -> dict[str, Fact[Reading]]:
    """For each declared node: whether no other node of the run has the same value, or any of the same values."""
    absent = Missing("no evidence of this node was given")
    values = {name: _values(of(unit.nodes.get(name, absent), read)) for name in unit.declared}
    owners: dict[str, list[str]] = {}
    for name, own in values.items():
        for value in () if isinstance(own, Missing) else own:
            owners.setdefault(value, [*unit.known_by.get(named(kind, value), ())]).append(name)
    return {name: _alone(name, own, owners) for name, own in values.items()}


def _values(fact: Fact[Any]) -> Fact[frozenset[str]]:
    nothing = Missing("nothing to compare was read")
    return of(fact, lambda found: frozenset({found} if isinstance(found, str) else found) - {""} or nothing)


def _alone(name: str, own: Fact[frozenset[str]], owners: Mapping[str, Sequence[str]]) -> Fact[Reading]:
    shared = of(own, lambda mine: (_shared(mine, name, owners),))
    return seen(shared, lambda found: not found[0], lambda found: found[0] or "its own")


def _shared(own: frozenset[str], name: str, owners: Mapping[str, Sequence[str]]) -> str:
    """What another node has too, and which: "x, as tray02". "" where nobody else has any of it."""
    others = {value: [other for other in owners[value] if other != name] for value in sorted(own)}
    return next((f"{value}, as {names[0]}" for value, names in others.items() if names), "")


def gpu_identities(facts: NodeFacts) -> Fact[tuple[str, ...]]:
    """UUIDs of all GPUs."""
    return tuple(known(gpu.uuid) for gpu in gpus(facts))


def machine_serials(facts: NodeFacts) -> Fact[str]:
    serial = dmi(facts, "product_serial")
    filler = Missing("the firmware has no serial number")
    return of(serial, lambda found: filler if found.strip().lower() in FILLERS else found)


def addresses_of(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[str, ...]]:
    """Addresses of the interface through which nodes meet. Those of bridges of containers are the same everywhere."""
    return of(interface_of(facts, baseline), routable)


def gid_addresses(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[str, ...]]:
    """All GIDs of the ports that serve."""
    return tuple(gid.address for _, port in ports(facts, baseline) for gid in known(port.gids))


# --- hosts and NICs alike ---


def port_names(facts: NodeFacts, baseline: Baseline) -> str:
    return ", ".join(port_name(hca, port) for hca, port in ports(facts, baseline))


def port_rates(facts: NodeFacts, baseline: Baseline) -> tuple[int, ...]:
    return tuple(sorted(known(port.rate_bits_per_s) for _, port in ports(facts, baseline)))


def link_layers(facts: NodeFacts, baseline: Baseline) -> str:
    return " and ".join(sorted({known(port.link_layer) for _, port in ports(facts, baseline)}))


def mtus(facts: NodeFacts, baseline: Baseline) -> str:
    """MTUs of RoCE interfaces; InfiniBand's own is negotiated."""
    ethernet = [port for _, port in ports(facts, baseline) if known(port.link_layer) == ETHERNET]
    return " and ".join(sorted({str(known(mtu_of(facts, port))) for port in ethernet})) or "InfiniBand"


def gid_families(facts: NodeFacts, baseline: Baseline) -> str:
    """Families that every RoCE port has: "global, ipv4"."""
    return _common(facts, baseline, lambda gid: str(gid.scope))


def gid_indexes(facts: NodeFacts, baseline: Baseline) -> str:
    """Indexes at which every RoCE port has a routable GID."""
    return _common(facts, baseline, lambda gid: f"{gid.index} ({gid.scope})")


def _common(facts: NodeFacts, baseline: Baseline, read: Callable[[Any], str]) -> str:
    every = [
        {read(gid) for gid in known(routable_gids(port))}
        for _, port in ports(facts, baseline) if known(port.link_layer) == ETHERNET
    ]  # fmt: skip
    return ", ".join(sorted(set.intersection(*every))) if every else "InfiniBand"


def firmware_of_models(facts: NodeFacts, baseline: Baseline) -> str:
    return ", ".join(sorted({f"{model(hca)} with {known(hca.fw_version)}" for hca in fabric(facts, baseline)}))


def numa_shape(facts: NodeFacts) -> Fact[str]:
    """How many NUMA nodes, and how many of them have CPUs."""
    nodes = system(facts, "kernel", "numa")
    return of(nodes, lambda found: f"{len(found)} nodes, {sum(bool(node.cpus) for node in found)} with CPUs")


def cpus(facts: NodeFacts) -> Fact[str]:
    online = system(facts, "kernel", "cpus_online")
    return of(online, lambda found: f"CPUs {found}" if found else Missing("no CPU was listed"))


def machine_model(facts: NodeFacts) -> Fact[str]:
    """Maker, model and firmware."""
    names = [dmi(facts, name) for name in ("sys_vendor", "product_name", "bios_version")]
    unread = next((name for name in names if isinstance(name, Missing)), None)
    return unread or " ".join(str(name) for name in names)


def own_parameters(facts: NodeFacts) -> Fact[str]:
    """The kernel's parameters in order, without those that name this node's own disk or image."""
    own = ("root", "BOOT_IMAGE", "resume", "initrd", "crashkernel", "console", "ip", "BOOTIF")
    return of(
        facts.host.cmdline,
        lambda found: " ".join(sorted(one for one in found if one.partition("=")[0] not in own)) or "no parameter",
    )


def near_middle(
    values: Mapping[str, Fact[float]], most: Callable[[float], float], show: Callable[[Any], str]
) -> dict[str, Fact[Reading]]:
    """Whether each amount is close to the middle one; `most` says how far from it is far. What was not read counts not."""
    read = [value for value in values.values() if not isinstance(value, Missing)]
    middle = median(read) if read else 0.0
    return {
        name: seen(value, lambda found: abs(found - middle) <= most(middle), show) for name, value in values.items()
    }


def rates_words(rates: Sequence[int]) -> str:
    return ", ".join(f"{count} of {gigabits(rate)}" for rate, count in sorted(Counter(rates).items()))
