"""Whether a lock's holder is still there: only this machine's own processes can be known dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rackproof.deploy.holder import is_dead, new_run, process_identity, refusal
from rackproof.deploy.onhost import STALE_S
from rackproof.facts import Missing
from rackproof.facts_control import Lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are told apart by /proc")

OTHER = Lock("run0", "alice@ops1", 4711, "", "2026-01-02T03:04:05Z", 12, False, "f" * 64)


def _gone() -> str:
    process = subprocess.Popen(["sleep", "60"])
    identity = process_identity(process.pid)
    process.kill()
    process.wait()
    return identity


def test_a_process_that_ended_is_dead_and_a_running_one_is_not() -> None:
    assert is_dead(replace(OTHER, process=_gone()))
    assert not is_dead(replace(OTHER, process=process_identity(os.getpid())))


@pytest.mark.parametrize("part", [0, 1])
def test_a_process_of_another_machine_or_container_is_never_known_dead(part: int) -> None:
    words = _gone().split(" ")
    words[part] = "elsewhere"
    assert not is_dead(replace(OTHER, process=" ".join(words)))


def test_a_number_that_another_process_has_by_now_is_dead() -> None:
    words = process_identity(os.getpid()).split(" ")
    assert is_dead(replace(OTHER, process=" ".join([*words[:3], "1"])))


@pytest.mark.parametrize("process", ["", "x", "a b c d e", f"{'a' * 36} pid:[1] notanumber 1"])
def test_what_is_no_identity_is_never_known_dead(process: str) -> None:
    assert not is_dead(replace(OTHER, process=process))


def test_a_held_lock_is_refused_with_who_and_since_when_and_what_to_do() -> None:
    said = refusal(OTHER, new_run())
    assert said is not None
    for part in ("alice@ops1", "4711", "run0", "2026-01-02T03:04:05Z", "12 s ago", "rackproof unlock"):
        assert part in said


def test_a_hostile_holder_cannot_reach_the_terminal() -> None:
    said = refusal(replace(OTHER, operator="\x1b]0;x\x07evil\x1b[31m", run="\x1b[2J"), new_run())
    assert said is not None and "\x1b" not in said and "\x07" not in said


@pytest.mark.parametrize(
    "lock",
    [
        None,
        Missing("not read"),
        replace(OTHER, idle_s=STALE_S),
        replace(OTHER, process="dead"),
    ],
)
def test_what_is_free_is_not_refused(lock: Lock | Missing | None) -> None:
    if isinstance(lock, Lock) and lock.process == "dead":
        lock = replace(lock, process=_gone())
    assert refusal(lock, new_run()) is None


def test_a_stale_lock_with_a_step_still_working_is_refused() -> None:
    assert refusal(replace(OTHER, idle_s=STALE_S, working=True), new_run()) is not None
    assert refusal(replace(OTHER, idle_s=Missing("x")), new_run()) is not None


def test_ones_own_lock_is_not_refused() -> None:
    run = new_run()
    assert refusal(replace(OTHER, run=run.id), run) is None
