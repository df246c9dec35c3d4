"""`verify` and `collect`: the two commands that read nodes."""

from __future__ import annotations

import importlib
import threading
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

    \b
    rackproof verify root@node[01-02] --hardware b300
    rackproof verify inventories/gb300.py --html report.html --json report.json
    rackproof verify inventories/gb300.py --limit 'rack1-tray[03-04]' --letter provider.md

    Exit code: 0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed, 4 unsupported (self-build).
    """
    output.check(wanted)
    plan = plan_of(targets, chosen)
    # Its modules take a third of a second to load, in which the nodes answer.
    threading.Thread(target=importlib.import_module, args=("rackproof.judging",), daemon=True).start()
    evidence = read_nodes(plan, how, wanted.quiet)
    from rackproof.judging import judge_all

    result = judge_all(plan, evidence)
    output.emit(result, wanted, evidence.get)
    return result.verdict.exit_code


@click.command(short_help="Read nodes and keep the evidence for later.")
@TARGETS
@inputs
@reading
@click.option("--to", "folder", metavar="DIR", type=PATH, required=True, help="One .tar.gz a node is written here.")
@click.option("--nonce", metavar="TEXT", help="What the asker wants to see again. Default: a new random one.")
@click.option("--sign", metavar="KEYFILE", type=PATH, help="Sign each bundle with this SSH key.")
@click.option(
    "--redact", is_flag=True, help="Replace serials, UUIDs, addresses and host names by tokens of --key-file."
)
@key_file
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@debug
def collect(
    targets: tuple[str, ...], chosen: Inputs, how: Reading, folder: Path, nonce: str | None, sign: Path | None,
    redact: bool, key: Path | None, quiet: bool,
) -> int:  # fmt: skip
    """Read nodes and keep the evidence, to be judged later or elsewhere with `rackproof judge DIR`.

    A node that could not be read leaves a file that says why. Exit code: 0 when all were read, else 3. Ctrl-C keeps what
    was read until then.

    \b
    rackproof collect inventories/gb300.py --to evidence/
    rackproof judge evidence/ --inventory inventories/gb300.py
    """
    from rackproof.evidence.evidence import Interrupted
    from rackproof.verdict.report.fold import counted

    if redact != (key is not None):
        raise click.UsageError("--redact needs --key-file, and --key-file is for --redact")
    plan = plan_of(targets, chosen)
    names = [node.name for node in plan.to_read]
    places(folder, names)  # refuses before anything is read
    try:
        evidence = read_nodes(plan, how, quiet, nonce)
    except Interrupted as stopped:  # what was read until now is whole, and says of the others that they were not
        keep(folder, redacted_if(key, [stopped.evidence[name] for name in names], folder), sign)
        raise
    kept = [evidence[name] for name in names]
    keep(folder, redacted_if(key, kept, folder), sign)
    if not quiet:
        output.say(f"evidence of {counted(names)} is in {folder}\n")
    missed = [name for name in names if evidence[name].problem is not None]
    if missed:
        raise RackproofError(f"no complete evidence of {counted(missed)}: {evidence[missed[0]].problem}")
    return 0


def redacted_if(key: Path | None, evidence: list[Evidence], folder: Path) -> list[Evidence]:
    return evidence if key is None else redacted(evidence, key, folder)


def plan_of(targets: tuple[str, ...], chosen: Inputs) -> Plan:
    """The plan for what stands on a command line."""
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
