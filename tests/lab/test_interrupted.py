"""A deploy cut off half way and run again ends in accept: connection cut, dpkg killed, the package lock held.

Each starts with one tray as leased among deployed ones, interferes when that tray has reached a known step, and then
simply runs the deploy again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import BIN, LONG_S, ROOT, Rack, all_accepted, statuses

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY = "tray02"
SLOW = "mkdir -p /etc/rackproof-lab.d && echo 3600 > /etc/rackproof-lab.d/slow-postinst"


@pytest.fixture
def half_leased(deployed: Rack) -> Iterator[Rack]:
    """One tray as leased; afterwards the rack is given back as it was deployed."""
    deployed.lab("reset", TRAY)
    yield deployed
    deployed.lab("restore")


def test_connection_cut_while_packages_are_installed(half_leased: Rack) -> None:
    with _deploying(half_leased, "Pin and install driver") as deploy:
        half_leased.lab("break", TRAY, "unreachable")
        code, log = _end(deploy)
    assert code == 1, log[-3000:]
    half_leased.lab("heal", TRAY)
    _deploy_again(half_leased)


def test_dpkg_killed_in_the_middle_of_a_package(half_leased: Rack) -> None:
    half_leased.ssh(TRAY, SLOW)
    with _deploying(half_leased, "Pin and install driver") as deploy:
        _wait_for(half_leased, "pgrep -f slow-postinst || pgrep -x sleep", "a slow postinst")
        half_leased.ssh(TRAY, "rm /etc/rackproof-lab.d/slow-postinst; pkill -9 -x dpkg; pkill -9 -x sleep; true")
        code, log = _end(deploy)
    # The step itself repairs what it can; whichever way it ended, the next run must end well.
    assert code in (0, 1), log[-3000:]
    _deploy_again(half_leased)


@pytest.mark.parametrize("lock", ["/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"])
def test_package_lock_held_by_another_process(half_leased: Rack, lock: str) -> None:
    holder = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(3600)"
    half_leased.ssh(TRAY, f"systemd-run -q --unit=holder python3 -c \"{holder}\" {lock}")
    with _deploying(half_leased, "Pin and install driver") as deploy:
        time.sleep(8)  # long enough for an apt-get without patience to have failed; nothing is measured
        assert deploy.poll() is None, "the deploy did not wait for the lock"
        half_leased.ssh(TRAY, "systemctl stop holder")
        code, log = _end(deploy)
    assert code == 0, log[-3000:]
    _deploy_again(half_leased)


def test_deploy_process_killed(half_leased: Rack) -> None:
    with _deploying(half_leased, "Module options") as deploy:
        deploy.kill()
        _end(deploy)
    _deploy_again(half_leased)


@contextmanager
def _deploying(rack: Rack, step: str) -> Iterator[subprocess.Popen[str]]:
    """A deploy that is running and has begun a step; killed if the test ends before it does."""
    process = subprocess.Popen(
        [str(BIN / "pyinfra"), "-y", "inventories/lab.py", "deploys/k3.py"], cwd=ROOT, env=rack.env, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if f"Starting operation: {step}" in line:
                break
        else:
            pytest.fail(f"the deploy never reached {step!r}")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    assert process.stderr is not None
    log = process.stderr.read()
    return process.wait(timeout=LONG_S), log


def _wait_for(rack: Rack, command: str, what: str) -> None:
    deadline = time.monotonic() + 120
    while rack.run("rackproof-lab", "ssh", TRAY, command).returncode != 0:
        assert time.monotonic() < deadline, f"no {what} within 120 s"
        time.sleep(0.2)


def _deploy_again(rack: Rack) -> None:
    code, results, log = rack.deploy()
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    document = rack.verify()
    assert all_accepted(document), statuses(document, TRAY)
