"""A shell program that measures how fast the weights are read, for when somebody asks."""

from __future__ import annotations

from rackproof.deploy.weights_scripts import INDEX, TELLS, assigned

# Direct I/O: the page cache would answer for the disk. Every stream reads the beginning of another shard.
_MEASURE = r"""
cd "$dir" 2>/dev/null || die "there is no $dir"
left=$(missing)
[ -z "$left" ] || die "$dir is not whole: $left"
bytes=0
for name in $(indexed); do bytes=$((bytes + $(stat -L -c %s "$name"))); done
each=$((sample / streams / 16777216))
set --
for name in $(indexed | head -n "$streams"); do set -- "$@" "$name"; done
work=$(mktemp -d)
trap 'rc=$?; rm -rf "$work"; exit $rc' EXIT
start=$(date +%s%N)
for name in "$@"; do
  dd if="$name" of=/dev/null bs=16M count="$each" iflag=direct,fullblock 2>"$work/$name.said" &
done
wait
took=$((($(date +%s%N) - start) / 1000000 + 1))
read=0
for name in "$@"; do
  one=$(grep -oE '^[0-9]+ bytes' "$work/$name.said" | tr -cd 0-9)
  [ -n "$one" ] || die "$name cannot be read without the page cache: $(last "$work/$name.said")"
  read=$((read + one))
done
rate=$((read / took * 1000))
[ $rate -gt 0 ] || die "too little was read to tell a rate"
need=$((bytes / rate))
echo "rackproof: $read bytes of $# shards in $took ms by direct I/O: $rate bytes a second; all $bytes take $need s, of $timeout s"
[ $need -le "$timeout" ] || die "reading the weights alone takes $need s, and the engine is given up after $timeout s ($source)"
"""


def measure(directory: str, sample: int, streams: int, timeout_s: int, source: str) -> str:
    """How fast the shards are read, against the time after which the engine is given up. Fails when it is too slow."""
    values = {
        "dir": directory,
        "index": INDEX,
        "sample": sample,
        "streams": streams,
        "timeout": timeout_s,
        "source": source,
    }
    return assigned(values) + TELLS + _MEASURE
