"""Who may change a node, in which order, and how to get back: locks, consent, units one after another, rollback, journal.

Each test ends by giving the rack back as it was deployed.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import BIN, LONG_S, NODES, ROOT, Rack, all_accepted

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY = "tray02"
UPGRADES = "/etc/apt/apt.conf.d/52rackproof-unattended-upgrades"
LOCK = "/var/lib/rackproof/lock"


@pytest.fixture
def rack(deployed: Rack) -> Iterator[Rack]:
    """The rack as deployed, for a test that changes one tray."""
    yield deployed
    deployed.lab("restore", TRAY)


@pytest.fixture
def whole_rack(deployed: Rack) -> Iterator[Rack]:
    """The rack as deployed, for a test that changes every tray."""
    yield deployed
    deployed.lab("restore")


def exists(rack: Rack, node: str, path: str) -> bool:
    return rack.run("rackproof-lab", "ssh", node, f"test -e {path}").returncode == 0


def spoil(rack: Rack, *nodes: str) -> None:
    """Take a managed file away: one step that disturbs nobody."""
    for node in nodes:
        rack.ssh(node, f"rm -f {UPGRADES}")


def journal(rack: Rack, node: str) -> list[dict[str, Any]]:
    done = rack.run("rackproof", "journal", "inventories/lab.py", "--limit", node, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def site(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """A copy of this site with some texts replaced: (file, old, new). Returns its inventory."""
    for name in ("inventories", "group_vars", "deploys"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in changes:
        path = folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    return folder / "inventories" / "lab.py"


# --- looking ---


def test_a_run_without_changes_sends_each_node_one_command(whole_rack: Rack) -> None:
    """Counted twice: by what pyinfra says it sends, and by the node's own sshd, which nothing gets past."""
    for node in NODES:
        whole_rack.ssh(node, "echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/count.conf; systemctl reload ssh")
    before = {node: _sessions(whole_rack, node) for node in NODES}
    done = whole_rack.run("pyinfra", "-y", "-vv", "inventories/lab.py", "deploys/k3.py")
    assert done.returncode == 0, done.stderr[-3000:]
    for node in NODES:
        sent = re.findall(rf"\[{node}\] >>> ", re.sub(r"\x1b\[[0-9;]*m", "", done.stderr))
        assert len(sent) == 1, f"{node}: {len(sent)} commands"
        asked = _sessions(whole_rack, node) - before[node] - 1  # the count is a session as well
        assert asked == 1, f"{node}: sshd was asked for {asked} commands"
        assert f"[{node}] verdict: accept" in re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
        assert not exists(whole_rack, node, LOCK)


def test_a_plan_says_what_would_change_and_changes_nothing(rack: Rack) -> None:
    assert rack.run("rackproof", "plan", "inventories/lab.py").returncode == 0
    spoil(rack, TRAY)
    rack.ssh(TRAY, "rm /etc/modprobe.d/rackproof-nvidia.conf; apt-get -q -y remove nvidia-imex")
    before = journal(rack, TRAY)
    done = rack.run("rackproof", "plan", "inventories/lab.py", "--json", "-")
    assert done.returncode == 1, done.stderr
    found = {node["node"]: node for node in json.loads(done.stdout)["nodes"]}
    assert [node for node in NODES if found[node]["steps"]] == [TRAY]
    steps = found[TRAY]["steps"]
    assert [step["name"] for step in steps if step["disrupts"]] == [
        "Install nvidia-imex 580.126.20",
        "Start nvidia-imex",
    ]
    assert "Keep automatic upgrades off the GPU stack" in [step["name"] for step in steps]
    assert "tray[01,03-04] (3 nodes)\n  in place" in done.stderr
    assert "Start nvidia-imex [needs idle GPUs]" in done.stderr
    assert journal(rack, TRAY) == before and not exists(rack, TRAY, UPGRADES)
    assert rack.run("rackproof", "deploy", "--yes", "inventories/lab.py").returncode == 0
    after = journal(rack, TRAY)  # its last lines only
    done_steps = [line["step"] for line in after if line["event"] == "end" and line["run"] == after[-1]["run"]]
    assert done_steps == [step["name"] for step in steps], "the plan named what the deploy then did"


# --- consent ---


def test_a_node_whose_gpus_are_in_use_is_refused_with_who_uses_them(rack: Rack) -> None:
    hold = "import time; f = open('/dev/nvidia9'); time.sleep(3600)"
    rack.ssh(TRAY, "apt-get -q -y remove nvidia-imex && touch /dev/nvidia9 && "
                   f"systemd-run -q --unit=job --uid=nobody python3 -c \"{hold}\"")  # fmt: skip
    code, _, log = rack.deploy("--limit", TRAY)
    assert code == 1 and re.search(r"its GPUs are in use by python3 \(\d+, user nobody\); end them", log), log[-3000:]
    assert not exists(rack, TRAY, LOCK)
    rack.ssh(TRAY, "systemctl stop job")
    code, _, log = rack.deploy("--limit", TRAY)
    assert code == 0, log[-3000:]


def test_a_job_that_came_after_the_reading_stops_the_step_that_would_break_it(rack: Rack) -> None:
    rack.ssh(TRAY, "apt-get -q -y remove nvidia-imex; touch /dev/nvidia9")
    spoil(rack, TRAY)
    hold = "import time; f = open('/dev/nvidia9'); time.sleep(3600)"
    with _held(rack, "/var/lib/dpkg/lock-frontend"), _deploying(rack, "Install nvidia-imex") as deploy:
        # That step is already past its look; the next one that disturbs somebody is the start of the daemon.
        rack.ssh(TRAY, f'systemd-run -q --unit=job python3 -c "{hold}"; systemctl stop holder')
        code, log = _end(deploy)
    assert code == 1 and "its GPUs came into use after it was read, by python3" in log, log[-3000:]
    assert "Starting operation: Start nvidia-imex" in log and "Verify by" not in log
    rack.ssh(TRAY, "systemctl stop job")
    assert rack.deploy("--limit", TRAY)[0] == 0


# --- the lock ---


def test_two_deploys_do_not_interleave(rack: Rack) -> None:
    rack.ssh(TRAY, "apt-get -q -y remove nvidia-imex")
    with _held(rack, "/var/lib/dpkg/lock-frontend"), _deploying(rack, "Install nvidia-imex") as first:
        code, _, log = rack.deploy("--limit", TRAY)
        assert code == 1 and re.search(r"Stop: locked by \S+@\S+ \(process \d+, run [0-9a-f]{12}\) since 20", log), log
        assert "rackproof unlock" in log and "Install nvidia-imex" not in log
        plan = rack.run("rackproof", "deploy", "--yes", "inventories/lab.py")
        assert plan.returncode == 1 and "Nothing was changed" in plan.stderr and "stops: locked by" in plan.stdout
        unlock = rack.run("rackproof", "unlock", "inventories/lab.py", "--limit", TRAY)
        assert unlock.returncode == 3 and "a step is still working on this node" in unlock.stdout
        rack.ssh(TRAY, "systemctl stop holder")
        code, log = _end(first)
    assert code == 0, log[-3000:]
    assert not exists(rack, TRAY, LOCK) and journal(rack, TRAY)[-1]["note"] == "accepted"


def test_two_deploys_begun_together_end_with_one_that_changed_and_one_that_was_refused(rack: Rack) -> None:
    spoil(rack, TRAY)
    both = [_start(rack) for _ in range(2)]
    ends = [_end(process) for process in both]
    for process in both:
        process.stderr.close()  # type: ignore[union-attr]
    # Either the second saw the lock, or it saw that the node had changed since it was read, or it came when all was done.
    assert sorted(code for code, _ in ends) in ([0, 0], [0, 1]), [log[-1500:] for _, log in ends]
    changed = [line for line in journal(rack, TRAY) if line["event"] == "end" and line["layer"] == "host"][-2:]
    assert len({line["run"] for line in changed if line["step"].startswith("Keep automatic")}) <= 2
    for code, log in ends:
        assert code == 0 or "locked by" in log or "somebody changed this node after it was read" in log, log[-3000:]
    assert exists(rack, TRAY, UPGRADES) and not exists(rack, TRAY, LOCK)


def test_a_deploy_that_is_ended_gives_its_locks_back(rack: Rack) -> None:
    rack.ssh(TRAY, "apt-get -q -y remove nvidia-imex")
    with _held(rack, "/var/lib/dpkg/lock-frontend"):
        with _deploying(rack, "Install nvidia-imex") as deploy:
            deploy.send_signal(signal.SIGTERM)
            rack.ssh(TRAY, "systemctl stop holder")  # the step that still runs there is waited for
            _end(deploy)
        assert not exists(rack, TRAY, LOCK)
        assert journal(rack, TRAY)[-1]["note"] == "the run ended before this node was done"
    assert rack.deploy("--limit", TRAY)[0] == 0


def test_a_lock_of_a_run_that_was_killed_is_taken_over_from_the_same_machine_only(rack: Rack) -> None:
    spoil(rack, TRAY)
    dead = subprocess.Popen(["sleep", "60"])
    identity = rack.run(
        "python", "-c", f"from rackproof.deploy.holder import process_identity as p; print(p({dead.pid}))"
    ).stdout.strip()
    record = json.dumps({"run": "dead", "operator": "eve@elsewhere", "pid": 1, "process": "another-boot pid:[1] 1 1"})
    rack.ssh(TRAY, f"mkdir -p /var/lib/rackproof; echo '{record}' >{LOCK}")
    code, _, log = rack.deploy("--limit", TRAY)
    assert code == 1 and "locked by eve@elsewhere" in log
    dead.kill()
    dead.wait()
    mine = json.dumps({"run": "dead", "operator": "me@here", "pid": dead.pid, "process": identity})
    rack.ssh(TRAY, f"echo '{mine}' >{LOCK}")
    code, _, log = rack.deploy("--limit", TRAY)
    assert code == 0, log[-3000:]


def test_unlock_removes_a_lock_and_says_whose_it_was(rack: Rack) -> None:
    record = json.dumps({"run": "dead", "operator": "eve@elsewhere", "pid": 1, "process": "another-boot pid:[1] 1 1"})
    rack.ssh(TRAY, f"echo '{record}' >{LOCK}")
    done = rack.run("rackproof", "unlock", "inventories/lab.py")
    assert done.returncode == 0 and "eve@elsewhere" in done.stdout and done.stdout.count("no lock") == len(NODES) - 1
    assert not exists(rack, TRAY, LOCK)


# --- units one after another ---


def test_units_follow_one_another_and_each_is_journalled(whole_rack: Rack) -> None:
    spoil(whole_rack, *NODES)
    done = whole_rack.run("rackproof", "deploy", "--yes", "inventories/lab.py")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "[1/2] lab-u01 (tray[01-02])" in done.stderr and "[2/2] lab-u02 (tray[03-04])" in done.stderr
    assert done.stdout.index("accepted: tray[01-02]") < done.stdout.index("accepted: tray[03-04]")
    end = next(
        line for line in reversed(journal(whole_rack, "tray03")) if line["layer"] == "host" and line["event"] == "end"
    )
    assert end["before"] == {UPGRADES: "absent"} and len(end["after"][UPGRADES]) == 64


def test_a_unit_that_is_not_accepted_ends_the_run_and_the_others_are_untouched(whole_rack: Rack) -> None:
    spoil(whole_rack, *NODES)
    whole_rack.lab("break", "tray01", "ecc-pending")
    try:
        done = whole_rack.run("rackproof", "deploy", "--yes", "inventories/lab.py")
        assert done.returncode == 1
        assert re.search(r"^tray01: not accepted \(\w+\): .*gpus\.ecc", done.stdout, re.MULTILINE), done.stdout
        assert "Stopped at lab-u01 (tray[01-02]). Not touched: lab-u02 (tray[03-04])." in done.stderr
        assert exists(whole_rack, "tray01", UPGRADES) and not exists(whole_rack, "tray03", UPGRADES)
        assert not any(exists(whole_rack, node, LOCK) for node in NODES)
        # pyinfra alone fails the same host by the same words
        code, _, log = whole_rack.deploy("--limit", "tray01")
        assert code == 1 and "rackproof: tray01: not accepted" in log and "gpus.ecc" in log
    finally:
        whole_rack.lab("heal", "tray01")


def test_without_somebody_to_agree_nothing_is_changed(rack: Rack) -> None:
    spoil(rack, TRAY)
    done = rack.run("rackproof", "deploy", "inventories/lab.py", stdin=subprocess.DEVNULL)
    assert done.returncode == 3 and "--yes" in done.stderr and not exists(rack, TRAY, UPGRADES)


# --- back ---


def test_rollback_returns_to_the_baseline_before_and_refuses_where_it_is_gone(whole_rack: Rack, tmp_path: Path) -> None:
    newer = site(tmp_path, ("group_vars/all.yaml", "580.126.20", "580.178.04"))
    done = whole_rack.run("rackproof", "plan", "--rollback", str(newer))
    assert done.returncode == 2 and "there is no earlier baseline to go back to" in done.stdout
    done = whole_rack.run("rackproof", "deploy", "--yes", str(newer))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "together: driver or IMEX change in their NVLink domain" in done.stdout

    repository = "developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64"
    index = _lab_dir(whole_rack) / "www" / repository / "Packages"
    with _without(index, "580.126.20", whole_rack):
        done = whole_rack.run("rackproof", "deploy", "--yes", "--rollback", str(newer))
        assert done.returncode == 1
        assert re.search(r"no longer offers .*\bnvidia-open-580\b[^,]* 580\.126\.20", done.stdout), done.stdout
        assert "nothing was changed" in done.stdout
        assert "580.178.04" in whole_rack.ssh(TRAY, "cat /proc/driver/nvidia/version")

    done = whole_rack.run("rackproof", "deploy", "--yes", "--rollback", str(newer))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "note: group_vars still ask for driver 580.178.04" in done.stdout
    assert "580.126.20" in whole_rack.ssh(TRAY, "cat /proc/driver/nvidia/version")
    assert all_accepted(whole_rack.verify()), "the baseline of before, by the site of before"


# --- reboot ---


def test_a_reboot_through_a_bastion(rack: Rack, tmp_path: Path) -> None:
    described = json.loads((_lab_dir(rack) / "lab.json").read_text())
    address = {node["name"]: node["address"] for node in described["nodes"]}
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host {address[TRAY]}\n  ProxyJump root@{address['tray01']}\nHost *\n  IdentityFile {described['ssh']['key']}\n"
        f"  UserKnownHostsFile {described['ssh']['known_hosts']}\n  User root\n"
    )
    known = '"known_hosts_file": _lab["ssh"]["known_hosts"],'
    inventory = site(tmp_path, ("inventories/lab.py", known, f'{known} "config_file": "{config}",'))
    rack.ssh(TRAY, "sed -i s/CreateImexChannel0=1/CreateImexChannel0=0/ /etc/modprobe.d/rackproof-nvidia.conf; "
                   "update-initramfs -u -k all")  # fmt: skip
    rack.lab("exec", "ssh", "-F", described["ssh"]["config"], TRAY, "(sleep 1; systemctl reboot) >/dev/null 2>&1 &")
    _wait_for(rack, "grep -q 'CreateImexChannel0: 0' /proc/driver/nvidia/params")
    # From now on only the bastion may come in.
    rack.ssh(
        TRAY, f"echo 'AllowUsers root@{address['tray01']}' >/etc/ssh/sshd_config.d/only.conf && systemctl reload ssh"
    )
    _wait_for(rack, "true", fails=True)
    done = rack.run("pyinfra", "-y", "--limit", TRAY, str(inventory), "deploys/k3.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Starting operation: Reboot" in done.stderr
    assert f"[{TRAY}] verdict: accept" in re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)


# --- helpers ---


def _sessions(rack: Rack, node: str) -> int:
    """Commands and file transfers that sshd has begun since the node was booted, this one included."""
    return int(rack.ssh(node, "journalctl --sync; journalctl -b -o cat -t sshd-session | grep -c '^Starting session: '"))


def _start(rack: Rack) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / "pyinfra"), "-y", "--limit", TRAY, "inventories/lab.py", "deploys/k3.py"], cwd=ROOT, env=rack.env,
        text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextmanager
def _deploying(rack: Rack, step: str) -> Iterator[subprocess.Popen[str]]:
    """A deploy of one tray that has begun a step; killed if the test ends before it does."""
    process = _start(rack)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if f"Starting operation: {step}" in line:
                break
        else:
            pytest.fail(f"the deploy never reached {step!r}")
        _wait_for(rack, "! flock -n -s /var/lib/rackproof/busy true")
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


@contextmanager
def _held(rack: Rack, lock: str) -> Iterator[None]:
    """A lock of the package manager in another process's hands: a step that installs packages waits for it."""
    holder = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(3600)"
    rack.ssh(TRAY, f'systemd-run -q --unit=holder python3 -c "{holder}" {lock}')
    try:
        yield
    finally:
        rack.run("rackproof-lab", "ssh", TRAY, "systemctl stop holder")


def _wait_for(rack: Rack, command: str, fails: bool = False) -> None:
    deadline = time.monotonic() + 120
    while (rack.run("rackproof-lab", "ssh", TRAY, command).returncode != 0) is not fails:
        assert time.monotonic() < deadline, f"{command!r} did not come true within 120 s"
        time.sleep(0.2)


def _lab_dir(rack: Rack) -> Path:
    from rackproof_lab.names import Lab

    return Lab(rack.env["RACKPROOF_LAB_ID"]).dir


@contextmanager
def _without(index: Path, version: str, rack: Rack) -> Iterator[None]:
    """The repository without the packages of one version, signed by its own key."""
    from rackproof_lab.repo import Signer

    folder, kept = index.parent, {name: (index.parent / name).read_text() for name in ("Packages", "Release")}
    signer = Signer(_lab_dir(rack) / "gnupg")
    try:
        stanzas = [text for text in kept["Packages"].split("\n\n") if f"\nVersion: {version}-" not in text]
        index.write_text("\n\n".join(stanzas))
        _release(folder)
        signer.sign(folder / "Release")
        yield
    finally:
        for name, text in kept.items():
            (folder / name).write_text(text)
        signer.sign(folder / "Release")
        signer.close()


def _release(folder: Path) -> None:
    for stale in ("Release", "InRelease", "Release.gpg"):
        (folder / stale).unlink(missing_ok=True)
    done = subprocess.run(["apt-ftparchive", "release", "."], cwd=folder, capture_output=True, text=True, check=True)
    (folder / "Release").write_text(done.stdout)
