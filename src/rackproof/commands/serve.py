"""`serve`: start, stop and look at the engine that a deploy installed on the nodes of a deployment unit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, debug

if TYPE_CHECKING:
    from rackproof.plan import Plan, Unit
    from rackproof.serve.run import Outcome
    from rackproof.serve.watch import Starting

Command = Callable[..., Any]


@click.group(short_help="Start, stop and look at the engine of a deployment unit.")
@debug
def serve() -> None:
    """Start, stop and look at the serving units that a deploy installed (serving.install), one engine over all nodes of a
    deployment unit.
    """


def _arguments(function: Command) -> Command:
    function = click.option("--limit", "unit", metavar="UNIT", help="One deployment unit. Default: all of them.")(
        function
    )
    return click.argument("inventory", type=PATH)(function)


SUDO = click.option("--sudo/--no-sudo", default=None, help="Use 'sudo -n' on the nodes. Default: as the site says.")


@serve.command(short_help="Start and wait until it is ready.")
@_arguments
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=1),
              help="For being ready. Default: the recipe's ready timeout, 3600 s, or 7200 s on slow storage.")  # fmt: skip
@click.option(
    "--ledger", metavar="FILE", type=PATH, help="Where the evidence goes. Default: serving.ledger, else ledger.jsonl."
)
@SUDO
@debug
def start(inventory: Path, unit: str | None, timeout: float | None, ledger: Path | None, sudo: bool | None) -> int:
    """Start the engine on all nodes of each unit, and show when each has passed its stages: container, weights, engine,
    port. The last is an answer of /health.

    A start that fails, or is not ready in time, is stopped on all nodes of its unit, and what its log says is shown as
    `rackproof triage` would. Each start leaves one line of evidence on this machine and in the journal of its nodes.

    Exit code: 0 all units are ready, 1 not all, 3 the tool or its input failed.
    """
    from rackproof.serve import run

    plan, units = _plan(inventory, unit)
    ready = True
    for each in units:
        output.say(f"{each.name}: starting on {', '.join(each.nodes)}\n", sys.stderr)
        outcome = run.start(plan, each, _tell, timeout, sudo)
        _record(plan, each, outcome, ledger, sudo)
        _show(outcome)
        ready = ready and outcome.ready
    return 0 if ready else 1


@serve.command(short_help="Stop, and see that no GPU is held any more.")
@_arguments
@SUDO
@debug
def stop(inventory: Path, unit: str | None, sudo: bool | None) -> int:
    """Stop the engine on all nodes of each unit, and wait until no process holds a GPU.

    Exit code: 0 no GPU is held, 1 somebody still holds one (named), 3 the tool or its input failed.
    """
    from rackproof.serve import run
    from rackproof.verdict.report.clean import clean

    plan, units = _plan(inventory, unit)
    found = run.stop(plan, units, sudo)
    for name, (ok, said) in found.items():
        output.say(f"{clean(name)}: {clean(said, 600)}\n", None if ok else sys.stderr)
    return 0 if all(ok for ok, _ in found.values()) else 1


@serve.command(short_help="Which stage each node is at.")
@_arguments
@SUDO
@debug
def status(inventory: Path, unit: str | None, sudo: bool | None) -> int:
    """Unit, container, stage and port of each node, by one look.

    Exit code: 0 all units are ready, 1 not all, 3 the tool or its input failed.
    """
    from rackproof.serve import run

    plan, units = _plan(inventory, unit)
    found = {name: run.starting(plan.node(name)) for each in units for name in each.nodes}
    run.look(plan, found, sudo, lambda name, stage: None, time.monotonic())
    for one in found.values():
        output.say(_status(one))
    return 0 if all(one.ready and not one.failed for one in found.values()) else 1


def _plan(inventory: Path, unit: str | None) -> tuple[Plan, list[Unit]]:
    from rackproof.inventory import load_targets
    from rackproof.serve import run

    plan = load_targets([str(inventory)])
    units = run.units_of(plan, unit)
    return run.read_only(plan, units), units


def _tell(node: str, what: str, seconds: float) -> None:
    from rackproof.verdict.report.clean import clean

    output.say(f"  {seconds:7.1f} s  {clean(node)}: {what}\n", sys.stderr)


def _record(plan: Plan, unit: Unit, outcome: Outcome, ledger: Path | None, sudo: bool | None) -> None:
    from rackproof.serve import ledger as ledgers
    from rackproof.serve import run

    members = [plan.node(name) for name in unit.nodes]
    words = "ready" if outcome.ready else outcome.why
    line = ledgers.line(ledgers.entry(unit.name, words, members, outcome.nodes))
    chosen = members[0].site.value("serving", "ledger", default=ledgers.DEFAULT)
    ledgers.append(ledger or Path(chosen).expanduser(), line)
    run.record(plan, outcome, line, sudo)


def _show(outcome: Outcome) -> None:
    from rackproof.serve.watch import STAGES, seconds
    from rackproof.verdict.report.clean import clean

    if outcome.ready:
        output.say(f"{outcome.unit}: ready\n")
    else:
        end = "not started" if outcome.said else f"{clean(outcome.why, 300)}; stopped on all of its nodes"
        output.say(f"{outcome.unit}: {end}\n")
    for name, one in outcome.nodes.items():
        passed = seconds(one.passed)
        times = ", ".join(f"{stage} {passed[stage]:.1f} s" for stage in STAGES if stage in passed) or "no stage passed"
        output.say(f"  {clean(name)}: {times}{_said(outcome, name)}\n")
    if not outcome.ready and not outcome.said:
        _triage(outcome)


def _said(outcome: Outcome, name: str) -> str:
    from rackproof.verdict.report.clean import clean

    return f"; {clean(outcome.said[name], 400)}" if name in outcome.said else ""


def _triage(outcome: Outcome) -> None:
    """The answer of triage over the logs of all nodes: the first cause decides."""
    from rackproof.triage import render
    from rackproof.triage.render import Triaged
    from rackproof.verdict.report.page import options_for

    answers = {name: one.answer() for name, one in outcome.nodes.items()}
    output.say(render.render(Triaged.of(answers), options_for(sys.stdout, quiet=False, plain=False)))
    if not any(answer.confidence for answer in answers.values()):
        _endings(outcome)


def _endings(outcome: Outcome) -> None:
    """The last lines of each log, where no rule explains it: what the container engine said, for example."""
    from rackproof.verdict.report.clean import clean

    for name, one in outcome.nodes.items():
        lines = "".join(f"    {clean(line, 300)}\n" for line in one.ending)
        output.say(f"  the log on {clean(name)} ends with\n{lines}")


def _status(one: Starting) -> str:
    from rackproof.verdict.report.clean import clean

    if one.last is None:
        return f"{clean(one.node)}: could not be reached\n"
    look, said = one.last, one.answer()
    reached = said.timings[-1].stage if said.timings else "nothing yet"
    port = "opens no port" if one.port is None else f"port {one.port} answers {clean(look.health, 20)}"
    words = f"unit {look.active}, container {'running' if look.running else 'not running'}, log at {reached}, {port}"
    return f"{clean(one.node)}: {clean(words, 300)}\n"
