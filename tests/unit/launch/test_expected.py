"""Every layout on every fabric against what a person has read and stored in tests/unit/launch/expected/.

After a change that is meant, write the files again and read the difference before it is committed:

    RACKPROOF_REGENERATE=1 pytest tests/unit/launch/test_expected.py && git diff tests/unit/launch/expected
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest
from launch_builders import EXPECTED, FABRICS, launched, refusal, usable

from rackproof.launch import Launch, render

REGENERATE = os.environ.get("RACKPROOF_REGENERATE") == "1"
HOW = "read the difference; if it is meant: RACKPROOF_REGENERATE=1 pytest tests/unit/launch/test_expected.py"
PAIRS = [(layout.id, fabric) for layout in usable() for fabric in FABRICS]
LAUNCHED = [pair for pair in PAIRS if not refusal(*pair)]
WHOLE_FILES = ("gb300-tp8", "gb300-pd", "mi355x-tp8")


def _check(file: Path, text: str) -> None:
    if REGENERATE:
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file.name} is not stored: {HOW}"
    stored = file.read_text(encoding="utf-8")
    difference = "".join(difflib.unified_diff(stored.splitlines(True), text.splitlines(True), "stored", "rendered"))
    assert stored == text, f"{file.name} differs: {HOW}\n{difference}"


def _docker(launch: Launch) -> str:
    """The first node of each pool in full, and of the others what differs from it."""
    blocks: list[str] = []
    for process in launch.processes:
        text = render(launch, "docker", [process])
        if process.rank == 0:
            first = text
            blocks.append(text)
            continue
        lines = difflib.unified_diff(first.splitlines(True), text.splitlines(True), n=0)
        changed = [line for line in lines if re.match(r"[+-](?![+-])", line)]
        blocks.append(f"# node {process.rank}, where it differs from node 0:\n" + "".join(changed))
    return "\n".join(blocks)


@pytest.mark.parametrize(("layout", "fabric"), LAUNCHED)
def test_command_is_the_one_that_was_read(layout: str, fabric: str) -> None:
    _check(EXPECTED / f"{layout}.{fabric}.txt", _docker(launched(layout, fabric)))


@pytest.mark.parametrize("format_", ["argv", "env", "systemd", "compose"])
@pytest.mark.parametrize("layout", WHOLE_FILES)
def test_other_formats_are_the_ones_that_were_read(layout: str, format_: str) -> None:
    launch = launched(layout)
    _check(EXPECTED / f"{layout}.{format_}.txt", render(launch, format_, launch.processes[:1]))


def test_refusals_are_the_ones_that_were_read() -> None:
    lines = []
    for layout, fabric in PAIRS:
        message = refusal(layout, fabric)
        if message:
            rules = re.findall(r"rule (\w+):", message) or [message.splitlines()[0].split(": ", 2)[-1]]
            lines.append(f"{layout} on {fabric}: {', '.join(dict.fromkeys(rules))}\n")
    _check(EXPECTED / "refused.txt", "".join(lines))


def test_no_expectation_is_left_of_something_that_is_gone() -> None:
    wanted = {f"{layout}.{fabric}.txt" for layout, fabric in LAUNCHED} | {"refused.txt"}
    wanted |= {f"{layout}.{name}.txt" for layout in WHOLE_FILES for name in ("argv", "env", "systemd", "compose")}
    stored = {path.name for path in EXPECTED.iterdir()}
    if REGENERATE:
        for name in stored - wanted:
            (EXPECTED / name).unlink()
        return
    assert stored == wanted


def test_every_layout_runs_on_its_own_fabric_but_one() -> None:
    own = [layout.id for layout in usable() if (layout.id, layout.fabric) not in LAUNCHED]
    assert own == ["h200-tp16dp2"], "a replica over several nodes, for which no source gives a command"
