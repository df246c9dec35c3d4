"""`verify` and `collect`: the two commands that read nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, Inputs, Outputs, Reading, debug, inputs, outputs, reading
from rackproof.errors import InputError, RackproofError

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

    TARGET is an inventory file (inventories/gb300.py), a nodeset (root@tray[01-18]) or @local.

    Exit code: 0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed, 4 unsupported (self-build).
    """
    from rackproof.judging import judge_all

    output.check(wanted)
    plan = _plan(targets, chosen)
    result = judge_all(plan, _read(plan, how, wanted.quiet))
    output.emit(result, wanted)
    return result.verdict.exit_code


@click.command(short_help="Read nodes and keep the evidence for later.")
@TARGETS
@inputs
@reading
@click.option("--to", "folder", metavar="DIR", type=PATH, required=True, help="One .tar.gz a node is written here.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@debug
def collect(targets: tuple[str, ...], chosen: Inputs, how: Reading, folder: Path, quiet: bool) -> int:
    """Read nodes and keep the evidence, to be judged later or elsewhere with `rackproof judge DIR`.

    A node that could not be read leaves a file that says why. Exit code: 0 when all were read, else 3.
    """
    from rackproof.evidence.bundle import write_bundle
    from rackproof.verdict.report.fold import counted

    plan = _plan(targets, chosen)
    places = _places(folder, [node.name for node in plan.to_read])
    evidence = _read(plan, how, quiet)
    for name, path in places.items():
        write_bundle(path, evidence[name])
    if not quiet:
        output.say(f"evidence of {counted(places)} is in {folder}\n")
    missed = [name for name in places if evidence[name].problem is not None]
    if missed:
        raise RackproofError(f"no complete evidence of {counted(missed)}: {evidence[missed[0]].problem}")
    return 0


def _plan(targets: tuple[str, ...], chosen: Inputs) -> Plan:
    from rackproof.inventory import load_targets

    return load_targets(
        targets, hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site, limit=chosen.limit
    )


def _read(plan: Plan, how: Reading, quiet: bool) -> dict[str, Evidence]:
    from rackproof.commands.progress import progress
    from rackproof.evidence.collect import collect as read

    names = [node.name for node in plan.to_read]
    with progress(names, quiet=quiet, verbose=how.verbose) as tell:
        return read(plan, sudo=how.sudo, timeout_s=how.timeout_s, on_event=tell)


def _places(folder: Path, names: list[str]) -> dict[str, Path]:
    """A file for each node; refused before anything is read when one is already there."""
    places: dict[str, Path] = {}
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "node"
        path = folder / f"{stem}.tar.gz"
        if path in places.values():
            path = folder / f"{stem}-{len(places)}.tar.gz"
        if path.exists():
            raise InputError(str(path), "is already there", "a folder without evidence of these nodes")
        places[name] = path
    return places
