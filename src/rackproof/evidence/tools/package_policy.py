"""What moves packages by itself, and what keeps them: apt's periodic jobs, holds, dnf's versionlock, candidates.

`apt-config dump` is asked, since of all files in apt.conf.d the last one that names a setting counts. `apt-cache policy`
is asked only where apt's cache is newer than what it is made of: else it would take a second of CPU to make it anew,
and root would even write it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.packages import VERSION_LOCKS
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_system import AptFacts, Candidate

# What an upgrade must not move under a running engine, as patterns of dpkg-query.
_WATCHED = (
    "'nvidia*' 'libnvidia*' 'libnvsdm*' nvlsm 'cuda-drivers*' 'docker*' containerd.io 'linux-image-*' amdgpu-dkms 'doca-*'"
)
STALE = "apt's package cache is older than its lists or dpkg's status"

_SCRIPT = f"""
printf '= settings\\n%s\\n' "$(apt-config dump |
  grep -iE '^(APT::Periodic|Unattended-Upgrade)::|^APT::Architecture ' | sed 's/^/|/')"
policy() {{
  cache=/var/cache/apt/pkgcache.bin
  for f in /var/lib/dpkg/status /var/lib/apt/lists/* /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ -f "$cache" ] && ! [ "$f" -nt "$cache" ] || {{ echo stale; return; }}
  done
  set -- $(dpkg-query -W -f '${{db:Status-Abbrev}} ${{Package}}\\n' {_WATCHED} 2>/dev/null | sed -n 's/^[ih]i *//p')
  [ $# = 0 ] || apt-cache policy "$@" || echo "failed"
}}
printf '= policy\\n%s\\n' "$(policy | sed 's/^/|/')"
"""

COMMANDS = (Command("apt", script(_SCRIPT), requires="apt-config"),)

_SETTING = re.compile(r'([A-Za-z0-9:_/.-]+) "(.*)";')
_PERIODIC = "apt::periodic::"
_BLACKLIST = "unattended-upgrade::package-blacklist::"


def apt(evidence: Evidence) -> Fact[AptFacts]:
    text = _said(evidence, "settings")
    return text if isinstance(text, Missing) else parse_apt_config(text)


def _said(evidence: Evidence, what: str) -> Fact[str]:
    group = read_group(evidence, "apt", "apt")
    text = group if isinstance(group, Missing) else group.text(what)
    return Missing(f"the probe has no {what} of apt") if text is None else text


def parse_apt_config(text: str) -> Fact[AptFacts]:
    """The settings of `apt-config dump`; names are compared without case, as apt does."""
    pairs = []
    for line in text.replace("\r\n", "\n").splitlines():
        if not line.strip():
            continue
        match = _SETTING.fullmatch(line)
        if not match:
            return Missing(f"apt-config: {one_line(line)}")
        pairs.append((match[1], match[2]))
    if not pairs:
        return Missing("apt-config names not even an architecture")
    periodic = {k[len(_PERIODIC) :]: value for k, value in pairs if k.lower().startswith(_PERIODIC)}
    return AptFacts(
        periodic=periodic,
        blacklist=tuple(value for key, value in pairs if key.lower() == _BLACKLIST and value),
        upgrades_itself=_upgrades_itself({key.lower(): value for key, value in periodic.items()}),
    )


def _upgrades_itself(periodic: Mapping[str, str]) -> Fact[bool]:
    """As apt.systemd.daily decides: Enable counts as 1 and the interval as 0 where nobody set them; 0 is off."""
    if periodic.get("enable", "1") == "0":
        return False
    interval = periodic.get("unattended-upgrade", "0")
    if interval in ("0", ""):
        return False
    known = re.fullmatch(r"always|[0-9]+[smhd]?", interval)
    return True if known else Missing(f"APT::Periodic::Unattended-Upgrade: {one_line(interval)}")


def candidates(evidence: Evidence) -> Fact[Mapping[str, Candidate]]:
    """Installed GPU, kernel and engine packages for which apt has another version."""
    text = _said(evidence, "policy")
    if isinstance(text, Missing):
        return text
    return Missing(STALE) if text.strip() == "stale" else parse_policy(text)


def parse_policy(text: str) -> Fact[Mapping[str, Candidate]]:
    """Name -> installed and candidate version where the two differ, of `apt-cache policy NAME...`."""
    found: dict[str, Candidate] = {}
    name, installed = "", ""
    for line in plain(text).splitlines():
        heading = re.fullmatch(r"([a-z0-9][a-z0-9+.:-]*):", line)
        value = re.fullmatch(r"  (Installed|Candidate): (\S+)", line)
        if heading:
            name, installed = heading[1], ""
        elif value and name:
            if value[1] == "Installed":
                installed = value[2]
            elif installed not in ("", "(none)", value[2]):
                found[name] = Candidate(installed, value[2])
        elif line.strip() and not line.startswith((" ", "N: ", "W: ")):
            return Missing(f"apt-cache policy: {one_line(line)}")
    return found


def versionlocks(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Entries of dnf's version locks; () where there is no such file."""
    group = read_group(evidence, "apt_config", "the settings of the package manager")
    if isinstance(group, Missing):
        return group
    texts = [group.text(path) for path in VERSION_LOCKS]
    unread = next((text for text in texts if isinstance(text, Missing)), None)
    return unread or tuple(line for text in texts if isinstance(text, str) for line in parse_versionlock(text))


def parse_versionlock(text: str) -> tuple[str, ...]:
    """Entries of versionlock.list, or the lines of dnf5's versionlock.toml, without comments."""
    lines = (line.split("#", 1)[0].strip() for line in text.replace("\r\n", "\n").split("\n"))
    return tuple(line for line in lines if line)


def parse_holds(text: str) -> tuple[str, ...]:
    """`apt-mark showhold`: one name a line."""
    return tuple(line.strip() for line in text.splitlines() if re.fullmatch(r"\s*[a-z0-9][a-z0-9+.:-]*\s*", line))
