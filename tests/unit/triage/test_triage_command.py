"""The command: exit codes, both outputs, and nothing of a log that reaches a terminal as it was."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from triage_logs import FAILED, HEALTHY, OOM, START

from rackproof.cli import main

SCHEMA = json.loads((files("rackproof") / "schemas" / "triage.schema.json").read_text())


def written(path: Path, log: list[str]) -> str:
    path.write_text("\n".join(log))
    return str(path)


@pytest.mark.parametrize("log", [*(log for log, *_ in FAILED.values()), *HEALTHY.values(), [], ["?"]])
def test_json_is_as_the_schema_says(log: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", "--json", "-", written(tmp_path / "a.log", log)]) == 0
    Draft202012Validator(SCHEMA).validate(json.loads(capsys.readouterr().out))


def test_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", "--plain", written(tmp_path / "a.log", FAILED["graphs"][0])]) == 0
    page = capsys.readouterr().out
    assert page.startswith("engine-init  tuning (certain)")
    assert "gpus.idle" in page and "502.10 seconds" in page and "oom_engine" in page
    assert "s3cret" not in page and "[hidden]" in page


def test_quiet_is_one_line_and_several_logs_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [written(tmp_path / "a.log", HEALTHY["rust"]), written(tmp_path / "b.log", FAILED["driver"][0])]
    assert main(["triage", "-q", *names]) == 0
    quiet = capsys.readouterr().out
    assert quiet.count("\n") == 1 and "b.log" in quiet
    assert main(["triage", *names]) == 0
    assert "a.log" in capsys.readouterr().out


def test_nothing_of_the_log_reaches_the_terminal_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"[bold]{OOM}\x1b]0;owned\x07\x1b[2J\u202e\x9b5m"
    log = [*START, "(Worker_TP0 pid=1) Starting to load model \x1b[2J\x00", hostile]
    for options in ([], ["--json", "-"]):
        assert main(["triage", *options, written(tmp_path / "a.log", log)]) == 0
        shown = "".join(capsys.readouterr())
        assert not [char for char in shown if not char.isprintable() and char != "\n"]
        assert "[bold]" in shown


def test_input_errors_are_3(tmp_path: Path) -> None:
    assert main(["triage", str(tmp_path)]) == 3
    assert main(["triage", str(tmp_path / "missing")]) == 3
    assert main(["triage"]) == 3
