"""The examples of docs/triage.md are what the command prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_triage_now import KERNEL, evidence
from triage_logs import EXAMPLE

from rackproof.cli import main

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "triage.md"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("engine.log").write_text(EXAMPLE)
    assert main(["triage", "--plain", "engine.log"]) == 0
    assert f"```\n{capsys.readouterr().out}```" in DOCUMENT.read_text()


def test_what_fails_right_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.log").write_text("NVRM: Xid (PCI:0000:dc:00): 79, pid=90, name=python3, GPU has fallen off the bus.\n")
    files = [evidence(Path("tray01.txt"), "tray01", kernel_log=KERNEL), evidence(Path("tray02.txt"), "tray02")]
    given = [part for file in files for part in ("--evidence", file)]
    assert main(["triage", "--plain", "kernel.log", "--hardware", "gb300", *given]) == 0
    page = capsys.readouterr().out
    shown = page[page.index("  next") : page.index("  cause")].rstrip() + "\n"
    assert f"```\n{shown}```" in DOCUMENT.read_text()
