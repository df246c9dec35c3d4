"""What a step does on the node around its own work: hold the lock, give a sign of life, write the journal.

Every step is one script in one connection. It works only while the run holds the node's lock, and holds `flock` on a
second file while it works, so that a step whose operator has gone is still waited for. What it changed is read before
and after, and only what differs is journalled. All of it is POSIX sh with flock(1), no Python on the node.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rackproof.evidence.tools.gpu_holders import DAEMONS, DEVICES
from rackproof.managed import BUSY, JOURNAL, LOCK

WAIT_S = 600  # for a step of an earlier run that still works on the node
HEARTBEAT_S = 30
STALE_S = 300  # a lock without a sign of life for this long, and no step running, may be taken
JOURNAL_BYTES = 512 * 1024  # then it is moved to journal.1.jsonl, which replaces the one before


@dataclass(frozen=True)
class Run:
    """One deploy run, as the nodes come to know it."""

    id: str
    operator: str  # user@machine
    pid: int
    process: str  # see rackproof.deploy.holder


@dataclass(frozen=True)
class Watch:
    """What a step may change, to be read before and after it."""

    files: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    packages: bool = False
    engine: str = "docker"  # that keeps the images
    module: str = "nvidia"  # with packages: of the driver whose state is said where the step fails


_COMMON = f"""\
set -eu
rp=/var/lib/rackproof
fail() {{ printf 'rackproof: %s\\n' "$*" >&2; exit 1; }}
# journal MEMBERS: one line, begun on a line of its own even where a full disk cut the one before
journal() {{
  size=$(wc -c 2>/dev/null <{JOURNAL}) || size=0
  [ "$size" -lt {JOURNAL_BYTES} ] || mv -f {JOURNAL} "$rp/journal.1.jsonl"
  [ ! -s {JOURNAL} ] || [ -z "$(tail -c 1 {JOURNAL})" ] || echo >>{JOURNAL}
  printf '{{"time": "%s", %s, %s}}\\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$who" "$1" >>{JOURNAL}
}}
mkdir -p "$rp" && exec 9>>{BUSY} || fail "$rp cannot be written, so nothing is changed: $(df -h "$rp" 2>&1 | tail -n 1)"
command -v flock >/dev/null || fail 'there is no flock (util-linux) here, so nothing is changed'
flock -w {WAIT_S} 9 || fail 'a step of an earlier run has been working on this node for {WAIT_S} s; look at it with ps'
"""

_OURS = f"""\
grep -qsF "$run" {LOCK} ||
  fail "this run no longer holds the lock of this node ($(tr -cd ' -~' <{LOCK} 2>/dev/null | cut -c 1-300)); nothing more is done here"
touch {LOCK}
"""

_DIFF = """\
# differs A B: what of A is not in B, as members of a JSON object
differs() {
  { printf '%s\\n' "$2"; echo; printf '%s\\n' "$1"; } | LC_ALL=C tr -cd ' -~\\n' | awk '
    NF == 0 { second = 1; next }
    !second { have[$0] = 1; next }
    !($0 in have) { gsub(/[\\\\"]/, ""); k = $1; sub(/^[^ ]+ /, ""); printf "%s\\"%s\\": \\"%s\\"", sep, k, $0; sep = ", " }'
}
"""


# Between reading a node and changing it other nodes have their turn, and somebody may have started a job.
_IDLE = f"""\
held=$(find /proc/[0-9]*/fd \\( {DEVICES} \\) 2>/dev/null | cut -d / -f 3 | sort -u | while read -r pid; do
  read -r name <"/proc/$pid/comm" || continue
  case $name in {"|".join(DAEMONS)}) ;; *) echo "$name ($pid, user $(stat -c %U "/proc/$pid"))" ;; esac
done 2>/dev/null | LC_ALL=C tr -cd ' -~\\n' | head -n 20)
[ -z "$held" ] || fail "its GPUs came into use after it was read, by $(echo $held); this step was not begun"
"""


# What a failed package step leaves behind: whether the host still works, and how not.
_STATE = """\
state() {
  if command -v dpkg-query >/dev/null && [ -n "$(dpkg-query -W -f x 2>/dev/null)" ]; then
    half=$(dpkg-query -W -f '${db:Status-Status} ${Package}\\n' 2>/dev/null |
      awk '$1 != "installed" && $1 != "config-files" && $1 != "not-installed" { printf " %s", $2 }')
  else
    half=$(rpm -qa --qf '%{NAME}.%{ARCH}\\n' | grep -v -e '^kernel' -e '^gpg-pubkey' | LC_ALL=C sort | uniq -d |
      awk '{ printf " %s", $0 }')
  fi
  loaded=$(cat "/sys/module/$gpu_module/version" 2>/dev/null || echo none)
  disk=$(modinfo -F version "$gpu_module" 2>/dev/null || :)
  disk=${disk:-none}
  now="driver $loaded is loaded, $disk is what the next boot would load"
  if [ -z "$half" ] && [ "$loaded" = "$disk" ]; then
    echo "rackproof: this host is as usable as before: no package is half installed; $now"
  else
    [ -z "$half" ] || echo "rackproof: this host is not whole: half installed are$half"
    echo "rackproof: $now"
    [ "$loaded" = "$disk" ] || echo 'rackproof: until driver and kernel module agree, new GPU programs may fail; what runs goes on'
  fi
  echo 'rackproof: when the cause is mended, the next deploy goes on from here'
}
"""


def _who(run: Run, layer: str = "", step: str = "") -> str:
    """Shell assignments that name run and step; the values are JSON, quoted for the shell."""
    members = {"run": run.id, "operator": run.operator, **({"layer": layer, "step": step} if step else {})}
    mark = json.dumps({"run": run.id})[1:-1]
    return f"run={shlex.quote(mark)}\nwho={shlex.quote(json.dumps(members)[1:-1])}\n"


def _look(watch: Watch) -> str:
    """A shell function that prints `name value` for each thing watched."""
    lines = ["look() {", "  :"]
    if watch.packages:
        lines.append("  dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' 2>/dev/null ||")
        lines.append("    rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE} installed\\n' 2>/dev/null || :")
    for path in watch.files:
        name = shlex.quote(path)
        lines.append(
            f"  echo {name} \"$({{ sha256sum <{name}; }} 2>/dev/null | cut -d ' ' -f 1 | grep . || echo absent)\""
        )
    for unit in watch.units:
        states = f"$(systemctl is-active {unit} 2>/dev/null) $(systemctl is-enabled {unit} 2>/dev/null)"
        since = f"$(systemctl show -p ActiveEnterTimestampMonotonic {unit} 2>/dev/null | cut -d = -f 2)"
        lines.append(f'  echo {unit} "{states} start {since}"')
    for image in watch.images:
        name = shlex.quote(image)
        lines.append(
            f"  echo {name} \"$({watch.engine} image inspect --format '{{{{.Id}}}}' {name} 2>/dev/null | grep . || echo absent)\""
        )
    return "\n".join([*lines, "}"]) + "\n"


def take(run: Run, seen: str | None, dead: str = "") -> str:
    """Take the lock. `seen`: the journal's generation when the node was read (None: not known); a node that somebody
    changed since is refused. `dead`: sha256 of a lock whose holder is known to be gone."""
    record = {"run": run.id, "operator": run.operator, "pid": run.pid, "process": run.process}
    changed = (
        ""
        if seen is None
        else f"""\
now=$(tail -n 1 {JOURNAL} 2>/dev/null | cksum); [ -f {JOURNAL} ] || now=
[ "$now" = {shlex.quote(seen)} ] || fail 'somebody changed this node after it was read; run the deploy again'
"""
    )
    return f"""{_who(run, "lock", "take")}{_COMMON}{changed}\
if [ -f {LOCK} ] && [ "$(sha256sum <{LOCK} | cut -d ' ' -f 1)" != '{dead}' ]; then
  idle=$(($(date +%s) - $(stat -c %Y {LOCK})))
  [ "$idle" -ge {STALE_S} ] ||
    fail "locked by another deploy, last sign of life $idle s ago: $(tr -cd ' -~' <{LOCK} | cut -c 1-300); see rackproof unlock"
fi
journal '"event": "locked"' || fail "the journal cannot be written, so nothing is changed: $(df -h "$rp" | tail -n 1)"
printf '%s, "since": "%s", "boot_id": "%s"}}\\n' {shlex.quote(json.dumps(record)[:-1])} \
  "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(cat /proc/sys/kernel/random/boot_id)" >"{LOCK}.new"
mv -f "{LOCK}.new" {LOCK}
"""


def beat(run: Run) -> str:
    """A sign of life, where the lock is still this run's."""
    return f'{_who(run)}grep -qsF "$run" {LOCK} && touch -c {LOCK}'


def give_back(run: Run, note: str) -> str:
    """Release the lock where it is this run's. `note` says how the run ended on this node."""
    members = json.dumps({"event": "released", "note": note[:300]})[1:-1]
    return f"""{_who(run, "lock", "release")}{_COMMON}\
grep -qsF "$run" {LOCK} || exit 0
rm -f {LOCK}
journal {shlex.quote(members)} || fail 'the lock is released, but the journal cannot be written'
"""


def step(run: Run, layer: str, name: str, body: str, watch: Watch, *, idle: bool = False, goes_on: bool = False) -> str:
    """The script of one step. Its exit code is that of `body`, which runs with `set -eu` in a subshell of its own.

    `idle`: refuse where a program uses the GPUs by now. `goes_on`: what `body` starts ends after it, and `note_end` journals that.
    """
    ended = "[ $rc = 0 ] || " if goes_on else ""
    state = f"gpu_module={watch.module}\n{_STATE}[ $rc = 0 ] || state >&2\n" if watch.packages else ""
    return f"""{_who(run, layer, name)}{_COMMON}{_OURS}{_IDLE if idle else ""}{_DIFF}{_look(watch)}\
journal '"event": "begin"' || fail "the journal cannot be written, so nothing is changed: $(df -h "$rp" | tail -n 1)"
before=$(look)
set +e
(
exec 9>&-
set -eu
{body.rstrip()}
)
rc=$?
set -e
after=$(look)
touch -c {LOCK}
{ended}journal "\\"event\\": \\"end\\", \\"rc\\": $rc, \\"before\\": {{$(differs "$before" "$after")}}, \\"after\\": {{$(differs "$after" "$before")}}" ||
  fail 'the step is done, but the journal cannot be written'
{state}exit $rc
"""


def note_end(
    run: Run, layer: str, name: str, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]
) -> str:
    """Journal the end of a step whose beginning is in the journal, and which no script could see through: a reboot."""
    end = json.dumps({"event": "end", "rc": 0, "before": dict(before), "after": dict(after)})[1:-1]
    return f"{_who(run, layer, name)}{_COMMON}{_OURS}journal {shlex.quote(end)}\n"


UNLOCK = f"""\
if [ ! -f {LOCK} ]; then echo 'no lock'; exit 0; fi
if [ -f {BUSY} ] && ! flock -n {BUSY} true; then echo 'a step is still working on this node: not unlocked'; exit 0; fi
tr -cd ' -~' <{LOCK} | cut -c 1-400
rm -f {LOCK} && echo unlocked
"""
