"""State of the systemd units that matter: one `systemctl show` for all of them, systemd 219 to 257.

One block of `Key=value` lines a unit, blocks divided by a blank line, in the order asked for. A unit that does not
exist has a block too (LoadState=not-found), so a block too few means that something was not answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.values import as_int, as_text, one_line, output
from rackproof.facts import Fact, Missing, Unit

UNITS = (
    "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "docker", "containerd", "podman.socket",
    "unattended-upgrades", "apt-daily-upgrade.timer", "apt-daily.timer", "dnf-automatic.timer",
    "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service", "nvidia-dcgm", "chrony", "systemd-timesyncd", "irqbalance",
)  # fmt: skip
_KEYS = "Id,LoadState,ActiveState,SubState,UnitFileState,NRestarts,Result,LimitMEMLOCK,LimitNOFILE,ExecStart"
_NO_LIMIT = "18446744073709551615"  # how systemd before 231 spells infinity

COMMANDS = (Command("systemd_units", f"systemctl show -p {_KEYS} {' '.join(UNITS)}", requires="systemctl"),)


def units(evidence: Evidence) -> Fact[Mapping[str, Unit]]:
    text = output(evidence, "systemd_units", "systemctl")
    return text if isinstance(text, Missing) else parse_units(text)


def parse_units(text: str, names: Sequence[str] = UNITS) -> Fact[Mapping[str, Unit]]:
    """Unit by the name it was asked for (`docker`, `podman.socket`); missing unless every one was answered."""
    blocks: list[dict[str, str]] = [{}]
    for line in text.replace("\r\n", "\n").split("\n"):
        key, equals, value = line.partition("=")
        if not line.strip():
            blocks.append({})
        elif equals and key.isascii() and key.isalpha():
            blocks[-1].setdefault(key, value)
        else:
            return Missing(f"systemctl show printed: {one_line(line)}")
    blocks = [block for block in blocks if block]
    if len(blocks) != len(names):
        return Missing(f"systemctl show answered for {len(blocks)} of {len(names)} units")
    found = {}
    for name, block in zip(names, blocks, strict=True):
        if not all(block.get(key) for key in ("Id", "LoadState", "ActiveState", "SubState")):
            return Missing(f"systemctl show gives no state of {name}")
        found[name] = _unit(block, name)
    return found


def _unit(block: Mapping[str, str], name: str) -> Unit:
    memlock = as_text(block.get("LimitMEMLOCK"), f"LimitMEMLOCK of {name}")
    nofile = as_text(block.get("LimitNOFILE"), f"LimitNOFILE of {name}")
    return Unit(
        name=block["Id"],
        load=block["LoadState"],
        active=block["ActiveState"],
        sub=block["SubState"],
        enabled=block.get("UnitFileState", ""),
        restarts=as_int(block.get("NRestarts"), f"NRestarts of {name}"),
        result=block.get("Result", ""),
        memlock="infinity" if memlock == _NO_LIMIT else memlock,
        exec_start=block.get("ExecStart", ""),
        nofile="infinity" if nofile == _NO_LIMIT else nofile,
    )
