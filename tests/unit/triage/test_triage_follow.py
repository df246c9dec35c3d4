"""Logs that grow. Nothing waits: what another process would do meanwhile is done by the wait itself."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from triage_logs import FAILED, HEALTHY, START, WEIGHTS

from rackproof.cli import main
from rackproof.commands import triage as command
from rackproof.errors import InputError
from rackproof.triage.follow import Tail, follow
from rackproof.triage.reader import MAX_LINE

Steps = list[Callable[[], object]]


def followed(path: Path, steps: Steps) -> list[str]:
    """The texts that come while the steps are done one by one, then those left at the end."""
    waiting, tail, found = iter(steps), Tail(path), []

    def wait() -> None:
        for step in waiting:
            step()
            return
        raise KeyboardInterrupt

    try:
        for _, line in follow([("log", tail)], wait):
            found.append(line.text)
    except KeyboardInterrupt:
        found += [line.text for line in tail.rest()]
    return found


def appending(path: Path, text: str) -> Callable[[], object]:
    def add() -> None:
        with path.open("a") as out:
            out.write(text)

    return add


def test_a_file_that_grows_gives_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntw")
    steps: Steps = [appending(path, "o\nth"), lambda: None, appending(path, "ree\n"), appending(path, "four")]
    assert followed(path, steps) == ["one", "two", "three", "four"]


def test_rotation_reads_the_old_file_to_its_end(tmp_path: Path) -> None:
    path, old = tmp_path / "a.log", tmp_path / "a.log.1"
    path.write_text("one\n")

    def rotate() -> None:
        appending(path, "late\nunfinished")()
        os.rename(path, old)

    steps: Steps = [rotate, lambda: None, lambda: path.write_text("new\n"), appending(path, "newer\n")]
    assert followed(path, steps) == ["one", "late", "unfinished", "new", "newer"]


def test_truncation_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\n")
    steps: Steps = [lambda: path.write_text("1\n"), appending(path, "2\n")]
    assert followed(path, steps) == ["one", "two", "1", "2"]


def test_a_line_without_end_is_cut_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("x" * MAX_LINE)
    steps: Steps = [appending(path, "y" * 10_000), appending(path, "z\nlast\n")]
    assert [len(text) for text in followed(path, steps)] == [MAX_LINE, 4]


def test_several_logs_are_followed_together(tmp_path: Path) -> None:
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in paths:
        path.write_text(f"{path.name}\n")
    steps: Iterator[Callable[[], object]] = iter([appending(paths[1], "more\n")])

    def wait() -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    found = []
    with pytest.raises(KeyboardInterrupt):
        for name, line in follow([(path.name, Tail(path)) for path in paths], wait):
            found.append((name, line.text))
    assert found == [("a.log", "a.log"), ("b.log", "b.log"), ("b.log", "more")]


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError):
            Tail(path)
    assert main(["triage", "--follow", str(tmp_path / "missing")]) == 3


@pytest.mark.parametrize("name", [*FAILED, *HEALTHY])
def test_ctrl_c_gives_the_answer_so_far(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (FAILED.get(name) or (HEALTHY[name],))[0]
    path = tmp_path / "a.log"
    path.write_text("")
    pieces = iter([f"{line}\n" for line in log[:-1]] + [log[-1]])

    def wait() -> None:
        piece = next(pieces, None)
        if piece is None:
            raise KeyboardInterrupt
        appending(path, piece)()

    monkeypatch.setattr(command, "_wait", wait)
    assert main(["triage", "--follow", "--json", "-", str(path)]) == 0
    followed_answer = json.loads(capsys.readouterr().out)
    path.write_text("\n".join(log))
    assert main(["triage", "--json", "-", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == followed_answer


def test_stages_are_told_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.log"
    path.write_text("\n".join(FAILED["weights do not fit"][0]) + "\n")

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_wait", interrupted)
    assert main(["triage", "-f", "-q", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["triage", "-f", str(path)]) == 0
    told = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told[:3] == ["start", "distributed-init", "weights-load"]
    assert told[-1] == "weights-load: capacity (certain, oom_loading)"


class Pipe(io.RawIOBase):
    """Standard input that gives some lines and is then interrupted."""

    def __init__(self, content: list[str]) -> None:
        self._lines = iter([*(f"{line}\n".encode() for line in content), None])

    def readline(self, size: int | None = -1, /) -> bytes:
        line = next(self._lines)
        if line is None:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize("options", [[], ["--follow"]])
def test_a_stream_that_is_interrupted_is_judged(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Input:
        buffer = Pipe([*START, *WEIGHTS[:3]])

    monkeypatch.setattr("sys.stdin", Input())
    assert main(["triage", *options, "-q", "-"]) == 0
    assert capsys.readouterr().out.startswith("weights-load  unknown")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-", "-"],
        ["--follow", "-", "a.log"],
        ["--evidence", "x", "--inventory", "y", "a.log"],
        ["-", "--evidence", "-"],
    ],
)
def test_what_cannot_be_asked_together(arguments: list[str]) -> None:
    assert main(["triage", *arguments]) == 3
