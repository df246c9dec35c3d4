"""Groups of processes: one cgroup2 group a node, so that ending a node is one write."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from rackproof_lab.names import Lab, LabError, cgroup_root


def make(lab: Lab, name: str) -> Path:
    path = lab.cgroup / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def enter(path: Path) -> Path:
    """Move this process into a group and return the group it came from."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    old = next((line.partition("::")[2] for line in lines if line.startswith("0::")), "/")
    (path / "cgroup.procs").write_text("0")
    return Path(f"{cgroup_root()}{old}")


def leave(old: Path) -> None:
    (old / "cgroup.procs").write_text("0")


def kill(path: Path, seconds: float = 20.0) -> None:
    """Kill every process of a group, its sub-groups included, and remove it. Frozen groups die as well."""
    deadline = time.monotonic() + seconds
    while path.exists():
        with contextlib.suppress(FileNotFoundError):
            (path / "cgroup.kill").write_text("1")
        _remove(path)
        if not path.exists():
            return
        if time.monotonic() > deadline:
            raise LabError(f"processes of {path} do not end: {sorted(pids(path))}")
        time.sleep(0.02)


def pids(path: Path) -> set[int]:
    """Every process of a group and of its sub-groups."""
    found: set[int] = set()
    for procs in path.rglob("cgroup.procs"):
        try:
            found |= {int(pid) for pid in procs.read_text().split()}
        except OSError:
            continue
    return found


def freeze(path: Path, on: bool) -> None:
    (path / "cgroup.freeze").write_text("1" if on else "0")
    wanted = "frozen 1" if on else "frozen 0"
    for _ in range(200):
        if wanted in (path / "cgroup.events").read_text():
            return
        time.sleep(0.01)
    raise LabError(f"{path} did not {'freeze' if on else 'thaw'} within 2 s")


def _remove(path: Path) -> None:
    if not path.exists():
        return
    folders = sorted((p for p in path.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts))
    for folder in [*folders, path]:
        try:
            folder.rmdir()
        except OSError:
            continue
