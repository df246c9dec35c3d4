"""The plan of a run: which nodes, what each must be, and which of them serve together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rackproof.baseline import Baseline
from rackproof.errors import InputError
from rackproof.nodesets import fold, refuse_duplicates
from rackproof.site import Site


@dataclass(frozen=True)
class PlannedNode:
    """One node. `baseline` is None where the product must first be detected from evidence."""

    name: str
    site: Site
    baseline: Baseline | None = None
    unit: str = ""  # name of its deployment unit; "" for a spare, or where no unit is declared
    layout: str | None = None  # asked for on the command line
    connection: Mapping[str, Any] = field(default_factory=dict)  # pyinfra connector data
    left_out: bool = False  # by --limit: declared, not read


@dataclass(frozen=True)
class Unit:
    """A deployment unit: the nodes that together serve one replica."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    nodes: tuple[PlannedNode, ...]
    units: tuple[Unit, ...] = ()

    def __post_init__(self) -> None:
        refuse_duplicates([node.name for node in self.nodes], "inventory")

    @property
    def to_read(self) -> tuple[PlannedNode, ...]:
        return tuple(node for node in self.nodes if not node.left_out)

    def node(self, name: str) -> PlannedNode:
        """A node by name; raises InputError for one the plan does not hold."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise InputError(name, "is not in the inventory", fold(node.name for node in self.nodes))

    def limited(self, names: tuple[str, ...]) -> Plan:
        """The same plan, reading only these nodes; the others stay declared, so their units cannot be accepted."""
        known = {node.name for node in self.nodes}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError("--limit", f"{fold(unknown)} is not in the inventory", fold(known))
        return replace(self, nodes=tuple(replace(n, left_out=n.name not in names) for n in self.nodes))
