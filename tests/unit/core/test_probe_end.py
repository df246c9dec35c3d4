"""However a probe ends, it ends in bounded time and leaves neither files nor processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from births import UNTRACEABLE
from core_builders import NONCE, Probe, wait_until

from rackproof.evidence.sections import Command, Status
from rackproof.evidence.stream import parse_stream

BIRTHS = Path(__file__).with_name("births.py")


def test_late_commands_are_cut_off_and_the_others_arrive(shell: Sequence[str], tmp_path: Path) -> None:
    commands = [
        Command("hangs", "echo before; echo warned >&2; sleep 300; echo after", deadline_s=1),
        Command("deaf", "trap '' TERM; echo before; sleep 300", deadline_s=1),
        Command("fast", "echo fast", deadline_s=60),
    ]
    probe = Probe(shell, tmp_path, commands)
    found = parse_stream(probe.run(), nonce=NONCE)
    probe.assert_nothing_left()
    assert found.problem is None
    for name in ("hangs", "deaf"):
        assert found.sections[name].status is Status.DEADLINE
        assert found.sections[name].stdout == b"before\n"
        assert found.sections[name].rc is None
        assert found.sections[name].deadline_s == 1
    assert found.sections["hangs"].stderr == b"warned\n"
    assert found.sections["fast"].stdout == b"fast\n"


def test_a_command_that_cannot_be_killed_does_not_hold_the_probe(shell: Sequence[str], tmp_path: Path) -> None:
    """A process in uninterruptible sleep keeps timeout(1) waiting. Its stand-in here is a timeout that never ends."""
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    (stand_in / "timeout").write_text("#!/bin/sh\ntrap '' TERM HUP INT\necho stuck\nsleep 100\nsleep 100\n")
    (stand_in / "timeout").chmod(0o755)
    probe = Probe(shell, tmp_path, [Command("stuck", "true", deadline_s=1)])
    probe.environment["PATH"] = f"{stand_in}:{probe.environment['PATH']}"
    try:
        found = parse_stream(probe.run(), nonce=NONCE)  # reads to the end of the pipe, as a transport does
        still_there = probe.processes()
    finally:
        for process in probe.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert still_there  # the stand-in did not end by itself, so the probe did not wait for it
    assert (found.problem, found.sections["stuck"].status) == (None, Status.DEADLINE)
    assert found.sections["stuck"].stdout == b"stuck\n"
    probe.assert_nothing_left()


def test_a_late_command_that_still_writes_does_not_spoil_the_stream(shell: Sequence[str], tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    go_on.touch()
    writer = f"while [ -e {go_on} ]; do echo 0123456789; done"
    probe = Probe(shell, tmp_path, [Command("writes", f"setsid sh -c '{writer}' & sleep 300", deadline_s=1)])
    try:
        found = parse_stream(probe.run(), nonce=NONCE)
    finally:
        go_on.unlink()
    assert found.problem is None
    assert found.sections["writes"].status is Status.DEADLINE
    assert found.sections["writes"].stdout.startswith(b"0123456789\n0123456789\n")
    probe.assert_nothing_left()


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["HUP", "INT", "TERM"]
)
def test_a_signal_ends_everything(shell: Sequence[str], tmp_path: Path, signum: signal.Signals, code: int) -> None:
    commands = [
        Command("one", "echo ready; sleep 300", deadline_s=300),
        Command("deaf", "trap '' TERM INT HUP; echo ready; sleep 300", deadline_s=300),
        Command("ended", "true", deadline_s=300),
    ]
    probe = Probe(shell, tmp_path, commands)
    process = start(probe)
    try:
        wait_until(lambda: all(running(probe, name) for name in ("one", "deaf")), "the commands did not start")
        process.send_signal(signum)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert errors == b""
    evidence = parse_stream(output, nonce=NONCE)
    assert evidence.problem == "the probe output is cut off after 0 sections"
    probe.assert_nothing_left()


@pytest.mark.parametrize("held", ["child", "parent"])
def test_a_signal_that_comes_while_processes_are_being_born_ends_them_too(
    shell: Sequence[str], tmp_path: Path, held: str
) -> None:
    """A forked shell loses a signal that it gets before it has put its parent's traps away, and timeout(1) forgets a child
    where it gets one before it knows its number."""
    deaf = "trap '' TERM INT HUP; sleep 300; true"
    commands = [Command("one", "sleep 300; true", deadline_s=300), Command("deaf", deaf, deadline_s=300)]
    probe = Probe(shell, tmp_path, commands)
    count = len(commands) + (held == "child")  # the clock of the probe is a child as well
    done = subprocess.run(
        [sys.executable, str(BIRTHS), held, str(count), *probe.argv], env=probe.environment, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == UNTRACEABLE:
        pytest.skip("this machine lets nobody trace a process")
    assert (done.returncode, done.stderr) == (143, b"")
    probe.assert_nothing_left()


def test_a_second_signal_does_not_end_the_cleaning(shell: Sequence[str], tmp_path: Path) -> None:
    """A session that closes sends more than one. The second comes here while the directory is being removed."""
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    (stand_in / "rm").write_text(f'#!/bin/sh\nkill -HUP $PPID\nexec {shutil.which("rm")} "$@"\n')
    (stand_in / "rm").chmod(0o755)
    probe = Probe(shell, tmp_path, [Command("one", "echo ready; sleep 300", deadline_s=300)])
    probe.environment["PATH"] = f"{stand_in}:{probe.environment['PATH']}"
    process = start(probe)
    try:
        wait_until(lambda: running(probe, "one"), "the command did not start")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
    probe.assert_nothing_left()


def test_a_reader_that_goes_away_ends_everything(shell: Sequence[str], tmp_path: Path) -> None:
    """The connection breaks: writing fails, and the temporary directory goes all the same."""
    commands = [
        Command("wait", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; yes | head -c 300000", deadline_s=300),
        Command("late", "sleep 1", deadline_s=300),
    ]
    probe = Probe(shell, tmp_path, commands)
    process = start(probe)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    (tmp_path / "go").touch()
    process.wait(timeout=60)
    if process.stderr is not None:
        process.stderr.close()
    assert process.returncode == 141
    probe.assert_nothing_left()


def test_an_inherited_variable_is_not_taken_for_a_process(shell: Sequence[str], tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        probe = Probe(shell, tmp_path, [], timer=str(bystander.pid), TMPDIR=str(tmp_path / "not-there"))
        done = subprocess.run(probe.argv, env=probe.environment, capture_output=True, timeout=60, check=False)
        assert done.returncode == 1
        assert done.stdout == b"" and b"not-there" in done.stderr
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def start(probe: Probe) -> subprocess.Popen[bytes]:
    def listen() -> None:  # a test run in the background would hand down ignored signals, which no shell can trap
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        probe.argv, env=probe.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=listen,
    )


def running(probe: Probe, name: str) -> bool:
    return any(path.read_bytes() == b"ready\n" for path in probe.temporary.glob(f"rackproof.*/{name}.out"))
