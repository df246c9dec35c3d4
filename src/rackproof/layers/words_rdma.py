"""What checks of RDMA share: which ports count, how they are named, the paths between GPUs, NICs and bridges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rackproof.baseline import Baseline
from rackproof.baseline_rdma import RdmaPorts
from rackproof.facts import Fact, Missing, NodeFacts, known, known_each
from rackproof.facts_network import Interface
from rackproof.facts_pci import PciDevice
from rackproof.facts_rdma import Gid, Hca, Port
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import some
from rackproof.layers.words_system import below

A = TypeVar("A")

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
_FIRMWARE = re.compile(r"[0-9]+\.([0-9]+)\.([0-9]+)")

PortOf = tuple[Hca, Port]


# --- which ports count ---


def fabric(facts: NodeFacts, baseline: Baseline) -> tuple[Hca, ...]:
    """The devices whose ports count, each with those ports alone. Raises MissingFact where nothing says which.

    The ports that the site names. Where it names none: devices below the root port of a GPU; where no device is (on Grace,
    GPUs hang off the CPU's own link), the models with an active port at the highest rate. Ports that somebody switched off
    are left out, so that a management or storage NIC does not count, up or down. If then nothing is left, all count.
    """
    listed = known(some(below(facts.rdma, "hcas"), "RDMA device was listed"))
    named = baseline.rdma.hcas
    if named is not None:
        return known(some(_with_ports(_named(hca, named) for hca in listed), "device that the site names was listed"))
    off = baseline.rdma.switched_off
    choices = (_beside_gpus(facts, listed), _fastest_model(listed), listed)
    found = next((chosen for hcas in choices if (chosen := _with_ports(_switched_on(hca, off) for hca in hcas))), None)
    return found or known(some(_with_ports(listed), "RDMA port was listed"))


def _with_ports(hcas: Iterable[Hca]) -> tuple[Hca, ...]:
    return tuple(hca for hca in hcas if hca.ports)


def _named(hca: Hca, names: Collection[str]) -> Hca:
    """With the ports the site names; a name without a port means all of the device's."""
    wanted = tuple(port for port in hca.ports if hca.name in names or f"{hca.name}:{port.number}" in names)
    return replace(hca, ports=wanted)


def _switched_on(hca: Hca, states: Collection[str]) -> Hca:
    return replace(hca, ports=tuple(port for port in hca.ports if port.phys_state not in states))


def _beside_gpus(facts: NodeFacts, listed: Sequence[Hca]) -> tuple[Hca, ...]:
    devices = known(some(below(facts.pci, "devices"), "PCI device was listed"))
    roots = {root for device in devices if is_gpu(device) for root in bridges(device)[:1]}
    near = {device.address for device in devices if roots & set(bridges(device)[:1])}
    return tuple(hca for hca in listed if hca.pci_address in near)


def _fastest_model(listed: Sequence[Hca]) -> tuple[Hca, ...]:
    """All devices of the models with an active port at the highest rate; every device where no port is active."""
    rates = {hca.name: max(map(_rate_if_active, hca.ports), default=0) for hca in listed}
    top = max(rates.values(), default=0)
    models = {model(hca) for hca in listed if top and rates[hca.name] == top}
    return tuple(hca for hca in listed if not models or model(hca) in models)


def _rate_if_active(port: Port) -> int:
    rate = port.rate_bits_per_s
    return rate if port.state == "ACTIVE" and not isinstance(rate, Missing) else 0


def model(hca: Hca) -> str:
    """What kind of device it is: PCI ids, or as much as is known."""
    return next((str(value) for value in (hca.pci_id, hca.product, hca.driver) if not isinstance(value, Missing)), "?")


def absent_names(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[str, ...]]:
    """Names of the site that no device has."""
    wanted = baseline.rdma.hcas or ()

    def absent(listed: Sequence[Hca]) -> tuple[str, ...]:
        there = {hca.name for hca in listed} | {f"{hca.name}:{port.number}" for hca in listed for port in hca.ports}
        return tuple(name for name in wanted if name not in there)

    return of(below(facts.rdma, "hcas"), absent)


# --- readings of ports and devices ---


def ports(facts: NodeFacts, baseline: Baseline) -> list[PortOf]:
    return [(hca, port) for hca in fabric(facts, baseline) for port in hca.ports]


def port_name(hca: Hca, port: Port) -> str:
    return f"{hca.name}:{port.number}"


def on_each_port(
    facts: NodeFacts, baseline: Baseline, read: Callable[[Port], Fact[A]]
) -> dict[str, Fact[A]]:
    return {port_name(hca, port): read(port) for hca, port in ports(facts, baseline)}


def on_each_hca(facts: NodeFacts, baseline: Baseline, read: Callable[[Hca], Fact[A]]) -> dict[str, Fact[A]]:
    return {hca.name: read(hca) for hca in fabric(facts, baseline)}


def only_on(layer: str, port: Port, reading: Callable[[], Fact[Reading]]) -> Fact[Reading]:
    """A reading of ports of one link layer; one of the other is well as far as this goes."""
    return of(port.link_layer, lambda found: reading() if found == layer else Reading(True, found))


def state_words(port: Port) -> Fact[Reading]:
    pair = of(port.state, lambda state: of(port.phys_state, lambda physical: (state, physical)))
    return seen(pair, lambda found: found == ("ACTIVE", "LinkUp"), " ".join)


def gigabits(rate: int) -> str:
    return f"{rate / 10**9:g} Gbit/s"


def routable_gids(port: Port) -> Fact[tuple[Gid, ...]]:
    """RoCE v2 GIDs that reach beyond the link: IPv4-mapped or global ones."""
    return of(
        port.gids,
        lambda found: tuple(gid for gid in found if gid.version == "RoCE v2" and gid.scope in ("ipv4", "global")),
    )


def gid_words(gids: Sequence[Gid]) -> str:
    return ", ".join(f"{gid.index} ({gid.scope})" for gid in gids) or "no routable RoCE v2 GID"


def matches(published: Sequence[RdmaPorts], found: Sequence[PortOf]) -> bool:
    """Whether count and rate of the ports are those of one provider."""
    rates = Counter(port.rate_bits_per_s for _, port in found)
    return any(rates == Counter({role.rate_bits_per_s: role.count}) for role in published)


def ports_words(found: Sequence[PortOf]) -> str:
    rates = Counter(known(port.rate_bits_per_s) for _, port in found)
    return " and ".join(f"{count} of {gigabits(rate)}" for rate, count in sorted(rates.items()))


def published_words(published: Sequence[RdmaPorts]) -> str:
    return " or ".join(f"{role.count} of {gigabits(role.rate_bits_per_s)} ({role.provider})" for role in published)


def excess(errors: Mapping[str, int], limits: Sequence[tuple[str, int]]) -> str:
    """Counters beyond their limit, "" where there is none."""
    return ", ".join(f"{name} {errors[name]}" for name, most in limits if errors.get(name, 0) > most)


def firmware_words(version: str, floor: Sequence[tuple[str, int]]) -> Fact[Reading]:
    """By release train, the second number; a train that is not listed is judged by nothing."""
    match = _FIRMWARE.fullmatch(version)
    if match is None:
        return Missing(f"firmware {version!r} has no three numbers")
    least = dict(floor).get(match[1])
    untold = Missing(f"no floor is known for firmware {version}")
    return untold if least is None else Reading(int(match[2]) >= least, version)


def has_device_files(names: Collection[str], hcas: int) -> bool:
    """Whether /dev/infiniband has the connection manager and one uverbs device for each RDMA device."""
    return "rdma_cm" in names and len({name for name in names if re.fullmatch("uverbs[0-9]+", name)}) >= hcas


def keys_of(port: Port) -> Fact[tuple[int, ...]]:
    """P_Keys of an InfiniBand port in order; () on Ethernet, which has none of its own."""
    return of(port.link_layer, lambda layer: () if layer == ETHERNET else of(port.pkeys, lambda keys: tuple(sorted(keys))))


def full_member(keys: Sequence[int]) -> bool:
    """Whether one of the keys is of a full member (bit 15); () is Ethernet's."""
    return not keys or any(key & 0x8000 for key in keys)


def keys_words(keys: Sequence[int]) -> str:
    return ", ".join(f"0x{key:04x}" for key in keys) or ETHERNET


# --- interfaces and PCIe ---


def interfaces_of(facts: NodeFacts, port: Port) -> Fact[tuple[Interface, ...]]:
    """The network interfaces of a port."""
    every = below(facts.network, "interfaces")
    none = Missing("its network interface was not listed")
    names = port.netdevs
    return of(names, lambda wanted: of(every, lambda found: tuple(one for one in found if one.name in wanted) or none))


def mtu_of(facts: NodeFacts, port: Port) -> Fact[int]:
    """The smallest of its interfaces."""
    return of(interfaces_of(facts, port), lambda found: min(known_each((one.mtu_bytes for one in found), "MTU")))


def carrier_changes(facts: NodeFacts, port: Port) -> Fact[int]:
    """Of all its interfaces."""
    return of(interfaces_of(facts, port), lambda found: sum(known_each((one.carrier_changes for one in found), "count")))


def is_gpu(device: PciDevice) -> bool:
    """NVIDIA's and AMD's display controllers and accelerators."""
    vendor, code = str(device.id)[:4], str(device.class_code)[:2]
    return (vendor, code) in (("10de", "03"), ("1002", "03"), ("1002", "12"))


def bridges(device: PciDevice) -> tuple[str, ...]:
    """Bridges above a device, root port first; raises MissingFact where they were not read."""
    return known(device.bridges)


def pci_of(facts: NodeFacts, hca: Hca) -> Fact[PciDevice]:
    none = Missing(f"the PCI function of {hca.name} was not listed")
    every = below(facts.pci, "devices")
    return of(
        hca.pci_address,
        lambda address: of(every, lambda found: next((one for one in found if one.address == address), none)),
    )


def gpu_functions(facts: NodeFacts) -> tuple[PciDevice, ...]:
    """PCI functions of the GPUs; raises MissingFact where there is none."""
    devices = known(below(facts.pci, "devices"))
    return known(some(tuple(device for device in devices if is_gpu(device)), "GPU was listed among the PCI devices"))


def numa_of_hcas(facts: NodeFacts, baseline: Baseline) -> frozenset[int]:
    """NUMA nodes that have a NIC of the fabric; raises MissingFact where one of them says none."""
    return frozenset(known(hca.numa_node) for hca in fabric(facts, baseline))


def shared_bridges(facts: NodeFacts, baseline: Baseline) -> tuple[str, ...]:
    """Addresses of bridges above both a GPU and a NIC of the fabric; raises MissingFact where there is none."""
    above_gpus = {bridge for device in gpu_functions(facts) for bridge in bridges(device)}
    nics = (known(pci_of(facts, hca)) for hca in fabric(facts, baseline))
    shared = above_gpus & {bridge for nic in nics for bridge in bridges(nic)}
    return known(some(tuple(sorted(shared)), "PCIe bridge stands above both a GPU and a NIC, as in a virtual machine"))


def link_words(device: PciDevice) -> Fact[Reading]:
    """Whether speed and width of a link are the most that the device can do."""
    now = of(device.link_speed, lambda speed: of(device.link_width, lambda width: (speed, width)))
    best = of(device.link_speed_max, lambda speed: of(device.link_width_max, lambda width: (speed, width)))
    pair = of(now, lambda have: of(best, lambda can: (have, can)))
    return seen(
        pair,
        lambda found: found[0] == found[1] and min(found[1]) > 0,
        lambda found: f"{_link(found[0])} of {_link(found[1])}",
    )


def _link(link: tuple[float, int]) -> str:
    return f"{link[0] / 10**9:g} GT/s x{link[1]}"


def at_address(values: Fact[Mapping[str, A]], hca: Hca) -> Fact[A]:
    """A value by the device's PCI address."""
    none = Missing(f"nothing was read of the PCI function of {hca.name}")
    return of(hca.pci_address, lambda address: of(values, lambda found: found.get(address, none)))


def acs_of(facts: NodeFacts, bridge: str, redirects: Collection[str]) -> Fact[tuple[str, ...]]:
    """Redirects that are on in a bridge; a bridge without ACS has none, if any bridge was read."""
    every = some(below(facts.pci, "acs"), "bridge showed its ACS settings")
    return of(every, lambda found: tuple(bit for bit in redirects if bit in found.get(bridge, ())))
