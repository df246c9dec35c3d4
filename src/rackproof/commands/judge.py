"""`judge`: a verdict from evidence that somebody else may have collected."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, Inputs, Outputs, debug, inputs, outputs
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.evidence.bundle import Refuse
    from rackproof.evidence.evidence import Evidence
    from rackproof.verdict.evaluate import Result
    from rackproof.verdict.report.proof import Look


@click.command(short_help="Judge evidence that is already there.")
@click.argument("sources", metavar="EVIDENCE...", nargs=-1, required=True)
@click.option("--inventory", metavar="FILE", help="Which nodes there should be, and which serve together.")
@click.option("--nonce", metavar="TEXT", help="The nonce the probe was made with: other evidence is refused.")
@click.option(
    "--allowed-signers",
    "signers",
    metavar="FILE",
    type=PATH,
    help="Believe only bundles signed by one of these (ssh-keygen(1)). Needs --nonce.",
)
@inputs
@outputs
@debug
def judge(
    sources: tuple[str, ...], inventory: str | None, nonce: str | None, signers: Path | None,
    chosen: Inputs, wanted: Outputs,
) -> int:  # fmt: skip
    """Judge evidence: bundles (.tar.gz or directory), folders of bundles, raw probe output, or - for standard input.

    \b
    rackproof judge node01.txt node02.txt --hardware b300
    rackproof judge evidence/ --inventory inventories/gb300.py --html report.html
    ssh root@node01 sh < probe.sh | rackproof judge -

    Exit code: 0 accept, 1 reject, 2 undetermined, 3 the tool or its input failed, 4 unsupported (self-build).
    """
    from rackproof.judging import judge_all, plan_for_evidence
    from rackproof.nodesets import expand

    if inventory and (chosen.hardware or chosen.layout or chosen.site):
        raise click.UsageError("an inventory already says its hardware, layout and site: give one or the other")
    if signers is not None and nonce is None:
        raise click.UsageError(
            "a signature does not say when it was made: give the --nonce that was asked for as well, "
            "or an older bundle would pass for an answer"
        )
    output.check(wanted)
    if _many(sources):
        result, look = _judge_files(sources, inventory, nonce, signers, chosen, wanted.quiet)
        output.emit(result, wanted, look)
        return result.verdict.exit_code
    evidence = by_node(sources, nonce, signers)
    plan = plan_for_evidence(
        list(evidence.values()),
        hardware=chosen.hardware, layout=chosen.layout, site_file=chosen.site, inventory=inventory,
    )  # fmt: skip
    if chosen.limit:
        plan = plan.limited(expand(chosen.limit, "--limit"))
        evidence = {node.name: evidence[node.name] for node in plan.to_read if node.name in evidence}
    result = judge_all(plan, evidence)
    output.emit(result, wanted, evidence.get)
    return result.verdict.exit_code


MANY = 32  # files; below, starting further processes costs more than it saves


def _many(sources: tuple[str, ...]) -> bool:
    """Whether to read them one after the other in several processes, never all at once."""
    count = 0
    for source in sources:
        path = Path(source)
        count += sum(1 for _ in path.iterdir()) if path.is_dir() else 1
    return count >= MANY and "-" not in sources


def _judge_files(
    sources: tuple[str, ...],
    inventory: str | None,
    nonce: str | None,
    signers: Path | None,
    chosen: Inputs,
    quiet: bool,
) -> tuple[Result, Look]:
    """The result, and how to read the evidence of a node once more: it is not held."""
    from rackproof.commands.progress import counting
    from rackproof.evidence.bundle import bundle_paths, read_bundle
    from rackproof.inventory import load_targets
    from rackproof.judging_files import Asked, judge_files
    from rackproof.nodesets import expand

    paths = [path for source in sources for path in bundle_paths(Path(source))]
    plan = load_targets([inventory]) if inventory else None
    if plan is not None and chosen.limit:
        plan = plan.limited(expand(chosen.limit, "--limit"))
    only = None if plan is not None or chosen.limit is None else frozenset(expand(chosen.limit, "--limit"))
    asked = Asked(plan, chosen.hardware, chosen.layout, chosen.site, nonce, signers, only)
    where: dict[str, Path] = {}
    with counting(len(paths), "judging", quiet=quiet) as tell:
        result = judge_files(paths, asked, tell, where=where)

    def look(node: str) -> Evidence | None:
        return read_bundle(where[node])[0] if node in where else None

    return result, look


def by_node(sources: tuple[str, ...], nonce: str | None, signers: Path | None = None) -> dict[str, Evidence]:
    """Evidence by node; two answers of one node are refused, since choosing one would be choosing a verdict."""
    found: dict[str, Evidence] = {}
    origin: dict[str, str] = {}
    for source in sources:
        for item in _read(source, signers):
            if item.node in found:
                where = f"{origin[item.node]} and {source}" if origin[item.node] != source else source
                raise InputError(where, f"two pieces of evidence are of node {item.node!r}", "one for each node")
            found[item.node], origin[item.node] = item.answering(nonce), source
    return found


def _read(source: str, signers: Path | None) -> list[Evidence]:
    from rackproof.evidence.bundle import read_bundle
    from rackproof.evidence.signature import refusal
    from rackproof.evidence.stream import MAX_BYTES, parse_stream

    refuse: Refuse = (lambda *signed: None) if signers is None else partial(refusal, signers)
    if source != "-":
        return read_bundle(Path(source), refuse)
    return [parse_stream(sys.stdin.buffer.read(MAX_BYTES + 1)).refused(refuse(None, None))]
