"""Breaking nodes and mending them again, by the fault files in lab/faults.

A fault file says how to apply and to heal; the mechanisms are few: `set` puts keys into the node's live fault file,
`run` runs a sh script as root on the node, `reboot` restarts it, `network` pulls its cable, `freeze` stops its
processes, `registry` moves the image's tag.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from rackproof_lab import cgroup, hardware, image, network, ssh
from rackproof_lab.names import Lab, LabError
from rackproof_lab.proc import replace

Json = dict[str, Any]
PRELUDE = Path(__file__).parent / "hostfiles/fault-prelude.sh"
_KEYS = {"set", "run", "reboot", "network", "freeze", "registry"}


def folder() -> Path:
    """lab/faults beside the package in a checkout, inside the package where it was installed."""
    beside = Path(__file__).parent.parent / "faults"
    return beside if beside.is_dir() else Path(__file__).parent / "faults"


def load(name: str) -> Json:
    path = folder() / f"{name}.yaml"
    if not path.exists():
        raise LabError(f"no fault {name!r}; `rackproof-lab faults` lists them")
    data: Json = yaml.safe_load(path.read_text())
    unknown = (set(data.get("apply", {})) | set(data.get("heal") or {})) - _KEYS
    if unknown or data["id"] != name:
        raise LabError(f"{path}: unknown mechanism {sorted(unknown)} or id {data['id']!r} that is not the file's name")
    return data


def everything() -> list[Json]:
    return [load(path.stem) for path in sorted(folder().glob("*.yaml"))]


def active(lab: Lab, node: str) -> list[str]:
    """Ids of the faults that a node has now, in the order they were applied."""
    path = lab.node_dir(node) / "active.json"
    found: list[str] = json.loads(path.read_text()) if path.exists() else []
    return found


def apply(lab: Lab, node: str, name: str) -> None:
    fault = load(name)
    if name in active(lab, node):
        raise LabError(f"{node} has the fault {name} already")
    _remember(lab, node, [*active(lab, node), name])
    _act(lab, node, name, fault["apply"], "apply")


def heal(lab: Lab, node: str, name: str | None) -> list[str]:
    """Heal one fault, or all, the last applied first; returns what was healed."""
    names = active(lab, node)
    if name is not None and name not in names:
        raise LabError(f"{node} does not have the fault {name}")
    done = []
    for one in reversed(names):
        if name in (None, one):
            _heal(lab, node, one)
            done.append(one)
    return done


def _heal(lab: Lab, node: str, name: str) -> None:
    fault = load(name)
    _unset(lab, node, name)
    steps: Json = dict(fault.get("heal") or {})
    if fault["apply"].get("network") == "down":
        steps["network"] = "up"
    if fault["apply"].get("freeze"):
        steps["freeze"] = False
    if "registry" in fault["apply"]:
        steps["registry"] = "first"
    _act(lab, node, name, steps, "heal")
    _remember(lab, node, [n for n in active(lab, node) if n != name])


def _act(lab: Lab, node: str, name: str, steps: Json, phase: str) -> None:
    if "registry" in steps:
        image.point_tag(lab, steps["registry"] == "other")
    if steps.get("network") == "up":
        network.link(lab, node, True)
    if steps.get("freeze") is False:
        cgroup.freeze(lab.cgroup / node, False)
    if "run" in steps:
        head = f"FAULT={name} PHASE={phase}\n"
        ssh.script(lab, node, head + PRELUDE.read_text() + steps["run"])
    if "set" in steps:
        table = hardware.faults(lab.node_dir(node))
        table[name] = steps["set"]
        _write(lab, node, table)
    if steps.get("reboot"):
        reboot(lab, node)
    if steps.get("network") == "down":
        network.link(lab, node, False)
    if steps.get("freeze") is True:
        cgroup.freeze(lab.cgroup / node, True)


def _unset(lab: Lab, node: str, name: str) -> None:
    table = hardware.faults(lab.node_dir(node))
    if table.pop(name, None) is not None:
        _write(lab, node, table)


def _write(lab: Lab, node: str, table: dict[str, Json]) -> None:
    replace(lab.node_dir(node) / "sim/faults.json", json.dumps(table))
    hardware.refresh(lab.node_dir(node))


def forget(lab: Lab, node: str) -> None:
    """A node starts anew: undo what its faults did outside of it, and forget them."""
    if any("registry" in load(name)["apply"] for name in active(lab, node)):
        image.point_tag(lab, other=False)
    network.link(lab, node, True)
    (lab.node_dir(node) / "active.json").unlink(missing_ok=True)


def reboot(lab: Lab, node: str) -> None:
    """Reboot from inside, as an operator would, and wait for the new boot."""
    old = ssh.boot_id(lab, node)
    ssh.script(lab, node, "systemd-run --quiet --on-active=0.2 systemctl reboot")
    ssh.wait(lab, [node], 120, not_boot={node: old})


def _remember(lab: Lab, node: str, names: list[str]) -> None:
    replace(lab.node_dir(node) / "active.json", json.dumps(names))
