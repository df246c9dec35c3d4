"""IMEX, the daemon that shares memory between the trays of an NVL72 rack: its node list, channels, and domain state.

Formats: `nvidia-imex-ctl -N -j` (JSON, R580 and later) and `-N` (text table, R570 and later); nodes_config.cfg with one
address or host name a line. Source: captures of IMEX 570.172 and 580.173; docs.nvidia.com/multi-node-nvlink-systems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.values import as_text, load_object, one_line, output, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_nvlink import ImexDomain, ImexPeer

CONFIG_FILE = "/etc/nvidia-imex/config.cfg"
NODES_FILE = "/etc/nvidia-imex/nodes_config.cfg"
CHANNELS = "/dev/nvidia-caps-imex-channels"

_FILES_SCRIPT = f"""
show {NODES_FILE} {CONFIG_FILE} /proc/devices
for f in {CHANNELS}/*; do
  if [ -c "$f" ]; then printf '%s\\n' "+ $f"; say "mode $f" "$(stat -c %a "$f")"; elif [ ! -e "$f" ]; then gone "$f"; fi
done
"""

COMMANDS = (
    Command("imex_ctl", "nvidia-imex-ctl -N -j || nvidia-imex-ctl -N", "nvidia-imex-ctl", Root.HELPS, 10),
    Command("imex_files", script(_FILES_SCRIPT), root=Root.HELPS),
)

# letters of the text table -> the words of the JSON form
_LETTERS = {
    "C": "CONNECTED", "I": "INVALID", "N": "NEVER_CONNECTED", "R": "RECOVERING", "D": "DISCONNECTED",
    "A": "AUTHENTICATING", "!V!": "VERSION_MISMATCH", "!M!": "NODE_MAP_MISMATCH",
}  # fmt: skip
_CONNECTED = "CONNECTED"
_PEER = re.compile(
    r"Node #([0-9]+)\s+[-*]\s+(\S+)\s+(?:\*\s+)?(?:-\s+)?([A-Z_]+)(?:\s+-\s+Version:\s*(\S*?))?(?:\s+-\s.*)?\s*"
)
_STATE = re.compile(r"Domain State:\s*(\S+)\s*")
_ROW = re.compile(r"\s*([0-9]+)((?:\s+(?:[A-Z]|![A-Z]!))+)\s*")


def domain(evidence: Evidence) -> Fact[ImexDomain]:
    text = output(evidence, "imex_ctl", "nvidia-imex-ctl")
    return text if isinstance(text, Missing) else parse_domain(text)


def parse_domain(text: str) -> Fact[ImexDomain]:
    """Either form of output. Status words nobody has seen yet are kept as they are."""
    text = plain(text)
    if "Domain State:" in text or "Node #" in text:
        return _parse_table(text)
    found = load_object(text, "nvidia-imex-ctl")
    return found if isinstance(found, Missing) else _parse_json(found)


def _parse_json(found: Mapping[str, object]) -> Fact[ImexDomain]:
    nodes, status = found.get("nodes"), found.get("status")
    if not isinstance(nodes, dict) or not nodes or not isinstance(status, str) or not status:
        return Missing("nvidia-imex-ctl lists no nodes or no domain status")
    peers, bad = [], []
    for number, node in nodes.items():
        if not isinstance(node, dict) or not isinstance(node.get("host"), str):
            return Missing(f"nvidia-imex-ctl does not describe node {one_line(str(number))}")
        version = node.get("version")
        peers.append(
            ImexPeer(
                host=node["host"],
                status=str(node.get("status") or "not reported"),
                version=as_text(version if isinstance(version, str) else None, f"version of {one_line(node['host'])}"),
            )
        )
        links = node.get("connections")
        for other in nodes:
            link = links.get(other) if isinstance(links, dict) else None
            word = link.get("status") if isinstance(link, dict) else None
            if word != _CONNECTED:
                bad.append(f"{number} -> {other}: {word or 'not reported'}")
    return ImexDomain(status, tuple(peers), tuple(bad))


def _parse_table(text: str) -> Fact[ImexDomain]:
    lines = text.splitlines()
    state = next((match for line in lines if (match := _STATE.fullmatch(line))), None)
    peers = {int(match[1]): match for line in lines if (match := _PEER.fullmatch(line))}
    if not state or not peers:
        return Missing(f"nvidia-imex-ctl printed no complete table: {one_line(text)}")
    rows = {int(match[1]): match[2].split() for line in lines if (match := _ROW.fullmatch(line))}
    count = len(peers)
    if sorted(peers) != list(range(count)) or sorted(rows) != list(range(count)):
        return Missing(f"the IMEX table lists {count} nodes and {len(rows)} rows of connections")
    bad = []
    for number in sorted(rows):
        if len(rows[number]) != count:
            return Missing(f"row {number} of the IMEX table is cut off")
        for other, letter in enumerate(rows[number]):
            word = _LETTERS.get(letter, letter)
            if word != _CONNECTED:
                bad.append(f"{number} -> {other}: {word}")
    listed = tuple(
        ImexPeer(peers[number][2], peers[number][3], as_text(peers[number][4], f"version of {peers[number][2]}"))
        for number in sorted(peers)
    )
    return ImexDomain(state[1], listed, tuple(bad))


def nodes(evidence: Evidence) -> Fact[tuple[str, ...] | None]:
    """Lines of nodes_config.cfg; None where there is no such file."""
    group = read_group(evidence, "imex_files", NODES_FILE)
    if isinstance(group, Missing):
        return group
    text = group.text(NODES_FILE)
    return parse_nodes(text) if isinstance(text, str) else text


def parse_nodes(text: str) -> tuple[str, ...]:
    """Addresses or host names in the order of the file, without comments, blank lines and carriage returns."""
    lines = (line.split("#", 1)[0].strip() for line in text.replace("\r", "\n").split("\n"))
    return tuple(line for line in lines if line)


def config(evidence: Evidence) -> Fact[Mapping[str, str] | None]:
    """Settings of config.cfg; None where there is no such file."""
    group = read_group(evidence, "imex_files", CONFIG_FILE)
    text = group if isinstance(group, Missing) else group.text(CONFIG_FILE)
    return parse_config(text) if isinstance(text, str) else text


def parse_config(text: str) -> Mapping[str, str]:
    """KEY -> value as written: "SERVER_PORT=50000"; of a key that repeats, the last counts."""
    return dict(re.findall(r"^\s*([A-Z][A-Z0-9_]*)\s*=\s*(.*?)\s*$", text.replace("\r", ""), re.MULTILINE))


def major(evidence: Evidence) -> Fact[bool]:
    """Whether the loaded driver has registered IMEX channels as character devices."""
    group = read_group(evidence, "imex_files", "/proc/devices")
    text = group if isinstance(group, Missing) else group.needed("/proc/devices")
    if isinstance(text, Missing):
        return text
    return bool(re.search(r"^ *[0-9]+ nvidia-caps-imex-channels$", text.replace("\r", ""), re.MULTILINE))


def channel_modes(evidence: Evidence) -> Fact[Mapping[str, str]]:
    """Full path of each channel -> its permissions in octal: "666"."""
    paths = channels(evidence)
    group = read_group(evidence, "imex_files", CHANNELS)
    if isinstance(paths, Missing) or isinstance(group, Missing):
        return paths if isinstance(paths, Missing) else Missing("the channels were not listed")
    texts = {path: group.text(f"mode {path}") for path in paths}
    found = {path: text.strip() for path, text in texts.items() if isinstance(text, str)}
    whole = len(found) == len(texts) and all(re.fullmatch("[0-7]{3,4}", mode) for mode in found.values())
    return found if whole else Missing("the probe did not read the permissions of the IMEX channels")


def channels(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Character devices under /dev/nvidia-caps-imex-channels by full path; () where there are none."""
    group = read_group(evidence, "imex_files", CHANNELS)
    if isinstance(group, Missing):
        return group
    names = group.names(CHANNELS)
    return names if isinstance(names, Missing) else tuple(f"{CHANNELS}/{name}" for name in names)
