"""`rackproof explain ID`: one screen for each requirement, with where it comes from."""

from __future__ import annotations

import io
import sys

import pytest

from rackproof.cli import main
from rackproof.judging import HARDWARE
from rackproof.verdict.catalogue import requirements

COLUMNS, LINES = 80, 40


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def on_a_terminal(name: str) -> list[str]:
    """What `rackproof explain` prints where 80 columns are shown."""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(COLUMNS))
        patched.setenv("NO_COLOR", "1")
        patched.setattr(sys, "stdout", terminal)
        assert main(["explain", name]) == 0
    return terminal.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize("name", [HARDWARE.id, *requirements()])
def test_every_requirement_fits_one_screen_and_cites_a_source(name: str) -> None:
    lines = on_a_terminal(name)
    assert lines[0].startswith(name)
    assert len(lines) <= LINES - 1  # the prompt stands below
    assert max(map(len, lines)) <= COLUMNS
    cited = [line.split("source", 1)[1] for line in lines if line.split()[:1] == ["source"]]
    assert len(cited) == 1 and cited[0].strip()
