"""How long it takes to verify a fleet, against other ways to do it, measured in one run on one machine.

    python benchmarks/verify_fleet.py                                   all sizes, methods and checks (hours)
    python benchmarks/verify_fleet.py --nodes 1,18 --checks 12          a first look
    python benchmarks/verify_fleet.py --methods floor,rackproof --rounds 5

A method that goes check by check has a check for each requirement that a healthy GB300 node answers, and each runs one
command. A method is stopped where it has taken so many times rackproof's time that its target is shown (TARGETS), and the
table says so; --whole lets it go on to the limit. Nodes are sshd processes on loopback that share this machine's cores; see docs/performance.md for what that means.
Everything it starts is ended, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from loopback import SSHD, LoopbackNodes
from peers import Peers, install

from cases.healthy import Context, given
from rackproof.evidence.collect import new_nonce, probe_program
from rackproof.evidence.tools import commands
from rackproof.judging import judge_all
from rackproof.managed import PATHS
from rackproof.verdict.model import Status

# name -> (what it is, how it is run, whether it runs the checks one by one)
METHODS: dict[str, tuple[str, Callable[[Peers], None], bool]] = {
    "floor": ("ssh loop, the probe as one command", Peers.ssh_loop, False),
    "rackproof": ("rackproof: collect and judge", Peers.rackproof, False),
    "ansible-script": ("ansible, best: one script task", Peers.ansible_script, False),
    "testinfra-xdist": ("testinfra, best: paramiko, xdist", Peers.testinfra_xdist, True),
    "testinfra-control": ("testinfra, best: ssh, ControlMaster", Peers.testinfra_control, True),
    "testinfra-ssh": ("testinfra as written: ssh", Peers.testinfra_ssh, True),
    "ansible-tasks": ("ansible as written: a task a check", Peers.ansible_tasks, True),
}
# How many times rackproof's time a method is to take at least; a little more is waited for, since clocks are coarse.
TARGETS = {"testinfra-xdist": 5, "testinfra-control": 5, "testinfra-ssh": 50, "ansible-tasks": 50}
BEYOND = 1.05


def main() -> int:
    chosen = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # a background shell hands SIGINT down ignored
        signal.signal(number, _ended)
    if SSHD is None:
        print("verify_fleet: needs sshd (Debian: openssh-server)", file=sys.stderr)
        return 3
    checks = requirements()[: chosen.checks]
    whole = len(commands(PATHS))
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}; the probe has {whole} commands, {len(checks)} checks")
    with tempfile.TemporaryDirectory(prefix="rackproof-bench-") as folder:
        others = [name for name in chosen.methods if name not in ("floor", "rackproof")]
        bin_ = chosen.peers or (install(Path(folder) / "peers") if others else Path(folder))
        for count in chosen.nodes:
            place = Path(folder) / f"nodes-{count}"
            place.mkdir()
            with LoopbackNodes(place, count) as nodes:
                program = probe_program(new_nonce(), sudo=False)
                peers = Peers(nodes, program, checks, bin_, chosen.limit)
                _table(count, peers, chosen)
    return 0


def requirements() -> list[str]:
    """What a healthy node of a GB300 rack that serves is asked: the requirements that apply to it and are its own."""
    plan, evidence = given(Context("gb300", serve=True))
    return [
        outcome.requirement.id
        for outcome in judge_all(plan, evidence).nodes[0].outcomes
        if outcome.requirement.scope == "node" and outcome.status is Status.PASS
    ]


def _ended(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # through every `with` and `finally`, which end what was started


def _measured(peers: Peers, name: str, rounds: int) -> list[float] | str:
    """Seconds of each round, or why there are none."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        try:
            METHODS[name][1](peers)
        except subprocess.TimeoutExpired:
            return "stopped"
        except (AssertionError, subprocess.CalledProcessError) as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            return "failed"
        times.append(time.perf_counter() - began)
    return times


def _table(count: int, peers: Peers, chosen: argparse.Namespace) -> None:
    print(f"\n{f'{count} nodes':40}  wall s   / floor / rackproof   rounds   load", flush=True)
    found: dict[str, float] = {}
    for name in chosen.methods:
        what, _, single = METHODS[name]
        peers.limit_s = chosen.limit
        if "rackproof" in found and name in TARGETS and not chosen.whole:
            peers.limit_s = min(chosen.limit, round(TARGETS[name] * BEYOND * found["rackproof"]))
        load = os.getloadavg()[0]
        times = _measured(peers, name, 1 if single else chosen.rounds)
        if isinstance(times, str):
            taken, row = float(peers.limit_s), f"{times}"
            if times == "stopped":  # what it had taken by then is a lower bound
                row = f">{taken:6.0f} {_ratio(taken, found, 'floor', '>')} {_ratio(taken, found, 'rackproof', '>')}"
        else:
            taken = found[name] = statistics.median(times)
            row = f"{taken:7.2f} {_ratio(taken, found, 'floor')} {_ratio(taken, found, 'rackproof')}"
            row += "   " + " ".join(f"{seconds:.1f}" for seconds in times)
        print(f"  {what:38} {row}   {load:.1f}", flush=True)


def _ratio(taken: float, found: dict[str, float], against: str, mark: str = "") -> str:
    return f"{f'{mark}{taken / found[against]:.2f}':>9}" if against in found else f"{'-':>9}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Verify a fleet on loopback, and compare.")
    parser.add_argument("--nodes", type=lambda text: [int(word) for word in text.split(",")], default=[1, 18, 72, 200])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS), help=",".join(METHODS))
    parser.add_argument("--checks", type=int, default=None, help="only so many, for the methods that go one by one")
    parser.add_argument("--rounds", type=int, default=3, help="of the methods that batch; those that do not run once")
    parser.add_argument(
        "--whole", action="store_true", help="run each method to its end, also where its target is shown"
    )
    parser.add_argument("--limit", type=int, default=3600, metavar="SECONDS", help="for one method at one size")
    parser.add_argument("--peers", type=Path, metavar="BIN", help="bin folder of a venv that has the peers already")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.methods if name not in METHODS]
    if unknown:
        parser.error(f"no method {', '.join(unknown)}; there are {', '.join(METHODS)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
