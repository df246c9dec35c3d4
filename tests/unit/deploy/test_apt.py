"""The shell functions around apt-get, against a scripted apt-get: waiting, repairing, failing with the reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rackproof.deploy.packages import APT, LOCK_S

FRONTEND = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (unattended-upgr)"
LISTS = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)\nE: Unable to lock directory /var/lib/apt/lists/"
INTERRUPTED = "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem."


class Machine:
    """A PATH with an apt-get and a dpkg that answer from a list, and a sleep that only notes it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answers(self, program: str, *answers: tuple[int, str]) -> None:
        for number, (code, text) in enumerate(answers, 1):
            (self.folder / f"{program}.{number}").write_text(f"{code}\n{text}\n")
        script = (
            f'#!/bin/sh\ncd {self.folder}\necho "$*" >>{program}.calls\nn=$(wc -l <{program}.calls)\n'
            f'[ -f {program}.$n ] || n={len(answers)}\ntail -n +2 {program}.$n\nexit $(head -n 1 {program}.$n)\n'
        )  # fmt: skip
        self._program(program, script)

    def _program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(script)
        path.chmod(0o755)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        self._program("sleep", f"#!/bin/sh\necho x >>{self.folder}/sleep.calls\n")
        return subprocess.run(
            ["sh", "-c", f"set -eu\n{APT}{script}"], env={"PATH": f"{self.folder}:/usr/bin:/bin"}, text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip

    def calls(self, program: str) -> list[str]:
        path = self.folder / f"{program}.calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_success_goes_on_to_the_next_line(machine: Machine) -> None:
    machine.answers("apt-get", (0, "done"))
    done = machine.run("apt update\napt install nvidia-open-580\necho end")
    assert done.returncode == 0 and done.stdout.endswith("end\n")
    assert [call.split()[-1] for call in machine.calls("apt-get")] == ["update", "nvidia-open-580"]


@pytest.mark.parametrize("complaint", [FRONTEND, LISTS, LISTS.replace("lists", "archives")])
def test_a_held_lock_is_waited_for(machine: Machine, complaint: str) -> None:
    machine.answers("apt-get", (100, complaint), (100, complaint), (0, "done"))
    done = machine.run("apt update\necho end")
    assert done.returncode == 0 and done.stdout.endswith("end\n")
    assert len(machine.calls("apt-get")) == 3 and len(machine.calls("sleep")) == 2


def test_a_lock_that_is_never_given_back_is_an_error_that_names_its_holder(machine: Machine) -> None:
    machine.answers("apt-get", (100, LISTS))
    done = machine.run("apt update\necho end")
    assert done.returncode != 0 and "end" not in done.stdout
    assert f"held the package lock for {LOCK_S} s" in done.stderr and "held by process 1 (apt-get)" in done.stderr


def test_an_interrupted_dpkg_is_repaired_and_the_command_tried_again(machine: Machine) -> None:
    machine.answers("apt-get", (100, INTERRUPTED), (0, "done"))
    machine.answers("dpkg", (0, ""))
    done = machine.run("apt install x\necho end")
    assert done.returncode == 0 and done.stdout.endswith("end\n")
    assert machine.calls("dpkg") == ["--configure -a --force-confdef --force-confold"]


def test_what_cannot_be_repaired_fails_with_dpkgs_words(machine: Machine) -> None:
    machine.answers("apt-get", (100, INTERRUPTED))
    machine.answers("dpkg", (1, "dpkg: error processing package nvidia-dkms-580-open (--configure)"))
    done = machine.run("apt install x\necho end")
    assert done.returncode != 0 and "nvidia-dkms-580-open" in done.stderr and "end" not in done.stdout


def test_any_other_failure_stops_at_once_with_its_reason(machine: Machine) -> None:
    machine.answers("apt-get", (100, "E: Version '580.126.20-*' for 'nvidia-imex' was not found"))
    done = machine.run("apt install x\necho end")
    assert done.returncode != 0 and "was not found" in done.stderr and len(machine.calls("apt-get")) == 1
