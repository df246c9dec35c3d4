"""`plan` and `deploy`: what a deploy would change, and doing it unit by unit."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, debug
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.rollout.lots import Lot
    from rackproof.rollout.report import NodeReport, RunReport
    from rackproof.rollout.runner import Work

Command = Callable[..., Any]
INVENTORY = click.argument("inventory", type=PATH)
LIMIT = click.option("--limit", metavar="NODESET", help="Only these nodes, e.g. tray[01-04].")
BACK = click.option("--rollback", is_flag=True, help="Back to the baseline before the present one (k3_rollback.py).")
FILE = click.option("--file", "file", metavar="FILE", type=PATH, help="Another deploy file. Default: deploys/k3.py.")
BATCH = click.option(
    "--batch", metavar="N", type=click.IntRange(min=1), help="Units at a time. Default: rolling.units."
)
LOG = click.option("--log", metavar="FILE", type=PATH, help="Append pyinfra's own log here.")


@click.command(short_help="What a deploy would change, node by node; changes nothing.")
@INVENTORY
@LIMIT
@BACK
@FILE
@BATCH
@click.option(
    "--json", "json_", metavar="FILE", help="The plan as JSON; '-': standard output, the text goes to stderr."
)
@LOG
@debug
def plan(
    inventory: Path, limit: str | None, rollback: bool, file: Path | None, batch: int | None, json_: str | None,
    log: Path | None,
) -> int:  # fmt: skip
    """Read the nodes of an inventory once and say what a deploy would change, by the code that would change it.

    Exit code: 0 nothing to change, 1 something, 2 a node cannot be read or would be refused, 3 the tool or its input
    failed.
    """
    from rackproof.rollout import runner, words

    with _work(inventory, limit, rollback, file, batch, log) as work:
        reports, order = runner.look(work, _reading(work))
    if json_ is not None:
        output.write(json_, json.dumps(words.as_json(reports, order), indent=1) + "\n")
    _show(work, reports, order, sys.stderr if json_ == "-" else sys.stdout)
    if any(report.stopped or not report.planned for report in reports):
        return 2
    return 1 if any(report.steps for report in reports) else 0


@click.command(short_help="Deploy unit by unit; stop where one is not accepted.")
@INVENTORY
@LIMIT
@BACK
@FILE
@BATCH
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@LOG
@debug
def deploy(
    inventory: Path, limit: str | None, rollback: bool, file: Path | None, batch: int | None, yes: bool,
    log: Path | None,
) -> int:  # fmt: skip
    """Show the plan, then bring one deployment unit after another to the baseline, each as pyinfra alone would do it.

    A unit that does not come back accepted ends the run; the units after it are not touched. A node that would be
    refused ends it before anything is changed.

    Exit code: 0 every node is accepted, 1 not every node, 3 the tool or its input failed.
    """
    from rackproof.rollout import runner

    with _work(inventory, limit, rollback, file, batch, log) as work:
        reports, order = runner.look(work, _reading(work))
        _show(work, reports, order, sys.stdout)
        if any(report.stopped or not report.planned for report in reports):
            output.say("Nothing was changed: deal with the nodes above, or leave them out with --limit.\n", sys.stderr)
            return 1
        if any(report.steps for report in reports) and not yes:
            _ask()
        done = runner.roll(work, order, _begin(reports, len(order)), _end)
    if done.stopped_at is not None:
        _say_stopped(done.stopped_at, done.untouched, reports)
        return 1
    output.say(f"All {len(reports)} nodes are accepted.\n")
    return 0


@contextlib.contextmanager
def _work(
    inventory: Path, limit: str | None, rollback: bool, file: Path | None, batch: int | None, log: Path | None
) -> Iterator[Work]:
    from rackproof.inventory import load_targets
    from rackproof.rollout import runner

    if inventory.suffix != ".py":
        raise InputError(str(inventory), "is no inventory file", "such as inventories/gb300.py")
    chosen = file or runner.deploy_file(inventory, runner.ROLLBACK if rollback else runner.DEPLOY)
    found = load_targets([str(inventory)], limit=limit)
    with contextlib.ExitStack() as stack:
        stream: IO[str] | None = None
        if log is not None:
            try:
                stream = stack.enter_context(log.open("a", encoding="utf-8"))
            except OSError as error:
                raise InputError(str(log), f"cannot be written: {error.strerror}", "a file that can") from None
        yield runner.Work(inventory, chosen, found, runner.units_at_once(found, batch), stream)


def _reading(work: Work) -> Callable[[Mapping[str, Any]], None]:
    output.say(f"reading {len(work.plan.to_read)} nodes ...\n", sys.stderr)
    return lambda event: None


def _show(work: Work, reports: Sequence[NodeReport], order: Sequence[Lot], stream: TextIO) -> None:
    from rackproof.rollout import words

    batch = min((node.site.value("reboot", "batch") for node in work.plan.to_read), default=1)
    output.say(f"{words.blocks(reports)}\n{words.summary(reports, order, batch)}", stream)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise InputError("command line", "somebody has to agree, and standard input is no terminal", "--yes")
    click.confirm("Go on?", abort=True, err=True)


def _begin(reports: Sequence[NodeReport], total: int) -> Callable[[int, Lot], Callable[[Mapping[str, Any]], None]]:
    """Progress on stderr: one line when the first node of a lot begins a step."""
    from rackproof.rollout.words import lot_words
    from rackproof.verdict.report.clean import clean

    changing = {report.name for report in reports if report.steps}

    def begin(number: int, lot: Lot) -> Callable[[Mapping[str, Any]], None]:
        what = lot_words(lot) if changing & set(lot.nodes) else f"in place, only judged: {lot_words(lot)}"
        output.say(f"[{number + 1}/{total}] {what}\n", sys.stderr)
        seen: set[str] = set()

        def tell(event: Mapping[str, Any]) -> None:
            step = clean(str(event.get("step", "")))
            if event.get("event") == "begins" and step not in seen:
                seen.add(step)
                output.say(f"  {time.strftime('%H:%M:%S')} {step}\n", sys.stderr)
            elif event.get("event") == "dropped":
                output.say(f"  {time.strftime('%H:%M:%S')} {event.get('node')} failed: {step}\n", sys.stderr)

        return tell

    return begin


def _end(lot: Lot, report: RunReport) -> None:
    from rackproof.rollout.words import lot_words
    from rackproof.verdict.report.clean import clean
    from rackproof.verdict.report.fold import counted

    accepted = [node.name for node in report.nodes.values() if node.accepted]
    if accepted:
        output.say(f"accepted: {counted(accepted)}\n")
    for node in report.nodes.values():
        if node.accepted:
            continue
        at = f" at {node.failed_step!r}" if node.failed_step and not node.verdict else ""
        why = "; ".join(node.lacks) or node.why or "its run ended early"
        output.say(
            f"{node.name}: {f'not accepted ({node.verdict})' if node.verdict else 'failed'}{at}: {clean(why, 1500)}\n"
        )
    if not report.nodes:
        output.say(f"{lot_words(lot)}: nothing was heard of it\n")


def _say_stopped(at: Lot, untouched: Sequence[Lot], reports: Sequence[NodeReport]) -> None:
    from rackproof.rollout.words import lot_words

    changing = {report.name for report in reports if report.steps}
    left = [lot_words(lot) for lot in untouched if changing & set(lot.nodes)]
    rest = f" Not touched: {'; '.join(left)}." if left else ""
    output.say(f"Stopped at {lot_words(at)}.{rest} Run it again when the cause is mended.\n", sys.stderr)
