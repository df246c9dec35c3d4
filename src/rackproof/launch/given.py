"""What only the site or the inventory knows: paths, interface, addresses, ports. Asked for all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rackproof.errors import InputError
from rackproof.launch.model import Origin, Value
from rackproof.recipes import Recipe
from rackproof.recipes.settings import Settings
from rackproof.site import Site

# Obvious stand-ins (RFC 5737 addresses), for reading a command before there is a site.
EXAMPLES = {"model_directory": "/models/Kimi-K3", "interface": "eth-unit"}


@dataclass(frozen=True)
class Node:
    """A node of the unit: the name people know it by, and the address that others reach it at."""

    name: str
    address: str


@dataclass(frozen=True)
class Given:
    """Values for one unit. `nodes` by rank, prefill before decode; empty where only one node serves."""

    model: Value
    interface: Value | None
    nodes: tuple[Node, ...]
    nodes_source: str
    nodes_origin: Origin
    ports: Mapping[str, Value]
    features: frozenset[str]
    storage: str
    dmabuf: str
    peermem: str
    hcas: Value | None
    gid_index: Value | None
    model_repo: Value
    filled: tuple[str, ...]  # keys that were filled with examples

    def address(self, index: int) -> Value:
        return Value(self.nodes[index].address, self.nodes_source, self.nodes_origin)


def gather(
    site: Site, recipe: Recipe, settings: Settings, *, nodes: int, meet: bool, every: bool,
    inventory: Sequence[Node] | None, inventory_source: str, example: bool,
) -> Given:  # fmt: skip
    """All that the site and the inventory say of one unit. `meet`: its nodes must find each other;
    `every`: each binds to an address of its own, so that the head's alone is not enough.

    Raises InputError naming every key that is missing, unless `example` fills them in.
    """
    asked = _Asked(site, example)
    model = asked.text("model_directory")
    interface = asked.text("interface") if meet else None
    members, source, origin = asked.nodes(nodes, meet, every, inventory, inventory_source)
    asked.refuse_missing()
    hcas, gid = site.get("serving", "rdma", "hcas"), site.get("serving", "rdma", "gid_index")
    repo = recipe.model["repo"]
    return Given(
        model=model,
        interface=interface,
        nodes=members,
        nodes_source=source,
        nodes_origin=origin,
        ports=_ports(site, settings),
        features=frozenset(site.value("serving", "features", default=())),
        storage=site.value("serving", "storage", default="local"),
        dmabuf=site.value("serving", "rdma", "dmabuf", default="works"),
        peermem="loaded" if site.value("serving", "rdma", "peermem", default=False) else "not said to be loaded",
        hcas=Value(",".join(hcas.value), hcas.source, "site") if hcas else None,
        gid_index=Value(str(gid.value), gid.source, "site") if gid else None,
        model_repo=Value(repo.value, repo.source),
        filled=tuple(asked.filled),
    )


def _ports(site: Site, settings: Settings) -> dict[str, Value]:
    ports = {name: Value(str(cell.value), cell.source) for name, cell in settings.ports.items()}
    chosen = site.under("serving", "ports")
    return ports | {name: Value(str(cell.value), cell.source, "site") for name, cell in chosen.items()}


class _Asked:
    """Notes what is missing instead of stopping at the first."""

    def __init__(self, site: Site, example: bool) -> None:
        self.site, self.example = site, example
        self.missing: list[str] = []
        self.filled: list[str] = []

    def text(self, key: str) -> Value:
        cell = self.site.get("serving", key)
        if cell is not None:
            return Value(str(cell.value), cell.source, "site")
        (self.filled if self.example else self.missing).append(f"serving.{key}")
        return Value(EXAMPLES[key], "example", "example")

    def nodes(
        self, count: int, meet: bool, every: bool, inventory: Sequence[Node] | None, source: str
    ) -> tuple[tuple[Node, ...], str, Origin]:
        if inventory is not None:
            return _counted(tuple(inventory), count, source), source, "site"
        cell, head = self.site.get("serving", "addresses"), self.site.get("serving", "head_address")
        if cell is not None:
            if head is not None and head.value != cell.value[0]:
                raise InputError(head.source, f"serving.head_address is {head.value}", f"{cell.value[0]}, the first address")
            members = tuple(Node(address, address) for address in cell.value)
            return _counted(members, count, cell.source), cell.source, "site"
        if not meet:
            return tuple(Node(f"node {rank}", "") for rank in range(count)), "", "example"
        if self.example:
            self.filled.append("serving.addresses")
            stand_ins = tuple(Node(f"192.0.2.{rank + 1}", f"192.0.2.{rank + 1}") for rank in range(count))
            return stand_ins, "example", "example"
        if head is not None and not every:
            rest = tuple(Node(f"node {rank}", "") for rank in range(1, count))
            return (Node(head.value, head.value), *rest), head.source, "site"
        self.missing.append("serving.addresses")
        return (), "", "site"

    def refuse_missing(self) -> None:
        if self.missing:
            raise InputError(
                "site", f"nothing sets {', '.join(self.missing)}",
                "values in --site FILE or group_vars; --example shows the command with stand-ins",
            )  # fmt: skip


def _counted(nodes: tuple[Node, ...], count: int, source: str) -> tuple[Node, ...]:
    if len(nodes) != count:
        raise InputError(source, f"{len(nodes)} addresses for a unit of {count} nodes", "one for each node, by rank")
    if len({node.address for node in nodes}) != len(nodes):
        raise InputError(source, "two nodes of the unit have the same address", "each address once")
    return nodes
