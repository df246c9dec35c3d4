"""What is run on a node to start, watch and stop its serving unit. POSIX sh; every value is quoted before it gets here."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from rackproof.deploy import onhost
from rackproof.deploy.onhost import Run, Watch
from rackproof.evidence.tools.gpu_holders import DAEMONS
from rackproof.launch.install import NAME
from rackproof.managed import JOURNAL

UNIT = f"{NAME}.service"
PIECE_BYTES = 256 * 1024  # of the log, a look
STILL_S = 20  # how long a process may take to let go of a GPU after its container has ended

_WATCH = Watch(units=(UNIT,))
# What holds a GPU now, one a line; the list by which a deploy sees that a node is in use.
_HOLDERS = f"""\
holders() {{
  find /proc/[0-9]*/fd -lname '/dev/nvidia[0-9]*' 2>/dev/null | cut -d / -f 3 | sort -u | while read -r pid; do
    read -r name <"/proc/$pid/comm" || continue
    case $name in {"|".join(DAEMONS)}) ;; *) echo "$name ($pid, user $(stat -c %U "/proc/$pid"))" ;; esac
  done 2>/dev/null | LC_ALL=C tr -cd ' -~\\n' | head -n 20
}}
"""


# A container that was cut off can leave its name behind in Docker's network, and the next one is then refused.
_CLEAR = {
    "docker": f"""\
docker rm -f {NAME} >/dev/null 2>&1 || :
docker network disconnect -f host {NAME} >/dev/null 2>&1 || :
""",
    "podman": f"podman rm -f {NAME} >/dev/null 2>&1 || :\n",
}
# Whether the container runs, and the id of its image.
_STATE = {"docker": "{{.State.Running}} {{.Image}}", "podman": "{{.State.Running}} sha256:{{.Image}}"}


def _locked(run: Run, name: str, body: str) -> str:
    """One step under the node's lock, journalled; the lock is given back whatever came of it."""
    parts = onhost.take(run, None), onhost.step(run, "serving", name, body, _WATCH), onhost.give_back(run, name)
    take, step, give = (f"(\n{part.rstrip()}\n)" for part in parts)
    # What is said on stderr belongs to the answer, and the exit code is its last line.
    return f'(\n{take} || exit 1\nrc=0\n{step} || rc=$?\n{give} || :\nexit $rc\n) 2>&1\necho "rc $?"\n'


def answered(ok: bool, text: str) -> tuple[bool, str]:
    """Of a step: whether it was done, and what it said."""
    said, _, code = text.rpartition("rc ")
    return (ok and code.strip() == "0", (said if ok else text).strip())


def start(run: Run, hashes: Mapping[str, str], engine: str = "docker") -> str:
    """Start the unit where it is as rendered and no program holds a GPU. Prints `since SECONDS`, the node's clock."""
    checks = "".join(
        f"[ \"$(sha256sum <{shlex.quote(path)} 2>/dev/null | cut -d ' ' -f 1)\" = {sha256} ] || "
        f"{{ echo {shlex.quote(f'rackproof: {path} is not as the baseline renders it: run the deploy')} >&2; exit 1; }}\n"
        for path, sha256 in hashes.items()
    )
    body = f"""{_HOLDERS}{checks}\
case $(systemctl is-active {UNIT} 2>/dev/null) in
  active|activating|reloading) echo 'rackproof: it runs already (rackproof serve status)' >&2; exit 1 ;;
esac
held=$(holders)
[ -z "$held" ] || {{ echo "rackproof: its GPUs are in use by $(echo $held)" >&2; exit 1; }}
systemctl reset-failed -q {UNIT} 2>/dev/null || :
{_CLEAR[engine]}\
echo "since $(date +%s)"
systemctl start {UNIT}
"""
    return _locked(run, "Start the serving unit", body)


def stop(run: Run, engine: str = "docker") -> str:
    """Stop the unit, wait for its processes to let go of the GPUs; prints `left NAME (PID, ...)` for who has not."""
    body = f"""{_HOLDERS}\
systemctl stop {UNIT}
{_CLEAR[engine]}\
n=0
while [ -n "$(holders)" ] && [ $n -lt {STILL_S} ]; do sleep 1; n=$((n + 1)); done
systemctl reset-failed -q {UNIT} 2>/dev/null || :
holders | sed 's/^/left /'
"""
    return _locked(run, "Stop the serving unit", body)


def look(port: int | None, since: int | None, offset: int, engine: str = "docker") -> str:
    """What the unit is at, and a piece of its log. `since`: seconds, the node's clock; None: since the unit's last start.
    `offset`: bytes of that log already seen. Members `KEY VALUE` a line, then `log BYTES` and the piece."""
    begin = str(since) if since is not None else '$(date -d "$(value ActiveEnterTimestamp)" +%s 2>/dev/null || echo 0)'
    health = "echo health none"
    if port is not None:
        url = f"http://127.0.0.1:{port}/health"
        health = f"""\
if command -v curl >/dev/null; then code=$(curl -s -o /dev/null -m 3 -w '%{{http_code}}' {url} || :)
elif command -v wget >/dev/null; then wget -q -T 3 -t 1 -O /dev/null {url} && code=200 || code=000
else code=unknown; fi
echo "health $code\""""
    return f"""\
value() {{ systemctl show -p "$1" --value {UNIT} 2>/dev/null; }}
begin={begin}
echo "state $(value ActiveState) $(value SubState) $(value NRestarts) $(value Result)"
echo "container $({engine} inspect --format '{_STATE[engine]}' {NAME} 2>/dev/null || echo none)"
echo "driver $(cat /sys/module/nvidia/version 2>/dev/null || echo unknown)"
{health}
t=$(mktemp) || exit 1
trap 'rm -f "$t"' EXIT
journalctl -u {UNIT} --since "@$begin" -o short-iso --no-pager -q 2>/dev/null | tail -c +{offset + 1} | head -c {PIECE_BYTES} >"$t"
echo "log $(wc -c <"$t")"
cat "$t"
"""


def note(run: Run, line: str) -> str:
    """Put the evidence of a start into the node's journal, as one line of its own."""
    members = json.dumps({"layer": "serving", "step": "Start", "event": "started", "note": line})[1:-1]
    time = "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    who = json.dumps({"run": run.id, "operator": run.operator})[1:-1]
    return f"""\
[ ! -s {JOURNAL} ] || [ -z "$(tail -c 1 {JOURNAL})" ] || echo >>{JOURNAL}
printf '{{"time": "%s", %s, %s}}\\n' "{time}" {shlex.quote(who)} {shlex.quote(members)} >>{JOURNAL} && echo noted
"""
