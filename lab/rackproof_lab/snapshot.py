"""Keeping a deployed rack and bringing nodes back to it, so that every scenario gets a freshly deployed host."""

from __future__ import annotations

import shutil
from pathlib import Path

from rackproof_lab import cgroup, faults, node, ssh
from rackproof_lab.names import Lab, LabError
from rackproof_lab.node import Rack
from rackproof_lab.proc import replace, run


def take(lab: Lab) -> None:
    """Copy what every node has written. Nodes are frozen meanwhile, so each copy is one moment of a whole node."""
    rack = Rack.load(lab)
    for name in rack.names():
        if faults.active(lab, name):
            raise LabError(f"{name} has an active fault: heal it before taking a snapshot")
        ssh.script(lab, name, "sync")
    target = lab.dir / "snapshot.new"
    shutil.rmtree(target, ignore_errors=True)
    for name in rack.names():
        cgroup.freeze(lab.cgroup / name, True)
        try:
            _copy(lab.node_dir(name), target / name)
        finally:
            cgroup.freeze(lab.cgroup / name, False)
    shutil.rmtree(lab.dir / "snapshot", ignore_errors=True)
    target.rename(lab.dir / "snapshot")


def _copy(source: Path, target: Path) -> None:
    """What a node has written, with every attribute that overlayfs and container engines keep on files."""
    target.mkdir(parents=True, exist_ok=True)
    for part in node.DATA:
        run("cp", "-a", "--reflink=auto", source / part, target / part)


def restore(lab: Lab, names: list[str]) -> None:
    """Boot nodes from the snapshot, without faults, as after a power cut at the moment it was taken."""
    rack = Rack.load(lab)
    source = lab.dir / "snapshot"
    if not source.exists():
        raise LabError("no snapshot of this lab: take one with `rackproof-lab snapshot`")
    for name in names:
        folder = lab.node_dir(name)
        node.stop(lab, name)
        faults.forget(lab, name)
        for part in (*node.DATA, "work"):
            shutil.rmtree(folder / part, ignore_errors=True)
        (folder / "work").mkdir()
        _copy(source / name, folder)
        replace(folder / "sim/faults.json", "{}")
        node.start(rack, name)
    ssh.wait(lab, names, 60 + 20 * len(names))
