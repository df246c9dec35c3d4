"""The probe: one read-only POSIX sh program that runs every command of the evidence tools once, side by side.

Why it is built like this:
- A sick driver makes nvidia-smi hang, sometimes unkillably. So each command has a deadline of its own and writes to a
  file; the program waits on a FIFO for "done" words, never for a process, and reports what was late.
- Every line of content carries a one-character mark (`|` stdout, `!` stderr, `~` and `^` the same escaped by
  `sed -n l`), so nothing a tool prints can be taken for a frame. The frame lines start with `#@` and the nonce.
- Bytes outside printable ASCII travel escaped, so no transport or editor can spoil them.
- It writes only below one temporary directory, and removes that in every way it can end.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from rackproof import __version__
from rackproof.errors import InputError
from rackproof.evidence.listing import listing
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import SHELL

FORMAT = 2  # 2: a POSIX cksum of each stream instead of its number of newlines
GRACE_S = 2  # what the slowest command may overrun before the probe stops waiting for it

_HEAD = """\
#!/bin/sh
# rackproof probe {version}: reads this node once. Read-only; writes only to a temporary directory that it removes.
# It runs {count} commands side by side, each with a deadline, and prints what they print. Nothing leaves the node
# but this output.
{listing}LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin; export PATH
nonce={nonce}
sudo={sudo}
umask 077
for tool in cksum timeout mkfifo; do
  command -v $tool >/dev/null || {{ echo "rackproof probe: there is no $tool on this node" >&2; exit 1; }}
done
t=$(mktemp -d "${{TMPDIR:-/tmp}}/rackproof.XXXXXX") || exit 1
# What still runs must not outlive this program. $! is the timer, or the job that is just being started: one that was
# too young to hear the kill finds the directory gone, and ends. A second signal must not end this half way.
cleanup() {{
  trap '' HUP INT TERM PIPE
  exec 2>/dev/null  # bash complains of children that ended while it was ending itself
  left=$!
  for file in "$t"/*.pid; do
    [ ! -f "$file" ] || [ -s "${{file%.pid}}.end" ] || {{ read -r pid <"$file"; left="$left $pid"; }}
  done
  rm -rf "$t" 2>/dev/null
  [ -z "$left" ] || kill $left 2>/dev/null
  [ ! -d "$t" ] || rm -rf "$t"
}}
trap cleanup EXIT
trap 'exit 141' PIPE
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkfifo "$t/done" || exit 1
exec 3<>"$t/done"
{shared}
clock() {{ read -r up _ </proc/uptime; echo "$up"; }}

# job NAME DEADLINE ROOT REQUIRES: runs $t/NAME.sh in the background
job() {{
  name=$1 deadline=$2 root=$3 requires=$4
  echo "$deadline" >"$t/$name.deadline"
  if [ -n "$requires" ] && ! command -v "$requires" >/dev/null 2>&1; then
    echo absent >"$t/$name.end"; echo "$name" >&3; return
  fi
  as=
  if [ "$root" != no ] && [ "$uid" != 0 ]; then
    if [ "$sudo" = 1 ]; then as='sudo -n'
    elif [ "$root" = needed ]; then echo needs-root >"$t/$name.end"; echo "$name" >&3; return; fi
  fi
  (
    # And what is left of its group: timeout(1) ends without a child whose number it does not know yet.
    trap 'kill $!; wait $!; kill -KILL -$!; exit' TERM
    clock >"$t/$name.begin" || exit
    $as timeout -k 1 "$deadline" sh "$t/$name.sh" >"$t/$name.out" 2>"$t/$name.err" </dev/null 3>&- &
    wait $!
    rc=$?
    clock >"$t/$name.finish"
    read -r begin <"$t/$name.begin"; read -r finish <"$t/$name.finish"
    case $rc:$((${{finish%.*}} - ${{begin%.*}} >= deadline)) in  # a command may end with 124 or 137 by itself
      124:1|137:1) echo deadline >"$t/$name.end" ;;
      *) echo "ran $rc" >"$t/$name.end" ;;  # one write: whoever looks too early sees an empty file, and says deadline
    esac
    echo "$name" >&3
  ) >/dev/null 2>&1 &  # must not hold our output open: a command that cannot be killed would hold up the transport
  echo $! >"$t/$name.pid"
}}

# odd FILE...: whether they hold bytes outside printable ASCII
odd() {{ [ "$(cat -- "$@" | tr -d '\\011\\012\\040-\\176' | wc -c)" -gt 0 ]; }}

# lines MARK ESCAPED FILE: every line of FILE behind its mark
lines() {{
  [ -s "$3" ] || return 0
  if [ "$odd" = 1 ] && odd "$3"; then sed -n l "$3" | sed "s/^/$2/"
  else sed "s/^/$1/" "$3"; echo; fi
}}

# state NAME: sets status and rc. What a late command left behind may still be writing: it is printed and counted from
# a copy.
state() {{
  status=deadline rc=
  [ ! -s "$t/$1.end" ] || read -r status rc <"$t/$1.end"
  for file in "$t/$1.out" "$t/$1.err"; do
    if [ ! -f "$file" ]; then : >"$file"
    elif [ "$status" = deadline ]; then cp "$file" "$file.copy" && mv "$file.copy" "$file"; fi
  done 2>/dev/null
  echo "$status $rc" >"$t/$1.state"
}}

# section NAME: prints it. Its checksums are the next two lines of fd 4
section() {{
  echo "#@$nonce begin $1"
  read -r status rc <"$t/$1.state"
  lines '|' '~' "$t/$1.out"
  lines '!' '^' "$t/$1.err"
  begin=0 finish=0
  [ ! -f "$t/$1.begin" ] || read -r begin <"$t/$1.begin"
  if [ -f "$t/$1.finish" ]; then read -r finish <"$t/$1.finish"
  elif [ "$status" = deadline ]; then finish=$(clock); fi
  read -r deadline <"$t/$1.deadline"
  read -r sum size _ <&4
  read -r esum esize _ <&4
  echo "#@$nonce end $1 status=$status rc=$rc begin=$begin finish=$finish stdout=$size stdout_cksum=$sum stderr=$esize \
stderr_cksum=$esum deadline=$deadline"
}}

# sections NAME...: prints all of them. POSIX cksum and bytes are counted here, so that a changed copy shows
sections() {{
  for name; do state "$name"; done
  for name; do
    set -- "$@" "$t/$name.out" "$t/$name.err"
    shift
  done
  cksum -- "$@" >"$t/sums"
  odd=0
  ! odd "$@" || odd=1
  exec 4<"$t/sums"
  for file; do
    name=${{file%.*}}
    [ "$file" = "$name.err" ] || section "${{name##*/}}"
  done
}}

uid=$(id -u)
sudo_ok=
if [ "$uid" != 0 ] && [ "$sudo" = 1 ]; then
  if sudo -n true 2>/dev/null; then sudo_ok=yes; else sudo_ok=no sudo=0; fi
fi
start=$(clock)
read -r node </proc/sys/kernel/hostname
echo "#@$nonce probe format={format} version={version} node=$node uid=$uid sudo=$sudo_ok \
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
"""

_TAIL = """\
(
  trap 'kill $! 2>/dev/null; exit' TERM
  ( [ -p "$t/done" ] || exit; exec sleep {wait} ) &  # it may have been too young to hear the kill
  wait $!
  echo @late >&3
) >/dev/null 2>&1 &
left={count}
while [ $left -gt 0 ]; do
  read -r word <&3
  [ "$word" != @late ] || break
  left=$((left - 1))
done
sections {names}
echo "#@$nonce done begin=$start finish=$(clock) sections={count}"
"""


def assemble(commands: Sequence[Command], nonce: str, sudo: bool = False, listed: bool = False) -> str:
    """The probe program as text. `nonce` is echoed in every frame; 8 to 64 characters of A-Z a-z 0-9 and `-`.

    `listed`: with every command in a comment at the top, for people who are asked to run what somebody sent them.
    """
    if not re.fullmatch(r"[A-Za-z0-9-]{8,64}", nonce):
        raise InputError("--nonce", f"{nonce!r} cannot be used", "8 to 64 characters of A-Z a-z 0-9 -")
    names = [command.name for command in commands]
    if len(set(names)) != len(names):
        raise ValueError("two commands of the probe have the same name")
    head = _HEAD.format(
        version=__version__, count=len(commands), nonce=nonce, sudo=int(sudo), format=FORMAT,
        listing=listing(commands) if listed else "",
        shared=_here("show", SHELL) if any(command.script.startswith(SHELL) for command in commands) else "",
    )  # fmt: skip
    wait = max((command.deadline_s for command in commands), default=0) + GRACE_S
    tail = _TAIL.format(wait=wait, count=len(commands), names=" ".join(names))
    return head + "".join(_job(command) for command in commands) + tail


def _job(command: Command) -> str:
    """Each script travels as a here-document of its own, so that its quoting is never touched. What most scripts begin
    with travels once, and they read it from beside themselves."""
    script = command.script
    if script.startswith(SHELL):
        script = f'. "${{0%/*}}/show"\n{script.removeprefix(SHELL)}'
    root = {Root.NO: "no", Root.HELPS: "helps", Root.NEEDED: "needed"}[command.root]
    return (
        _here(f"{command.name}.sh", script)
        + f"job {command.name} {command.deadline_s} {root} {shlex.quote(command.requires)}\n"
    )


def _here(name: str, text: str) -> str:
    end = "RACKPROOF_END"
    if end in text:
        raise ValueError(f"{name} holds its own end mark")
    return f"cat >\"$t/{name}\" <<'{end}'\n{text.strip()}\n{end}\n"
