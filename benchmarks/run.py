"""`make bench`: speed as ratios against a peer measured in the same run, so that a slow machine cancels out.

Needs root (it starts a lab of its own, id `bench`). What is compared:
- reading all nodes with `rackproof collect`, against OpenSSH running the same probe on all nodes at once, and against
  OpenSSH running `true` (the floor: one handshake);
- judging: time per node of 1000 nodes against 100, which says whether it grows linearly.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ["RACKPROOF_LAB_ID"] = "bench"

import rackproof_lab
from rackproof.evidence.bundle import read_bundle
from rackproof.evidence.collect import new_nonce, probe_program
from rackproof.judging import judge_all
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.site import shipped

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent
NODES, ROUNDS = 4, 5


def main() -> None:
    lab("up", "--nodes", str(NODES))
    try:
        with tempfile.TemporaryDirectory() as folder:
            reading(Path(folder))
            judging(Path(folder))
    finally:
        lab("down")


def lab(*words: str) -> None:
    subprocess.run([str(BIN / "rackproof-lab"), *words], check=True, stdout=subprocess.DEVNULL)


def reading(folder: Path) -> None:
    program = probe_program(new_nonce(), sudo=False)
    floor = median(lambda _: ssh_all("true"))
    peer = median(lambda _: ssh_all("sh -s", program))
    ours = median(lambda n: collect(folder / f"collected-{n}"))
    print(f"reading {NODES} nodes, median of {ROUNDS} runs, wall seconds")
    print(f"  ssh true, all at once        {floor:6.2f}")
    print(f"  ssh with the same probe      {peer:6.2f}   {peer / floor:5.1f} x the handshake")
    print(f"  rackproof collect            {ours:6.2f}   {ours / peer:5.1f} x ssh with the same probe")


def ssh_all(command: str, stdin: str = "") -> None:
    described = rackproof_lab.describe()
    words = ["nsenter", f"--net=/run/netns/{described['netns']}", "ssh", "-F", described["ssh"]["config"], "-l", "root"]
    processes = [
        subprocess.Popen([*words, node["name"], command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for node in described["nodes"]
    ]
    for process in processes:
        process.communicate(stdin)


def collect(folder: Path) -> None:
    subprocess.run(
        [str(BIN / "rackproof"), "collect", "inventories/lab.py", "--to", str(folder)], cwd=ROOT, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def judging(folder: Path) -> None:
    evidence = read_bundle(folder / "collected-0")[0]
    times = {}
    for count in (100, 1000):
        names = [f"tray{number:04d}" for number in range(count)]
        plan = Plan(tuple(PlannedNode(name, shipped()) for name in names), (Unit("u", (names[0], names[1])),))
        given = {name: replace(evidence, node=name) for name in names}
        times[count] = median(lambda _, plan=plan, given=given: judge_all(plan, given), rounds=1) / count
    print("judging, milliseconds per node")
    print(f"  100 nodes   {times[100] * 1000:6.2f}")
    print(f"  1000 nodes  {times[1000] * 1000:6.2f}   {times[1000] / times[100]:5.2f} x (1.0 is linear)")


def median(run: Callable[[int], object], rounds: int = ROUNDS) -> float:
    taken = []
    for number in range(rounds):
        began = time.perf_counter()
        run(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
