"""What this node is, as far as its simulated hardware and its packages say."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

SIM = Path("/run/rackproof-lab")
RW = Path("/run/rackproof-lab-rw")
LIBDIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")  # where Debian has libraries, and Enterprise Linux
Json = dict[str, Any]


@cache
def node() -> Json:
    """Profile of the hardware with the serial numbers of this node, written by the lab at boot."""
    data: Json = json.loads((SIM / "node.json").read_text())
    return data


@cache
def faults() -> Json:
    """The merged `set:` parts of all active faults. Lists are joined, maps merged, the rest overwritten."""
    try:
        active: dict[str, Json] = json.loads((SIM / "faults.json").read_text())
    except (OSError, ValueError):
        return {}
    merged: Json = {}
    for part in active.values():
        _merge(merged, part)
    return merged


def _merge(into: Json, part: Json) -> None:
    for key, value in part.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, []), *value]
        else:
            into[key] = value


def loaded_driver() -> tuple[str, bool] | None:
    """Version of the loaded kernel module and whether it is the open one; None when none is loaded."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    return (found[1], "Open Kernel Module" in text) if found else None


def library_version() -> str | None:
    """Version of libnvidia-ml, as its link says; None when it is not installed."""
    link = Path(library_folder()) / "libnvidia-ml.so.1"
    try:
        return str(link.readlink()).rpartition(".so.")[2]
    except OSError:
        return None


def library_folder() -> str:
    """Where this node has the driver's libraries; Debian's folder where it has none."""
    return next((folder for folder in LIBDIRS if Path(folder, "libnvidia-ml.so.1").is_symlink()), LIBDIRS[0])


def gpus() -> list[Json]:
    """The GPUs that this boot's driver drives and no fault has taken away, in index order."""
    missing = set(faults().get("gpus_missing", []))
    return [gpu for gpu in node()["gpus"] if gpu["index"] not in missing]


def overrides(index: int) -> dict[str, str]:
    """Values that faults give a GPU: those for all (`*`) and then those for this one."""
    table = faults().get("gpu", {})
    return {**table.get("*", {}), **table.get(str(index), {})}


def short_version(version: str) -> str:
    """NVML's own spelling of a version, without the patch: 580.126.20 -> 580.126."""
    return ".".join(version.split(".")[:2])


def cuda_version(driver: str) -> str:
    """CUDA version a driver branch comes with (release notes, table 3)."""
    return {"575": "12.9", "580": "13.0", "590": "13.1", "595": "13.2", "610": "13.3"}.get(driver.split(".")[0], "13.0")


def persistence() -> str:
    """Enabled when nvidia-persistenced runs with persistence, or somebody used `nvidia-smi -pm 1` in this boot."""
    if (RW / "persistence").exists():
        return "Enabled"
    try:
        mode, pid = Path("/run/nvidia-persistenced/lab-mode").read_text().split()
    except (OSError, ValueError):
        return "Disabled"
    return "Enabled" if mode == "on" and Path(f"/proc/{pid}").exists() else "Disabled"
