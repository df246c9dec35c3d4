"""What a node was doing when it was read: units that failed, processes that hang, who listens where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing
from rackproof.facts_system import Limit

_UNREAD: Missing = Missing("not read")


@dataclass(frozen=True)
class BlockedProcess:
    """A process in uninterruptible sleep (state D) at two looks a second apart. Nothing can kill it."""

    pid: int
    name: str  # /proc/PID/comm, 15 characters
    kernel: bool  # a thread of the kernel; some drivers' threads sleep like that for good


@dataclass(frozen=True)
class ServingUnit:
    """A unit of ours that serves (rackproof-*.service), as systemd has it loaded."""

    name: str
    load: str  # loaded | not-found | ...
    active: str  # active | inactive | failed | activating
    sub: str


@dataclass(frozen=True)
class DaemonLimits:
    """Limits of a running daemon, which what it starts inherits unless told otherwise."""

    pid: int
    memlock: Fact[Limit]  # bytes; None is unlimited
    open_files: Fact[Limit]


@dataclass(frozen=True)
class Listener:
    """A TCP socket in state LISTEN of the network namespace that was probed."""

    address: str  # 0.0.0.0, ::, 127.0.0.1 ...
    port: int


@dataclass(frozen=True)
class NodeState:
    failed_units: Fact[tuple[str, ...]] = _UNREAD  # systemd units in state failed
    serving_units: Fact[tuple[ServingUnit, ...]] = _UNREAD
    blocked: Fact[tuple[BlockedProcess, ...]] = _UNREAD
    daemons: Fact[Mapping[str, DaemonLimits]] = _UNREAD  # dockerd, containerd, crio, podman: those that run
    listening: Fact[tuple[Listener, ...]] = _UNREAD  # sorted by port
