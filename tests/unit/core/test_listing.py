"""Whoever is asked to run a probe can read at its top what it will run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core_builders import NONCE, Probe

from rackproof.evidence.collect import probe_program
from rackproof.evidence.listing import listing
from rackproof.evidence.probe import assemble
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.stream import parse_stream
from rackproof.evidence.tools import commands
from rackproof.evidence.tools.group import SHELL
from rackproof.managed import PATHS


def _top(program: str) -> str:
    lines = program.split("\n")
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[:end])


def test_every_line_of_every_command_stands_at_the_top() -> None:
    top = _top(probe_program(NONCE, False, listed=True))
    for command in commands(PATHS):
        assert f"\n#   {command.name}: at most {command.deadline_s} s" in top
        for line in command.script.replace(SHELL, "").strip().split("\n"):
            assert f"#       {line}".rstrip() in top


def test_what_is_run_is_what_is_run_without_the_list() -> None:
    listed, plain = probe_program(NONCE, False, listed=True), probe_program(NONCE, False)
    assert listed.replace(listing(commands(PATHS)), "") == plain


def test_terms_are_named() -> None:
    text = listing([Command("a", "x", "tool", Root.NEEDED, 7), Command("b", "y\n\nz", root=Root.HELPS)])
    assert "#   a: at most 7 s, needs tool, root\n#       x\n" in text
    assert "#   b: at most 10 s, root helps\n#       y\n#\n#       z\n" in text


def test_no_command_leaves_the_comment(shell: Sequence[str], tmp_path: Path) -> None:
    """A comment is ended by its line; a carriage return or a backslash does not end it."""
    commands = [Command("odd", f"echo ok # \r touch {tmp_path}/harm \\\ntrue", deadline_s=60)]
    probe = Probe(shell, tmp_path, commands)
    probe.argv[-1] = assemble([], NONCE, listed=True).replace(listing([]), listing(commands))
    assert parse_stream(probe.run(), nonce=NONCE).problem is None
    assert not (tmp_path / "harm").exists()
