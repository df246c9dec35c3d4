"""What a long deploy needs of its connection, and pyinfra's does not have: noticing that the other side is gone."""

from __future__ import annotations

import socket
from typing import Any

from pyinfra.api import StringCommand

IDLE_S, INTERVAL_S, COUNT = 15, 5, 4  # a peer that is silent for 35 s is dead


def run(host: Any, script: str, timeout_s: int = 30) -> tuple[bool, str, str]:
    """Run a script on a node outside any operation: whether it ended with 0, its stdout, its stderr. Never raises.

    Uses sudo where the site says so, as operations do by themselves.
    """
    try:
        ok, output = host.run_shell_command(
            StringCommand(script), _timeout=timeout_s, _sudo=bool(host.data.get("_sudo"))
        )
    except Exception as error:  # a connection can fail in any way
        return False, "", f"{type(error).__name__}: {error}"
    return ok, output.stdout, output.stderr


def keep_alive(host: Any) -> None:
    """Let the kernel probe the peer, so that a cut connection fails the step instead of hanging it for an hour.

    Also sends small packets at once: paramiko waits for acknowledgements otherwise, about 40 ms a command. Connections
    that are no TCP socket (local, containers, a proxy command) are left alone.
    """
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client is not None else None
    sock: Any = getattr(transport, "sock", None)
    if not hasattr(sock, "setsockopt"):
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, COUNT)
        # The kernel sends no such probe while something waits to be acknowledged, as a sign of life does that was sent
        # into a cut connection; without this it is sent again for a quarter of an hour.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (IDLE_S + INTERVAL_S * COUNT) * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        return  # not TCP


def reconnect(host: Any) -> bool:
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
