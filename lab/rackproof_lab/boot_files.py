"""What every boot lays out afresh, whoever made the GPUs: loaded modules, and the list of device majors."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rackproof_lab.proc import replace

ALWAYS = ("mlx5_core", "mlx5_ib", "ib_core", "overlay")  # modules that need no GPU


def load(rw: Path, modules: Sequence[tuple[str, str]]) -> None:
    """Empty the folder of what lives from boot to boot only, and note the modules: (name, version or "")."""
    shutil.rmtree(rw, ignore_errors=True)
    (rw / "module").mkdir(parents=True)
    found = [*((name, "") for name in ALWAYS), *modules]
    replace(rw / "modules", "".join(f"{name} {version}".rstrip() + "\n" for name, version in found))
    for name, version in found:
        replace(rw / "module" / name / "refcnt", "0\n")
        if version:
            replace(rw / "module" / name / "version", version + "\n")


def majors(more: Mapping[str, int]) -> str:
    """/proc/devices of this machine with more character devices."""
    extra = "".join(f"{major} {name}\n" for name, major in more.items())
    head, block = Path("/proc/devices").read_text().split("\n\nBlock", 1)
    return f"{head}\n{extra}\nBlock{block}"
