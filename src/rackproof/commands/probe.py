"""`probe`: the stand-alone probe program, for nodes that somebody else has to read."""

from __future__ import annotations

import click

from rackproof.commands.options import debug
from rackproof.commands.output import say


@click.command(short_help="Print the stand-alone probe program.")
@click.option("--nonce", metavar="TEXT", help="Baked in, and checked by `judge --nonce`. Default: a new random one.")
@click.option("--sudo", is_flag=True, help="Let it use 'sudo -n' for the sections that need root.")
@debug
def probe(nonce: str | None, sudo: bool) -> int:
    """Print the probe: one read-only POSIX sh program, with every command it runs in a comment at its top.

    \b
    rackproof probe > probe.sh          send it to whoever can run it: sh probe.sh > tray01.txt
    rackproof judge tray01.txt          judge what comes back
    """
    from rackproof.evidence.collect import new_nonce, probe_program

    say(probe_program(nonce or new_nonce(), sudo, listed=True))
    return 0
