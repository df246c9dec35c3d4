"""The history: one writer after the other, no foreign file touched, nothing accepted ever forgotten."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rackproof.drift import history as module
from rackproof.drift.history import VERSION, History
from rackproof.drift.records import Accepted, NodeRun, Run, Seen
from rackproof.errors import InputError, RackproofError

RUN = Run("2026-01-01T02:30:00Z", "accept", 0, "0.1")
SWAPPED = Seen("f1", "identity", "replaced", "GPU 1", "{}")
NODE = NodeRun("tray01", "accept", None, "e" * 64, "evidence/a/tray01.tar.gz", "r" * 64, "b" * 64, ())
ACCEPTED = Accepted(
    "tray01", "2026-01-01T00:00:00Z", "r" * 64, "2026-01-01T00:00:00Z", "accepted/x.tar.gz", "accept", None
)


def night(number: int, **changes: object) -> Run:
    return replace(RUN, started=f"2026-01-{number:02d}T02:30:00Z", **changes)  # type: ignore[arg-type]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.accept([ACCEPTED])
        number = history.record(RUN, [replace(NODE, findings=(SWAPPED,)), replace(NODE, node="tray02", problem="gone")])
    with History(tmp_path, create=False) as again:
        assert again.reference("tray01") == ACCEPTED and again.reference("tray09") is None
        assert again.of_node("tray01") == [(replace(RUN, id=number), replace(NODE, findings=(SWAPPED,)))]
        assert again.of_node("tray01", since="2026-01-02") == []
        assert again.names() == ["tray01", "tray02"]
        assert again.last_verdict() == replace(RUN, id=number)
        assert sqlite3.connect(tmp_path / "history.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_newest_reference_holds_and_older_ones_stay(tmp_path: Path) -> None:
    newer = replace(ACCEPTED, evidence_sha256="n" * 64, verdict="reject", reason="board on order")
    with History(tmp_path) as history:
        history.accept([ACCEPTED])
        history.accept([newer])
        assert history.reference("tray01") == newer and history.accepted_of("tray01") == [ACCEPTED, newer]


def test_since_when_is_the_first_of_the_latest_runs_in_a_row(tmp_path: Path) -> None:
    has, lacks = replace(NODE, findings=(SWAPPED,)), NODE
    unread = replace(NODE, problem="unreachable")
    with History(tmp_path) as history:
        for day, one in enumerate((has, lacks, has, unread, has), 1):
            history.record(night(day), [one])
        assert history.first_seen("tray01", "f1", "r" * 64) == "2026-01-03T02:30:00Z"
        assert history.first_seen("tray01", "f1", "another reference") is None
        assert history.first_seen("tray01", "f2", "r" * 64) is None


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        with pytest.raises(RackproofError):
            history.record(RUN, [NODE, NODE])  # the same node twice
        assert history.last_verdict() is None and history.names() == []


def test_a_foreign_or_spoiled_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database, but long enough to look at it" * 40)
    with pytest.raises(InputError, match=r"history.db: is not a usable history: file is not a database"):
        History(tmp_path)
    path.unlink()
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE bookmarks (url TEXT)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"history.db: is a database of another program"):
        History(tmp_path)
    assert path.read_bytes() == before and not Path(f"{path}-wal").exists()


def test_a_newer_version_is_refused_and_an_older_one_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with History(tmp_path) as history:
        history.record(RUN, [NODE])
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    monkeypatch.setattr(
        module, "MIGRATIONS", ("ALTER TABLE runs ADD COLUMN host TEXT;\nUPDATE runs SET host = 'here';",)
    )
    with History(tmp_path) as migrated:
        assert migrated._all("SELECT host FROM runs") == [("here",)] and migrated.names() == ["tray01"]
    monkeypatch.setattr(module, "VERSION", VERSION)
    with pytest.raises(InputError, match=r"has schema version 2\n.*at most 1; a newer rackproof"):
        History(tmp_path)


def test_no_history_where_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no history"):
        History(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_make_and_write_it_at_once(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom rackproof.drift.history import *\nfrom rackproof.drift.records import *\n"
        "for number in range(25):\n"
        "    with History(Path(sys.argv[1])) as history:\n"
        "        history.record(Run('2026-01-01T00:00:00Z', 'accept', 0, sys.argv[2]),\n"
        "            [NodeRun('tray01', 'accept', None, None, None, None, None, ())])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "new")]
    started = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in range(3)]
    complaints = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], complaints
    with History(tmp_path / "new") as history:
        assert len(history.of_node("tray01")) == 75


def test_retention_takes_runs_beyond_either_limit_and_never_the_newest(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.accept([ACCEPTED])
        for day in range(1, 6):
            history.record(night(day), [replace(NODE, bundle=f"evidence/{day}/tray01.tar.gz", findings=(SWAPPED,))])
        assert history.forget(None, "2026-01-03") == ["evidence/1/tray01.tar.gz", "evidence/2/tray01.tar.gz"]
        assert history.forget(2, None) == ["evidence/3/tray01.tar.gz"]
        assert history.forget(1, "2099-01-01") == ["evidence/4/tray01.tar.gz"]
        assert [run.started[:10] for run, _ in history.of_node("tray01")] == ["2026-01-05"]
        assert history._all("SELECT count(*) FROM findings") == [(1,)] and history.reference("tray01") == ACCEPTED
