"""Health of NVMe disks by their own account: `nvme smart-log -o json` (nvme-cli 1.9 to 2.x), which needs root.

With -v, and in some builds without, critical_warning is an object whose "value" is the number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.values import load_object
from rackproof.facts import Fact, Missing
from rackproof.facts_system import NvmeHealth

_SCRIPT = """
found=
for d in /dev/nvme[0-9] /dev/nvme[0-9][0-9]; do
  [ -c "$d" ] || continue
  found=1
  printf '= %s\\n%s\\n' "$d" "$(nvme smart-log -o json "$d" 2>&1 | sed 's/^/|/')"
done
[ -n "$found" ] || gone '/dev/nvme*'
"""

COMMANDS = (Command("nvme_health", script(_SCRIPT), requires="nvme", root=Root.NEEDED),)


def health(evidence: Evidence) -> Fact[tuple[NvmeHealth, ...]]:
    """One a controller, by name; () where there is none."""
    group = read_group(evidence, "nvme_health", "nvme")
    if isinstance(group, Missing):
        return group
    found = []
    for path, text in group.entries.items():
        match = re.fullmatch(r"/dev/(nvme[0-9]{1,4})", path)
        if match:
            found.append(parse_smart_log(text if isinstance(text, str) else "", match[1]))
    return tuple(sorted(found, key=lambda disk: int(disk.name.removeprefix("nvme") or 0)))


def parse_smart_log(text: str, name: str = "nvme") -> NvmeHealth:
    """Facts of one disk; an answer that is no smart log makes each of them missing for that reason."""
    found = load_object(text, f"nvme smart-log of {name}")

    def number(*keys: str) -> Fact[int]:
        if isinstance(found, Missing):
            return found
        value = next((found[key] for key in keys if key in found), None)
        value = value.get("value") if isinstance(value, Mapping) else value
        counts = type(value) is int and 0 <= value < 10**18
        return value if counts else Missing(f"{keys[0]}: not printed")  # type: ignore[return-value]

    return NvmeHealth(
        name,
        critical_warning=number("critical_warning"),
        percent_used=number("percent_used", "percentage_used"),
        spare_percent=number("avail_spare", "available_spare"),
        media_errors=number("media_errors"),
    )
