"""What to send to the provider: what was promised, what was found, how to see it again. Markdown.

Every statement is an outcome of the evidence or a value of the baseline, and names its fault code. Text from hosts
stands in code spans and blocks only, so that it cannot become a link, an image or markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rackproof.baseline import Baseline
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Severity, Status
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import NAME_CHARS, clean
from rackproof.verdict.report.findings import Finding, Variant, findings
from rackproof.verdict.report.fold import counted
from rackproof.verdict.report.proof import Look, Quotes, cat, quotes

INFORMATION = "For information"
HARDWARE_LAYERS = ("gpus", "nvlink", "rdma")  # what only the provider can mend
MOST = 4  # ways in which one remark went

_TICKS = re.compile("`+")


def render(result: Result, look: Look) -> str:
    """The letter. Ends in a newline."""
    groups = _grouped(findings(result))
    quoted = [finding for title, found in groups.items() if title != INFORMATION for finding in found]
    excerpts = quotes(result, quoted, look)
    lines = [*_head(result), *_promised(result)]
    for title, found in groups.items():
        if found:
            lines += ["", f"## {title}"]
        for finding in found:
            lines += _remark(finding) if title == INFORMATION else _finding(finding, excerpts)
    if not any(groups.values()):
        lines += ["", "Nothing was found that differs from what was asked."]
    return "\n".join([*lines, *_evidence(result, look)]) + "\n"


def _grouped(found: Sequence[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {
        "Fix before handover": [], "Affects the price": [], "Could not be determined": [], INFORMATION: [],
    }  # fmt: skip
    for finding in found:
        groups[_group(finding)].append(finding)
    return groups


def _group(finding: Finding) -> str:
    """What was sold and differs, or hardware that is worse than it should be, has a price; other warnings are told."""
    if finding.failed and finding.requirement.advertised:
        return "Affects the price"
    if finding.gate:
        return "Fix before handover" if finding.failed else "Could not be determined"
    hardware = finding.requirement.severity is Severity.WARN and finding.requirement.layer in HARDWARE_LAYERS
    return "Affects the price" if hardware and finding.failed else INFORMATION


def _remark(finding: Finding) -> list[str]:
    """One line a way in which it went: nobody has to do anything about it."""
    return [
        "",
        f"- {finding.requirement.code} {finding.requirement.title}: "
        + "; ".join(
            f"{_code(counted(variant.nodes, limit=400))} {_code(variant.observed or variant.reason, 300)}"
            for variant in finding.variants[:MOST]
        ),
    ]


def _head(result: Result) -> list[str]:
    lines = [f"# {result.verdict.value.capitalize()}: {words.meaning(result)}", ""]
    if result.simulated:
        lines += [f"**{words.SIMULATED}.**", ""]
    lines.append(f"Nodes: {_code(counted((node.node for node in result.nodes), limit=2000))}")
    lines += [
        "",
        "The nodes were read once, without changing anything on them. Each statement below can be checked with the",
    ]
    lines += ["command that stands beside it; the evidence as it was received is identified at the end."]
    return lines


def _promised(result: Result) -> list[str]:
    lines = ["", "## What was asked for", ""]
    for baseline in words.baselines(result):
        for label, text in _terms(baseline):
            lines.append(f"- {label}: {_code(text)}")
    return (
        lines
        if len(lines) > 3
        else [*lines, "No hardware profile could be chosen, so nothing was expected of these nodes."]
    )


def _terms(baseline: Baseline) -> list[tuple[str, str]]:
    gpus = baseline.gpus
    offered = [
        (f"offered, {key.removeprefix('offer.')}", _offered(baseline, key))
        for key in sorted(baseline.provenance)
        if key.startswith("offer.") and not key.startswith("offer.rules") and _offered(baseline, key)
    ]
    return [
        ("product", f"{gpus.count} x {gpus.product} a node"),
        ("memory of a GPU", f">= {gpus.memory_bytes_min / 1024**3:.1f} GiB"),
        ("to run", f"{baseline.recipe}, layout {baseline.layout.id} ({baseline.layout.tier})"),
        ("recipe", f"vllm-project/recipes@{baseline.recipe_commit[:12]}"),
        *offered,
    ]


def _offered(baseline: Baseline, key: str) -> str:
    value: object = baseline
    for part in key.split("."):
        value = getattr(value, part, None)
    return "" if value in (None, ()) else str(value)


def _finding(finding: Finding, excerpts: Quotes) -> list[str]:
    need = finding.requirement
    lines = [
        "",
        f"### {need.code} {need.title}",
        "",
        f"Requirement {_code(need.id)}. It protects stage {need.stage.value}.",
    ]
    for variant in finding.variants:
        lines += ["", *_variant(variant)]
        for found in excerpts.get(variant.nodes[0], {}).get(need.id, ()):
            lines += [
                "",
                f"On {_code(variant.nodes[0], NAME_CHARS)}, {_code(cat(found.lines) or found.command)} ({found.state}):",
                "",
            ]
            lines += _block(found.lines or ("(it printed nothing)",))
    lines += ["", f"Asked for: {' '.join(need.remedy.split())}", "", f"Source: {'; '.join(need.sources)}"]
    return lines


def _variant(variant: Variant) -> list[str]:
    where = f"- nodes: {_code(counted(variant.nodes, limit=2000))}"
    if variant.status is Status.FAIL:
        return [where, f"- found: {_code(variant.observed or '(nothing)')}", f"- expected: {_code(variant.expected)}"]
    return [where, f"- {variant.status.value}: {_code(variant.reason)}"]


def _evidence(result: Result, look: Look) -> list[str]:
    lines = ["", "## Evidence", "", "| node | read at | sha256 of the probe's output |", "|---|---|---|"]
    for node in result.nodes:
        evidence = look(node.node)
        when = evidence.started if evidence and evidence.started else "not read"
        lines.append(f"| {_code(node.node, NAME_CHARS)} | {_code(when)} | {_code(node.evidence_sha256 or 'none')} |")
    return [*lines, "", "Each hash is of the stream exactly as the node printed it: `sha256sum node.txt`."]


def _code(text: str, limit: int = 2400) -> str:
    """A code span that its own content cannot end, on one line, and safe in a table."""
    line = clean(text, limit).replace("|", "\\|") or " "
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(line)), default=0))
    pad = " " if len(ticks) > 1 else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _block(lines: Sequence[str]) -> list[str]:
    """A fenced block that no line of it can end."""
    longest = max((len(run) for line in lines for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]
