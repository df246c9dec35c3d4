"""Who holds a GPU open: programs with an open file descriptor on /dev/nvidia0 and so on, from /proc/*/fd.

nvidia-smi lists processes too, but not when it cannot talk to the driver; that is when a deploy must know most.
"""

from __future__ import annotations

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.facts import Fact, Missing

# NVIDIA's own daemons, and the nvidia-smi that the probe itself runs, as /proc/PID/comm cuts them at 15 characters.
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "nvidia-imex", "dcgm-exporter", "nvidia-smi", "nvlsm")

_SCRIPT = """
find /proc/self/fd -lname nothing >/dev/null || exit 3  # busybox: no -lname, and silence would read as "nobody"
find /proc/[0-9]*/fd -lname '/dev/nvidia[0-9]*' 2>/dev/null | while IFS=/ read -r _ _ pid _; do
  read -r name <"/proc/$pid/comm" || continue
  echo "$pid $name"
done | sort -u
echo end
"""

COMMANDS = (Command("gpu_holders", _SCRIPT, requires="find", root=Root.NEEDED),)


def holders(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """"name (pid)" of each program that holds a GPU open, daemons left out; sorted by name."""
    section = evidence.usable("gpu_holders", "the list of open GPU devices")
    if isinstance(section, Missing):
        return section
    if section.rc != 0:
        return Missing("find cannot look for open GPU devices on this system")
    lines = section.text.splitlines()
    if lines[-1:] != ["end"]:
        return Missing("the list of open GPU devices is cut off")
    found = set()
    for line in lines[:-1]:
        pid, _, name = line.partition(" ")
        if not pid.isdigit() or not name:
            return Missing(f"the list of open GPU devices holds {line[:60]!r}")
        if name not in DAEMONS:
            found.add(f"{name} ({pid})")
    return tuple(sorted(found))
