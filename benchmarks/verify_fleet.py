"""How long it takes to verify a fleet, against other ways to do it, measured in one run on one machine.

    python benchmarks/verify_fleet.py                                   all sizes, all methods, all checks (hours)
    python benchmarks/verify_fleet.py --nodes 1,18 --checks 12          a first look
    python benchmarks/verify_fleet.py --methods floor,rackproof --rounds 5

Nodes are sshd processes on loopback that share this machine's cores; see docs/performance.md for what that means.
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

from loopback import SSHD, LoopbackNodes
from peers import Peers, install

from rackproof.evidence.collect import new_nonce, probe_program
from rackproof.evidence.tools import commands
from rackproof.managed import PATHS

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


def main() -> int:
    chosen = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # a background shell hands SIGINT down ignored
        signal.signal(number, _ended)
    if SSHD is None:
        print("verify_fleet: needs sshd (Debian: openssh-server)", file=sys.stderr)
        return 3
    checks = [command for command in commands(PATHS) if command.script][: chosen.checks]
    whole = len(commands(PATHS))
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}; the probe has {whole} commands; median of {chosen.rounds} run(s)")
    with tempfile.TemporaryDirectory(prefix="rackproof-bench-") as folder:
        others = [name for name in chosen.methods if name not in ("floor", "rackproof")]
        bin_ = chosen.peers or (install(Path(folder) / "peers") if others else Path(folder))
        for count in chosen.nodes:
            place = Path(folder) / f"nodes-{count}"
            place.mkdir()
            with LoopbackNodes(place, count) as nodes:
                program = probe_program(new_nonce(), sudo=False)
                peers = Peers(nodes, program, checks, bin_, chosen.limit)
                _table(count, peers, chosen.methods, chosen.rounds, whole)
    return 0


def _ended(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # through every `with` and `finally`, which end what was started


def _measured(peers: Peers, name: str, rounds: int) -> float | str:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        try:
            METHODS[name][1](peers)
        except subprocess.TimeoutExpired:
            return f"more than {peers.limit_s} s"
        except (AssertionError, subprocess.CalledProcessError) as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            return "failed"
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _table(count: int, peers: Peers, methods: list[str], rounds: int, whole: int) -> None:
    print(f"\n{f'{count} nodes':40}  wall s   / floor / rackproof   commands a node", flush=True)
    found: dict[str, float | str] = {}
    for name in methods:
        what, _, single = METHODS[name]
        taken = found[name] = _measured(peers, name, rounds)
        ran = f"{len(peers.checks) if single else whole} of {whole}"
        if isinstance(taken, str):
            row = taken
        else:
            row = f"{taken:7.2f} {_ratio(taken, found, 'floor')} {_ratio(taken, found, 'rackproof')}   {ran}"
        print(f"  {what:38} {row}", flush=True)


def _ratio(taken: float, found: dict[str, float | str], against: str) -> str:
    other = found.get(against)
    return f"{taken / other:9.2f}" if isinstance(other, float) else f"{'-':>9}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Verify a fleet on loopback, and compare.")
    parser.add_argument("--nodes", type=lambda text: [int(word) for word in text.split(",")], default=[1, 18, 72, 200])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS), help=",".join(METHODS))
    parser.add_argument("--checks", type=int, default=None, help="only so many, for the methods that go one by one")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=3600, metavar="SECONDS", help="for one method at one size")
    parser.add_argument("--peers", type=Path, metavar="BIN", help="bin folder of a venv that has the peers already")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.methods if name not in METHODS]
    if unknown:
        parser.error(f"no method {', '.join(unknown)}; there are {', '.join(METHODS)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
