"""A model directory by names and sizes: are all shards there that the index names, each as long as its header says?

The path is a site's choice: without one the section says so. Links are followed, since Hugging Face's cache is made of
them. Nothing is hashed; the index (tens of MB) is reduced to the names in it on the node, a header to its last offset.

Formats: model.safetensors.index.json; safetensors (8 bytes of header size, little-endian, then JSON); a snapshot
directory of Hugging Face's cache, and `.cache/huggingface/download/*.metadata` of `hf download --local-dir`, whose first
line is the commit. Source: huggingface/safetensors README, huggingface_hub _local_folder.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import script
from rackproof.evidence.tools.storage import parse_df, parse_mounts
from rackproof.evidence.tools.values import one_line, output
from rackproof.evidence.tools.weights_listing import Listing, config, parse_listing, revision
from rackproof.facts import Fact, Missing
from rackproof.facts_system import Filesystem
from rackproof.facts_weights import Shard, WeightsFacts

COMMANDS: tuple[Command, ...] = ()  # they need the path: weights_commands
SECTION, HEADERS = "weights", "weights_headers"
INDEX = "model.safetensors.index.json"
REVISION = ".rackproof-revision"  # one line, written by our deploy
MAX_CONFIG_CHARS = 65536
UNNAMED = "no model directory was named"

_SCRIPT = rf"""
printf 'asked %s\n' "$d"
if [ ! -d "$d" ]; then if hidden "$d/."; then echo unread; else echo absent; fi; printf '.\n'; exit; fi
cd "$d" && [ -r . ] || {{ echo unread; printf '.\n'; exit; }}
echo "path $(pwd -P)"
for f in * .[!.]*; do
  if [ -f "$f" ]; then set -- "$@" "./$f"; elif [ -h "$f" ]; then printf 'dangling %s\n' "$f"; fi
done
[ $# = 0 ] || stat -L -c 'file %s %n' -- "$@"
if [ -r {INDEX} ]; then
  echo index
  grep -oE '"total_size": *[0-9]+' {INDEX} | head -n 1 | sed 's/^[^:]*: */total /'
  grep -oE '"[^"/]+\.safetensors"' {INDEX} | sort -u | sed 's/^"/indexed /; s/"$//'
elif [ -e {INDEX} ]; then echo 'unread-index'; fi
[ ! -r {REVISION} ] || {{ read -r line <{REVISION}; printf 'revision %s\n' "$line"; }}
set -- .cache/huggingface/download/*.metadata
[ ! -r "$1" ] || awk 'FNR == 1 {{ print "commit " $1 }}' "$@" | sort -u | head -n 20
if [ -r config.json ]; then
  text=$(tr -d ' \t\r\n' <config.json | head -c {MAX_CONFIG_CHARS + 1})
  if [ ${{#text}} -gt {MAX_CONFIG_CHARS} ]; then echo large-config; else printf 'config %s\n' "$text"; fi
elif [ -e config.json ]; then echo unread-config; fi
n=0
for f in *.part *.incomplete .cache/huggingface/download/*.incomplete ../../blobs/*.incomplete; do
  [ ! -e "$f" ] || n=$((n + 1))
done
echo "incomplete $n"
df -Pk . | sed -n '$s/^/df /p'
mount=$(df -Pk . | awk 'NR > 1 {{ print $NF }}' | tail -n 1)
awk -v mount="$mount" '$2 == mount {{ last = $0 }} END {{ print "mount " last }}' /proc/self/mounts
"""

# The end of the last tensor is the largest offset; a header has at most 100,000,000 bytes (safetensors' own limit).
_HEADERS_SCRIPT = r"""
cd "$d" || exit
count=0
for f in *.safetensors; do
  [ -r "$f" ] && [ -s "$f" ] || continue
  count=$((count + 1))
  set -- $(od -An -tu1 -N8 "$f")
  n=bad
  if [ "$#" = 8 ] && [ "$5$6$7$8" = 0000 ]; then n=$(($1 + $2 * 256 + $3 * 65536 + $4 * 16777216)); fi
  if [ "$n" = bad ] || [ "$n" -gt 100000000 ]; then printf 'odd %s\n' "$f"; continue; fi
  end=$(tail -c +9 "$f" | head -c "$n" | grep -oE '"data_offsets": *\[ *[0-9]+ *, *[0-9]+' | awk -F, '
    $2 + 0 > max { max = $2 + 0 }
    END { if (NR) printf "%.0f", max }')
  if [ -n "$end" ]; then printf 'header %s %s %s\n' "$n" "$end" "$f"; else printf 'odd %s\n' "$f"; fi
done
echo "shards=$count"
"""


def weights_commands(path: str) -> tuple[Command, ...]:
    """Reads the model directory at this absolute path; "" where none was named. A dead file server holds up these alone.

    The headers are a section of their own: they take long where storage is slow, and the rest should not be lost then.
    """
    if not path:
        return (Command(SECTION, f"echo '{UNNAMED}'"),)
    named = f"d={shlex.quote(path)}\nset --\n"
    return (
        Command(SECTION, named + script(_SCRIPT), root=Root.HELPS, deadline_s=30),
        Command(HEADERS, named + script(_HEADERS_SCRIPT), root=Root.HELPS, deadline_s=30),
    )


def weights(evidence: Evidence) -> Fact[WeightsFacts]:
    """The directory by its listing; what headers say of sizes comes with `sized`."""
    text = output(evidence, SECTION, "the model directory")
    if isinstance(text, Missing):
        return text
    if text.strip() == UNNAMED:
        return Missing(UNNAMED)
    listing = parse_listing(text)
    if isinstance(listing, Missing):
        return listing
    if not listing.exists:
        absent = Missing(f"{listing.asked} does not exist")
        return WeightsFacts(listing.asked, False, **{field.name: absent for field in fields(WeightsFacts)[2:]})
    return _facts(listing)


def headers(evidence: Evidence) -> Fact[Mapping[str, int | None]]:
    text = output(evidence, HEADERS, "reading the headers of the shards")
    return text if isinstance(text, Missing) else parse_headers(text)


def sized(found: Fact[WeightsFacts], told: Fact[Mapping[str, int | None]]) -> Fact[WeightsFacts]:
    """The facts of a directory with the shards that are not as long as their headers tell."""
    if isinstance(found, Missing) or not found.exists:
        return found
    return replace(found, wrong_size=told if isinstance(told, Missing) else _wrong_size(found.shard_sizes, told))


def parse_weights(text: str) -> Fact[WeightsFacts]:
    """Facts of the section's text."""
    listing = parse_listing(text)
    if isinstance(listing, Missing) or not listing.exists:
        return listing if isinstance(listing, Missing) else Missing(f"{listing.asked} does not exist")
    return _facts(listing)


def parse_headers(text: str) -> Fact[Mapping[str, int | None]]:
    """Shard -> size it must have by its header; None where the header is none."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    end = re.fullmatch(r"shards=([0-9]{1,9})", lines[-2]) if len(lines) > 1 and lines[-1] == "." else None
    if not end:
        return Missing(f"the list of shard headers is cut off: {one_line(lines[-1]) or 'empty'}")
    found: dict[str, int | None] = {}
    for line in lines[:-2]:
        match = re.fullmatch(r"(?:header ([0-9]{1,9}) ([0-9]{1,18})|odd) (.+)", line)
        if not match:
            return Missing(f"the list of shard headers holds: {one_line(line) or 'an empty line'}")
        found[match[3]] = None if match[1] is None else 8 + int(match[1]) + int(match[2])
    return found


def _facts(found: Listing) -> WeightsFacts:
    shards = {name: size for name, size in found.sizes.items() if name.endswith(".safetensors")}
    no_index = Missing(f"{found.asked} has no readable {INDEX}")
    told, source = revision(found)
    return WeightsFacts(
        path=found.asked,
        resolved=found.path,
        files=len(found.sizes) + len(found.dangling),
        bytes=sum(found.sizes.values()),
        shards=len(shards),
        shard_bytes=sum(shards.values()),
        index=found.index,
        indexed=len(found.indexed) if found.indexed else no_index,
        absent=tuple(sorted(set(found.indexed) - set(shards))) if found.indexed else no_index,
        indexed_bytes=no_index if not found.indexed else Missing("the index gives no total_size") if found.total is None else found.total,
        empty=tuple(sorted(name for name, size in found.sizes.items() if size == 0)),
        shard_sizes=shards,
        incomplete=found.incomplete or 0,
        filesystem=_filesystem(found.df, found.mount),
        revision=told,
        revision_source=source,
        config=config(found),
    )


def _wrong_size(shards: Fact[Mapping[str, int]], headers: Mapping[str, int | None]) -> Fact[tuple[Shard, ...]]:
    """Missing unless every shard that is not empty has been looked at; empty ones are told elsewhere."""
    if isinstance(shards, Missing):
        return shards
    unread = sorted(name for name, size in shards.items() if size and name not in headers)
    if unread:
        return Missing(f"the header of {unread[0]} was not read")
    found = []
    for name, size in sorted(shards.items()):
        expected = headers.get(name)
        if size and expected != size:
            odd = Missing("its header is not one of safetensors")
            found.append(Shard(name, size, odd if expected is None else expected))
    return tuple(found)


def _filesystem(row: str, mount: str) -> Fact[Filesystem]:
    found = parse_mounts(mount, parse_df(row)) if mount else Missing("the filesystem of the model directory is not told")
    return found if isinstance(found, Missing) else found[0]
