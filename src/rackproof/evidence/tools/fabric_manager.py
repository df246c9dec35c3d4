"""NVIDIA Fabric Manager and NVLSM, the daemons that make one NVLink fabric of an HGX board.

The unit's state is systemd's, the versions of packages are dpkg's; here are the daemon's own version, its mode, and the
lines of its log that tell how it went. `active` proves little: the daemon can run and have configured nothing.
Source: captures of 460 to 610; Fabric Manager User Guide (config keys, log); OpenSM 2025.10 (NVLSM).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_system import FabricEvent, FabricManagerFacts

CONFIG = "/usr/share/nvidia/nvswitch/fabricmanager.cfg"
LOG, NVLSM_LOG = "/var/log/fabricmanager.log", "/var/log/nvlsm.log"
MAX_EVENTS = 100

# In the log's words; multicast set-up and release fill it with messages of every NCCL start.
_TELLING = (
    "Successfully configured|don.t match|doesn.t match|NV_WARN_NOTHING_TO_DO|detected NVSwitch|NVLink .*(fail|error)|"
    "\\[(ERROR|CRITICAL|FATAL)\\]|partition id [0-9]+ is activated|Connected to [0-9]+ node|state\\b.*MASTER|MASTER state|"
    "another instance|infiniband_mad|SUBNET UP|ERR [0-9A-F]{4}:"
)
_SCRIPT = rf"""
printf '= version\n%s\n' "$(nv-fabricmanager --version 2>&1 | sed 's/^/|/')"
tail_of() {{
  if [ -r "$2" ]; then
    printf '%s\n%s\n' "= $2" "$(tail -c $1 "$2" | grep -aE '{_TELLING}' | tail -n {MAX_EVENTS} | cut -c 1-400 | sed 's/^/|/')"
  else show "$2"; fi
}}
if [ -r {CONFIG} ]; then
  printf '%s\n%s\n' '= {CONFIG}' "$(grep -E '^[A-Z_]+=' {CONFIG} | sed 's/^/|/')"
else show {CONFIG}; fi
tail_of 1048576 {LOG}
tail_of 262144 {NVLSM_LOG}
"""

COMMANDS = (Command("fabric_manager", script(_SCRIPT), "nv-fabricmanager", Root.HELPS),)

_VERSION = re.compile(r"Fabric Manager version is *: *([0-9]+(?:\.[0-9]+)+)")
_KINDS = (  # the first that matches
    ("version-mismatch", re.compile(r"do(?:es)?n.t match with driver version")),
    ("configured", re.compile(r"Successfully configured all the available")),
    ("no-devices", re.compile(r"NV_WARN_NOTHING_TO_DO")),
    ("switch-error", re.compile(r"detected NVSwitch (?:non-)?fatal error")),
    ("subnet-manager", re.compile(r"Entering MASTER state|SUBNET UP|another instance|infiniband_mad")),
    ("error", re.compile(r"\[(?:ERROR|CRITICAL|FATAL)\]|NVLink .*(?:fail|error)|ERR [0-9A-F]{4}:")),
)


def fabric_manager(evidence: Evidence) -> Fact[FabricManagerFacts]:
    group = read_group(evidence, "fabric_manager", "nv-fabricmanager")
    if isinstance(group, Missing):
        return group
    version = group.needed("version")
    return FabricManagerFacts(
        version=version if isinstance(version, Missing) else parse_version(version),
        mode=_mode(group),
        events=_events(group, LOG),
        nvlsm_events=_events(group, NVLSM_LOG),
    )


def parse_version(text: str) -> Fact[str]:
    match = _VERSION.search(text)
    return match[1] if match else Missing(f"nv-fabricmanager --version: {one_line(text) or 'nothing printed'}")


def parse_config(text: str) -> Mapping[str, str]:
    """KEY=value lines; the last of a key counts."""
    return dict(re.findall(r"^([A-Z_0-9]+)=(.*?)\s*$", text.replace("\r\n", "\n"), re.MULTILINE))


def _mode(group: Group) -> Fact[str]:
    text = group.text(CONFIG)
    if not isinstance(text, str):
        return text or Missing(f"{CONFIG} does not exist")
    return parse_config(text).get("FABRIC_MODE") or Missing(f"{CONFIG} sets no FABRIC_MODE")


def _events(group: Group, path: str) -> Fact[tuple[FabricEvent, ...]]:
    """() where the log is there and its tail tells nothing."""
    text = group.text(path)
    return parse_log(text) if isinstance(text, str) else text or Missing(f"{path} does not exist")


def parse_log(text: str) -> tuple[FabricEvent, ...]:
    """Telling lines of fabricmanager.log, nvlsm.log, or of the journal lines `systemctl status` shows."""
    found = []
    for line in plain(text).splitlines():
        kind = next((kind for kind, pattern in _KINDS if pattern.search(line)), None)
        if kind:
            found.append(FabricEvent(kind, one_line(line, 400)))
    return tuple(found[-MAX_EVENTS:])
