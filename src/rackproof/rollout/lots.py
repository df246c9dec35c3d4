"""Which nodes are worked on together, and in which order.

A deployment unit serves as a whole, so its nodes go together, head and workers at once: a unit of which one half is
changed serves nobody. Units follow one another in the order of the inventory. Where something changes that must be equal
in a whole NVLink domain (driver and IMEX version, IMEX node list), the units of that domain cannot follow one another:
the first would never come back accepted. They are one lot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackproof.plan import Plan, PlannedNode
from rackproof.rollout.report import NodeReport


@dataclass(frozen=True)
class Lot:
    """Nodes that one pyinfra run changes. `why` says what keeps several units together."""

    units: tuple[str, ...]
    nodes: tuple[str, ...]
    why: str = ""


def lots(plan: Plan, reports: Mapping[str, NodeReport], at_once: int) -> list[Lot]:
    """Lots of the nodes to be read: first what changes, `at_once` units at a time, then all that is in place."""
    single = _domains(plan, reports)
    changing = [lot for lot in single if any(reports[name].steps for name in lot.nodes)]
    in_place = [lot for lot in single if lot not in changing]
    found: list[Lot] = []
    for lot in changing:
        if found and len(found[-1].units) + len(lot.units) <= at_once:
            found[-1] = _joined([found[-1], lot])
        else:
            found.append(lot)
    return [*found, *([_joined(in_place)] if in_place else [])]


def _domains(plan: Plan, reports: Mapping[str, NodeReport]) -> list[Lot]:
    """One lot a unit, or one for all units of a domain in which something changes for the whole of it."""
    planned = {node.name: node for node in plan.to_read}
    tied = {_domain(planned[name]) for name in planned if any(step.domain for step in reports[name].steps)} - {()}
    groups: dict[object, list[Lot]] = {}
    for lot in _units(plan):
        domain = _domain(planned[lot.nodes[0]])
        groups.setdefault(domain if domain in tied else lot.units, []).append(lot)
    why = "driver or IMEX change in their NVLink domain"
    return [_joined(group, why if len(group) > 1 else "") for group in groups.values()]


def _units(plan: Plan) -> list[Lot]:
    wanted = {node.name for node in plan.to_read}
    found = [Lot((unit.name,), tuple(name for name in unit.nodes if name in wanted)) for unit in plan.units]
    in_units = {name for lot in found for name in lot.nodes}
    spares = [Lot((f"spare {node.name}",), (node.name,)) for node in plan.to_read if node.name not in in_units]
    return [lot for lot in [*found, *spares] if lot.nodes]


def _domain(node: PlannedNode) -> tuple[str, ...]:
    return (node.baseline.nvlink.domain or ()) if node.baseline else ()


def _joined(group: Sequence[Lot], why: str = "") -> Lot:
    return Lot(_all(lot.units for lot in group), _all(lot.nodes for lot in group), why or group[0].why)


def _all(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(item for part in parts for item in part)
