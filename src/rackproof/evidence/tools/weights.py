"""A model directory by names and sizes: are all shards there that the index names, and is none empty or unfinished.

Not part of the standard probe: the path is a site's choice. `weights_command` makes the command, `parse_weights` reads
it. Links are followed, since Hugging Face's cache is made of them. Nothing is hashed; the index (tens of MB) is reduced to
the names in it on the node.
"""

from __future__ import annotations

import re
import shlex

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import script
from rackproof.evidence.tools.storage import parse_df, parse_mounts
from rackproof.evidence.tools.values import one_line, output
from rackproof.facts import Fact, Missing
from rackproof.facts_system import Filesystem, WeightsFacts

SECTION = "weights"
INDEX = "model.safetensors.index.json"

_SCRIPT = rf"""
if [ ! -d "$d" ]; then if hidden "$d/."; then echo unread; else echo absent; fi; exit; fi
cd "$d" && [ -r . ] || {{ echo unread; exit; }}
echo "path $(pwd -P)"
for f in * .[!.]*; do
  if [ -f "$f" ]; then set -- "$@" "./$f"; elif [ -h "$f" ]; then printf 'dangling %s\n' "$f"; fi
done
[ $# = 0 ] || stat -L -c 'file %s %n' -- "$@"
if [ -r {INDEX} ]; then
  grep -oE '"total_size": *[0-9]+' {INDEX} | head -n 1 | sed 's/^[^:]*: */total /'
  grep -oE '"[^"/]+\.safetensors"' {INDEX} | sort -u | sed 's/^"/indexed /; s/"$//'
elif [ -e {INDEX} ]; then echo 'unread-index'; fi
n=0
for f in *.incomplete .cache/huggingface/download/*.incomplete ../../blobs/*.incomplete; do
  [ ! -e "$f" ] || n=$((n + 1))
done
echo "incomplete $n"
df -Pk . | sed -n '$s/^/df /p'
mount=$(df -Pk . | awk 'NR > 1 {{ print $NF }}' | tail -n 1)
awk -v mount="$mount" '$2 == mount {{ last = $0 }} END {{ print "mount " last }}' /proc/self/mounts
"""


def weights_command(path: str) -> Command:
    """Reads the model directory at this absolute path. A dead file server holds up this command alone."""
    return Command(SECTION, f"d={shlex.quote(path)}\nset --\n" + script(_SCRIPT), root=Root.HELPS, deadline_s=30)


def weights(evidence: Evidence, path: str) -> Fact[WeightsFacts]:
    text = output(evidence, SECTION, f"the model directory {path}")
    return text if isinstance(text, Missing) else parse_weights(text, path)


def parse_weights(text: str, path: str) -> Fact[WeightsFacts]:
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[0] in ("absent", "unread"):
        return Missing(f"{path} {'does not exist' if lines[0] == 'absent' else 'could not be read'}")
    if lines[-1] != "." or not lines[0].startswith("path "):
        return Missing(f"the list of the model directory is cut off: {one_line(lines[-1]) or 'empty'}")
    sizes: dict[str, int] = {}
    indexed: list[str] = []
    dangling: list[str] = []
    total: Fact[int] = Missing("the index gives no total_size")
    incomplete: int | None = None
    row, mount = "", ""
    for line in lines[1:-1]:
        word, _, rest = line.partition(" ")
        size, _, name = rest.partition(" ")
        if word == "file" and re.fullmatch(r"[0-9]{1,18}", size):
            sizes[name.removeprefix("./")] = int(size)
        elif word == "total" and re.fullmatch(r"[0-9]{1,18}", rest):
            total = int(rest)
        elif word == "incomplete" and re.fullmatch(r"[0-9]{1,9}", rest):
            incomplete = int(rest)
        elif word in ("indexed", "dangling") and rest:
            (indexed if word == "indexed" else dangling).append(rest)
        elif word in ("df", "mount"):
            row, mount = (rest, mount) if word == "df" else (row, rest)
        elif word != "unread-index":
            return Missing(f"the list of the model directory holds: {one_line(line)}")
    if incomplete is None:
        return Missing("the list of the model directory is cut off")
    shards = {name: size for name, size in sizes.items() if name.endswith(".safetensors")}
    no_index = Missing(f"{path} has no readable {INDEX}")
    return WeightsFacts(
        path=lines[0].removeprefix("path "),
        files=len(sizes) + len(dangling),
        bytes=sum(sizes.values()),
        shards=len(shards),
        shard_bytes=sum(shards.values()),
        indexed=len(indexed) if indexed else no_index,
        absent=tuple(sorted(set(indexed) - set(shards))) if indexed else no_index,
        indexed_bytes=total if indexed else no_index,
        empty=tuple(sorted(name for name, size in sizes.items() if size == 0)),
        incomplete=incomplete,
        filesystem=_filesystem(row, mount),
    )


def _filesystem(row: str, mount: str) -> Fact[Filesystem]:
    found = parse_mounts(mount, parse_df(row)) if mount else Missing("the filesystem of the model directory is not told")
    return found if isinstance(found, Missing) else found[0]
