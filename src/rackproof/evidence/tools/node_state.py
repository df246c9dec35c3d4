"""What the node was doing: failed units, processes in state D, limits of container daemons, listening ports, its own name.

Formats: `systemctl list-units --plain --no-legend` (systemd 219 to 257), /proc/PID/stat and limits (proc(5)),
/proc/net/tcp and tcp6 (Documentation/networking/proc_net_tcp), `getent ahosts`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.system import parse_limit
from rackproof.evidence.tools.values import one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_state import BlockedProcess, DaemonLimits, Listener, NodeState, ServingUnit

DAEMONS = ("dockerd", "containerd", "crio", "podman")
UNITS, STAT, LIMITS, TCP, TCP6, NAME = "units", "processes", "limits", "/proc/net/tcp", "/proc/net/tcp6", "own name"

# A process in state D is looked at again after a second: reading a disk puts a healthy one there for a moment.
# cat ends well although processes come and go; its complaints about those that went say nothing.
_SCRIPT = rf"""
if command -v systemctl >/dev/null; then
  said=$(systemctl list-units --all --plain --no-legend --no-pager 2>&1; echo "rc=$?")
  printf '= {UNITS}\n%s\n' "$(printf '%s\n' "$said" | awk '
    {{ sub(/^[^!-~]+/, "") }}
    /^rc=/ || NF < 4 || $1 !~ /[.][a-z]+$/ {{ print "|" $0; next }}
    {{ n++ }}
    $3 == "failed" || $1 ~ /^rackproof-.*[.]service$/ {{ print "|" $1, $2, $3, $4 }}
    END {{ print "|units=" n + 0 }}')"
else printf '%s\n' '- {UNITS}'; fi
look() {{
  cat /proc/[0-9]*/stat 2>/dev/null | awk '
    {{ n++ }}
    $1 == 1 {{ first = 1 }}
    !/[)] D / && !/ [(]({"|".join(DAEMONS)})[)] / {{ next }}
    {{ rest = name = $0; sub(/.*[)] /, "", rest); split(rest, f, " ") }}
    {{ sub(/^[0-9]+ [(]/, "", name); sub(/[)] [^)]*$/, "", name) }}
    f[1] == "D" {{ print "|D", $1, (f[2] == 2 || $1 == 2), name }}
    name ~ /^({"|".join(DAEMONS)})$/ {{ print "|P", $1, name }}
    END {{ print "|processes=" n + 0, "first=" first + 0 }}'
}}
seen=$(look)
case $seen in *'|D '*)
  sleep 1
  again=$(look)
  seen=$(printf '%s\n' "$seen" | while IFS= read -r line; do
    case $line in '|D '*) case $again in *"$line"*) ;; *) continue ;; esac ;; esac
    printf '%s\n' "$line"
  done) ;;
esac
printf '= {STAT}\n%s\n' "$seen"
files=$(printf '%s\n' "$seen" | sed -n 's,^|P \([0-9]*\) .*,/proc/\1/limits,p')
if [ -n "$files" ]; then
  printf '= {LIMITS}\n%s\n' "$(grep -E '^Max (locked memory|open files) ' $files /dev/null 2>/dev/null | sed 's/^/|/')"
fi
for f in {TCP} {TCP6}; do
  if [ -r "$f" ]; then
    printf '= %s\n%s\n' "$f" "$(awk 'NR > 1 && $4 == "0A" {{ print "|" $2 }} END {{ print "|lines=" NR }}' "$f")"
  else gone "$f"; fi
done
"""

_NAME_SCRIPT = f"""
read -r name </proc/sys/kernel/hostname
found=$(getent ahosts "$name")
printf '= {NAME}\\n%s\\n' "$(printf '%s\\nrc=%s\\n' "$found" $? | sed 's/^/|/')"
"""

COMMANDS = (
    Command("node_state", script(_SCRIPT), root=Root.HELPS),
    Command("own_name", script(_NAME_SCRIPT), requires="getent"),  # by itself: a dead resolver takes its time
)

_UNIT = re.compile(r"(\S+\.[a-z]+) (\S+) (\S+) (\S+)")
# The unit that the deploy installs, and those that `launch` renders, named after a layout: rackproof-gb300-tp8.
_SERVING = re.compile(r"rackproof-(serving|[a-z]{1,2}[0-9]+[a-z]*-.+)\.service")
_BLOCKED = re.compile(r"D ([0-9]{1,10}) ([01]) (.{1,64})")
_DAEMON = re.compile(r"P ([0-9]{1,10}) (\S{1,16})")
_SOCKET = re.compile(r"([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4})")
_ADDRESS = re.compile(r"([0-9A-Fa-f.:]{2,45})(?:%\S+)?\s+(?:STREAM|DGRAM|RAW)\b")


def state(evidence: Evidence) -> Fact[NodeState]:
    group = read_group(evidence, "node_state", "the state of the node")
    if isinstance(group, Missing):
        return group
    units = _units(group)
    return NodeState(
        failed_units=units if isinstance(units, Missing) else tuple(u.name for u in units if u.active == "failed"),
        serving_units=units if isinstance(units, Missing) else tuple(u for u in units if _SERVING.fullmatch(u.name)),
        blocked=_blocked(group),
        daemons=_daemons(group),
        listening=_listening(group),
    )


def _units(group: Group) -> Fact[tuple[ServingUnit, ...]]:
    """Units that failed, and ours; systemd lists hundreds on any node, so a list of none was not read."""
    text = group.text(UNITS)
    if not isinstance(text, str):
        return text or Missing("systemctl is not installed")
    lines = text.splitlines()
    if len(lines) < 2 or "rc=0" not in lines[-2:] or not re.fullmatch(r"units=[1-9][0-9]{0,8}", lines[-1]):
        return Missing(f"systemctl list-units: {one_line(text) or 'nothing printed'}")
    found = []
    for line in lines[:-1]:
        match = _UNIT.fullmatch(line)
        if match:
            found.append(ServingUnit(match[1], match[2], match[3], match[4]))
        elif line != "rc=0":
            return Missing(f"systemctl list-units: {one_line(line)}")
    return tuple(found)


def _processes(group: Group) -> Fact[list[str]]:
    """Lines of the look at all processes, without its end; missing where other users' processes are hidden."""
    text = group.needed(STAT)
    if isinstance(text, Missing):
        return text
    lines = text.splitlines()
    end = re.fullmatch(r"processes=[1-9][0-9]{0,9} first=([01])", lines[-1])
    if not end:
        return Missing(f"the list of processes is cut off: {one_line(lines[-1])}")
    return lines[:-1] if end[1] == "1" else Missing("/proc shows only the processes of the user who probed")


def _blocked(group: Group) -> Fact[tuple[BlockedProcess, ...]]:
    lines = _processes(group)
    if isinstance(lines, Missing):
        return lines
    found = []
    for line in lines:
        match = _BLOCKED.fullmatch(line)
        if match:
            found.append(BlockedProcess(int(match[1]), one_line(match[3]), match[2] == "1"))
        elif not line.startswith("P "):
            return Missing(f"the list of processes holds: {one_line(line)}")
    return tuple(found)


def _daemons(group: Group) -> Fact[Mapping[str, DaemonLimits]]:
    """By name; {} where none of them runs. Of several with one name (nested engines) the lowest pid, the oldest."""
    lines = _processes(group)
    if isinstance(lines, Missing):
        return lines
    running = sorted((int(m[1]), m[2]) for line in lines if (m := _DAEMON.fullmatch(line)))
    text = group.text(LIMITS)
    rows = re.findall(r"^/proc/([0-9]{1,10})/limits:(.*)$", text if isinstance(text, str) else "", re.MULTILINE)
    found: dict[str, DaemonLimits] = {}
    for pid, name in running:
        own = "\n".join(row for at, row in rows if int(at) == pid)
        if own and name not in found:
            found[name] = DaemonLimits(pid, parse_limit(own, "memlock"), parse_limit(own, "nofile"))
    unread = sorted({name for _, name in running} - set(found))
    return Missing(f"limits of {one_line(unread[0])} could not be read") if unread else found


def _listening(group: Group) -> Fact[tuple[Listener, ...]]:
    """A kernel without IPv6 has no tcp6; without tcp nothing is known."""
    found: set[Listener] = set()
    for path in (TCP, TCP6):
        text = group.text(path)
        if text is None and path == TCP6:
            continue
        sockets = parse_sockets(text) if isinstance(text, str) else text or Missing(f"{path} does not exist")
        if isinstance(sockets, Missing):
            return sockets
        found.update(sockets)
    return tuple(sorted(found, key=lambda item: (item.port, item.address)))


def parse_sockets(text: str) -> Fact[tuple[Listener, ...]]:
    """Addresses are hexadecimal words of the machine's byte order, which is little-endian on all we support."""
    lines = text.splitlines()
    if not lines or not re.fullmatch(r"lines=[1-9][0-9]{0,9}", lines[-1]):
        return Missing(f"the list of TCP sockets is cut off: {one_line(text) or 'empty'}")
    found = []
    for line in lines[:-1]:
        match = _SOCKET.fullmatch(line)
        if not match:
            return Missing(f"the list of TCP sockets holds: {one_line(line)}")
        words = [bytes.fromhex(match[1][at : at + 8])[::-1] for at in range(0, len(match[1]), 8)]
        found.append(Listener(str(ipaddress.ip_address(b"".join(words))), int(match[2], 16)))
    return tuple(found)


def own_addresses(evidence: Evidence) -> Fact[tuple[str, ...]]:
    group = read_group(evidence, "own_name", "getent")
    text = group if isinstance(group, Missing) else group.needed(NAME)
    return text if isinstance(text, Missing) else parse_own_name(text)


def parse_own_name(text: str) -> Fact[tuple[str, ...]]:
    """Addresses in the resolver's order, each once; exit code 2 of getent says that the name is not known."""
    *lines, end = text.splitlines() or [""]
    if end == "rc=2":
        return ()
    if end != "rc=0":
        return Missing(f"getent ahosts: {one_line(text) or 'nothing printed'}")
    matches = [_ADDRESS.match(line) for line in lines if line.strip()]
    found = tuple(dict.fromkeys(match[1].lower() for match in matches if match))
    return found if found and all(matches) else Missing(f"getent ahosts: {one_line(text)}")
