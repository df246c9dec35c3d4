"""A site of its own for one test: the lab's inventory with values on top."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from conftest import ROOT, Rack

_INVENTORY = """
import json
import rackproof_lab
from rackproof.inventory import rack

_lab = rackproof_lab.describe()
rackproof_lab.enter_network()

def _over(base, more):
    for key, value in more.items():
        base[key] = _over(base.get(key, {{}}), value) if isinstance(value, dict) else value
    return {{key: value for key, value in base.items() if value is not None}}

lab = rack(
    ",".join(node["name"] for node in _lab["nodes"]),
    group="lab",
    addresses=",".join(node["address"] for node in _lab["nodes"]),
    nvlink_domain="lab",
    overlay=_over({{
        "hardware": _lab["profile"],
        "layout": "gb300-tp8",
        "ssh": {{"user": _lab["ssh"]["user"], "key_file": _lab["ssh"]["key"],
                "known_hosts_file": _lab["ssh"]["known_hosts"]}},
        "packages": {{"key_url": _lab["apt"]["key_url"], "key_fingerprint": _lab["apt"]["key_fingerprint"]}},
        "image": {{"repository": _lab["image"]["reference"].rpartition(":")[0], "ca_file": _lab["ca"],
                  "free_bytes": 10_000_000}},
        "simulation": {{"image": {{key: _lab["image"][key] for key in ("index", "amd64", "arm64")}}}},
    }}, json.loads({values!r})),
    overlay_source="a test",
)
"""


def describe(rack: Rack) -> dict[str, Any]:
    """lab.json of the running lab."""
    found = rack.run("python", "-c", "import json, rackproof_lab; print(json.dumps(rackproof_lab.describe()))")
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def site(folder: Path, values: dict[str, Any]) -> Path:
    """An inventory of the running lab with these values on top. None takes a value away."""
    inventory = folder / "inventories" / "lab_test.py"
    inventory.parent.mkdir(exist_ok=True)
    inventory.write_text(_INVENTORY.format(values=json.dumps(values)))
    (folder / "group_vars").mkdir(exist_ok=True)
    for name in ("all.yaml", "lab.yaml"):
        shutil.copy(ROOT / "group_vars" / name, folder / "group_vars")
    return inventory


def deploy(
    rack: Rack, folder: Path, deploy_file: str, node: str, values: dict[str, Any], **env: str
) -> tuple[int, str]:
    """Run a deploy file of this folder on one node, or on several ("tray01,tray02"); exit code, and everything that was said. None takes a value away."""
    inventory = site(folder, values)
    limits = [word for one in node.split(",") for word in ("--limit", one)]
    done = rack.run("pyinfra", "-y", *limits, str(inventory), str(ROOT / "tests/lab" / deploy_file), env=env)
    return done.returncode, done.stdout + done.stderr
