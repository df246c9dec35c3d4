"""`lsmod` and /proc/modules: which modules are in the kernel, who uses them, and what they did to its taint.

Not part of the probe, which looks at /sys/module by name; here for `rackproof parse`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.evidence.sections import Command
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing

COMMANDS: tuple[Command, ...] = ()

_LSMOD = re.compile(r"(\w{1,64})\s+([0-9]{1,12})\s+(-?[0-9]{1,9})(?:\s+(\S*))?\s*", re.ASCII)
_PROC = re.compile(
    r"(\w{1,64}) ([0-9]{1,12}) ([0-9]{1,9}|-) (\S+) (Live|Loading|Unloading) 0x[0-9a-f]{1,16}"
    r"(?: \(([A-Z+-]{1,20})\))?\s*",
    re.ASCII,
)
_HEADER = re.compile(r"Module\s+Size\s+Used by\s*")


@dataclass(frozen=True)
class KernelModule:
    size_bytes: int
    used_by: tuple[str, ...]
    taint: Fact[str]  # P proprietary, O out of tree, E unsigned; "" for none; lsmod does not show it


def parse_lsmod(text: str) -> Fact[Mapping[str, KernelModule]]:
    """Module -> what is shown of it. A line that is neither form makes the whole listing missing."""
    found: dict[str, KernelModule] = {}
    for line in plain(text).splitlines():
        proc, lsmod = _PROC.fullmatch(line), _LSMOD.fullmatch(line)
        if proc:
            found[proc[1]] = KernelModule(int(proc[2]), _users(proc[4]), proc[6] or "")
        elif lsmod:
            found[lsmod[1]] = KernelModule(int(lsmod[2]), _users(lsmod[4] or ""), Missing("lsmod does not show taint"))
        elif line.strip() and not _HEADER.fullmatch(line):
            return Missing(f"this is not a list of kernel modules: {one_line(line)}")
    return found or Missing("the list of kernel modules is empty")


def _users(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name and name not in ("-", "[permanent]"))


def parse_uname(text: str) -> Fact[Mapping[str, str]]:
    """node, kernel, architecture and version of `uname -a`: "Linux tray01 6.8.0-1039-nvidia-64k #39-Ubuntu SMP ...".

    The architecture is the first of the words at the end (`-m`); `-p` and `-i` may differ from it.
    """
    line = one_line(text, 400)
    match = re.fullmatch(r"Linux (\S{1,255}) (\S{1,128}) (#.{1,200}?) ([a-z0-9_]{2,16})((?: \S+){0,2}) GNU/Linux", line)
    if not match:
        return Missing(f"uname: {line[:160] or 'empty'}")
    return {"node": match[1], "kernel": match[2], "version": match[3], "architecture": match[4]}
