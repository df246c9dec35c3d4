"""The operations a deploy uses. A layer adds one only when facts say that something is not as the baseline wants it, so
none of them looks again: an operation that is there is a change.

pyinfra (3.10) runs an operation's body more than once and never reconnects by itself; see its documentation.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any

from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation

from rackproof.deploy.transport import keep_alive
from rackproof.errors import RackproofError
from rackproof.managed import File

POLL_S = 2
APT_LOCK_S = 600  # how long to wait for another process that holds a lock of apt or dpkg

# apt-get as a deploy needs it: waits for every lock (DPkg::Lock::Timeout covers one of three), repairs what an
# interrupted dpkg left behind, fails when a list cannot be fetched (it would go on with old lists), never asks.
APT = f"""\
apt() {{
  waited=0
  while :; do
    rc=0
    out=$(DEBIAN_FRONTEND=noninteractive apt-get -y -q -o APT::Update::Error-Mode=any \
      -o DPkg::Lock::Timeout={APT_LOCK_S} -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
      "$@" 2>&1) || rc=$?
    case $rc:$out in
      0:*) printf '%s\\n' "$out"; return 0 ;;
      *'dpkg was interrupted'*) repair || return 1 ;;
      *'Could not get lock'*|*'Unable to lock'*|*'Unable to acquire the dpkg'*)
        if [ $waited -ge {APT_LOCK_S} ]; then
          printf 'rackproof: another process has held the package lock for {APT_LOCK_S} s\\n%s\\n' "$out" >&2; return 1
        fi
        sleep 5; waited=$((waited + 5)) ;;
      *) printf '%s\\n' "$out" >&2; return $rc ;;
    esac
  done
}}
repair() {{
  waited=0
  while ! out=$(DEBIAN_FRONTEND=noninteractive dpkg --configure -a --force-confdef --force-confold 2>&1); do
    case $out in *lock*) ;; *) printf '%s\\n' "$out" >&2; return 1 ;; esac
    [ $waited -lt {APT_LOCK_S} ] || {{ printf '%s\\n' "$out" >&2; return 1; }}
    sleep 5; waited=$((waited + 5))
  done
}}
"""


@operation(is_idempotent=False)
def shell(script: str) -> Generator[StringCommand, None, None]:
    """Run a POSIX sh script that stops at its first error."""
    yield StringCommand(f"set -eu\n{script}")


@operation(is_idempotent=False)
def watched(script: str, timeout_s: int, secret: str = "") -> Generator[FunctionCommand, None, None]:
    """Run a POSIX sh script that stops at its first error, and show what it prints as it comes.

    For steps that take minutes to hours. `secret` reaches the script on its standard input, and nothing else: no
    argument, no environment, no log.
    """
    yield FunctionCommand(_watched, (script, timeout_s, secret), {})


def _watched(state: Any, host: Any, script: str, timeout_s: int, secret: str) -> bool:
    ok, _ = host.run_shell_command(
        StringCommand(f"set -eu\n{script}"), print_output=True, _timeout=timeout_s, **as_connected(host),
        **({"_stdin": secret} if secret else {}),
    )  # fmt: skip
    return bool(ok)


def as_connected(host: Any) -> dict[str, Any]:
    """Root by sudo where the site says so. pyinfra adds that by itself to plain commands only, not to functions."""
    return {"_sudo": True} if host.data.get("_sudo") else {}


@operation(is_idempotent=False)
def imports(archive: Any) -> Generator[FunctionCommand, None, None]:
    """Import an image (deploy/image_archive.py)."""
    yield FunctionCommand(_imports, (archive,), {})


def _imports(state: Any, host: Any, archive: Any) -> bool:
    try:
        archive.bring_in(host, as_connected(host))
    except RackproofError as error:
        return _give_up(host, str(error))
    return True


@operation(is_idempotent=False)
def packages(script: str) -> Generator[StringCommand, None, None]:
    """Run a script that calls `apt` (a shell function, see APT) instead of apt-get."""
    yield StringCommand(f"set -eu\n{APT}{script}")


@operation(is_idempotent=False)
def files(wanted: Sequence[File], then: str = "") -> Generator[StringCommand, None, None]:
    """Write files, each whole and in one step, then run a script that makes them take effect."""
    parts: list[Any] = ["set -eu"]
    for file in wanted:
        parts += [
            StringCommand("p=", QuoteString(file.path), _separator=""),
            'mkdir -p "$(dirname "$p")"',
            't=$(mktemp "$p.XXXXXX")',
            StringCommand("printf %s", QuoteString(file.content), '>"$t"'),
            StringCommand("chmod", QuoteString(file.mode), '"$t"'),
            'mv -f "$t" "$p"',
        ]
    yield StringCommand(*parts, *([then] if then else []), _separator="\n")


@operation(is_idempotent=False)
def stop(reason: str) -> Generator[StringCommand, None, None]:
    """Fail this node with a message: nothing after it is done there."""
    yield StringCommand("printf '%s\\n'", QuoteString(f"rackproof: {reason}"), ">&2; exit 1")


@operation(is_idempotent=False)
def reboot(settle_s: int, timeout_s: int) -> Generator[FunctionCommand, None, None]:
    """Reboot and wait until the node is back with another boot id.

    settle_s: seconds a node may take from `reboot` to going down. timeout_s: until it answers again.
    """
    yield FunctionCommand(_reboot, (settle_s, timeout_s), {})


def _reboot(state: Any, host: Any, settle_s: int, timeout_s: int) -> bool:
    """Compares boot ids over a fresh connection each time. pyinfra's own reboot compares uptimes and takes a node that
    goes down late for one that has come back."""
    before = _boot_id(host)
    if before is None:
        return _give_up(host, "the boot id cannot be read, so a reboot could not be told from none")
    host.run_shell_command(
        StringCommand("( sleep 1; systemctl reboot || reboot ) </dev/null >/dev/null 2>&1 &"), **as_connected(host)
    )
    deadline = time.monotonic() + timeout_s
    time.sleep(settle_s)
    while time.monotonic() < deadline:
        if _reconnect(host):
            now = _boot_id(host)
            if now is not None and now != before:
                return True
        time.sleep(POLL_S)
    return _give_up(host, f"not back {timeout_s} s after the reboot: look at its console, then run the deploy again")


def _give_up(host: Any, why: str) -> bool:
    host.log_styled(f"rackproof: {why}", fg="red")
    return False


def _boot_id(host: Any) -> str | None:
    try:
        ok, output = host.run_shell_command(StringCommand("cat /proc/sys/kernel/random/boot_id"), _timeout=10)
    except Exception:  # the connection of a node that is going down can fail in any way
        return None
    return output.stdout.strip() or None if ok else None


def _reconnect(host: Any) -> bool:
    """A fresh connection. pyinfra's disconnect leaves the old client open, and would go on using it."""
    client = getattr(host.connector, "client", None)
    try:
        if client is not None:
            client.close()
        host.disconnect()
        host.connect(show_errors=False)
        keep_alive(host)
    except Exception:  # refused, reset, timed out: not there yet
        return False
    return bool(host.connected)
