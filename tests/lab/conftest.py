"""The simulated rack for tests: brought up once, deployed once, and every test starts from what it asks for.

Needs root on Linux and a Debian mirror; skipped with that reason elsewhere. The lab has an id of its own, so a rack that
somebody has up for a look is not touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LAB_ID = os.environ.get("RACKPROOF_TEST_LAB_ID", "test")  # another one, to run beside somebody else's tests
LONG_S = 900  # far above anything measured: a limit for a hang, not for speed

NODES = ("tray01", "tray02", "tray03", "tray04")


@dataclass(frozen=True)
class Rack:
    """Drives the lab and the tools the way a user does: by their commands."""

    env: dict[str, str]

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / words[0]), *words[1:]], cwd=ROOT, env={**self.env, **more.pop("env", {})}, text=True,
            capture_output=True, timeout=LONG_S, check=False, **more,
        )  # fmt: skip

    def lab(self, *words: str) -> str:
        done = self.run("rackproof-lab", *words)
        assert done.returncode == 0, f"rackproof-lab {' '.join(words)}: {done.stderr[-2000:]}{done.stdout[-2000:]}"
        return done.stdout

    def ssh(self, node: str, command: str) -> str:
        return self.lab("ssh", node, command)

    def verify(self, *words: str) -> dict[str, Any]:
        """The JSON verdict of `rackproof verify inventories/lab.py`."""
        done = self.run("rackproof", "verify", "inventories/lab.py", "--json", "-", *words)
        assert done.returncode in (0, 1, 2), done.stderr[-3000:]
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["exit_code"] == done.returncode
        return document

    def deploy(self, *words: str, **more: Any) -> tuple[int, dict[str, Any], str]:
        """`pyinfra -y --json inventories/lab.py deploys/k3.py`: exit code, its results, its log."""
        done = self.run("pyinfra", "-y", "--json", "inventories/lab.py", "deploys/k3.py", *words, **more)
        results = json.loads(done.stdout)["results"] if done.stdout.strip() else {}
        return done.returncode, results or {}, done.stderr


def statuses(document: dict[str, Any], node: str) -> dict[str, set[str]]:
    """status -> requirement ids, of the gates of one node."""
    found: dict[str, set[str]] = {}
    outcomes = next(n for n in document["nodes"] if n["node"] == node)["outcomes"]
    for outcome in outcomes:
        if outcome["severity"] == "gate":
            found.setdefault(outcome["status"], set()).add(outcome["requirement"])
    return found


def unchanged(results: dict[str, Any]) -> bool:
    """Whether a deploy did nothing: it looks and judges at its end, which is no change."""
    return not results["failed_hosts"] and not any(done["success"] or done["error"] for done in results["operations"])


def all_accepted(document: dict[str, Any]) -> bool:
    return document["verdict"] == "accept" and all(node["verdict"] == "accept" for node in document["nodes"])


def why_not() -> str:
    """Why there can be no lab on this machine; empty where there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "the simulated rack needs root on Linux"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The story of the rack as leased comes before every test that needs it deployed."""
    items.sort(key=lambda item: item.path.parent.name == "lab" and item.path.name != "test_deploy.py")


@contextmanager
def rack_of(lab_id: str, nodes: int, *words: str) -> Iterator[Rack]:
    """A lab of so many nodes for as long as the block runs; `words` for `rackproof-lab up`."""
    if why_not():
        pytest.skip(why_not())
    rack = Rack({
        **os.environ, "RACKPROOF_LAB_ID": lab_id, "PYINFRA_PROGRESS": "off", "PYTHONWARNINGS": "ignore",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    })  # fmt: skip
    rack.lab("down")
    try:
        rack.lab("up", "--nodes", str(nodes), *words)
        yield rack
    finally:
        rack.lab("down")


@pytest.fixture(scope="session")
def lab() -> Iterator[Rack]:
    """A rack of four trays, as leased."""
    with rack_of(LAB_ID, len(NODES), "--state", "leased") as rack:
        yield rack


@pytest.fixture(scope="session")
def deployed(lab: Rack) -> Rack:
    """The same rack brought to the baseline, and kept so that a test can be given it back."""
    code, results, log = lab.deploy()
    assert code == 0 and not results["failed_hosts"], log[-4000:]
    lab.lab("snapshot")
    return lab
