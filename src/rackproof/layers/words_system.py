"""What checks of the system share: parts of the facts, kernel parameters, amounts of memory, names of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from rackproof.baseline import Baseline
from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.facts_network import Interface, default_interface
from rackproof.facts_system import Filesystem, Limit, NumaNode
from rackproof.layers.readings import Reading, of, seen

A = TypeVar("A")
B = TypeVar("B")

SHM = "/dev/shm"
_NO_LOG = Missing("the kernel log was empty")


# --- parts of the facts ---


def system(facts: NodeFacts, *path: str) -> Fact[Any]:
    """A value below the facts of the system: system(facts, "kernel", "sysctl")."""
    return below(facts.system, *path)


def below(section: Fact[Any], *path: str) -> Fact[Any]:
    """A field of a field of a fact; Missing on the way stays Missing."""
    found = section
    for name in path:
        found = of(found, attrgetter(name))
    return found


def readings(
    values: Mapping[str, Fact[A]], ok: Callable[[A], bool], show: Callable[[A], object] = str
) -> dict[str, Fact[Reading]]:
    return {name: seen(value, ok, show) for name, value in values.items()}


def logged(facts: NodeFacts, kind: str) -> Fact[Reading]:
    """Whether the kernel log is free of one kind of message. An empty log shows nothing."""
    read = of(facts.kernel_log, lambda log: log.lines_read if log.lines_read > 0 else _NO_LOG)
    lines = of(read, lambda _: system(facts, "kernel_events", kind))
    return seen(lines, lambda found: found == (), lambda found: listed(found) or "none")


def sysctl(facts: NodeFacts, name: str) -> Fact[str]:
    unknown = Missing(f"the kernel has no {name}")
    return of(system(facts, "kernel", "sysctl"), lambda found: found.get(name, unknown))


def sysctl_is(facts: NodeFacts, name: str, good: Collection[str]) -> Fact[Reading]:
    return seen(sysctl(facts, name), lambda value: value in good)


def listed(texts: Collection[str], most: int = 3) -> str:
    """Some of them, each once, with how often it was there, and how many more there are."""
    counted = Counter(str(text)[:120] for text in texts)
    shown = [f"{text} ({number} times)" if number > 1 else text for text, number in counted.items()]
    more = len(shown) - most
    return "; ".join(shown[:most]) + (f" and {more} more" if more > 0 else "")


# --- kernel parameters ---


def has_parameter(cmdline: Collection[str], wanted: str) -> bool:
    """Whether a parameter is given: name alone for any value, name=value exactly; values may be divided by commas."""
    name, equals, value = wanted.partition("=")
    given = [token.partition("=")[::2] for token in cmdline]
    return any(key == name and (not equals or value in (text, *text.split(","))) for key, text in given)


def parameters(cmdline: Collection[str], wanted: Collection[str]) -> tuple[str, ...]:
    """Those of the wanted ones that are given."""
    return tuple(one for one in wanted if has_parameter(cmdline, one))


# --- memory, CPUs, limits ---


def shared_memory(facts: NodeFacts) -> Fact[Filesystem]:
    none = Missing(f"{SHM} is not among the filesystems that were listed")
    return of(
        system(facts, "filesystems"),
        lambda found: next((item for item in reversed(found) if item.mount == SHM), none),
    )


def positive_amount(fact: Fact[int], what: str) -> Fact[int]:
    """An amount that cannot be 0 or less on a real host, so that it was not read where it is."""
    return of(fact, lambda found: found if found > 0 else Missing(f"{what} was read as {found}"))


def limit_words(limit: Limit) -> str:
    return "unlimited" if limit.soft is None else f"{limit.soft}"


def reaches(limit: Limit, least: int | None) -> bool:
    """Whether a soft limit is at least this; None: it must be unlimited."""
    return limit.soft is None or (least is not None and limit.soft >= least)


def dmi(facts: NodeFacts, name: str) -> Fact[str]:
    """What the firmware says of the machine: sys_vendor, product_serial, bios_version ..."""
    return of(facts.host.dmi, lambda found: found.get(name, Missing(f"/sys/class/dmi/id has no {name}")))


def numa_with_cpus(facts: NodeFacts) -> Fact[tuple[NumaNode, ...]]:
    none = Missing("no NUMA node with CPUs was listed")
    nodes = system(facts, "kernel", "numa")
    return of(nodes, lambda found: tuple(node for node in found if node.cpus) or none)


# --- the network ---


def interface_of(facts: NodeFacts, baseline: Baseline) -> Fact[Interface]:
    """The interface nodes meet through: the one the site names, else that of the default route."""
    wanted: Fact[str] = of(facts.network, default_interface) if baseline.rdma.interface is None else baseline.rdma.interface
    return of(wanted, lambda name: _interface(facts, name))


def _interface(facts: NodeFacts, name: str) -> Fact[Interface]:
    listed_ones = below(facts.network, "interfaces")
    gone = Interface(name, up=False, carrier=False, ipv4=(), ipv6=())
    return of(listed_ones, lambda found: next((one for one in found if one.name == name), gone))


def routable(interface: Interface) -> Fact[tuple[str, ...]]:
    """Its addresses that other nodes can reach; link-local ones are none."""
    own = of(interface.ipv4, lambda found: tuple(one for one in found if not one.startswith(("169.254.", "127."))))
    return of(own, lambda four: four or of(interface.ipv6, tuple))


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
