"""Who holds a GPU open: programs with an open file descriptor on /dev/nvidia0 and so on, or /dev/kfd, from /proc/*/fd.

One line a program: pid, name, and behind tabs its user and the start of its container's id, where there is one.

nvidia-smi lists processes too, but not when it cannot talk to the driver; that is when a deploy must know most.
"""

from __future__ import annotations

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.facts import Fact, Missing

# The vendors' own daemons, and the tools that the probe itself runs, as /proc/PID/comm cuts them at 15 characters.
DAEMONS = (
    "nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "nvidia-imex", "dcgm-exporter", "nvidia-smi", "nvlsm",
    "amd-smi", "rocm-smi", "rocminfo",
)  # fmt: skip
# Globs of the devices, as arguments of find.
DEVICES = "-lname '/dev/nvidia[0-9]*' -o -lname /dev/kfd"

_SCRIPT = f"""
find /proc/self/fd -lname nothing >/dev/null || exit 3  # busybox: no -lname, and silence would read as "nobody"
find /proc/[0-9]*/fd \\( {DEVICES} \\) 2>/dev/null | while IFS=/ read -r _ _ pid _; do
  read -r name <"/proc/$pid/comm" || continue
  container=$(grep -oE -m 1 '[0-9a-f]{{64}}' "/proc/$pid/cgroup" 2>/dev/null | cut -c 1-12)
  printf '%s\t%s\t%s\n' "$pid $name" "$(stat -c %U "/proc/$pid")" "$container"
done | sort -u
echo end
"""

COMMANDS = (Command("gpu_holders", _SCRIPT, requires="find", root=Root.NEEDED),)


def holders(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """"name (pid, user alice, container 0123456789ab)" of each program that holds a GPU open, daemons left out."""
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
        program, user, container = [*line.split("\t"), "", ""][:3]
        pid, _, name = program.partition(" ")
        if not pid.isdigit() or not name:
            return Missing(f"the list of open GPU devices holds {line[:60]!r}")
        if name not in DAEMONS:
            more = [f"user {user}"] * bool(user) + [f"container {container}"] * bool(container)
            found.add(f"{name} ({', '.join([pid, *more])})")
    return tuple(sorted(found))
