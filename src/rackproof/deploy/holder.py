"""Who holds a lock, and whether that process is still there. Only this machine's own processes can be known dead."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from pathlib import Path

from rackproof.deploy.onhost import STALE_S, Run
from rackproof.facts import Fact, Missing
from rackproof.facts_control import Lock
from rackproof.verdict.report.clean import clean

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def new_run() -> Run:
    """This process as the holder of locks."""
    machine = socket.gethostname()
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Run(secrets.token_hex(6), f"{user}@{machine}", os.getpid(), process_identity(os.getpid()))


def process_identity(pid: int) -> str:
    """A process of this machine, told from any other that had or will have its number; "" where Linux is not there."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        namespace = os.readlink("/proc/self/ns/pid")
        return f"{_BOOT_ID.read_text().strip()} {namespace} {pid} {fields[19]}"
    except (OSError, IndexError):
        return ""


def is_dead(lock: Lock) -> bool:
    """Whether the holder was a process of this machine, and is gone. A holder elsewhere is never known to be."""
    boot_id, namespace, pid = [*lock.process.split(" "), "", "", ""][:3]
    here = process_identity(os.getpid()).split(" ")
    if len(here) != 4 or namespace != here[1] or boot_id != here[0] or not pid.isdigit():
        return False
    return process_identity(int(pid)) != lock.process


def refusal(lock: Fact[Lock | None], run: Run) -> str | None:
    """Why a node must be left alone, or None where it is free (an unread lock is settled when it is taken)."""
    if lock is None or isinstance(lock, Missing) or lock.run == run.id or is_dead(lock):
        return None
    if lock.idle_s is not None and not isinstance(lock.idle_s, Missing) and lock.idle_s >= STALE_S and not lock.working:
        return None
    idle = "unknown" if isinstance(lock.idle_s, Missing) else f"{lock.idle_s} s ago"
    who = clean(lock.operator, 80) or "somebody"
    return (
        f"locked by {who} (process {lock.pid}, run {clean(lock.run, 20)}) since {clean(lock.since, 40)}, last sign of "
        f"life {idle}; wait for that run, or, if it is gone, `rackproof unlock` this node"
    )
