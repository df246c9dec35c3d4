"""Reading: decoration, hostile lines, and large files of which only some lines are looked at."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from triage_logs import FAILED, HEALTHY, REQUESTS

from rackproof.errors import InputError
from rackproof.triage import source
from rackproof.triage.diagnose import diagnose
from rackproof.triage.reader import MAX_LINE, lines, parse


@pytest.mark.parametrize(
    ("raw", "rank", "text"),
    [
        ("INFO:     Application startup complete.", "", "INFO:     Application startup complete."),
        ("(Worker_TP3_EP3 pid=9) INFO 07-01 10:00:00 [a.py:1] hello", "Worker_TP3_EP3", "hello"),
        ("(VllmWorker rank=3 pid=9) hello", "VllmWorker rank=3", "hello"),
        ("(VllmWorkerProcess pid=9) ERROR 03-02 19:49:43 [m.py:242] hello", "VllmWorkerProcess 9", "hello"),
        ("(RayWorkerWrapper pid=291, ip=192.0.2.1) hello", "RayWorkerWrapper 291", "hello"),
        ("(APIServer pid=1) (EngineCore_DP0 pid=68) ERROR 07-01 10:00:00 [core.py:1] hello", "EngineCore_DP0", "hello"),
        ("\x1b[0;36m(Worker_TP0 pid=9)\x1b[0;0m INFO 07-01 10:00:00 [a.py:1] hello", "Worker_TP0", "hello"),
        ("2026-03-11T17:57:09.855212259Z (EngineCore_DP0 pid=469) hello", "EngineCore_DP0", "hello"),
        ("2026-03-11T17:57:09.855+00:00 stderr F (APIServer pid=1) hello", "APIServer", "hello"),
        ("k3-server-1  | (APIServer pid=1) hello", "APIServer", "hello"),
        ("Jul 01 10:00:00 tray01 vllm[4711]: (Worker_TP0 pid=9) hello", "Worker_TP0", "hello"),
        ("(Worker pid=9) [Stage-0] ERROR 03-12 08:22:28 [m.py:800] hello", "Worker 9", "hello"),
        ("(RustFrontend pid=9) INFO 07-01 10:10:00 [main.rs:1] hello", "RustFrontend", "hello"),
        ("(Worker_TP0 pid=9) DEBUG 08-09 20:55:03 [distributed/parallel_state.py:1607] hello", "Worker_TP0", "hello"),
        ("INFO 12-19 09:33:44 model_runner_base.py:149] hello", "", "hello"),
        ("[2026-07-30 01:58:54 DP0 TP6] hello", "DP0_TP6", "hello"),
        ("[2026-07-30 01:58:54] hello", "", "hello"),
        ("shards: 1%\rshards: 2%", "", "shards: 2%"),
    ],
)
def test_decoration(raw: str, rank: str, text: str) -> None:
    line = parse(1, raw.encode())
    assert (line.rank, line.text) == (rank, text)


def test_a_line_without_end_is_capped_and_counted_once() -> None:
    found = list(lines(io.BytesIO(b"x" * 1_000_000 + b"\nlast")))
    assert [(line.number, len(line.raw)) for line in found] == [(1, MAX_LINE), (2, 4)]


@pytest.mark.parametrize("log", [FAILED["graphs"][0], FAILED["requests"][0], HEALTHY["uvicorn"]])
def test_a_large_file_gives_the_same_answer(log: list[str], tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    noise = [REQUESTS[0]] * 400
    text = "\n".join([*noise, *(part for line in log for part in (line, *noise[:20])), *noise]) + "\n"
    path.write_bytes(text.encode())
    whole = diagnose(lines(io.BytesIO(text.encode())))
    picked = list(source.read(path, small=0, edge=2000))
    assert len(picked) < text.count("\n") / 2
    assert diagnose(picked) == whole
    assert [line.number for line in picked] == sorted({line.number for line in picked})


def test_every_keyword_is_one_grep_can_find() -> None:
    assert not [word for word in source.keywords() if "\n" in word or not word.strip()]


def test_without_grep_the_file_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "engine.log"
    path.write_text("\n".join(FAILED["graphs"][0] * 20))
    with monkeypatch.context() as patch:
        patch.setattr(source.shutil, "which", lambda name: None)
        found = list(source.read(path, small=0, edge=10))
    assert found == list(lines(io.BytesIO(path.read_bytes())))


def test_input_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log"):
        with pytest.raises(InputError):
            list(source.read(path))
