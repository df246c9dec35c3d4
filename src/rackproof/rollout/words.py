"""A plan in words: nodes with the same steps are folded into one block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rackproof.rollout.lots import Lot
from rackproof.rollout.report import NodeReport
from rackproof.verdict.report.clean import clean
from rackproof.verdict.report.fold import counted, fold


def blocks(reports: Iterable[NodeReport]) -> str:
    """One block for each group of nodes of which the same is to be said."""
    groups: dict[Any, list[NodeReport]] = {}
    for report in reports:
        # What is said of a node by name would keep apart nodes that are refused for the same reason.
        key = (report.planned, report.stopped, report.steps, report.notes, report.why if not report.planned else "")
        groups.setdefault(key, []).append(report)
    return "\n".join(_block(group) for group in groups.values())


def _block(group: Sequence[NodeReport]) -> str:
    first, names = group[0], counted([report.name for report in group])
    if not first.planned:
        return f"{names}\n  cannot be read: {clean(first.why)}\n"
    width = max([len(layer) for layer in first.layers], default=0)
    lines = []
    for layer in first.layers:
        steps = [step for step in first.steps if step.layer == layer]
        texts = [f"{clean(step.name)} {step.marks}".rstrip() + _detail(step.detail) for step in steps]
        for number, text in enumerate(texts or ["in place"]):
            lines.append(f"  {layer if number == 0 else '':{width}}  {text}")
    if first.stopped:
        lines = [line for line in lines if not line.endswith("  in place")]
        lines.append(f"  stops: {clean(first.stopped, 1200)}")
    elif not first.steps:
        lines = ["  in place"]
    lines += [f"  note: {clean(note)}" for note in first.notes]
    return "\n".join([names, *lines]) + "\n"


def _detail(detail: str) -> str:
    return f": {clean(detail, 160)}" if detail else ""


def summary(reports: Sequence[NodeReport], order: Sequence[Lot], reboot_batch: int) -> str:
    """What the whole plan means: how many nodes, reboots, in which order."""
    changing = [report for report in reports if report.steps]
    reboots = [report.name for report in reports if any(step.reboots for step in report.steps)]
    idle = [report.name for report in reports if any(step.disrupts for step in report.steps)]
    lines = []
    if not changing:
        lines.append("Nothing to change.")
    if idle:
        lines.append(f"Needs idle GPUs: {counted(idle)}.")
    if reboots:
        lines.append(f"Reboots: {counted(reboots)}, at most {reboot_batch} at a time.")
    refused = [report.name for report in reports if report.stopped or not report.planned]
    if refused:
        lines.append(f"Not possible as things are: {counted(refused)}.")
    names = {report.name for report in changing}
    steps = [lot for lot in order if names & set(lot.nodes)]
    if len(steps) > 1 or any(lot.why for lot in steps):
        lines.append("Order of `rackproof deploy`:")
        lines += [f"  {number}. {lot_words(lot)}" for number, lot in enumerate(steps, 1)]
    return "\n".join(lines) + "\n"


def lot_words(lot: Lot) -> str:
    """A lot by its units and nodes."""
    why = f", together: {lot.why}" if lot.why else ""
    return f"{fold(lot.units)} ({fold(lot.nodes)}){why}"


def as_json(reports: Sequence[NodeReport], order: Sequence[Lot]) -> dict[str, Any]:
    """The plan as data: schema 1."""
    return {
        "schema": 1,
        "nodes": [
            {
                "node": report.name, "read": report.planned, "refused": report.stopped or report.why,
                "in_place": [layer for layer in report.layers if layer not in {step.layer for step in report.steps}],
                "steps": [vars(step) for step in report.steps],
            }
            for report in reports
        ],
        "order": [{"units": list(lot.units), "nodes": list(lot.nodes), "why": lot.why} for lot in order],
    }  # fmt: skip
