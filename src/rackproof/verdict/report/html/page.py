"""The HTML report: what the template shows, prepared from one result.

Text from hosts goes through `clean` first and is escaped by the template; the data for the node sheets is JSON in which
`<` is written as an escape, so that nothing in it can end its element.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from rackproof import __version__
from rackproof.baseline import Baseline
from rackproof.evidence.evidence import Evidence
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Outcome, Severity, Status, Verdict, verdict_of
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import NAME_CHARS, clean
from rackproof.verdict.report.findings import Finding, Variant, findings, not_asked, not_proven
from rackproof.verdict.report.fold import counted
from rackproof.verdict.report.matrix import HEADS, NODE_LAYERS, cell
from rackproof.verdict.report.proof import Excerpt, Look, Quotes, quotes

LETTER = {Verdict.ACCEPT: "A", Verdict.REJECT: "R", Verdict.UNDETERMINED: "?", Verdict.UNSUPPORTED: "S"}
SHEETS = 2000  # nodes; beyond, only those that are not accepted have a sheet of their own
VARIANTS = 25  # of one finding
_KINDS = ("fail", "unknown", "warn", "note")
_STATUS = {
    Status.PASS: "p", Status.FAIL: "f", Status.UNKNOWN: "u", Status.BLOCKED: "b", Status.NOT_APPLICABLE: "n",
}  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """One finding as the page shows it. `kind` is fail, unknown, warn or note."""

    finding: Finding
    kind: str
    variants: tuple[ShownVariant, ...]
    hidden: int  # variants beyond those shown

    @property
    def nodes(self) -> str:
        """Every node concerned, for the filter."""
        names = dict.fromkeys(name for variant in self.finding.variants for name in variant.nodes)
        return " ".join(clean(name, NAME_CHARS) for name in names)


@dataclass(frozen=True)
class ShownVariant:
    variant: Variant
    where: str
    node: str  # the one whose raw evidence is quoted
    excerpts: tuple[Excerpt, ...]


def render(result: Result, look: Look) -> str:
    """The report as an HTML document. `look` gives the evidence of a node, for the excerpts."""
    return _template().render(
        result=result,
        verdict=result.verdict,
        mark=words.VERDICT_MARK[result.verdict],
        meaning=words.meaning(result),
        identity=words.identity(result),
        simulated=words.SIMULATED if result.simulated else "",
        counts=words.count_words(result),
        read=_when(look(node.node) for node in result.nodes[:SHEETS]),
        racks=_racks(result),
        findings=_shown(result, look),
        heads=[HEADS.get(layer, layer) for layer in NODE_LAYERS],
        layers=[*NODE_LAYERS, "fleet"],
        rows=[_row(node) for node in result.nodes],
        units=_units(result),
        baselines=words.baselines(result),
        provenance=provenance,
        not_proven=not_proven(result),
        not_asked=not_asked(result),
        data=_script(_sheets(result)),
        style=_asset("style.css"),
        script=_asset("script.js"),
        version=__version__,
        letter=LETTER,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["clean"] = clean
    environment.filters["name"] = lambda text: clean(text, NAME_CHARS)
    return environment.from_string(_asset("page.html.j2"))


def _asset(name: str) -> str:
    return (resources.files("rackproof.verdict.report.html") / name).read_text(encoding="utf-8")


def _when(evidence: Iterable[Evidence | None]) -> str:
    """When the nodes were read, by their own clocks; of the first few thousand, since each may be a file to open."""
    times = sorted(item.started for item in evidence if item is not None and item.started)
    if not times:
        return "no node was read"
    return f"read {times[0]}" if times[0] == times[-1] else f"read {times[0]} to {times[-1]}"


def _racks(result: Result) -> list[tuple[str, list[NodeResult]]]:
    """Nodes by deployment unit, in the order of the inventory; nodes of no unit last, under ""."""
    groups: dict[str, list[NodeResult]] = {}
    for node in result.nodes:
        groups.setdefault(node.unit, []).append(node)
    spare = groups.pop("", None)
    return [*groups.items(), *([("", spare)] if spare else [])]


def _shown(result: Result, look: Look) -> list[Shown]:
    found = findings(result)
    excerpts = quotes(result, found, look)
    shown = [_finding(finding, excerpts) for finding in found]
    return sorted(shown, key=lambda item: _KINDS.index(item.kind))


def _finding(finding: Finding, excerpts: Quotes) -> Shown:
    if finding.gate:
        kind = "fail" if finding.failed else "unknown"
    else:
        kind = "warn" if finding.requirement.severity is Severity.WARN and finding.failed else "note"
    shown = tuple(
        ShownVariant(
            variant,
            counted(variant.nodes, limit=1000),
            variant.nodes[0],
            excerpts.get(variant.nodes[0], {}).get(finding.requirement.id, ()),
        )
        for variant in finding.variants[:VARIANTS]
    )
    return Shown(finding, kind, shown, len(finding.variants) - len(shown))


def _row(node: NodeResult) -> dict[str, Any]:
    by_layer: dict[str, list[Outcome]] = {layer: [] for layer in NODE_LAYERS}
    for outcome in node.outcomes:
        by_layer[outcome.requirement.layer].append(outcome)
    return {"node": node, "cells": [cell(found) for found in by_layer.values()]}


def _units(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "name": unit,
            "verdict": verdict_of(outcomes),
            "cell": cell(outcomes),
            "nodes": counted(dict.fromkeys(name for outcome in outcomes for name in outcome.nodes), limit=400),
        }
        for unit, outcomes in words.outcomes_by_unit(result).items()
    ]


def provenance(baseline: Baseline) -> list[tuple[str, str, str]]:
    """(key, value, where it comes from) of every value of a baseline."""
    return [(key, _value(baseline, key), source) for key, source in sorted(baseline.provenance.items())]


def _value(baseline: object, key: str) -> str:
    value = baseline
    for part in key.split("."):
        value = getattr(value, part, None)
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return "not set" if value is None else getattr(value, "id", None) or str(value)


def _sheets(result: Result) -> dict[str, Any]:
    """All outcomes of the nodes, small: a letter a requirement, and texts by their number in one list."""
    needs = {outcome.requirement.id: outcome.requirement for node in result.nodes for outcome in node.outcomes}
    texts: dict[str, int] = {"": 0}
    nodes = {}
    for node in result.nodes:
        if len(result.nodes) <= SHEETS or node.verdict is not Verdict.ACCEPT:
            nodes[clean(node.node, NAME_CHARS)] = _sheet(node, list(needs), texts)
    return {
        "needs": [[n.id, n.code, clean(n.title), n.layer, "" if n.severity is Severity.GATE else n.severity.value]
                  for n in needs.values()],
        "texts": list(texts),
        "nodes": nodes,
    }  # fmt: skip


def _sheet(node: NodeResult, order: Sequence[str], texts: dict[str, int]) -> list[Any]:
    found = {outcome.requirement.id: outcome for outcome in node.outcomes}
    letters, said, wanted = "", [], []
    for name in order:
        outcome = found.get(name)
        letters += "-" if outcome is None else _STATUS[outcome.status]
        observed = "" if outcome is None else clean(outcome.observed or outcome.reason)
        said.append(texts.setdefault(observed, len(texts)))
        wanted.append(texts.setdefault("" if outcome is None else clean(outcome.expected), len(texts)))
    about = [node.verdict.value, clean(node.hardware), clean(node.unit), node.evidence_sha256]
    return [about, letters, said, wanted]


def _script(data: Any) -> str:
    """JSON that can stand inside <script>: no `<`, and ASCII only."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
