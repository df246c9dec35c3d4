"""`redact`: evidence that can be given away, and where evidence is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands import output
from rackproof.commands.options import PATH, debug
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.evidence.evidence import Evidence

key_file = click.option("--key-file", "key", metavar="FILE", type=PATH,
                        help="Key of the tokens; made if it is not there. Keep it: it never goes into the evidence.")  # fmt: skip


@click.command(short_help="Take identities out of evidence before it is given away.")
@click.argument("sources", metavar="EVIDENCE...", nargs=-1, required=True)
@key_file
@click.option("--to", "folder", metavar="DIR", type=PATH, required=True, help="One .tar.gz a node is written here.")
@click.option("--sign", metavar="KEYFILE", type=PATH, help="Sign each bundle with this SSH key.")
@debug
def redact(sources: tuple[str, ...], key: Path | None, folder: Path, sign: Path | None) -> int:
    """Replace serial numbers, UUIDs, addresses and host names by tokens that are the same in every node's evidence.

    Judging the result gives the same outcomes. A signature of the original does not hold for it.
    """
    from rackproof.evidence.bundle import read_bundle
    from rackproof.verdict.report.fold import counted

    if key is None:
        raise click.UsageError("--key-file is needed: the same key gives the same tokens")
    found = [item for source in sources for item in read_bundle(Path(source))]
    tokens = redacted(found, key, folder)
    keep(folder, tokens, sign)
    output.say(f"redacted evidence of {counted(item.node for item in tokens)} is in {folder}\n")
    return 0


def redacted(evidence: Sequence[Evidence], key: Path, folder: Path) -> list[Evidence]:
    """A set of evidence redacted with the key in a file."""
    from rackproof.evidence.redact import read_key, redact

    return redact(read_key(key, folder), evidence)


def keep(folder: Path, evidence: Sequence[Evidence], sign: Path | None) -> None:
    """Write a bundle for each, signed where a key is given."""
    from rackproof.evidence.bundle import write_bundle
    from rackproof.evidence.signature import sign as signed

    where = places(folder, [item.node for item in evidence])
    signer = None if sign is None else partial(signed, sign)
    for path, item in zip(where, evidence, strict=True):
        write_bundle(path, item, signer)


def places(folder: Path, names: Sequence[str]) -> list[Path]:
    """A file for each node; refused before anything is read or written when one is already there."""
    found: list[Path] = []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "node"
        path = folder / f"{stem}.tar.gz"
        if path in found:
            path = folder / f"{stem}-{len(found)}.tar.gz"
        if path.exists():
            raise InputError(str(path), "is already there", "a folder without evidence of these nodes")
        found.append(path)
    return found
