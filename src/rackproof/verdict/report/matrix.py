"""Nodes by layers: one row for all nodes that look the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rackproof.verdict.catalogue import LAYERS
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Severity, Status, Verdict, verdict_of
from rackproof.verdict.report.words import outcomes_by_unit

NODE_LAYERS = tuple(layer for layer in LAYERS if layer != "fleet")
HEADS = {"gpu_driver": "driver", "container_runtime": "runtime"}  # where a layer's own name is too wide for a table
_ORDER = (Verdict.REJECT, Verdict.UNSUPPORTED, Verdict.UNDETERMINED, Verdict.ACCEPT)


@dataclass(frozen=True)
class Cell:
    """What a layer looks like: `kind` is ok, fail, unknown, blocked, warn, na or none; `text` is what to print."""

    kind: str
    text: str


@dataclass(frozen=True)
class Row:
    """`names` are nodes, or units with `nodes` then their nodes."""

    verdict: Verdict
    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    nodes: tuple[str, ...] = ()


def cell(outcomes: Sequence[Outcome]) -> Cell:
    """The worst that a layer's outcomes say. No outcomes at all is `-`, never `ok`."""
    gates = [outcome.status for outcome in outcomes if outcome.decides]
    for kind in (Status.FAIL, Status.UNKNOWN):
        if kind in gates:
            return Cell(kind.value, f"{gates.count(kind)} {'unkn' if kind is Status.UNKNOWN else kind.value}")
    if Status.BLOCKED in gates:
        return Cell("blocked", "blocked")
    bad = (Status.FAIL, Status.UNKNOWN, Status.BLOCKED)
    warns = sum(o.status in bad for o in outcomes if o.requirement.severity is Severity.WARN)
    if warns:
        return Cell("warn", f"{warns} warn")
    statuses = {outcome.status for outcome in outcomes}
    if Status.PASS in statuses:
        return Cell("ok", "ok")
    return Cell("na", "n.a.") if statuses == {Status.NOT_APPLICABLE} else Cell("none", "-")


def node_rows(result: Result) -> list[Row]:
    """Folded rows of all nodes: the worst verdict first, then in the order of the inventory."""
    rows = []
    for node in result.nodes:
        cells = tuple(cell([o for o in node.outcomes if o.requirement.layer == layer]) for layer in NODE_LAYERS)
        rows.append(Row(node.verdict, (node.node,), cells))
    return _folded(rows)


def unit_rows(result: Result) -> list[Row]:
    """Folded rows of all deployment units, one cell each: layer fleet."""
    rows = []
    for unit, outcomes in outcomes_by_unit(result).items():
        nodes = tuple(dict.fromkeys(name for outcome in outcomes for name in outcome.nodes))
        rows.append(Row(verdict_of(outcomes), (unit,), (cell(outcomes),), nodes))
    return _folded(rows)


def _folded(rows: Iterable[Row]) -> list[Row]:
    alike: dict[tuple[Verdict, tuple[Cell, ...]], list[Row]] = {}
    for row in rows:
        alike.setdefault((row.verdict, row.cells), []).append(row)
    folded = [
        Row(
            verdict,
            tuple(name for row in group for name in row.names),
            cells,
            tuple(name for row in group for name in row.nodes),
        )
        for (verdict, cells), group in alike.items()
    ]
    return sorted(folded, key=lambda row: _ORDER.index(row.verdict))
