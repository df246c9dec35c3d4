"""Stand-in for nvidia-imex-ctl: -q (this daemon), -N (the domain, as text or with -j as JSON).

It asks the local daemon first and then, all at once and for at most a second, the daemon of every node in the map.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from . import truth
from .imex import CONFIG, read_config

LEGEND = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
D - Disconnected - Connection was lost, and clean up has been triggreed.
A - Authenticating - If GSSAPI enabled, client has initiated mutual authentication.
!V! - Version mismatch, communication disabled.
!M! - Node map mismatch, communication disabled.
C - Connected - Ready for operation
"""
# Only CONNECTED was seen in a real output; the other words are from memory.
WORDS = {
    "C": "CONNECTED", "N": "NEVER_CONNECTED", "D": "DISCONNECTED", "R": "RECOVERING", "I": "INVALID",
    "V": "VERSION_MISMATCH", "M": "NODE_MAP_MISMATCH",
}  # fmt: skip


def ask(host: str, port: int) -> truth.Json | None:
    try:
        with socket.create_connection((host, port), 1.0) as connection:
            connection.settimeout(1.0)
            data: truth.Json = json.loads(connection.makefile().readline())
            return data
    except (OSError, ValueError):
        return None


def main(program: str, version: str, args: Sequence[str]) -> int:
    """0 with an answer, also when the domain is degraded; 1 when the local daemon does not answer."""
    if "--version" in args or "-v" in args:
        print(f"NVIDIA IMEX CTL version is: {version} (rackproof lab stand-in)")
        return 0
    flags = _flags(args)
    port = int(read_config(CONFIG)["IMEX_CMD_PORT"])
    local = ask("127.0.0.1", port)
    if local is None:
        print("Failed to connect to the IMEX daemon on 127.0.0.1: Connection refused", file=sys.stderr)
        return 1
    if "q" in flags:
        print(json.dumps({"status": local["status"]}) if "j" in flags else local["status"])
        return 0
    if not flags & {"N", "H"}:
        print("usage: nvidia-imex-ctl -q | -N [-j] [-H] (rackproof lab stand-in)", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(max(1, len(local["nodes"]))) as pool:
        views = list(pool.map(lambda host: ask(host, port), local["nodes"]))
    print(_as_json(local, views) if "j" in flags else _as_text(local, views, "H" in flags))
    return 0


def _flags(args: Sequence[str]) -> set[str]:
    return {letter for a in args if a.startswith("-") and not a.startswith("--") for letter in a[1:]}


def _letter(view: truth.Json | None, column: int) -> str:
    """The state that a node reports for its connection to another; I when the node did not answer."""
    if view is None or column >= len(view["states"]):
        return "I"
    return str(view["states"][column])


def _domain(views: list[truth.Json | None]) -> str:
    columns = range(len(views))
    if all(v is not None and v["status"] == "READY" and all(_letter(v, c) == "C" for c in columns) for v in views):
        return "UP"
    return "DEGRADED" if any(v is not None for v in views) else "DOWN"


def _now() -> str:
    now = time.localtime()
    return f"{now.tm_mon}/{now.tm_mday}/{now.tm_year} {time.strftime('%H:%M:%S', now)}.000"


def _as_text(local: truth.Json, views: list[truth.Json | None], names: bool) -> str:
    lines = [LEGEND, _now(), "Nodes:"]
    for index, (host, view) in enumerate(zip(local["nodes"], views, strict=True)):
        shown = f"* {host} *" if index == local["own"] else f"- {host}"
        status, version = (view["status"], view["version"]) if view else ("UNAVAILABLE", "")
        row = f"Node #{index:<3} {shown:<20} - {status:<20} - Version: {version:<15}"
        lines.append(row + (f" - Hostname: {view['host'] if view else ''}" if names else "").rstrip())
    count = len(views)
    lines += ["", " Nodes From\\To  " + "".join(f"{c:<4}" for c in range(count)).rstrip()]
    for index, view in enumerate(views):
        cells = [_letter(view, column) for column in range(count)]
        drawn = "".join(f"{f'!{c}!' if c in 'VM' else c:<4}" for c in cells)
        lines.append(f"{index:>8}        {drawn}".rstrip())
    return "\n".join([*lines, "", f"Domain State: {_domain(views)}"])


def _as_json(local: truth.Json, views: list[truth.Json | None]) -> str:
    nodes: truth.Json = {}
    for index, (host, view) in enumerate(zip(local["nodes"], views, strict=True)):
        connections = {
            str(c): {"host": other, "status": WORDS[_letter(view, c)], "changed": True}
            for c, other in enumerate(local["nodes"])
        }
        nodes[str(index)] = {
            "status": view["status"] if view else "UNAVAILABLE", "host": host, "hostName": view["host"] if view else "",
            "version": view["version"] if view else "", "connections": connections,
        }  # fmt: skip
    return json.dumps({"nodes": nodes, "timestamp": _now(), "status": _domain(views)})
