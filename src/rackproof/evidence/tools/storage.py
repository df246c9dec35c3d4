"""Filesystems with their sizes, and block devices. `df` is asked about local filesystems alone: a dead file server holds
up whoever asks for its size. Formats: /proc/self/mounts, `df -Pk` (POSIX), `lsblk -J` (util-linux 2.27 and later).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.values import load_object, one_line, output, string
from rackproof.facts import Fact, Missing
from rackproof.facts_system import Disk, Filesystem

MOUNTS = "/proc/self/mounts"
LOCAL = "ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|vfat|tmpfs|overlay"
NETWORK = "nfs|nfs4|cifs|lustre|gpfs|beegfs|beegfs_nodev|ceph|weka|wekafs|virtiofs|9p|fuse[.].*|glusterfs|panfs|pvfs2"

# Mounts of containers and pods are theirs; what they use counts in the filesystem below.
_SCRIPT = rf"""
set -f
mounts=$(awk '
  $3 !~ /^({LOCAL}|{NETWORK})$/ {{ next }}
  $2 ~ /^\/(proc|sys|run\/(user|credentials|netns|docker|containerd)|var\/lib\/(kubelet\/pods|docker|containers))\// {{ next }}
  $3 == "overlay" && $2 != "/" {{ next }}
  {{ print "|" $0 }}' {MOUNTS})
printf '= {MOUNTS}\n%s\n' "$mounts"
IFS='
'
set --
for m in $mounts; do
  kind=${{m#* }} dir=${{kind%% *}} kind=${{kind#* }} kind=${{kind%% *}}
  case $dir in *\\*) continue ;; esac
  case $kind in {LOCAL}) set -- "$@" "$dir" ;; esac
done
[ $# = 0 ] || printf '= df\n%s\n' "$(df -Pk "$@" | sed 's/^/|/')"
"""

COMMANDS = (
    Command("storage", script(_SCRIPT), requires="df"),
    Command("lsblk", "lsblk -J -b -o NAME,TYPE,SIZE,ROTA,MODEL,TRAN,MOUNTPOINT", requires="lsblk"),
)

_DF = re.compile(r"(\S.*?) +([0-9]{1,18}) +[0-9]{1,18} +(-?[0-9]{1,18}) +(?:[0-9]+%|-) +(/.*)")
_MAX_DEPTH = 12


def filesystems(evidence: Evidence) -> Fact[tuple[Filesystem, ...]]:
    """Mounted filesystems that keep data, in the order they were mounted; a mount over another hides it in df."""
    group = read_group(evidence, "storage", "df")
    if isinstance(group, Missing):
        return group
    mounts, sizes = group.needed(MOUNTS), group.text("df")
    if isinstance(mounts, Missing):
        return mounts
    return parse_mounts(mounts, parse_df(sizes) if isinstance(sizes, str) else {})


def parse_mounts(text: str, sizes: Mapping[str, tuple[int, int]]) -> Fact[tuple[Filesystem, ...]]:
    """`sizes` is what parse_df found."""
    found = []
    for line in text.splitlines():
        words = line.split(" ")
        if not line.strip():
            continue
        if len(words) != 6:
            return Missing(f"{MOUNTS}: {one_line(line)}")
        device, mount, kind, options = (_unescaped(word) for word in words[:4])
        why = "was not asked for its size" if re.fullmatch(NETWORK, kind) else "is not in the output of df"
        nothing = Missing(f"{mount} ({kind}) {why}")
        size, available = sizes.get(mount, (nothing, nothing))
        found.append(Filesystem(device, mount, kind, tuple(options.split(",")), size, available))
    return tuple(found) or Missing(f"{MOUNTS} lists no filesystem")


def parse_df(text: str) -> Mapping[str, tuple[int, int]]:
    """Mount point -> (size, available) in bytes, of `df -Pk`. Lines that are no row say nothing."""
    rows = (match for line in text.splitlines() if (match := _DF.fullmatch(line)))
    return {row[4]: (int(row[2]) * 1024, max(0, int(row[3])) * 1024) for row in rows}


def _unescaped(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def disks(evidence: Evidence) -> Fact[tuple[Disk, ...]]:
    text = output(evidence, "lsblk", "lsblk")
    return text if isinstance(text, Missing) else parse_lsblk(text)


def parse_lsblk(text: str) -> Fact[tuple[Disk, ...]]:
    """Every device of the tree, a parent before its children; loop and RAM devices are left out.

    util-linux before 2.33 prints numbers and flags as text.
    """
    found = load_object(text, "lsblk")
    if isinstance(found, Missing):
        return found
    top = found.get("blockdevices")
    if not isinstance(top, list):
        return Missing("lsblk lists no block devices")
    return tuple(_disk(entry) for entry in _walk(top, 0) if entry.get("type") not in ("loop", "ram", None))


def _walk(entries: list[object], depth: int) -> Iterator[Mapping[str, object]]:
    for entry in entries:
        if isinstance(entry, dict) and depth < _MAX_DEPTH:
            yield entry
            below = entry.get("children")
            if isinstance(below, list):
                yield from _walk(below, depth + 1)


def _disk(entry: Mapping[str, object]) -> Disk:
    size, rotational = str(entry.get("size")), str(entry.get("rota")).lower()
    flag = {"true": True, "1": True, "false": False, "0": False}.get(rotational)
    mount = entry.get("mountpoint")
    return Disk(
        name=str(entry.get("name") or "?"),
        kind=str(entry["type"]),
        size_bytes=int(size) if re.fullmatch(r"[0-9]{1,18}", size) else Missing(f"size in lsblk: {one_line(size)}"),
        rotational=Missing(f"rota in lsblk: {one_line(rotational)}") if flag is None else flag,
        model=string(entry.get("model"), "model in lsblk"),
        transport=string(entry.get("tran"), "tran in lsblk"),
        mounts=(mount,) if isinstance(mount, str) and mount else (),
    )
