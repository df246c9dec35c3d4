"""Drift for people: what changed, on which nodes, from what to what, since when, and which gates fail because of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rackproof.drift.classes import FactClass
from rackproof.drift.findings import Finding
from rackproof.drift.run import DriftResult, NodeDrift
from rackproof.verdict.model import Verdict
from rackproof.verdict.report import words
from rackproof.verdict.report.fold import counted
from rackproof.verdict.report.page import Options, Page

MAX_FINDINGS = 60
MAX_CHANGES = 8
_NO_WORDS = {"unreadable": "can no longer be read", "readable": "can be read now", "grew": "grew beyond policy",
             "worse": "worse", "better": "better", "explained": "as the baseline asks", "added": "new",
             "removed": "gone", "unclassified": "changed, and no rule says what that means"}  # fmt: skip


@dataclass
class _Row:
    finding: Finding
    nodes: list[str] = field(default_factory=list)
    since: str = ""
    requirements: set[str] = field(default_factory=set)


def render(drift: DriftResult, options: Options) -> str:
    """The whole report as text. Everything in it is safe to print on a terminal."""
    page = Page(options)
    verdict = drift.result.verdict
    mark = page.mark(f"{words.VERDICT_MARK[verdict]} ", "")
    simulated = (f"  [{words.SIMULATED}]", "bold magenta") if drift.result.simulated else ""
    page.line((f"{mark}{verdict.value.upper()}", words.VERDICT_STYLE[verdict]), f"  {summary(drift)}", simulated)
    if options.quiet:
        return str(page)
    rows = folded(drift.nodes)
    _section(page, "DRIFT", "bold red", [row for row in rows if row.finding.drift and not row.finding.unreadable])
    _section(
        page,
        "CAN NO LONGER BE READ",
        "bold yellow",
        [row for row in rows if row.finding.drift and row.finding.unreadable],
    )
    _problems(page, drift.nodes)
    _verdicts(page, drift.nodes)
    _section(page, "FOR INFORMATION", "dim", [row for row in rows if not row.finding.drift])
    if any(node.drift for node in drift.nodes):
        page.line("")
        page.paragraph("Mend it, or take it as the new reference: rackproof drift accept")
    return str(page)


def summary(drift: DriftResult) -> str:
    """One clause: "drift on 2 of 18 nodes: 1 identity, 2 config", also where there is none."""
    total = words.plural(sum(not node.problem for node in drift.nodes), "node")
    drifted = [node for node in drift.nodes if node.drift]
    unseen = [node for node in drift.nodes if node.problem]
    classes = {one: sum(f.fact_class is one for node in drifted for f in node.drift) for one in FactClass}
    listed = ", ".join(f"{count} {one.value}" for one, count in classes.items() if count)
    said = [f"drift on {len(drifted)} of {total}: {listed}" if drifted else f"no drift found on {total}"]
    if unseen:
        said.append(f"{len(unseen)} could not be compared")
    return "; ".join(said)


def markdown(drift: DriftResult) -> str:
    """One line for a chat or a job summary, with names that cannot be markup."""
    names = [node.node for node in drift.nodes if node.drift or node.problem]
    where = f" on `{counted(names, ascii_only=True).replace('`', chr(39))}`" if names else ""
    simulated = f" ({words.SIMULATED})" if drift.result.simulated else ""
    return f"**{drift.result.verdict.value}**, {summary(drift)}{where}{simulated}\n"


def folded(nodes: Iterable[NodeDrift]) -> list[_Row]:
    """The same finding on several nodes as one row, drift first."""
    rows: dict[object, _Row] = {}
    for node in nodes:
        for finding in node.findings:
            told = tuple((one.path, one.kind, one.before, one.after) for one in finding.changes)
            row = rows.setdefault((finding.subject, finding.kind, finding.more, told), _Row(finding))
            row.nodes.append(node.node)
            row.since = min(filter(None, (row.since, finding.since)), default="")
            row.requirements |= set(finding.requirements)
    return list(rows.values())


def _section(page: Page, title: str, style: str, rows: list[_Row]) -> None:
    if not rows:
        return
    page.line("")
    page.line((title, style))
    for row in rows[:MAX_FINDINGS]:
        _row(page, row)
    if len(rows) > MAX_FINDINGS:
        page.paragraph(f"{len(rows) - MAX_FINDINGS} more: --json has all of them")


def _row(page: Page, row: _Row) -> None:
    finding = row.finding
    more = f" and {finding.more} more like it" if finding.more else ""
    kind = _NO_WORDS.get(finding.kind, finding.kind)
    page.line(
        "  ", (page.clean(f"{finding.subject}{more}: {kind}"), "bold"), (f"  ({finding.fact_class.value})", "dim")
    )
    page.field("nodes", page.clean(counted(row.nodes, page.ascii)))
    for change in finding.changes[:MAX_CHANGES]:
        label = change.what if change.what != finding.subject else ""
        arrow = page.mark("→", "->")
        page.field("", page.clean(f"{label}{': ' if label else ''}{change.before} {arrow} {change.after}"))
    if len(finding.changes) > MAX_CHANGES:
        page.field("", f"{len(finding.changes) - MAX_CHANGES} more changes")
    if finding.drift and row.since:
        page.field("since", page.clean(row.since))
    if row.requirements:
        page.field("fails now", ", ".join(sorted(row.requirements)))


def _problems(page: Page, nodes: Iterable[NodeDrift]) -> None:
    reasons: dict[str, list[str]] = {}
    for node in nodes:
        if node.problem:
            reasons.setdefault(node.problem, []).append(node.node)
    if not reasons:
        return
    page.line("")
    page.line(("COULD NOT BE COMPARED", "bold yellow"))
    for reason, names in reasons.items():
        page.field("nodes", page.clean(counted(names, page.ascii)), indent=2)
        page.field("", page.clean(reason), indent=2)


def _verdicts(page: Page, nodes: Iterable[NodeDrift]) -> None:
    """Where the verdict is not the accepted one any more: because of the node, or because more is asked of it."""
    changed: dict[tuple[str, Verdict, str], list[str]] = {}
    for node in nodes:
        if not node.verdict_changed or node.reference is None:
            continue
        gates = sorted({name for finding in node.drift for name in finding.requirements})
        because = (
            f"because of the drift above: {', '.join(gates)}" if gates else "no finding above explains it by itself"
        )
        if node.baseline_changed:
            because = "the accepted evidence itself is judged otherwise by today's baseline"
        if node.problem:
            because = node.problem
        changed.setdefault((node.reference.verdict, node.result.verdict, because), []).append(node.node)
    if not changed:
        return
    page.line("")
    page.line(("VERDICT CHANGED", "bold red"))
    for (before, after, because), names in changed.items():
        page.field("nodes", page.clean(counted(names, page.ascii)), indent=2)
        page.field("", page.clean(f"{before} {page.mark('→', '->')} {after.value}, {because}"), indent=2)
