"""Stand-in for amd-ctk 1.x: version, runtime configure, and cdi generate, validate and list.

What it writes has the form of the real one's: one device a GPU with its render node and /dev/kfd, "all", and a
daemon.json whose `features` hold CDI and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from . import amd_truth, truth

SPEC, CONFIG = Path("/etc/cdi/amd.json"), Path("/etc/docker/daemon.json")


def main(program: str, version: str, args: Sequence[str]) -> int:
    words = [word for word in args if not word.startswith("-")]
    if words[:1] == ["version"]:
        print(f"Version: {version}\nBuild Date: unknown\nGitCommit: rackproof-lab")
        return 0
    actions = {("runtime", "configure"): _configure, ("cdi", "generate"): _generate, ("cdi", "validate"): _validate,
               ("cdi", "list"): _list}  # fmt: skip
    action = actions.get((words[0], words[1])) if len(words) > 1 else None
    if action is None:
        print("amd-ctk (rackproof lab stand-in): version, runtime configure, cdi generate|validate|list")
        return 1
    return action(args)


def _option(args: Sequence[str], name: str, default: Path) -> Path:
    for at, word in enumerate(args):
        if word.startswith(f"{name}="):
            return Path(word.partition("=")[2])
        if word == name and at + 1 < len(args):
            return Path(args[at + 1])
    return default


def _spec() -> truth.Json | None:
    """None where there is no device to put into one."""
    kfd = Path("/dev/kfd")
    renders = [Path(f"/dev/dri/renderD{amd_truth.FIRST_RENDER + gpu['index']}") for gpu in truth.gpus()]
    if not kfd.exists() or not renders or not all(path.exists() for path in renders):
        return None
    nodes = {path: _node(path) for path in (kfd, *renders)}
    devices = [(str(index), [nodes[path], nodes[kfd]]) for index, path in enumerate(renders)]
    devices.append(("all", [*(nodes[path] for path in renders), nodes[kfd]]))
    listed = [{"name": name, "containerEdits": {"deviceNodes": edits}} for name, edits in devices]
    return {"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": listed, "containerEdits": {}}


def _node(path: Path) -> truth.Json:
    found = path.stat()
    return {
        "path": str(path), "type": "c", "major": os.major(found.st_rdev), "minor": os.minor(found.st_rdev),
        "fileMode": stat.S_IMODE(found.st_mode), "permissions": "rw", "uid": found.st_uid, "gid": found.st_gid,
    }  # fmt: skip


def _generate(args: Sequence[str]) -> int:
    spec, path = _spec(), _option(args, "--output", SPEC)
    if spec is None:
        print("Failed to get GPUs, Err: no AMD GPU devices found")
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(spec, indent=2) + "\n")
    print(f"Generated CDI spec: {path}")
    return 0


def _validate(args: Sequence[str]) -> int:
    path = _option(args, "--path", SPEC)
    if not path.exists() or json.loads(path.read_text()) != _spec():
        print(f"CDI spec {path} does not match the devices of this host")
        return 1
    print(f"{path} is valid")
    return 0


def _list(args: Sequence[str]) -> int:
    spec = json.loads(SPEC.read_text()) if SPEC.exists() else {"devices": []}
    print(f"Found {len(spec['devices'])} CDI devices")
    for device in spec["devices"]:
        print(f"amd.com/gpu={device['name']}")
    return 0


def _configure(args: Sequence[str]) -> int:
    if os.geteuid() != 0:
        print("Permission denied: Not running as root")
        return 1
    path = _option(args, "--config-path", CONFIG)
    config = json.loads(path.read_text()) if path.exists() and path.read_text().strip() else {}
    config.setdefault("runtimes", {})["amd"] = {"path": "amd-container-runtime", "args": []}
    config["features"] = {"cdi": True}  # whatever stood there before, as the real one does
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=4))
    print(f"Updated the config file: {path}\nPlease restart docker daemon")
    return 0
