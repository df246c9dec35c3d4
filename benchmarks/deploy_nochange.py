"""A deploy that changes nothing, on 8 nodes: pyinfra with deploys/k3.py against ansible-core, both in one run.

Needs root (it starts a lab of its own, id `benchdeploy`) and a package index for ansible-core. The playbook looks after
the same things, one task a thing as its documentation shows it: each managed file, the package versions, the units, the
driver's own words, the image by its digest. It gathers no facts, keeps its connections (ControlPersist), pipelines and
has a fork for every node, which is the quickest that ansible offers without further programs.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["RACKPROOF_LAB_ID"] = "benchdeploy"

import rackproof_lab
from rackproof.inventory import run_inventory
from rackproof.managed import managed_files
from rackproof.plan import Plan

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent
NODES, ROUNDS = 8, 3


def main() -> None:
    lab("up", "--nodes", str(NODES))
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder))
    finally:
        lab("down")


def measure(folder: Path) -> None:
    """Deploy once, then both methods by turns, so that what else the machine does falls on both."""
    ansible = install(folder / "venv")
    deploy()
    write_playbook(folder, plan())
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(timed(deploy))
        theirs.append(timed(lambda: play(ansible, folder)))
    mine, peer = statistics.median(ours), statistics.median(theirs)
    print(f"a deploy that changes nothing, {NODES} nodes, median of {ROUNDS} runs, wall seconds")
    print(f"  pyinfra deploys/k3.py   {mine:6.2f}   ends with the verdict of every node")
    print(f"  ansible-core            {peer:6.2f}   {len(tasks(plan()))} tasks")
    print(f"  ratio                   {mine / peer:6.2f}   (target: below 0.33)")
    print(f"  commands to each node   {commands():6}   (bound: two for each layer)")


def lab(*words: str) -> None:
    subprocess.run([str(BIN / "rackproof-lab"), *words], check=True, stdout=subprocess.DEVNULL)


def install(folder: Path) -> Path:
    """ansible-core in an environment of its own."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "ansible-core"]
    subprocess.run(pip, check=True)
    return folder / "bin" / "ansible-playbook"


def plan() -> Plan:
    """What the lab's own inventory says. It moves this process into the lab's network."""
    return run_inventory(ROOT / "inventories" / "lab.py")


def commands() -> int:
    """The most commands that one more run sends to any node."""
    said = re.sub(r"\x1b\[[0-9;]*m", "", deploy("-vv"))
    sent = Counter(re.findall(r"\[(\S+)\] >>> ", said))
    assert len(sent) == NODES, sent
    return max(sent.values())


def deploy(*words: str) -> str:
    """As a user runs it; the first call changes everything, the others must change nothing. Returns its log."""
    command = [str(BIN / "pyinfra"), "-y", *words, "inventories/lab.py", "deploys/k3.py"]
    environment = {**os.environ, "PYINFRA_PROGRESS": "off", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr.count("verdict: accept") == NODES, done.stderr[-2000:]
    return done.stderr


def tasks(of: Plan) -> list[dict[str, Any]]:
    """The same state as the layers look after, in the same order."""
    baseline = of.nodes[0].baseline
    assert baseline is not None and baseline.packages is not None
    names = baseline.packages.names
    # Of packages with several names the lab's repository has those that come last.
    driver, toolkit = [*(names.any_of(name)[-1] for name in names.driver), *names.fabric], list(names.toolkit)
    found: list[dict[str, Any]] = [
        {"ansible.builtin.copy": {"dest": file.path, "content": file.content, "mode": "0" + file.mode}}
        for file in managed_files(baseline)
    ]
    found += [
        _installed(driver, str(baseline.driver.version)),
        _installed(toolkit, str(baseline.runtime.toolkit_version)),
    ]
    found += [
        {"ansible.builtin.systemd_service": {"name": unit, "enabled": True, "state": "started"}}
        for unit in ("nvidia-persistenced", "nvidia-imex", "docker")
    ]
    found += [
        _command("cat /proc/driver/nvidia/version", str(baseline.driver.version)),
        _command("nvidia-smi -q -x", str(baseline.driver.version)),
        _command("nvidia-imex-ctl -N -j", "UP"),
        _command("cat /var/run/cdi/nvidia.yaml", str(baseline.driver.version)),
        _command("cat /etc/docker/daemon.json", "nvidia"),
        _command(f"docker image inspect {baseline.image.reference}", baseline.image.index),
        _command("cat /etc/rackproof/baseline.json", baseline.hash),
    ]
    return found


def _installed(names: Sequence[str], version: str) -> dict[str, Any]:
    """dpkg-query rather than the apt module, which needs python3-apt on the node and is slower."""
    return _command(f"dpkg-query -W -f '${{Version}} ' {' '.join(names)}", version)


def _command(command: str, wanted: str) -> dict[str, Any]:
    return {
        "ansible.builtin.command": {"cmd": command}, "register": "said", "changed_when": False,
        "failed_when": f"said.rc != 0 or {wanted!r} not in said.stdout",
    }  # fmt: skip


def write_playbook(folder: Path, of: Plan) -> None:
    play_ = [{"hosts": "all", "gather_facts": False, "tasks": tasks(of)}]
    (folder / "play.json").write_text(json.dumps(play_))
    described = rackproof_lab.describe()
    hosts = [f"{node['name']} ansible_host={node['address']} ansible_user=root" for node in described["nodes"]]
    (folder / "hosts.ini").write_text("[all]\n" + "\n".join(hosts) + "\n")


def play(ansible: Path, folder: Path) -> None:
    described = rackproof_lab.describe()
    settings = {
        "ANSIBLE_FORKS": str(NODES), "ANSIBLE_PIPELINING": "1", "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_SSH_ARGS": f"-F {described['ssh']['config']} -o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"), "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
    }  # fmt: skip
    command = ["nsenter", f"--net=/run/netns/{described['netns']}", str(ansible), "-i", str(folder / "hosts.ini")]
    done = subprocess.run(
        [*command, str(folder / "play.json")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    quiet = done.stdout.count("changed=0    unreachable=0    failed=0")
    assert done.returncode == 0 and quiet == NODES, done.stdout[-3000:] + done.stderr[-500:]


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
