"""Installed packages (dpkg or rpm) and where apt takes them from.

[packages]: `source=dpkg`, then `|STATUS<tab>NAME<tab>VERSION<tab>ARCH` for the packages that matter here and for every
package in a broken state, then `total=N rc=N`. STATUS is dpkg's abbreviation (dpkg-query(1)): "ii ", "hi " (held),
"iF " (half configured). rpm knows no such states and always gives "ii "; what an interrupted rpm leaves shows as two
versions of one package. A host may have both programs (EPEL has dpkg, Debian has rpm): dpkg counts where it has packages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import one_line, output
from rackproof.facts import Fact, Missing

_NAMES = (
    "amdgpu|amd-container-toolkit|nvidia|libnvidia|libnvsdm|kmod-nvidia|cuda|datacenter-gpu|nvlsm|nvlink|gdrdrv|doca|infiniband-diags|rdma-core|docker|moby|"
    "containerd|podman|runc|unattended-upgrades|dnf-automatic|linux-image|linux-modules|linux-headers|gnupg|gpg$"
)
_PACKAGES_SCRIPT = rf"""
if command -v dpkg-query >/dev/null &&
  {{ [ -n "$(dpkg-query -W -f x 2>/dev/null || :)" ] || ! command -v rpm >/dev/null; }}; then
  echo source=dpkg
  list() {{ dpkg-query -W -f '${{db:Status-Abbrev}}\t${{Package}}\t${{Version}}\t${{Architecture}}\n'; }}
elif command -v rpm >/dev/null; then
  echo source=rpm
  list() {{ rpm -qa --qf 'ii \t%{{NAME}}\t%|EPOCH?{{%{{EPOCH}}:}}:{{}}|%{{VERSION}}-%{{RELEASE}}\t%{{ARCH}}\n'; }}
else
  echo source=none; exit 0
fi
{{ list; echo "rc=$?"; }} | awk -F '\t' '
  /^rc=/ {{ rc = $0; next }}
  {{ total++ }}
  $2 ~ /^({_NAMES})/ || $1 !~ /^.[inc] ?$/ {{ print "|" $0 }}
  END {{ printf "total=%d %s\n", total, rc }}'
"""
_APT_SCRIPT = """
show /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources
show /etc/apt/preferences /etc/apt/preferences.d/*
show /etc/apt/apt.conf.d/*auto-upgrades /etc/apt/apt.conf.d/*unattended-upgrades
mark /etc/apt
"""
VERSION_LOCKS = (
    "/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml",
)  # fmt: skip


COMMANDS = (
    Command("packages", _PACKAGES_SCRIPT),
    Command("apt_config", script(f"{_APT_SCRIPT}show {' '.join(VERSION_LOCKS)}\n"), root=Root.HELPS),
)

_TRAILER = re.compile(r"total=([0-9]{1,9}) rc=0")
_ROW = re.compile(r"\|([a-zA-Z]{2}[ R]?)\t([A-Za-z0-9][A-Za-z0-9+._-]*)\t([^\t]*)\t([a-z0-9_()]*)")
_FOREIGN = frozenset({"i386", "i686"})


def packages(evidence: Evidence) -> Fact[Mapping[str, str]]:
    rows = _rows(evidence)
    return rows if isinstance(rows, Missing) else installed(rows)


def broken_packages(evidence: Evidence) -> Fact[tuple[str, ...]]:
    rows = _rows(evidence)
    return rows if isinstance(rows, Missing) else broken(rows)


def held(evidence: Evidence) -> Fact[tuple[str, ...]]:
    rows = _rows(evidence)
    return rows if isinstance(rows, Missing) else held_names(rows)


def _rows(evidence: Evidence) -> Fact[list[tuple[str, ...]]]:
    text = output(evidence, "packages", "the package query")
    return text if isinstance(text, Missing) else parse_packages(text)


def parse_packages(text: str) -> Fact[list[tuple[str, ...]]]:
    """(status, name, version, architecture) of every row; a list without its end is missing as a whole."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[0] == "source=none":
        return Missing("neither dpkg nor rpm is installed")
    if lines[0] not in ("source=dpkg", "source=rpm"):
        return Missing(f"the package query printed: {one_line(text) or 'nothing'}")
    trailer = _TRAILER.fullmatch(lines[-1])
    if not trailer or trailer[1] == "0":
        return Missing(f"the package query did not end well: {one_line(lines[-1])}")
    rows = []
    for line in lines[1:-1]:
        row = _ROW.fullmatch(line)
        if not row:
            return Missing(f"the package query printed: {one_line(line)}")
        rows.append(row.groups())
    return rows


def installed(rows: list[tuple[str, ...]]) -> Mapping[str, str]:
    """Name -> version of what is installed. The 32-bit twin of a package (libnvidia-compute:i386) does not count."""
    return {name: version for status, name, version, arch in rows if status[1] == "i" and arch not in _FOREIGN}


def broken(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Names with a state other than installed, not installed or removed, or that dpkg wants reinstalled, or installed
    in two versions at once: rpm takes the old one away last, so one that was killed leaves both."""
    times = Counter((name, arch) for status, name, _, arch in rows if status[1] == "i")
    states = {name for status, name, _, _ in rows if status[1] not in "inc" or status[2:3] == "R"}
    return tuple(sorted(states | {name for (name, _), count in times.items() if count > 1}))


def held_names(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Names of the installed packages that dpkg holds at their version. rpm has no such state."""
    return tuple(sorted({name for status, name, _, _ in rows if status[0] == "h" and status[1] == "i"}))


def apt_sources(evidence: Evidence) -> Fact[Mapping[str, str]]:
    """File -> text of sources.list and sources.list.d."""
    return _texts(_apt(evidence), "/etc/apt/sources.list")


def apt_preferences(evidence: Evidence) -> Fact[Mapping[str, str]]:
    """File -> text of preferences and preferences.d; {} where apt has none."""
    return _texts(_apt(evidence), "/etc/apt/preferences")


def _apt(evidence: Evidence) -> Group | Missing:
    group = read_group(evidence, "apt_config", "/etc/apt")
    if isinstance(group, Missing):
        return group
    exists = group.exists("/etc/apt")
    if isinstance(exists, Missing):
        return exists
    return group if exists else Missing("there is no /etc/apt: this system does not use apt")


def _texts(group: Group | Missing, start: str) -> Fact[Mapping[str, str]]:
    if isinstance(group, Missing):
        return group
    found = {}
    for path, text in group.entries.items():
        if path != start and not path.startswith(f"{start}.d/"):
            continue
        if isinstance(text, Missing):
            return text
        if text is not None:
            found[path] = text
    return found
