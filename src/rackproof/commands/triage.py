"""`triage`: an engine log, and the stage at which it failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import Inputs, Outputs, Reading, debug, inputs, reading

if TYPE_CHECKING:
    from rackproof.triage.diagnose import Diagnosis, Log
    from rackproof.triage.reader import Line
    from rackproof.triage.render import Triaged
    from rackproof.verdict.evaluate import Result

_PAUSE_S = 0.5


@click.command(short_help="The stage at which an engine log failed, and what to do.")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--follow", "-f", is_flag=True, help="Go on reading as the logs grow, until Ctrl-C; then the answer.")
@click.option(
    "--evidence",
    metavar="PATH",
    multiple=True,
    help="Evidence, as `judge` takes it: how what the advice names stands there. May be repeated.",
)
@click.option(
    "--inventory",
    metavar="TARGET",
    multiple=True,
    help="Nodes, as `verify` takes them: read now, for the same. May be repeated.",
)
@inputs
@reading
@click.option("--json", metavar="FILE", help="Answer as JSON; '-': standard output, the text goes to stderr.")
@click.option("--quiet", "-q", is_flag=True, help="One line.")
@click.option("--plain", is_flag=True, help="ASCII, no colour. NO_COLOR is respected as well.")
@debug
def triage(
    logs: tuple[str, ...], follow: bool, evidence: tuple[str, ...], inventory: tuple[str, ...], chosen: Inputs,
    how: Reading, json: str | None, quiet: bool, plain: bool,
) -> int:  # fmt: skip
    """Read engine logs: did it fail while weights load, while the engine starts, or while requests run; what to do.

    LOG is a file or - for standard input, as the engine, docker logs, kubectl logs or journalctl wrote it; with several
    (one for each node or rank) the first cause decides. With --hardware, or where the log names the product, the
    arithmetic of the recipe says whether the layout in the log can fit.

    Exit code: 0 the log was read and judged, also where the answer is unknown, where something fails now, and where
    Ctrl-C ended it; 3 the tool or its input failed.
    """
    wanted = Outputs(json, None, quiet, plain)
    _check(logs, follow, evidence, inventory, wanted)
    _check_nodes(bool(evidence or inventory), chosen, how)
    answers = _followed(logs, quiet) if follow else _read(logs)
    _emit(_triaged(answers, evidence, inventory, chosen, how, quiet), wanted)
    return 0


def _check(
    logs: tuple[str, ...], follow: bool, evidence: tuple[str, ...], inventory: tuple[str, ...], wanted: Outputs
) -> None:
    if evidence and inventory:
        raise click.UsageError("--evidence is of nodes already read, --inventory of nodes to read: one or the other")
    if (logs + evidence).count("-") > 1:
        raise click.UsageError("standard input can be read once")
    if follow and "-" in logs and len(logs) > 1:
        raise click.UsageError("--follow takes files, or - alone")
    output.check(wanted)


def _check_nodes(given: bool, chosen: Inputs, how: Reading) -> None:
    if not given and (chosen.layout or chosen.site or chosen.limit or how.sudo is not None):
        raise click.UsageError("--layout, --site, --limit and --sudo are for the nodes of --evidence or --inventory")
    if chosen.hardware:
        from rackproof import hardware

        hardware.load(chosen.hardware)  # refuses a product that there is not, before anything is read


def _read(logs: tuple[str, ...]) -> dict[str, Diagnosis]:
    from rackproof.triage import source

    answers: dict[str, Diagnosis] = {}
    for log in logs:
        lines = _standard_input() if log == "-" else source.read(Path(log))
        from rackproof.triage import render  # noqa: F401  a large file is being searched by now

        answers |= _named(log, _taken(lines, streamed=log == "-"))
    return answers


def _standard_input() -> Iterator[Line]:
    from rackproof.triage.reader import lines

    return lines(sys.stdin.buffer)


def _taken(lines: Iterator[Line], streamed: bool) -> Log:
    """A log from its lines. A stream (`docker logs -f x |`) may be ended by Ctrl-C: what there is is judged."""
    from rackproof.triage.diagnose import Log

    log = Log()
    try:
        for line in lines:
            log.take(line)
    except KeyboardInterrupt:
        if not streamed:
            raise
    return log


def _named(name: str, log: Log) -> dict[str, Diagnosis]:
    found = log.answers()
    return {f"{name} {origin}" if len(found) > 1 else name: answer for origin, answer in found.items()}


def _followed(logs: tuple[str, ...], quiet: bool) -> dict[str, Diagnosis]:
    from rackproof.triage.diagnose import Log
    from rackproof.triage.follow import Tail, follow
    from rackproof.triage.watch import Watch

    watch = Watch(sys.stderr, quiet)
    taken = {log: Log() for log in logs}
    tails = [(log, Tail(Path(log))) for log in logs if log != "-"]
    lines = follow(tails, _wait) if tails else (("-", line) for line in _standard_input())
    try:
        for name, line in lines:
            taken[name].take(line)
            watch.see(name, taken[name])
    except KeyboardInterrupt:
        for name, tail in tails:
            for line in tail.rest():
                taken[name].take(line)
    answers: dict[str, Diagnosis] = {}
    for name, log in taken.items():
        answers |= _named(name, log)
    return answers


def _wait() -> None:
    time.sleep(_PAUSE_S)


def _triaged(
    answers: dict[str, Diagnosis], evidence: tuple[str, ...], inventory: tuple[str, ...], chosen: Inputs,
    how: Reading, quiet: bool,
) -> Triaged:  # fmt: skip
    from rackproof.triage.render import Triaged

    result = _judged(evidence, inventory, chosen, how, quiet) if evidence or inventory else None
    products = {node.hardware for node in result.nodes if node.baseline is not None} if result else set()
    read = products.pop() if len(products) == 1 else None
    return Triaged.of(answers, chosen.hardware or read, result)


def _judged(evidence: tuple[str, ...], inventory: tuple[str, ...], chosen: Inputs, how: Reading, quiet: bool) -> Result:
    """The nodes judged as `judge` and `verify` judge them."""
    from rackproof.commands.judge import by_node
    from rackproof.commands.verify import read_nodes
    from rackproof.inventory import load_targets
    from rackproof.judging import judge_all, plan_for_evidence
    from rackproof.nodesets import expand

    if inventory:
        plan = load_targets(
            inventory, hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site, limit=chosen.limit
        )
        return judge_all(plan, read_nodes(plan, how, quiet))
    found = by_node(evidence, None)
    plan = plan_for_evidence(
        list(found.values()), hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site
    )
    if chosen.limit:
        plan = plan.limited(expand(chosen.limit, "--limit"))
        found = {node.name: found[node.name] for node in plan.to_read if node.name in found}
    return judge_all(plan, found)


def _emit(triaged: Triaged, wanted: Outputs) -> None:
    from rackproof.triage import render
    from rackproof.verdict.report.page import options_for

    stream = sys.stderr if wanted.json == "-" else sys.stdout
    try:
        if wanted.json is not None:
            output.write(wanted.json, render.render_json(triaged))
    finally:
        options = options_for(stream, quiet=wanted.quiet, plain=wanted.plain)
        output.say(render.render(triaged, options), stream)
