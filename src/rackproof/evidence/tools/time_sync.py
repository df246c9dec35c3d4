"""Whether the clock is synchronised: `timedatectl show` (systemd 239 and later) and `chronyc -c tracking`.

timedatectl says what the kernel's clock discipline says, whoever steers it; chrony adds how far off the clock is.
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.values import as_flag, one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_system import TimeFacts

TIMEDATECTL, CHRONYC = "timedatectl", "chronyc"

_SCRIPT = """
for tool in timedatectl chronyc; do
  command -v $tool >/dev/null || { printf '%s\\n' "- $tool"; continue; }
  case $tool in
    timedatectl) said=$(timedatectl show -p NTPSynchronized 2>&1) ;;
    *) said=$(chronyc -n -c tracking 2>&1) ;;
  esac
  printf '%s\\n%s\\n' "= $tool" "$(printf '%s\\n' "$said" | sed 's/^/|/')"
done
"""

COMMANDS = (Command("time_sync", script(_SCRIPT)),)

_FIELDS = 14  # reference id, its name, stratum, reference time, system time offset, ...
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}\.[0-9]{1,12}")


def clock(evidence: Evidence) -> Fact[TimeFacts]:
    group = read_group(evidence, "time_sync", "time synchronisation")
    if isinstance(group, Missing):
        return group
    shown, tracking = group.text(TIMEDATECTL), group.text(CHRONYC)
    return parse_time(shown, tracking)


def parse_time(shown: Fact[str | None], tracking: Fact[str | None]) -> TimeFacts:
    """Of what either tool printed; None where it is not installed."""
    synchronized: Fact[bool] = Missing("timedatectl is not installed") if shown is None else Missing("")
    if isinstance(shown, Missing):
        synchronized = shown
    elif isinstance(shown, str):
        match = re.search(r"^NTPSynchronized=(\S+)$", shown, re.MULTILINE)
        said = f"timedatectl: {one_line(shown) or 'nothing printed'}"
        synchronized = as_flag(match[1], "NTPSynchronized", "yes", "no") if match else Missing(said)
    if not isinstance(tracking, str):
        reason = tracking if isinstance(tracking, Missing) else Missing("chronyc is not installed")
        return TimeFacts(synchronized, reason, reason, reason)
    cells = tracking.strip().split(",")
    if len(cells) != _FIELDS or not _NUMBER.fullmatch(cells[4]) or not cells[2].isdecimal() or len(cells[2]) > 2:
        wrong = Missing(f"chronyc: {one_line(tracking) or 'nothing printed'}")
        return TimeFacts(synchronized, wrong, wrong, wrong)
    reference: Fact[str] = cells[1].strip() or cells[0].strip() or Missing("chrony has no reference")
    if int(cells[2]) == 0 or cells[0] == "00000000":
        reference = Missing("chrony has no reference")
    return TimeFacts(synchronized, float(cells[4]), reference, int(cells[2]))
