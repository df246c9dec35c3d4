"""The shell around each step, run for real in a folder of its own: lock, signs of life, journal."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from rackproof.deploy import onhost
from rackproof.deploy.onhost import Run, Watch

ONE = Run("run1", "alice@ops1", 11, "boot pid:[1] 11 5")
OTHER = Run("run2", "bob@ops2", 22, "boot pid:[1] 22 5")


class Host:
    """A node whose /var/lib/rackproof is a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.lock, self.journal = self.folder / "lock", self.folder / "journal.jsonl"

    def sh(self, script: str, **more: Any) -> subprocess.CompletedProcess[str]:
        text = script.replace("/var/lib/rackproof", str(self.folder))
        return subprocess.run(["sh", "-c", text], text=True, capture_output=True, check=False, timeout=60, **more)

    def take(self, run: Run = ONE, seen: str | None = None, dead: str = "") -> subprocess.CompletedProcess[str]:
        return self.sh(onhost.take(run, seen, dead))

    def step(
        self, body: str, run: Run = ONE, watch: Watch | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        return self.sh(onhost.step(run, "layer", 'a "step" with $signs', body, watch or Watch(), **more))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    @property
    def generation(self) -> str:
        return self.sh(f"tail -n 1 {self.journal} | cksum").stdout.strip()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_lock_keeps_others_out_and_says_who_holds_it(host: Host) -> None:
    assert host.take().returncode == 0
    record = json.loads(host.lock.read_text())
    assert record["run"] == "run1" and record["operator"] == "alice@ops1" and record["since"].endswith("Z")
    refused = host.take(OTHER)
    assert refused.returncode == 1
    assert "locked by another deploy, last sign of life" in refused.stderr and "alice@ops1" in refused.stderr
    assert json.loads(host.lock.read_text())["run"] == "run1"


def test_the_same_lock_given_back_is_free_for_others(host: Host) -> None:
    host.take()
    assert host.sh(onhost.give_back(ONE, "accepted")).returncode == 0
    assert not host.lock.exists() and host.lines[-1]["event"] == "released" and host.lines[-1]["note"] == "accepted"
    assert host.take(OTHER).returncode == 0


def test_nobody_gives_back_what_somebody_else_holds(host: Host) -> None:
    host.take()
    host.sh(onhost.give_back(OTHER, "x"))
    assert json.loads(host.lock.read_text())["run"] == "run1"


def test_a_lock_without_a_sign_of_life_may_be_taken(host: Host) -> None:
    host.take()
    old = time.time() - onhost.STALE_S - 1
    os.utime(host.lock, (old, old))
    assert host.take(OTHER).returncode == 0
    assert json.loads(host.lock.read_text())["run"] == "run2"


def test_a_sign_of_life_renews_the_lock_and_only_its_own(host: Host) -> None:
    host.take()
    os.utime(host.lock, (1, 1))
    host.sh(onhost.beat(OTHER))
    assert host.lock.stat().st_mtime == 1
    host.sh(onhost.beat(ONE))
    assert host.lock.stat().st_mtime > 1


def test_the_lock_of_a_holder_known_dead_is_taken_at_once_but_not_a_newer_one(host: Host) -> None:
    host.take()
    sha256 = host.sh(f"sha256sum <{host.lock}").stdout.split()[0]
    assert host.take(OTHER, dead="0" * 64).returncode == 1
    assert host.take(OTHER, dead=sha256).returncode == 0


def test_a_node_changed_since_it_was_read_is_refused(host: Host) -> None:
    assert host.take(seen="").returncode == 0, "no journal yet, and none was seen"
    host.step(":")
    seen = host.generation
    host.sh(onhost.give_back(ONE, "accepted"))
    refused = host.take(OTHER, seen=seen)
    assert refused.returncode == 1 and "somebody changed this node after it was read" in refused.stderr
    assert host.take(OTHER, seen=host.generation).returncode == 0


def test_a_step_is_done_only_under_the_runs_own_lock(host: Host, tmp_path: Path) -> None:
    done = host.step(f"touch {tmp_path}/done")
    assert done.returncode == 1 and "no longer holds the lock" in done.stderr and not (tmp_path / "done").exists()
    host.take(OTHER)
    assert host.step(f"touch {tmp_path}/done").returncode == 1 and not (tmp_path / "done").exists()
    host.sh(onhost.UNLOCK)
    host.take()
    assert host.step(f"touch {tmp_path}/done").returncode == 0 and (tmp_path / "done").exists()


def test_what_a_step_changed_is_journalled_and_nothing_else(host: Host, tmp_path: Path) -> None:
    changed, same = tmp_path / "changed", tmp_path / "same"
    same.write_text("x")
    host.take()
    assert host.step(f"echo new >{changed}", watch=Watch(files=(str(changed), str(same)))).returncode == 0
    begin, end = host.lines[-2:]
    assert begin["event"] == "begin" and begin["step"] == end["step"] == 'a "step" with $signs'
    assert end["operator"] == "alice@ops1" and end["layer"] == "layer" and end["rc"] == 0
    assert end["before"] == {str(changed): "absent"}
    assert list(end["after"]) == [str(changed)] and len(end["after"][str(changed)]) == 64


@pytest.mark.parametrize("body", ["false; echo on", "exit 7", "echo why >&2; false | true; cat /nonexistent; echo on"])
def test_a_step_stops_at_its_first_error_which_is_journalled(host: Host, body: str) -> None:
    host.take()
    done = host.step(body)
    assert done.returncode != 0 and "on" not in done.stdout.split()
    assert host.lines[-1]["event"] == "end" and host.lines[-1]["rc"] == done.returncode


def test_a_step_that_goes_on_after_its_script_has_one_end(host: Host) -> None:
    host.take()
    host.step(":", goes_on=True)
    assert [line["event"] for line in host.lines] == ["locked", "begin"]
    host.sh(onhost.note_end(ONE, "layer", "Reboot", [("boot_id", "a")], [("boot_id", "b")]))
    assert host.lines[-1]["before"] == {"boot_id": "a"} and host.lines[-1]["after"] == {"boot_id": "b"}
    host.step("false", goes_on=True)
    assert host.lines[-1]["rc"] == 1, "one that failed ends where it failed"


def test_nothing_is_changed_that_cannot_be_journalled(host: Host, tmp_path: Path) -> None:
    host.take()
    host.journal.unlink()
    host.journal.mkdir()  # cannot be appended to, not even by root
    done = host.step(f"touch {tmp_path}/done")
    assert done.returncode == 1 and "nothing is changed" in done.stderr and not (tmp_path / "done").exists()


def test_the_journal_is_bounded(host: Host) -> None:
    host.take()
    host.journal.write_text("x" * onhost.JOURNAL_BYTES + "\n")
    host.step(":")
    assert [line["event"] for line in host.lines] == ["begin", "end"]
    assert (host.folder / "journal.1.jsonl").stat().st_size == onhost.JOURNAL_BYTES + 1


def test_half_a_line_of_a_full_disk_does_not_spoil_the_next(host: Host) -> None:
    host.take()
    with host.journal.open("a") as out:
        out.write('{"time": "2026')
    host.step(":")
    assert json.loads(host.journal.read_text().splitlines()[-1])["event"] == "end"


def test_a_step_whose_operator_is_gone_is_waited_for(host: Host, tmp_path: Path) -> None:
    host.take()
    go, out = tmp_path / "go", tmp_path / "out"
    script = onhost.step(
        ONE,
        "layer",
        "slow",
        f"touch {tmp_path}/begun; until [ -f {go} ]; do sleep 0.05; done; echo slow >>{out}",
        Watch(),
    )
    slow = subprocess.Popen(["sh", "-c", script.replace("/var/lib/rackproof", str(host.folder))])
    try:
        _until(lambda: (tmp_path / "begun").exists())
        assert "still working" in host.sh(onhost.UNLOCK).stdout and host.lock.exists()
        os.utime(host.lock, (1, 1))
        text = onhost.take(OTHER, None, "").replace("/var/lib/rackproof", str(host.folder))
        taking = subprocess.Popen(["sh", "-c", f"{text}\necho taken >>{out}"])
        time.sleep(0.3)  # nothing is measured: it could not have taken it however long this is
        assert taking.poll() is None and json.loads(host.lock.read_text())["run"] == "run1"
        go.touch()
        slow.wait(30)
        # The step ended just now, which is a sign of life: who waited for it is refused.
        assert taking.wait(30) == 1 and out.read_text() == "slow\n"
    finally:
        go.touch()
        slow.wait(30)


def test_unlock_says_whose_it_was(host: Host) -> None:
    assert host.sh(onhost.UNLOCK).stdout == "no lock\n"
    host.take()
    said = host.sh(onhost.UNLOCK).stdout
    assert "alice@ops1" in said and said.endswith("unlocked\n") and not host.lock.exists()


def test_names_with_quotes_reach_the_journal_unharmed(host: Host, tmp_path: Path) -> None:
    run = Run("run1", "o'brien\"$(touch x)@ops", 1, "")
    host.take(run)
    script = onhost.step(run, "layer", "it's `done`", ":", Watch())
    host.sh(script, cwd=tmp_path)
    assert host.lines[-1]["operator"] == run.operator and host.lines[-1]["step"] == "it's `done`"
    assert not (tmp_path / "x").exists()


def _until(true: Any) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
