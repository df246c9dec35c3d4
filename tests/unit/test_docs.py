"""Documents that are generated are the ones that the code generates."""

from __future__ import annotations

from pathlib import Path

from rackproof.commands.explain import markdown
from rackproof.judging import HARDWARE
from rackproof.verdict.catalogue import requirements

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_requirement_catalogue_is_current() -> None:
    wanted = markdown([HARDWARE, *requirements().values()])
    assert (DOCS / "requirements.md").read_text() == wanted, "run `make docs`"
