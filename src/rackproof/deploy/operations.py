"""The operations a deploy uses. A layer adds one only when facts say that something is not as the baseline wants it, so
none of them looks again: an operation that is there is a change. Each runs under the node's lock and is journalled
there (`onhost`).

pyinfra (3.10) runs an operation's body more than once; see its documentation.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from pyinfra import logger
from pyinfra.api import FunctionCommand, QuoteString, StringCommand, operation

from rackproof.deploy import onhost
from rackproof.deploy.onhost import Run, Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.deploy.session import session
from rackproof.errors import RackproofError
from rackproof.managed import File


@dataclass(frozen=True)
class Step:
    """What a step is called in the journal, and what of it may disturb others."""

    layer: str
    name: str
    disrupts: bool = False  # ends or breaks what runs on the GPUs
    reboots: bool = False
    domain: bool = False  # must be equal on all nodes of an NVLink domain, so they cannot follow one another
    detail: str = ""
    idle: bool = False  # is not begun where a program uses the GPUs by then

    @property
    def marks(self) -> str:
        """What somebody has to know before it is done: "[needs idle GPUs]", "[reboot]"."""
        words = [word for word, on in (("needs idle GPUs", self.disrupts and not self.reboots), ("reboot", self.reboots)) if on]
        return "".join(f" [{word}]" for word in words)


@operation(is_idempotent=False)
def shell(script: str, step: Step, run: Run, watch: Watch) -> Generator[StringCommand, None, None]:
    """Run a POSIX sh script that stops at its first error."""
    yield StringCommand(onhost.step(run, step.layer, step.name, script, watch, idle=step.idle))


@operation(is_idempotent=False)
def watched(
    script: str, step: Step, run: Run, watch: Watch, timeout_s: int, secret: str = ""
) -> Generator[FunctionCommand, None, None]:
    """Run a POSIX sh script that stops at its first error, and show what it prints as it comes.

    For steps that take minutes to hours. `secret` reaches the script on its standard input, and nothing else: no
    argument, no environment, no log.
    """
    yield FunctionCommand(_watched, (onhost.step(run, step.layer, step.name, script, watch), timeout_s, secret), {})


def _watched(state: Any, host: Any, script: str, timeout_s: int, secret: str) -> bool:
    ok, _ = host.run_shell_command(
        StringCommand(script), print_output=True, _timeout=timeout_s, **as_connected(host),
        **({"_stdin": secret} if secret else {}),
    )  # fmt: skip
    return bool(ok)


def as_connected(host: Any) -> dict[str, Any]:
    """Root by sudo where the site says so. pyinfra adds that by itself to plain commands only, not to functions."""
    return {"_sudo": True} if host.data.get("_sudo") else {}


@operation(is_idempotent=False)
def imports(archive: Any, step: Step, run: Run, watch: Watch) -> Generator[FunctionCommand, None, None]:
    """Import an image (deploy/image_archive.py)."""
    yield FunctionCommand(_imports, (archive, step, run, watch), {})


def _imports(state: Any, host: Any, archive: Any, step: Step, run: Run, watch: Watch) -> bool:
    try:
        archive.bring_in(
            host, as_connected(host), lambda script: onhost.step(run, step.layer, step.name, script, watch)
        )
    except RackproofError as error:
        host.log_styled(f"rackproof: {error}", fg="red", log_func=logger.error)
        return False
    return True


@operation(is_idempotent=False)
def packages(
    script: str, step: Step, run: Run, watch: Watch, manager: str, first: str = ""
) -> Generator[StringCommand, None, None]:
    """Run a script that calls the shell functions of a package manager (deploy/packages.py), and another before it."""
    body = f"{first}{MANAGERS[manager].prelude}{script}"
    yield StringCommand(onhost.step(run, step.layer, step.name, body, watch, idle=step.idle))


def writing(wanted: Sequence[File]) -> str:
    """A script that writes files, each whole and in one step."""
    return "".join(
        f"p={shlex.quote(file.path)}\n"
        'mkdir -p "$(dirname "$p")"\n'
        't=$(mktemp "$p.XXXXXX")\n'
        f'printf %s {shlex.quote(file.content)} >"$t" && chmod {shlex.quote(file.mode)} "$t" || {{ rm -f "$t"; exit 1; }}\n'
        'mv -f "$t" "$p"\n'
        for file in wanted
    )


@operation(is_idempotent=False)
def files(
    wanted: Sequence[File], step: Step, run: Run, watch: Watch, then: str = "", first: str = ""
) -> Generator[StringCommand, None, None]:
    """Write files, each whole and in one step, then run a script that makes them take effect."""
    yield StringCommand(onhost.step(run, step.layer, step.name, "\n".join(filter(None, (first, writing(wanted), then))), watch))


@operation(is_idempotent=False)
def plain(script: str) -> Generator[StringCommand, None, None]:
    """Run a script on a host that is none of the nodes: without their lock and journal."""
    yield StringCommand(f"set -eu\n{script}")


@operation(is_idempotent=False)
def stop(reason: str) -> Generator[StringCommand, None, None]:
    """Fail this node with a message: nothing after it is done there."""
    yield StringCommand("printf '%s\\n'", QuoteString(f"rackproof: {reason}"), ">&2; exit 1")


@operation(is_idempotent=False)
def lock(run: Run, seen: str | None, dead: str) -> Generator[StringCommand | FunctionCommand, None, None]:
    """Take the node's lock for the whole run."""
    yield StringCommand(onhost.take(run, seen, dead))
    yield FunctionCommand(_hold, (), {})


@operation(is_idempotent=False)
def unlock(run: Run, note: str) -> Generator[StringCommand | FunctionCommand, None, None]:
    """Give the node's lock back at the end."""
    yield StringCommand(onhost.give_back(run, note))
    yield FunctionCommand(_release, (), {})


def _hold(state: Any, host: Any) -> bool:
    return session().holds(host)


def _release(state: Any, host: Any) -> bool:
    return session().released(host)
