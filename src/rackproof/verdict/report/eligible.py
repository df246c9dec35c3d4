"""What `eligible` says: a table for people, and the same as JSON (schemas/eligible.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackproof import __version__
from rackproof.eligibility import Eligibility, overall
from rackproof.eligibility_nodes import NodeView
from rackproof.facts import Missing
from rackproof.recipes import Recipe
from rackproof.recipes.fit import Answer, Fit, PoolFit
from rackproof.recipes.footprint import GIB
from rackproof.verdict.report.clean import clean
from rackproof.verdict.report.fold import fold
from rackproof.verdict.report.page import Options, Page, pad
from rackproof.verdict.report.words import SIMULATED, plural

SCHEMA = 1
EXIT = {Answer.YES: 0, Answer.NO: 1, Answer.UNKNOWN: 2}
_STYLE = {Answer.YES: "green", Answer.NO: "red", Answer.UNKNOWN: "yellow"}
_MARK = {Answer.YES: ("✔", "+"), Answer.NO: ("✘", "x"), Answer.UNKNOWN: ("?", "?")}
_HEAD = {Answer.YES: "ELIGIBLE", Answer.NO: "NOT ELIGIBLE", Answer.UNKNOWN: "UNKNOWN"}


@dataclass(frozen=True)
class Asked:
    """One run: which nodes, under which recipe, and the answers."""

    recipe: Recipe
    nodes: tuple[NodeView, ...]
    answers: tuple[Eligibility, ...]

    @property
    def exit_code(self) -> int:
        return EXIT[overall(self.answers)]

    @property
    def simulated(self) -> bool:
        return any(node.simulated for node in self.nodes)


def document(asked: Asked) -> dict[str, Any]:
    """The answers as plain data."""
    return {
        "schema": SCHEMA,
        "answer": overall(asked.answers).value,
        "exit_code": asked.exit_code,
        "simulated": asked.simulated,
        "tool": {"name": "rackproof", "version": __version__},
        "recipe": {"id": asked.recipe.id, "commit": asked.recipe.commit},
        "nodes": [_node(node) for node in asked.nodes],
        "layouts": [_layout(answer) for answer in asked.answers],
    }


def render_json(asked: Asked) -> str:
    """The answers as JSON text. ASCII only, so that no byte of it can steer a terminal."""
    return json.dumps(document(asked), indent=1, ensure_ascii=True) + "\n"


def _node(node: NodeView) -> dict[str, Any]:
    values = {"hardware": node.hardware, "gpus": node.gpus, "memory_bytes": node.memory_bytes}
    return {
        "node": _text(node.node),
        **{key: None if isinstance(value, Missing) else value for key, value in values.items()},
        "missing": [f"{key}: {_text(value.reason)}" for key, value in values.items() if isinstance(value, Missing)],
    }


def _layout(answer: Eligibility) -> dict[str, Any]:
    layout, slack = answer.layout, answer.slack_bytes
    return {
        "layout": layout.id,
        "hardware": layout.hardware,
        "tier": layout.tier,
        "upstream": layout.upstream,
        "answer": answer.answer.value,
        "reason": _text(answer.reason),
        "warn": layout.warn or None,
        "source": layout.source,
        "nodes_needed": layout.nodes,
        "nodes": [_text(name) for name in answer.nodes],
        "slack_bytes_per_gpu": slack,
        "slack_gib_per_gpu": None if slack is None else round(slack / GIB, 2),
        "parts": [
            {"part": p.name, "answer": p.answer.value, "words": _text(p.words), "decides": not p.optional}
            for p in answer.parts
        ],
        "pools": [_pool(pool) for pool in answer.fit.pools] if answer.fit else [],
        "missing": [_text(name) for name in answer.missing],
        "differs": [_text(words) for words in answer.differs],
    }


def _pool(pool: PoolFit) -> dict[str, Any]:
    steps = {"memory": pool.memory, "context": pool.context, "concurrency": pool.concurrency}
    return {
        "role": pool.pool.name or None,
        "shape": pool.pool.shape,
        "kv_bytes_per_gpu": pool.kv_bytes,
        **{key: {"answer": step.answer.value, "words": step.words, "value": step.value} for key, step in steps.items()},
        "arithmetic": [
            {"label": line.label, "how": line.how, "bytes": line.bytes, "source": line.source or None}
            for line in pool.lines
        ],
    }


def _text(text: str) -> str:
    return clean(text, 10_000)


def render(asked: Asked, options: Options) -> str:
    """The answers as text, ending in a newline. Everything in it is safe to print on a terminal."""
    page = Page(options)
    here = {node.hardware for node in asked.nodes}
    mine = [answer for answer in asked.answers if answer.layout.hardware in here]
    _headline(page, asked, mine)
    if options.quiet:
        return str(page)
    if mine:
        page.line()
        _table(page, mine)
    _others(page, [answer for answer in asked.answers if answer.layout.hardware not in here])
    _arithmetic(page, mine)
    _differs(page, mine)
    _footer(page, asked, mine)
    return str(page)


def _headline(page: Page, asked: Asked, mine: Sequence[Eligibility]) -> None:
    if asked.simulated:
        page.line((SIMULATED, "bold magenta"))
        page.line()
    total = overall(asked.answers)
    mark = page.mark(f"{_MARK[total][0]} ", "")
    able = sum(answer.answer is Answer.YES for answer in mine)
    told = f"  {able} of {plural(len(mine), 'layout')} can run on {plural(len(asked.nodes), 'node')}"
    exit_code = f"  (exit code {asked.exit_code})"
    page.line((f"{mark}{_HEAD[total]}", f"bold {_STYLE[total]}"), told, (exit_code, "dim"))
    if page.options.quiet:
        return
    products = dict.fromkeys("unknown product" if isinstance(n.hardware, Missing) else n.hardware for n in asked.nodes)
    words = [", ".join(products), f"{asked.recipe.id} @ {asked.recipe.commit[:8]}", _memory(asked.nodes)]
    page.paragraph(page.mark(" · ", ", ").join(filter(None, words)), "dim")
    for node in asked.nodes:
        if isinstance(node.hardware, Missing):
            page.field("unknown", page.clean(f"{node.node}: {node.hardware.reason}"), "yellow", 2)


def _memory(nodes: Sequence[NodeView]) -> str:
    sizes = sorted({node.memory_bytes for node in nodes if not isinstance(node.memory_bytes, Missing)})
    if not sizes:
        return ""
    low, high = f"{sizes[0] / GIB:.1f}", f"{sizes[-1] / GIB:.1f}"
    return f"{low} GiB a GPU" if low == high else f"{low} to {high} GiB a GPU"


def _table(page: Page, answers: Sequence[Eligibility]) -> None:
    """A row a layout: mark, layout, tier, answer, nodes it takes, slack of one GPU, reason."""
    rows = [
        (answer.layout.id, answer.layout.tier, answer.answer.value, str(answer.layout.nodes), _slack(answer))
        for answer in answers
    ]
    head = ("layout", "tier", "answer", "nodes", "GiB/GPU")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    margin = 2 + sum(width + 2 for width in widths)
    page.line(("  " + "".join(pad(name, width) + "  " for name, width in zip(head, widths, strict=True)) + "why", "bold"))
    for answer, row in zip(answers, rows, strict=True):
        mark = page.mark(*_MARK[answer.answer])
        cells = [pad(text, width) for text, width in zip(row[:3], widths[:3], strict=True)]
        cells += [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
        why = page.wrapped(page.clean(answer.reason), page.options.width - margin)
        style = _STYLE[answer.answer]
        page.line((mark, style), " ", cells[0], "  ", (cells[1], "dim"), "  ", (cells[2], style), "  ",
                  f"{cells[3]}  {cells[4]}  ", why[0])  # fmt: skip
        warn = page.wrapped(f"but: {page.clean(answer.layout.warn)}", page.options.width - margin)
        for text, dim in [*((part, "") for part in why[1:]), *((part, "yellow") for part in warn if answer.layout.warn)]:
            page.line(" " * margin, (text, dim))


def _slack(answer: Eligibility) -> str:
    return "-" if answer.slack_bytes is None else f"{answer.slack_bytes / GIB:+.1f}"


def _others(page: Page, others: Sequence[Eligibility]) -> None:
    by_answer: dict[tuple[Answer, str], int] = {}
    for answer in others:
        key = (answer.answer, answer.layout.hardware)
        by_answer[key] = by_answer.get(key, 0) + 1
    for wanted in (Answer.UNKNOWN, Answer.NO):
        listed = [f"{name} ({plural(count, 'layout')})" for (given, name), count in by_answer.items() if given is wanted]
        if listed:
            page.line()
            page.field(f"{wanted.value}, other", f"products: {', '.join(listed)}", "dim", 2)


def _arithmetic(page: Page, mine: Sequence[Eligibility]) -> None:
    """How the first layout that can run comes out; every layout's is in --json, one layout's with --layout."""
    shown = next((a for a in mine if a.answer is Answer.YES and a.fit), next((a for a in mine if a.fit), None))
    if shown is None or shown.fit is None:
        return
    page.line()
    page.line(("ARITHMETIC", "bold"), (f"  {shown.layout.id}, bytes of one GPU (--layout ID for another)", "dim"))
    for pool in shown.fit.pools:
        _pool_lines(page, shown.fit, pool)


def _pool_lines(page: Page, fit: Fit, pool: PoolFit) -> None:
    if pool.pool.name:
        page.line(f"  {pool.pool.name}: {pool.pool.shape}")
    for line in pool.lines:
        size = "" if line.bytes is None else f"{line.bytes:,}"
        how = page.wrapped(line.how, page.options.width - 46)
        page.line("  ", pad(line.label, 25), "  ", size.rjust(15), "  ", (how[0], "dim"))
        for part in how[1:]:
            page.line(" " * 46, (part, "dim"))
    for name, step in (("context", pool.context), ("concurrency", pool.concurrency)):
        page.field(name, f"{step.answer.value}: {step.words}", _STYLE[step.answer], 2)


def _differs(page: Page, mine: Sequence[Eligibility]) -> None:
    said: dict[str, list[str]] = {}
    for answer in mine:
        for words in answer.differs:
            said.setdefault(words, []).append(answer.layout.id)
    if not said:
        return
    page.line()
    page.line(("DIFFERS FROM UPSTREAM", "bold"))
    for words, ids in said.items():
        page.paragraph(", ".join(ids), "bold")
        page.paragraph(page.clean(words), indent=4)


def _footer(page: Page, asked: Asked, mine: Sequence[Eligibility]) -> None:
    page.line()
    unread = dict.fromkeys(p.words for a in mine for p in a.parts if p.optional and p.name == "storage" and p.answer is not Answer.YES)
    for words in unread:
        page.field("storage", page.clean(words), "yellow", 0)
    names = fold([node.node for node in asked.nodes], page.ascii)
    page.field("not proven", f"health of {names}: eligible is not accepted; `rackproof verify` settles that", "", 0)
