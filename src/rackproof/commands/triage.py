"""`triage`: an engine log, and the stage at which it failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import Outputs, debug

if TYPE_CHECKING:
    from rackproof.triage.diagnose import Diagnosis
    from rackproof.triage.render import Triaged


@click.command(short_help="The stage at which an engine log failed, and what to do.")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--json", metavar="FILE", help="Answer as JSON; '-': standard output, the text goes to stderr.")
@click.option("--quiet", "-q", is_flag=True, help="One line.")
@click.option("--plain", is_flag=True, help="ASCII, no colour. NO_COLOR is respected as well.")
@debug
def triage(logs: tuple[str, ...], json: str | None, quiet: bool, plain: bool) -> int:
    """Read engine logs: did it fail while weights load, while the engine starts, or while requests run; what to do.

    LOG is a file or - for standard input, as the engine, docker logs, kubectl logs or journalctl wrote it; with several
    (one for each node or rank) the surest and earliest failure decides.

    Exit code: 0 the log was read and judged, also where the answer is unknown; 3 the tool or its input failed.
    """
    from rackproof.triage.render import Triaged

    wanted = Outputs(json, None, quiet, plain)
    output.check(wanted)
    _emit(Triaged({log: _judged(log) for log in logs}), wanted)
    return 0


def _judged(log: str) -> Diagnosis:
    from rackproof.triage.diagnose import diagnose
    from rackproof.triage.reader import lines
    from rackproof.triage.source import read

    return diagnose(lines(sys.stdin.buffer) if log == "-" else read(Path(log)))


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
