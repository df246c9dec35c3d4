"""`probe`: the stand-alone probe program, for nodes that somebody else has to read."""

from __future__ import annotations

import re

import click

from rackproof.commands.options import debug
from rackproof.commands.output import say
from rackproof.errors import InputError


@click.command(short_help="Print the stand-alone probe program.")
@click.option("--nonce", metavar="TEXT", help="Baked in, and checked by `judge --nonce`. Default: a new random one.")
@click.option("--sudo", is_flag=True, help="Let it use 'sudo -n' for the sections that need root.")
@click.option("--model-directory", metavar="PATH", help="Where the weights lie on the node. Default: they are not read.")
@debug
def probe(nonce: str | None, sudo: bool, model_directory: str | None) -> int:
    """Print the probe: one read-only POSIX sh program, with every command it runs in a comment at its top.

    \b
    rackproof probe > probe.sh          send it to whoever can run it: sh probe.sh > tray01.txt
    rackproof judge tray01.txt          judge what comes back
    """
    from rackproof.evidence.collect import new_nonce, probe_program

    path = model_directory or ""
    if path and not re.fullmatch(r"/[^\x00-\x1f\x7f\u2028\u2029]*", path):
        raise InputError("--model-directory", f"{path!r} cannot be used", "an absolute path without control characters")
    say(probe_program(nonce or new_nonce(), sudo, listed=True, model_directory=path))
    return 0
