"""The report for people: headline, matrix of nodes and layers, findings to work off, and what was not proven."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Severity, Status
from rackproof.verdict.report import words
from rackproof.verdict.report.findings import Finding, Variant, findings, not_asked, not_proven
from rackproof.verdict.report.fold import counted, fold, shortened
from rackproof.verdict.report.matrix import HEADS, NODE_LAYERS, Row, node_rows, unit_rows
from rackproof.verdict.report.page import Options, Page, pad

MAX_ROWS = 40
MAX_VARIANTS = 6
MAX_IDS = 6
MAX_REASONS = 3  # of what was not asked
UNIT_NODES = 48  # characters for the nodes of units
GAP = "  "
ROOMY = 110  # columns from which on a table has room between its columns

_CELL_STYLE = {
    "ok": "green",
    "fail": "bold red",
    "unknown": "yellow",
    "blocked": "yellow",
    "warn": "yellow",
    "na": "dim",
    "none": "yellow",
}


def render(result: Result, options: Options) -> str:
    """The whole report as text, ending in a newline. Everything in it is safe to print on a terminal."""
    page = Page(options)
    if options.quiet:
        _quiet(page, result)
        return str(page)
    _headline(page, result)
    _matrix(page, result)
    found = findings(result)
    gates = [finding for finding in found if finding.gate]
    _section(page, "FAILED", "bold red", [finding for finding in gates if finding.failed])
    _section(page, "UNKNOWN", "bold yellow", [finding for finding in gates if not finding.failed])
    _warnings(page, [finding for finding in found if not finding.gate])
    _footer(page, result)
    return str(page)


def _verdict(page: Page, result: Result) -> tuple[str, str]:
    mark = page.mark(f"{words.VERDICT_MARK[result.verdict]} ", "")
    return f"{mark}{result.verdict.value.upper()}", words.VERDICT_STYLE[result.verdict]


def _quiet(page: Page, result: Result) -> None:
    simulated = (f"{GAP}[{words.SIMULATED}]", "bold") if result.simulated else ""
    told = f"{GAP}{words.plural(len(result.nodes), 'node')}: gates {', '.join(words.count_words(result))}"
    page.line(_verdict(page, result), told, simulated)


def _headline(page: Page, result: Result) -> None:
    if result.simulated:
        page.line((words.SIMULATED, "bold magenta"))
        page.line()
    exit_code = (f"{GAP}(exit code {result.verdict.exit_code})", "dim")
    page.line(_verdict(page, result), f"{GAP}{words.meaning(result)}", exit_code)
    joint = page.mark(" · ", ", ")
    page.paragraph(joint.join(page.clean(word, 200) for word in words.identity(result)), "dim")


def _matrix(page: Page, result: Result) -> None:
    if result.nodes:
        page.line()
        _table(page, "nodes", [HEADS.get(layer, layer) for layer in NODE_LAYERS], node_rows(result))
    if result.fleet:
        page.line()
        _table(page, "units", ("fleet",), unit_rows(result))


def _table(page: Page, head: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Aligned columns: a mark for the verdict, the folded names, how many they are, a cell a layer."""
    shown = rows[:MAX_ROWS]
    gap = GAP if page.options.width >= ROOMY else " "
    counts = [str(len(row.names)) if len(row.names) > 1 else "" for row in shown]
    widths = [max(map(len, counts))] + [
        max(len(name), *(len(row.cells[i].text) for row in shown)) for i, name in enumerate(columns)
    ]
    room = page.options.width - 2 - sum(width + len(gap) for width in widths)
    room = max(16, room - UNIT_NODES if shown[0].nodes else room)
    names = [page.wrapped(shortened(fold(row.names, page.ascii), 3 * room - 16), room) for row in shown]
    room = max(cell_len(part) for parts in [*names, [head]] for part in parts)
    titles = ["", *columns]
    title = "".join(gap + pad(name, width) for name, width in zip(titles, widths, strict=True))
    page.line((f"  {pad(head, room)}{title}{gap}{'nodes' if shown[0].nodes else ''}", "bold"))
    for row, count, parts in zip(shown, counts, names, strict=True):
        _row(page, row, [pad(part, room) for part in parts], count.rjust(widths[0]), widths[1:], gap)
    if len(rows) > MAX_ROWS:
        rest = sum(len(row.names) for row in rows[MAX_ROWS:])
        page.paragraph(f"and {rest} more {head} in {len(rows) - MAX_ROWS} more rows (all in --json)", "dim")


def _row(page: Page, row: Row, names: Sequence[str], count: str, widths: Sequence[int], gap: str) -> None:
    mark = page.mark(words.VERDICT_MARK[row.verdict], words.VERDICT_ASCII[row.verdict])
    cells: list[str | tuple[str, str]] = []
    for cell, width in zip(row.cells, widths, strict=True):
        cells += [gap, (pad(cell.text, width), _CELL_STYLE[cell.kind])]
    if row.nodes:
        cells += [gap, (shortened(fold(row.nodes, page.ascii), UNIT_NODES), "dim")]
    page.line((mark, words.VERDICT_STYLE[row.verdict]), " ", names[0], gap, (count, "dim"), *cells)
    for name in names[1:]:
        page.line("  ", name)


def _section(page: Page, title: str, style: str, found: Sequence[Finding]) -> None:
    if not found:
        return
    page.line()
    page.line((title, style), (f"{GAP}{words.plural(len(found), 'requirement')}", "dim"))
    for finding in found:
        page.line()
        _finding(page, finding)


def _warnings(page: Page, found: Sequence[Finding]) -> None:
    """What decides nothing, in a line each: nobody reads the verdict past three screens of it."""
    warned = [f for f in found if f.requirement.severity is Severity.WARN]
    failed = [finding for finding in warned if finding.failed]
    if failed:
        page.line()
        page.line(("WARNINGS", "bold yellow"), (f"{GAP}they decide no verdict; rackproof explain ID says why", "dim"))
    width = max((len(finding.requirement.id) for finding in failed), default=0)
    for finding in failed:
        variant = finding.variants[0]
        more = f" (and {len(finding.variants) - 1} more ways)" if len(finding.variants) > 1 else ""
        said = f"{_where(page, variant)}: {page.clean(variant.observed) or 'nothing'}{more}"
        first, *rest = page.wrapped(said, max(20, page.options.width - width - 4))
        page.line(f"{GAP}{pad(page.clean(finding.requirement.id), width)}{GAP}", first)
        for part in rest[:2]:
            page.line(" " * (width + 4), part)
    unread = [finding.requirement.id for finding in warned if not finding.failed]
    if unread:
        page.line()
        page.field("not read", f"{words.plural(len(unread), 'warning')} could not be looked at: {', '.join(unread)}", indent=0)
    notes = sum(1 for finding in found if finding.requirement.severity is Severity.INFO)
    if notes:
        page.field("noted", f"{words.plural(notes, 'remark')} for information, in --html and --json", "dim", indent=0)


def _finding(page: Page, finding: Finding) -> None:
    requirement = finding.requirement
    mark, style = _mark(page, finding)
    page.line((mark, style), " ", (page.clean(requirement.id), "bold"), GAP, page.clean(requirement.title))
    for variant in finding.variants[:MAX_VARIANTS]:
        _variant(page, variant)
    hidden = finding.variants[MAX_VARIANTS:]
    if hidden:
        nodes = {name for variant in hidden for name in variant.nodes}
        page.field("", f"and {len(hidden)} more variants on {words.plural(len(nodes), 'node')} (all in --json)", "dim")
    page.field("would break", requirement.stage.value)
    page.field("why", page.clean(requirement.why))
    page.field("remedy", page.clean(requirement.remedy))
    page.field("source", page.clean("; ".join(requirement.sources)), "dim")
    if finding.blocks:
        page.field("blocks", _blocked(page, finding.blocks))


def _mark(page: Page, finding: Finding) -> tuple[str, str]:
    if finding.failed:
        return page.mark("✘", "FAIL"), "bold red"
    return page.mark("?", "UNKNOWN"), "bold yellow"


def _variant(page: Page, variant: Variant) -> None:
    observed, expected = (page.clean(text) or "(nothing)" for text in (variant.observed, variant.expected))
    page.field("nodes", _where(page, variant), "bold")
    if variant.status is not Status.FAIL:
        page.field(variant.status.value, page.clean(variant.reason) or "no reason was given", "yellow")
    else:
        page.field("observed", observed, "red")
        page.field("expected", expected, "green")


def _where(page: Page, variant: Variant) -> str:
    nodes = counted(variant.nodes, page.ascii)
    if not variant.units:
        return nodes
    word = "unit" if len(variant.units) == 1 else "units"
    return f"{nodes}, {word} {shortened(fold(variant.units, page.ascii), 120)}"


def _blocked(page: Page, ids: Sequence[str]) -> str:
    listed = ", ".join(page.clean(name) for name in ids[:MAX_IDS])
    more = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
    return f"{words.plural(len(ids), 'check')}: {listed}{more}"


def _footer(page: Page, result: Result) -> None:
    page.line()
    joint = page.mark(" · ", ", ")
    page.field("gates", joint.join(words.count_words(result)), indent=0)
    for number, clause in enumerate(not_proven(result, page.ascii)):
        page.field("not proven" if number == 0 else "", page.clean(clause), indent=0)
    reasons = not_asked(result)
    for number, (reason, ids) in enumerate(reasons[:MAX_REASONS]):
        listed = f"{page.clean(reason)} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
        page.field("not asked" if number == 0 else "", listed, "dim", indent=0)
    if len(reasons) > MAX_REASONS:
        page.field("", f"and {len(reasons) - MAX_REASONS} more reasons (all in --json)", "dim", indent=0)
