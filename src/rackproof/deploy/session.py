"""One run over all its nodes: who runs it, which locks it holds, what it tells a program that watches it.

The only module that uses pyinfra's state and callbacks (3.10). A node drops out of a run at its first failure, and then
no operation runs there any more; so locks are given back by callback, and at the end of the process in any other case.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import gevent
from pyinfra import state as current_state
from pyinfra.api.state import BaseStateCallback

from rackproof.deploy import onhost, transport
from rackproof.deploy.holder import new_run
from rackproof.evidence.evidence import Evidence

if TYPE_CHECKING:
    from rackproof.deploy.node import Node

EVENTS_FD = "RACKPROOF_EVENTS_FD"  # an open file descriptor for one JSON object a line


class Session:
    """The run of this process."""

    def __init__(self) -> None:
        self.run = new_run()
        self.nodes: dict[str, Node] = {}
        self.evidence: dict[str, Evidence] = {}  # the last reading of each node
        self.failures: dict[str, str] = {}  # node -> why, where rackproof itself knows
        self._held: dict[str, Any] = {}  # node -> pyinfra host
        self._dropped: list[tuple[Any, str, str]] = []  # host, operation, its name
        self._events = int(os.environ.get(EVENTS_FD, "-1"))
        atexit.register(self._end)
        gevent.signal_handler(signal.SIGTERM, sys.exit, 143)  # else the process would end without giving locks back

    @property
    def changes(self) -> bool:
        """Whether this run changes any node."""
        return any(node.steps for node in self.nodes.values())

    def add(self, node: Node, evidence: Evidence) -> None:
        self.nodes[node.name] = node
        self.evidence[node.name] = evidence

    def holds(self, host: Any) -> bool:
        """Note that the lock of a node was taken, and begin to give signs of life there."""
        self._held[host.name] = host
        gevent.spawn(self._beat, host)
        return True

    def released(self, host: Any) -> bool:
        self._held.pop(host.name, None)
        return True

    def give_back(self, host: Any, note: str) -> None:
        """Release a lock outside any operation: after a failure, or when the process ends."""
        if self._held.pop(host.name, None) is None:
            return
        ok, _, why = transport.run(host, onhost.give_back(self.run, note), 20)
        if not ok:
            host.log_styled(
                f"rackproof: its lock could not be released ({why.strip()[:120]}); from this machine a deploy can be run "
                f"again at once, from another after {onhost.STALE_S} s or `rackproof unlock`", fg="yellow",
            )  # fmt: skip

    def tell(self, event: str, **members: Any) -> None:
        """One event for the program that started this run, if one did."""
        if self._events >= 0:
            with contextlib.suppress(OSError):  # it went away; the nodes must not be left half done for that
                os.write(self._events, (json.dumps({"event": event, **members}) + "\n").encode())

    def dropped(self, host: Any, op_hash: str, step: str) -> None:
        """A node failed a step. What the command said is known to pyinfra only later."""
        self._dropped.append((host, op_hash, step))
        self.tell("dropped", node=host.name, step=step)
        self.give_back(host, f"failed: {step}")

    def failed(self, name: str) -> bool:
        return any(host.name == name for host in current_state.failed_hosts)

    def _beat(self, host: Any) -> None:
        while host.name in self._held:
            gevent.sleep(onhost.HEARTBEAT_S)
            if host.name in self._held:
                transport.run(host, onhost.beat(self.run), 20)

    def _end(self) -> None:
        for host in list(self._held.values()):
            self.give_back(host, "the run ended before this node was done")
        for host, op_hash, step in self._dropped:
            self.tell("failed", node=host.name, step=step, why=self._why(host, op_hash))

    def _why(self, host: Any, op_hash: str) -> str:
        if host.name in self.failures:
            return self.failures[host.name]
        meta = current_state.ops[host][op_hash].operation_meta
        return "\n".join(meta.stderr_lines)[-1500:] if meta.is_complete() else ""


class _Watcher(BaseStateCallback):
    """Tells what happens on each node, and gives back the lock of a node that drops out."""

    @staticmethod
    def operation_host_start(state: Any, host: Any, op_hash: str) -> None:
        if op_hash in state.ops[host]:
            session().tell("begins", node=host.name, step=_name(state, op_hash))

    @staticmethod
    def operation_host_success(state: Any, host: Any, op_hash: str, retry_count: int = 0) -> None:
        session().tell("done", node=host.name, step=_name(state, op_hash))

    @staticmethod
    def operation_host_error(state: Any, host: Any, op_hash: str, retry_count: int = 0, max_retries: int = 0) -> None:
        session().dropped(host, op_hash, _name(state, op_hash))


def _name(state: Any, op_hash: str) -> str:
    return ", ".join(state.get_op_meta(op_hash).names)


_sessions: list[Session] = []


def session() -> Session:
    """The one session of this process, begun when the first node is."""
    if not _sessions:
        _sessions.append(Session())
        current_state.add_callback_handler(_Watcher())  # type: ignore[no-untyped-call]
    return _sessions[0]
