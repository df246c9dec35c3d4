"""`verify` and `collect`: the two commands that read nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, Inputs, Outputs, Reading, debug, inputs, outputs, reading
from rackproof.commands.redact import keep, key_file, places, redacted
from rackproof.errors import RackproofError

if TYPE_CHECKING:
    from rackproof.evidence.evidence import Evidence
    from rackproof.plan import Plan

TARGETS = click.argument("targets", metavar="TARGET...", nargs=-1, required=True)


@click.command(short_help="Read nodes, judge them, report.")
@TARGETS
@inputs
@reading
@outputs
@debug
def verify(targets: tuple[str, ...], chosen: Inputs, how: Reading, wanted: Outputs) -> int:
    """Read nodes, judge them, report.

    TARGET is an inventory file (inventories/gb300.py), a nodeset (root@tray[01-18]), @local, or @docker/NAME.

    Exit code: 0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed, 4 unsupported (self-build).
    """
    from rackproof.judging import judge_all

    output.check(wanted)
    plan = _plan(targets, chosen)
    result = judge_all(plan, read_nodes(plan, how, wanted.quiet))
    output.emit(result, wanted)
    return result.verdict.exit_code


@click.command(short_help="Read nodes and keep the evidence for later.")
@TARGETS
@inputs
@reading
@click.option("--to", "folder", metavar="DIR", type=PATH, required=True, help="One .tar.gz a node is written here.")
@click.option("--nonce", metavar="TEXT", help="What the asker wants to see again. Default: a new random one.")
@click.option("--sign", metavar="KEYFILE", type=PATH, help="Sign each bundle with this SSH key.")
@click.option("--redact", is_flag=True, help="Replace serials, UUIDs, addresses and host names by tokens of --key-file.")
@key_file
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@debug
def collect(
    targets: tuple[str, ...], chosen: Inputs, how: Reading, folder: Path, nonce: str | None, sign: Path | None,
    redact: bool, key: Path | None, quiet: bool,
) -> int:  # fmt: skip
    """Read nodes and keep the evidence, to be judged later or elsewhere with `rackproof judge DIR`.

    A node that could not be read leaves a file that says why. Exit code: 0 when all were read, else 3.
    """
    from rackproof.verdict.report.fold import counted

    if redact != (key is not None):
        raise click.UsageError("--redact needs --key-file, and --key-file is for --redact")
    plan = _plan(targets, chosen)
    names = [node.name for node in plan.to_read]
    places(folder, names)  # refuses before anything is read
    evidence = read_nodes(plan, how, quiet, nonce)
    kept = [evidence[name] for name in names]
    keep(folder, kept if key is None else redacted(kept, key, folder), sign)
    if not quiet:
        output.say(f"evidence of {counted(names)} is in {folder}\n")
    missed = [name for name in names if evidence[name].problem is not None]
    if missed:
        raise RackproofError(f"no complete evidence of {counted(missed)}: {evidence[missed[0]].problem}")
    return 0


def _plan(targets: tuple[str, ...], chosen: Inputs) -> Plan:
    from rackproof.inventory import load_targets

    return load_targets(
        targets, hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site, limit=chosen.limit
    )


def read_nodes(plan: Plan, how: Reading, quiet: bool, nonce: str | None = None) -> dict[str, Evidence]:
    """Evidence of the nodes of a plan, by name, with progress on stderr."""
    from rackproof.commands.progress import progress
    from rackproof.evidence.collect import collect as read

    names = [node.name for node in plan.to_read]
    with progress(names, quiet=quiet, verbose=how.verbose) as tell:
        return read(plan, sudo=how.sudo, timeout_s=how.timeout_s, nonce=nonce, on_event=tell)
