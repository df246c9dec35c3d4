"""`eligible`: which layouts nodes can run, from evidence, from nodes, or from a product alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import Inputs, Outputs, Reading, debug, inputs, reading
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.eligibility_nodes import NodeView
    from rackproof.evidence.evidence import Evidence
    from rackproof.plan import Plan
    from rackproof.recipes import Recipe
    from rackproof.verdict.report.eligible import Asked

MIB = 1024 * 1024


@click.command(short_help="Which layouts nodes can run, with slack and reason.")
@click.argument("sources", metavar="[EVIDENCE|TARGET]...", nargs=-1)
@click.option("--inventory", metavar="FILE", help="Which nodes the evidence should be of.")
@click.option("--nodes", metavar="N", type=click.IntRange(1, 10_000), default=1, show_default=True,
              help="How many nodes of --hardware, where none is given to look at.")
@click.option("--memory-mib", metavar="MIB", type=click.IntRange(1),
              help="Memory of one GPU as its driver prints it, where the evidence has none.")
@click.option("--read-rate", metavar="MB/S", type=click.FloatRange(0, min_open=True),
              help="What the storage of the weights was measured to read on each node.")
@inputs
@reading
@click.option("--json", metavar="FILE", help="Answers as JSON; '-': standard output, the text goes to stderr.")
@click.option("--quiet", "-q", is_flag=True, help="One line.")
@click.option("--plain", is_flag=True, help="ASCII, no colour. NO_COLOR is respected as well.")
@debug
def eligible(
    sources: tuple[str, ...], inventory: str | None, nodes: int, memory_mib: int | None, read_rate: float | None,
    chosen: Inputs, how: Reading, json: str | None, quiet: bool, plain: bool,
) -> int:  # fmt: skip
    """Which layouts of the recipe these nodes can run: yes, no or unknown, the slack of one GPU, and why.

    EVIDENCE is what `judge` takes (bundles, folders, probe output, -); TARGET what `verify` takes (an inventory file, a
    nodeset, @local), and is read first. With neither, --hardware and --nodes ask about nodes that nobody has read.
    --hardware is used only where no tool names the product.

    Exit code: 0 at least one layout can run, 1 none can, 2 not known, 3 the tool or its input failed.
    """
    wanted = Outputs(json, None, quiet, plain)
    output.check(wanted)
    if not sources and (inventory or not chosen.hardware):
        raise click.UsageError("give evidence or targets, or --hardware for nodes that nobody has read")
    if not sources:
        views = _stated(chosen, nodes, memory_mib)
    else:
        plan, evidence = _evidence(sources, inventory, chosen, how, quiet)
        views = _views(plan, evidence, chosen, memory_mib, read_rate)
    asked = _asked(_recipe(chosen), views, chosen.layout)
    _emit(asked, wanted)
    return asked.exit_code


def _stated(chosen: Inputs, count: int, memory_mib: int | None) -> tuple[NodeView, ...]:
    from rackproof.eligibility_nodes import stated

    memory = None if memory_mib is None else memory_mib * MIB
    hardware = chosen.hardware or ""
    return tuple(stated(f"{hardware}-{number}", hardware, memory) for number in range(1, count + 1))


def _evidence(
    sources: tuple[str, ...], inventory: str | None, chosen: Inputs, how: Reading, quiet: bool
) -> tuple[Plan, dict[str, Evidence]]:
    from rackproof.commands.judge import by_node
    from rackproof.commands.verify import read_nodes
    from rackproof.inventory import load_targets
    from rackproof.judging import plan_for_evidence
    from rackproof.nodesets import expand

    files = [source for source in sources if source == "-" or (Path(source).exists() and not source.endswith(".py"))]
    if files and len(files) < len(sources):
        raise InputError("command line", "names both evidence and nodes to read", "one or the other")
    if not files:
        if inventory:
            raise click.UsageError("--inventory belongs to evidence; an inventory to read nodes of is a TARGET")
        plan = load_targets(sources, site_file=chosen.site, limit=chosen.limit)
        return plan, read_nodes(plan, how, quiet)
    evidence = by_node(sources, None)
    plan = plan_for_evidence(list(evidence.values()), site_file=chosen.site, inventory=inventory)
    return plan.limited(expand(chosen.limit, "--limit")) if chosen.limit else plan, evidence


def _views(
    plan: Plan, evidence: dict[str, Evidence], chosen: Inputs, memory_mib: int | None, read_rate: float | None
) -> tuple[NodeView, ...]:
    from rackproof.eligibility_nodes import Said, view
    from rackproof.judging import facts_of

    return tuple(
        view(
            facts_of(node, evidence.get(node.name)),
            Said(
                hardware=chosen.hardware or (node.baseline.hardware if node.baseline else None),
                memory_bytes=None if memory_mib is None else memory_mib * MIB,
                read_rate_bytes_per_s=None if read_rate is None else read_rate * 1e6,
                architecture=node.site.value("simulation", "architecture"),
                site=node.site,
            ),
        )
        for node in plan.to_read
    )


def _recipe(chosen: Inputs) -> Recipe:
    from rackproof import recipes
    from rackproof import site as sites

    cell = (sites.from_file(chosen.site) if chosen.site else sites.shipped()).require("recipe")
    return recipes.load(cell.value, cell.source)


def _asked(recipe: Recipe, views: tuple[NodeView, ...], layout: str | None) -> Asked:
    from rackproof.eligibility import eligible as answered
    from rackproof.verdict.report.eligible import Asked

    if layout is not None and layout not in recipe.layouts:
        raise InputError("--layout", f"no layout {layout!r} in recipe {recipe.id}", sorted(recipe.layouts))
    only = None if layout is None else [recipe.layouts[layout]]
    return Asked(recipe, views, answered(recipe, views, only))


def _emit(asked: Asked, wanted: Outputs) -> None:
    from rackproof.verdict.report import eligible as report
    from rackproof.verdict.report.page import options_for

    stream = sys.stderr if wanted.json == "-" else sys.stdout
    try:
        if wanted.json is not None:
            output.write(wanted.json, report.render_json(asked))
    finally:
        output.say(report.render(asked, options_for(stream, quiet=wanted.quiet, plain=wanted.plain)), stream)
