"""What a node is known by: values that no two nodes of a run may share."""

from __future__ import annotations

from collections.abc import Iterator

from rackproof.facts import Fact, Missing, NodeFacts, T

HOST_NAME, BOOT, GPU, SERIAL, ADDRESS, GID = "host name", "boot id", "GPU", "serial number", "address", "GID"

# What firmware prints where a maker filled nothing in; many machines share it.
FILLERS = ("", "none", "not specified", "default string", "to be filled by o.e.m.", "system serial number", "0", "n/a")


def identities(facts: NodeFacts) -> frozenset[str]:
    """Everything that is known of it, as `named` spells it; a fact that was not read names nothing."""
    return frozenset(named(kind, value) for kind, value in _pairs(facts) if value)


def named(kind: str, value: str) -> str:
    return f"{kind} {value}"


def _pairs(facts: NodeFacts) -> Iterator[tuple[str, str]]:
    for kind, fact in ((HOST_NAME, facts.host.hostname), (BOOT, facts.host.boot_id), (SERIAL, _serial(facts))):
        if not isinstance(fact, Missing):
            yield kind, fact
    if not isinstance(facts.smi, Missing):
        yield from ((GPU, gpu.uuid) for gpu in facts.smi.gpus if not isinstance(gpu.uuid, Missing))
    if not isinstance(facts.network, Missing) and not isinstance(facts.network.interfaces, Missing):
        for interface in facts.network.interfaces:
            yield from ((ADDRESS, one) for one in (*_all(interface.ipv4), *_all(interface.ipv6)))
    if not isinstance(facts.rdma, Missing) and not isinstance(facts.rdma.hcas, Missing):
        ports = [port for hca in facts.rdma.hcas for port in hca.ports]
        yield from ((GID, gid.address) for port in ports for gid in _all(port.gids))


def _serial(facts: NodeFacts) -> Fact[str]:
    if isinstance(facts.host.dmi, Missing):
        return facts.host.dmi
    serial = facts.host.dmi.get("product_serial", Missing("not read"))
    return serial if isinstance(serial, Missing) or serial.strip().lower() not in FILLERS else Missing("a filler")


def _all(fact: Fact[tuple[T, ...]]) -> tuple[T, ...]:
    return () if isinstance(fact, Missing) else fact
