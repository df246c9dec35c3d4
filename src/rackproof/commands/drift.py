"""`drift`: what changed since the evidence that was last accepted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, Inputs, Reading, debug, inputs, reading
from rackproof.errors import InputError, RackproofError

if TYPE_CHECKING:
    from rackproof.drift.history import History
    from rackproof.drift.run import DriftResult
    from rackproof.evidence.evidence import Evidence
    from rackproof.plan import Plan

FAIL_ON = "identity,config,health,counter"


class _Comparing(click.Group):
    """`rackproof drift TARGET` compares; a first word that is a command's name is that command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["compare", *args]
        return super().parse_args(ctx, args)


def default_store() -> Path:
    """$RACKPROOF_STORE, or rackproof/ below the user's state folder (XDG base directories)."""
    said = os.environ.get("RACKPROOF_STORE")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(said) if said else Path(state) / "rackproof"


def store(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --store."""
    return click.option(
        "--store", "folder", metavar="DIR", type=PATH, default=default_store,
        help="Where history.db and evidence are kept. Default: $RACKPROOF_STORE or ~/.local/state/rackproof.",
    )(function)  # fmt: skip


fail_on_option = click.option(
    "--fail-on", metavar="CLASSES", default=FAIL_ON, show_default=True,
    help="Classes of facts whose drift alone makes exit code 1; none: only the verdict does.",
)  # fmt: skip


@click.group(cls=_Comparing, short_help="What changed since the evidence that was accepted.")
@debug
def drift() -> None:
    """What changed since the evidence that was last accepted.

    \b
    rackproof drift accept inventories/gb300.py     take what the nodes are now as the reference
    rackproof drift inventories/gb300.py            read them again and compare
    rackproof drift --evidence DIR                  the same with evidence that is already there
    rackproof drift history tray01                  every run of a node

    Exit code: 0 accepted and no drift, 1 rejected or drift of a class in --fail-on, 2 something could not be looked at
    or compared, 3 the tool or its input failed, 4 unsupported (self-build).
    """


@drift.command(short_help="Compare (the default).")
@click.argument("targets", metavar="TARGET...", nargs=-1)
@click.option(
    "--evidence", "sources", metavar="PATH", multiple=True, help="Evidence instead of targets; may be repeated."
)
@click.option("--inventory", metavar="FILE", help="With --evidence: which nodes there should be.")
@inputs
@reading
@store
@fail_on_option
@click.option(
    "--json", "json_file", metavar="FILE", help="Report as JSON; '-': standard output, the text goes to stderr."
)
@click.option("--markdown", metavar="FILE", help="One line of Markdown for a chat; '-': as above.")
@click.option("--no-record", is_flag=True, help="Leave the history and its evidence as they are.")
@click.option("--quiet", "-q", is_flag=True, help="One line.")
@click.option("--plain", is_flag=True, help="ASCII, no colour.")
@debug
def compare(
    targets: tuple[str, ...], sources: tuple[str, ...], inventory: str | None, chosen: Inputs, how: Reading, folder: Path,
    fail_on: str, json_file: str | None, markdown: str | None, no_record: bool, quiet: bool, plain: bool,
) -> int:  # fmt: skip
    """Read nodes, or take evidence, and compare with what was accepted."""
    from rackproof.drift.classes import fact_classes
    from rackproof.drift.history import History

    counted = fact_classes(fail_on)
    check_files(json_file, markdown)
    with History(folder, create=not no_record) as history:
        plan, evidence = gathered(targets, sources, inventory, chosen, how, quiet)
        result = compared(history, plan, evidence, counted)
        if not no_record:
            recorded(history, result, evidence)
    emit(result, json_file, markdown, quiet, plain)
    return result.exit_code


def gathered(
    targets: tuple[str, ...], sources: tuple[str, ...], inventory: str | None, chosen: Inputs, how: Reading, quiet: bool
) -> tuple[Plan, dict[str, Evidence]]:
    """The plan and the evidence, read from nodes or from files."""
    from rackproof.commands.judge import by_node
    from rackproof.commands.verify import read_nodes
    from rackproof.inventory import load_targets
    from rackproof.judging import plan_for_evidence
    from rackproof.nodesets import expand

    if bool(targets) == bool(sources):
        raise click.UsageError("give nodes to read, or --evidence: one of the two")
    if targets:
        if inventory:
            raise click.UsageError("--inventory belongs to --evidence; an inventory to read nodes of is a TARGET")
        plan = load_targets(
            targets, hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site, limit=chosen.limit
        )
        return plan, read_nodes(plan, how, quiet)
    evidence = by_node(sources, None)
    plan = plan_for_evidence(
        list(evidence.values()), chosen.hardware, chosen.layout, site_file=chosen.site, inventory=inventory
    )
    return plan.limited(expand(chosen.limit, "--limit")) if chosen.limit else plan, evidence


def compared(history: History, plan: Plan, evidence: dict[str, Evidence], fail_on: Any) -> DriftResult:
    from rackproof.drift.run import look, now
    from rackproof.drift.store import reference_of

    return look(plan, evidence, partial(reference_of, history), history.first_seen, fail_on, now())


def recorded(history: History, result: DriftResult, evidence: dict[str, Evidence]) -> dict[str, str]:
    """Keep the evidence and write the run; the bundles by node, below the history's folder."""
    from rackproof.drift.store import keep, record

    named = [evidence[node.node] for node in result.nodes if node.node in evidence]
    bundles = keep(history, named, result.started)
    record(history, result, bundles)
    return bundles


def check_files(*targets: str | None) -> None:
    """Refuse places that cannot be written before minutes are spent on reading nodes."""
    from rackproof.commands.options import Outputs

    if [target for target in targets if target == "-"][1:]:
        raise click.UsageError("only one report can go to standard output")
    for target in targets:
        output.check(Outputs(json=target, junit=None, quiet=False, plain=False))


def emit(result: DriftResult, json_file: str | None, markdown: str | None, quiet: bool, plain: bool) -> None:
    """Write the reports that were asked for, and the text."""
    from rackproof.drift import document
    from rackproof.verdict.report import drift as report
    from rackproof.verdict.report.page import options_for

    stream = sys.stderr if "-" in (json_file, markdown) else sys.stdout
    try:
        if json_file is not None:
            output.write(json_file, document.render(result))
        if markdown is not None:
            output.write(markdown, report.markdown(result))
    finally:
        output.say(report.render(result, options_for(stream, quiet=quiet, plain=plain)), stream)


@drift.command(short_help="Take evidence as the reference.")
@click.argument("sources", metavar="EVIDENCE|TARGET...", nargs=-1, required=True)
@click.option("--anyway", metavar="REASON", help="Accept it with whatever verdict; the reason is kept with it.")
@click.option("--inventory", metavar="FILE", help="With evidence: which nodes there should be.")
@inputs
@reading
@store
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@debug
def accept(
    sources: tuple[str, ...], anyway: str | None, inventory: str | None, chosen: Inputs, how: Reading, folder: Path,
    quiet: bool,
) -> int:  # fmt: skip
    """Take evidence as what nodes should stay like. Only evidence whose verdict is accept, all of it or none."""
    from rackproof.drift import store as kept
    from rackproof.drift.history import History
    from rackproof.drift.run import now
    from rackproof.judging import judge_all
    from rackproof.verdict.report.fold import counted

    if anyway is not None and not anyway.strip():
        raise InputError(
            "--anyway", "the reason is empty", "a few words on why this evidence is taken as the reference"
        )
    on_disk = [source for source in sources if Path(source).exists() and not source.endswith(".py")]
    if on_disk and len(on_disk) < len(sources):
        raise InputError("command line", "names both evidence and nodes to read", "one or the other")
    plan, evidence = (
        gathered((), sources, inventory, chosen, how, quiet)
        if on_disk
        else gathered(sources, (), inventory, chosen, how, quiet)
    )
    result = judge_all(plan, evidence)
    wanted = [evidence[node.name] for node in plan.to_read if node.name in evidence]
    if not wanted:
        raise RackproofError("no evidence of any node of the plan was given: nothing was accepted")
    with History(folder) as history:
        accepted = kept.accept(history, result, wanted, now(), anyway)
    if not quiet:
        output.say(f"evidence of {counted(one.node for one in accepted)} is now the reference, in {folder}\n")
    return 0


@drift.command(short_help="Every run of a node.")
@click.argument("node", metavar="[NODE]", required=False)
@click.option("--since", metavar="TIME", default="", help="From this day or time on, such as 2026-11-30.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@store
@debug
def history(node: str | None, since: str, as_json: bool, folder: Path) -> int:
    """What the history knows of a node: verdict, drift and evidence of each run, and what was accepted. Without a NODE,
    the nodes it knows."""
    from rackproof.drift.history import History
    from rackproof.verdict.report.history import render_json, render_text

    since = _time(since)
    with History(folder, create=False) as opened:
        known = opened.names()
        if node is None:
            output.say("".join(f"{output_name}\n" for output_name in known))
            return 0
        if node not in known:
            raise InputError(node, "is not in the history", known[:20])
        runs, accepted = opened.of_node(node, since), opened.accepted_of(node)
    output.say(render_json(node, runs, accepted) if as_json else render_text(node, runs, accepted))
    return 0


def _time(text: str) -> str:
    """A day or a time as the history writes it (UTC); a word that is none is refused, since it would match no run."""
    if not text:
        return ""
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise InputError("--since", f"{text!r} is no day and no time", "2026-11-30 or 2026-11-30T02:30:00Z") from None
    said = said if said.tzinfo else said.replace(tzinfo=UTC)
    return said.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@drift.command(short_help="Forget old runs.")
@click.option("--keep-runs", metavar="N", type=click.IntRange(min=1), help="Keep the newest N runs.")
@click.option("--keep-days", metavar="DAYS", type=click.IntRange(min=0), help="Keep runs of the last DAYS days.")
@store
@debug
def forget(keep_runs: int | None, keep_days: int | None, folder: Path) -> int:
    """Delete runs and their evidence that are beyond either limit. The newest run and accepted evidence always stay."""
    from rackproof.drift.history import History
    from rackproof.drift.store import retain

    if keep_runs is None and keep_days is None:
        raise click.UsageError("say what to keep: --keep-runs or --keep-days")
    with History(folder, create=False) as opened:
        count = retain(opened, keep_runs, keep_days)
    output.say(f"evidence of {count} node{'' if count == 1 else 's'} was deleted\n")
    return 0
