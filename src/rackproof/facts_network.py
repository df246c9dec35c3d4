"""Network interfaces and routes of a node, as sysfs and `ip -json` show them. Speeds are bits per second."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.facts import Fact, Missing

_NOT_PRINTED: Missing = Missing("not printed")


@dataclass(frozen=True)
class Interface:
    """One network interface; addresses without prefix length, in the order `ip` lists them."""

    name: str
    mtu_bytes: Fact[int] = _NOT_PRINTED
    up: Fact[bool] = _NOT_PRINTED  # administratively
    carrier: Fact[bool] = _NOT_PRINTED
    state: Fact[str] = _NOT_PRINTED  # operstate, upper case: UP | DOWN | UNKNOWN | LOWERLAYERDOWN ...
    kind: Fact[str] = _NOT_PRINTED  # ether | infiniband | loopback | ...
    speed_bits_per_s: Fact[int] = _NOT_PRINTED
    duplex: Fact[str] = _NOT_PRINTED  # full | half
    driver: Fact[str] = _NOT_PRINTED
    pci_address: Fact[str] = _NOT_PRINTED
    carrier_changes: Fact[int] = _NOT_PRINTED  # since boot; more at every flap
    master: Fact[str | None] = _NOT_PRINTED  # the bond or bridge it belongs to
    ipv4: Fact[tuple[str, ...]] = _NOT_PRINTED
    ipv6: Fact[tuple[str, ...]] = _NOT_PRINTED  # link-local ones left out


@dataclass(frozen=True)
class Route:
    destination: str  # "default", "10.0.0.0/24"
    interface: Fact[str]
    gateway: Fact[str | None]
    metric: int  # 0 where none is printed, as the kernel has it


@dataclass(frozen=True)
class NetworkFacts:
    interfaces: Fact[tuple[Interface, ...]]
    default_routes: Fact[tuple[Route, ...]]  # IPv4 then IPv6, best metric first; empty: there is none


def default_interface(network: NetworkFacts) -> Fact[str]:
    """The interface that the best default route leaves by: what NCCL and Gloo should use to meet, if nobody says."""
    routes = network.default_routes
    if isinstance(routes, Missing):
        return routes
    return routes[0].interface if routes else Missing("the node has no default route")
