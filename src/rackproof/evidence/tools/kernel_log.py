"""The kernel log over all retained boots: Xids, and the lines around them.

First line `source=journalctl lines=N matched=N kept=N boots=N first=TIME`, then the lines kept, each behind a `|`, then
`.`. Boots are counted by the kernel's own banner; a log that does not start with one starts within a boot.
N counts every line there was to read, so that a log nobody could look into (no root, restricted dmesg) is not mistaken
for a quiet one. Of each Xid number of each GPU the first 20 lines are kept, of everything else 128 KiB: a flood of one
message cannot push another out. Xid forms: captures of R510 to R590.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.values import one_line, pci_address
from rackproof.facts import Fact, KernelLogFacts, Missing, Xid

_SCRIPT = r"""
keep() {
  awk -v source="$1" '
    /^-- / || /^$/ { next }
    { lines++ }
    lines == 1 { first = $1; if (match($0, /^\[ *[0-9.]+\]/)) { first = substr($0, 1, RLENGTH); gsub(/ /, "", first) } }
    /Linux version [0-9]/ { boots++; if (!banner) banner = lines }
    { disk = /error, dev nvme|nvme.*(timeout|is down|not ready|reset controller|[Rr]emoving after|error)/ }
    !/NVRM|Xid|[Nn]vidia|NVLink|nvlink|mlx5|AER:|MCE|mce:|Hardware Error|[Oo]ut of memory|oom-kill|amdgpu|blocked for more than|PCIe Bus Error/ && !disk { next }
    { matched++ }
    match($0, /Xid [(][^)]*[)]: *[0-9]+/) {
      if (seen[substr($0, RSTART, RLENGTH)]++ < 20) { kept++; out = out "|" $0 "\n" }
      next
    }
    disk || /mce:|Hardware Error|[Oo]ut of memory|oom-kill|blocked for more than|AER: .*[(]Fatal[)]|severity=.*[(]Fatal[)]/ {
      if (apart + length($0) < 65536) { apart += length($0) + 2; kept++; out = out "|" $0 "\n" }
      next
    }
    size + length($0) < 131072 { size += length($0) + 2; kept++; out = out "|" $0 "\n" }
    END {
      if (!banner || banner > 9) boots++
      printf "source=%s lines=%d matched=%d kept=%d boots=%d first=%s\n%s.\n", source, lines, matched, kept, boots, first, out
    }'
}
log=
if command -v journalctl >/dev/null; then
  log=$(journalctl --no-pager -q -o short-iso _TRANSPORT=kernel | keep journalctl)
fi
case $log in
  ''|*' lines=0 '*) dmesg | keep dmesg ;;
  *) printf '%s\n' "$log" ;;
esac
"""

COMMANDS = (Command("kernel_log", _SCRIPT, root=Root.HELPS, deadline_s=20),)

_HEADER = re.compile(
    r"source=(journalctl|dmesg) lines=([0-9]{1,12}) matched=([0-9]{1,12}) kept=([0-9]{1,12})"
    r"(?: boots=([0-9]{1,6}) first=(\S*))?"
)
_SOURCES = {"journalctl": "journalctl -k", "dmesg": "dmesg"}
# (PCI:0000:34:00): 79, ...   (PCI:0000:01:00 GPU-I:05): 94, ...   (0000:34:00.0): 79   SXid is another thing
_XID = re.compile(r"\bXid \((?:PCI:)?([0-9A-Fa-f:.]{5,20})(?: [^)]{0,40})?\): *([0-9]{1,6})(?![0-9])(?:,\s*(.*))?")


def kernel_log(evidence: Evidence) -> Fact[KernelLogFacts]:
    section = evidence.usable("kernel_log", "reading the kernel log")
    return section if isinstance(section, Missing) else parse_kernel_log(section.text, section.error_text)


@lru_cache(maxsize=2)  # three parsers ask for the log of the node that is read
def parse_kernel_log(text: str, errors: str = "") -> Fact[KernelLogFacts]:
    """Facts of a section in the format above; a log with no line in it proves nothing."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    header = _HEADER.fullmatch(lines[0])
    if not header:
        return Missing(f"the kernel log could not be read: {one_line(errors) or one_line(text) or 'nothing printed'}")
    if header[2] == "0":
        return Missing(f"the kernel log could not be read without root: {_refusal(errors)}")
    if lines[-1] != "." or sum(line.startswith("|") for line in lines) != int(header[4]):
        return Missing("the kernel log is cut off")
    return KernelLogFacts(int(header[2]), _SOURCES[header[1]], parse_xids(body(text)))


@lru_cache(maxsize=2)
def body(text: str) -> str:
    """The log lines of a section, as they were printed."""
    return "\n".join(line[1:] for line in text.replace("\r\n", "\n").split("\n") if line.startswith("|"))


def reach(text: str) -> tuple[Fact[str], Fact[int]]:
    """How far back a section's log goes: time of its first line, and boots it covers. Not told by older probes."""
    header = _HEADER.fullmatch(text.split("\n", 1)[0].rstrip("\r"))
    if not header or header[5] is None:
        return Missing("the probe did not say how far back the log goes"), Missing("the probe did not count boots")
    first = header[6]
    seconds = re.fullmatch(r"\[([0-9.]+)\]", first)
    time: Fact[str] = f"{seconds[1]} s after boot" if seconds else first or Missing("the first line carries no time")
    return time, int(header[5])


def parse_xids(text: str) -> tuple[Xid, ...]:
    """Every NVRM Xid of a log in any of its line forms, oldest first."""
    found = []
    for line in text.splitlines():
        match = _XID.search(line) if "Xid (" in line else None
        if match:
            address = pci_address(match[1]) or match[1].lower()
            found.append(Xid(int(match[2]), address, one_line(match[3] or "", 400)))
    return tuple(found)


def _refusal(errors: str) -> str:
    """The line in which dmesg or journalctl says why it shows nothing."""
    lines = errors.splitlines()
    wanted = ("permi", "denied", "not seeing")
    said = next((line for line in reversed(lines) if any(word in line.lower() for word in wanted)), "it shows no line")
    return one_line(said)
