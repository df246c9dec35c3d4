"""The lock, the journal and the earlier stamps, as the probe prints them."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tool_evidence import evidence, reason, section

from rackproof.deploy import onhost
from rackproof.deploy.onhost import Run, Watch
from rackproof.evidence.sections import Status
from rackproof.evidence.tools import control
from rackproof.facts import Missing
from rackproof.facts_control import ControlFacts

RECORD = '{"run": "r1", "operator": "alice@ops1", "pid": 11, "process": "a b 11 5", "since": "2026-01-01T00:00:00Z"}'
CHANGE = (
    '{"time": "2026-01-01T00:00:01Z", "run": "r1", "operator": "alice@ops1", "layer": "host", "step": "Install x", '
    '"event": "end", "rc": 0, "before": {"x": "absent"}, "after": {"x": "1-1 installed"}}'
)
NOTHING = "- /var/lib/rackproof/lock\n- /var/lib/rackproof/journal.jsonl\n- /var/lib/rackproof/selfbuild.record\n- /etc/rackproof/history\n.\n"


def read(text: str) -> ControlFacts:
    found = control.control(evidence(control=text))
    assert isinstance(found, ControlFacts), found
    return found


def test_a_node_that_no_deploy_has_touched() -> None:
    assert read(NOTHING) == ControlFacts(None, (), "", ())


def test_a_lock_with_its_holder_and_its_age() -> None:
    text = f"= /var/lib/rackproof/lock\n|{RECORD}\n= idle\n|12\n= working\n|yes\n" + NOTHING.split("\n", 1)[1]
    lock = read(text).lock
    assert lock is not None and not isinstance(lock, Missing)
    assert (lock.run, lock.operator, lock.pid, lock.idle_s, lock.working) == ("r1", "alice@ops1", 11, 12, True)
    assert lock.sha256 == hashlib.sha256(f"{RECORD}\n".encode()).hexdigest(), "the file ends with a line break"


def test_a_lock_that_cannot_be_understood_is_still_a_lock() -> None:
    for content in ("", "|garbage\n", "|[1]\n", '|{"run": 5, "pid": "x"}\n'):
        lock = read(f"= /var/lib/rackproof/lock\n{content}" + NOTHING.split("\n", 1)[1]).lock
        assert lock is not None and not isinstance(lock, Missing)
        assert (
            (lock.run, lock.pid) == ("", 0) and isinstance(lock.idle_s, Missing) and isinstance(lock.working, Missing)
        )


def test_the_journals_end_with_what_differs() -> None:
    text = (
        "- /var/lib/rackproof/lock\n= generation\n|123 45\n= journal\n|half a li\n|[]\n|"
        f"{CHANGE}\n|{CHANGE[:40]}\n- /etc/rackproof/history\n.\n"
    )
    found = read(text)
    assert found.generation == "123 45" and not isinstance(found.journal, Missing)
    (change,) = found.journal
    assert (change.step, change.event, change.rc) == ("Install x", "end", 0)
    assert (change.before, change.after) == ({"x": "absent"}, {"x": "1-1 installed"})


def test_earlier_stamps_newest_first_and_damaged_ones_left_out() -> None:
    text = NOTHING.replace("- /etc/rackproof/history\n", "+ /etc/rackproof/history\n")[:-2]
    text += '= stamp 1\n|{"baseline": "b"}\n= stamp 2\n|{"base\n= stamp 3\n|{"baseline": "a"}\n.\n'
    assert read(text).history == ({"baseline": "b"}, {"baseline": "a"})


def test_what_could_not_be_read_is_missing() -> None:
    found = read(NOTHING.replace("- ", "! "))
    assert isinstance(found.lock, Missing) and isinstance(found.journal, Missing)
    assert isinstance(found.generation, Missing) and isinstance(found.history, Missing)
    assert "cut off" in reason(control.control(evidence(control="= idle\n|1\n")))
    assert reason(control.control(evidence(control=section("control", status=Status.ABSENT))))


def test_the_probe_reads_what_the_deploy_writes(tmp_path: Path) -> None:
    """Both sides for real, in a folder of the test."""

    def sh(script: str) -> str:
        text = script.replace("/var/lib/rackproof", f"{tmp_path}/var").replace("/etc/rackproof", f"{tmp_path}/etc")
        return subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True, timeout=60).stdout

    run = Run("r9", "carol@ops9", 9, "a b 9 9")
    sh(onhost.take(run, "", ""))
    sh(onhost.step(run, "host", "Say", "echo hello", Watch(files=("/etc/hostname",))))
    history = tmp_path / "etc" / "history"
    history.mkdir(parents=True)
    for number in range(6):
        (history / f"2026010{number}T000000Z-x.json").write_text(f'{{\n "baseline": "b{number}"\n}}\n')
    printed = sh(control.COMMANDS[0].script).replace(f"{tmp_path}/var", "/var/lib/rackproof")
    found = read(printed.replace(f"{tmp_path}/etc", "/etc/rackproof"))
    assert found.lock is not None and not isinstance(found.lock, Missing) and not isinstance(found.journal, Missing)
    assert found.lock.operator == "carol@ops9" and found.lock.working is False
    assert found.lock.sha256 == hashlib.sha256((tmp_path / "var" / "lock").read_bytes()).hexdigest()
    assert [change.event for change in found.journal] == ["locked", "begin", "end"]
    assert isinstance(found.history, tuple) and [stamp["baseline"] for stamp in found.history] == [
        "b5",
        "b4",
        "b3",
        "b2",
    ]
    # The generation that was read is the one that a later run compares with.
    sh(onhost.give_back(run, "x"))
    refused = onhost.take(run, str(found.generation), "").replace("/var/lib/rackproof", f"{tmp_path}/var")
    assert subprocess.run(["sh", "-c", refused], capture_output=True, check=False, timeout=60).returncode == 1
    again = sh(control.COMMANDS[0].script).replace(f"{tmp_path}/var", "/var/lib/rackproof")
    sh(onhost.take(run, str(read(again.replace(f"{tmp_path}/etc", "/etc/rackproof")).generation), ""))
