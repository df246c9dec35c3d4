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


@click.command(short_help="Judge evidence that is already there.")
@click.argument("sources", metavar="EVIDENCE...", nargs=-1, required=True)
@click.option("--inventory", metavar="FILE", help="Which nodes there should be, and which serve together.")
@click.option("--nonce", metavar="TEXT", help="The nonce the probe was made with: other evidence is refused.")
@click.option("--allowed-signers", "signers", metavar="FILE", type=PATH,
              help="Believe only bundles signed by one of these (ssh-keygen(1)). Needs --nonce.")
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


def by_node(sources: tuple[str, ...], nonce: str | None, signers: Path | None = None) -> dict[str, Evidence]:
    """Evidence by node; two answers of one node are refused, since choosing one would be choosing a verdict."""
    found: dict[str, Evidence] = {}
    origin: dict[str, str] = {}
    for source in sources:
        for item in _read(source, signers):
            if item.node in found:
                where = f"{origin[item.node]} and {source}" if origin[item.node] != source else source
                raise InputError(where, f"two pieces of evidence are of node {item.node!r}", "one for each node")
            found[item.node], origin[item.node] = _asked(item, nonce), source
    return found


def _read(source: str, signers: Path | None) -> list[Evidence]:
    from rackproof.evidence.bundle import read_bundle
    from rackproof.evidence.signature import refusal
    from rackproof.evidence.stream import MAX_BYTES, parse_stream

    refuse: Refuse = (lambda *signed: None) if signers is None else partial(refusal, signers)
    if source != "-":
        return read_bundle(Path(source), refuse)
    return [parse_stream(sys.stdin.buffer.read(MAX_BYTES + 1)).refused(refuse(None, None))]


def _asked(evidence: Evidence, nonce: str | None) -> Evidence:
    """Evidence that answers somebody else's question, or an older one, proves nothing."""
    if nonce is None or evidence.nonce == nonce:
        return evidence
    return evidence.refused(f"the evidence carries nonce {evidence.nonce}, asked was {nonce}")
