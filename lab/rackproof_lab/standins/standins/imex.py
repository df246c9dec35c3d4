"""Stand-in for the nvidia-imex daemon: really listens, really connects to its peers, keeps a view of each.

Every daemon opens one connection to each peer and repeats a hello (its version and the hash of its node map) on
it. What the other side answers decides the state of that direction, in the letters of nvidia-imex-ctl.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from . import truth

DEFAULTS = {
    "SERVER_PORT": "50000", "IMEX_CMD_PORT": "50005", "IMEX_CMD_ENABLED": "1", "BIND_INTERFACE_IP": "",
    "IMEX_NODE_CONFIG_FILE": "/etc/nvidia-imex/nodes_config.cfg", "LOG_FILE_NAME": "/var/log/nvidia-imex.log",
}  # fmt: skip
CONFIG = "/etc/nvidia-imex/config.cfg"


def read_config(path: str) -> dict[str, str]:
    """KEY=VALUE lines over the defaults."""
    config = dict(DEFAULTS)
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return config
    for line in lines:
        key, sign, value = line.partition("=")
        if sign and not key.strip().startswith("#"):
            config[key.strip()] = value.strip().strip('"')
    return config


def read_nodes(path: str) -> list[str]:
    """Entries of the node file, one a line; comments and blank lines do not count."""
    try:
        lines = [line.strip() for line in Path(path).read_text().splitlines()]
    except OSError:
        return []
    return [line for line in lines if line and not line.startswith("#")]


def is_own(address: str) -> bool:
    """Whether an address belongs to this host: only then can a socket be bound to it."""
    try:
        with socket.socket() as probe:
            probe.bind((socket.gethostbyname(address), 0))
        return True
    except OSError:
        return False


class Daemon:
    """The view of one daemon: its own identity and the state of its connection to each node of the map."""

    def __init__(self, version: str, nodes: list[str], own: int, config: dict[str, str]) -> None:
        self.version, self.nodes, self.own, self.config = version, nodes, own, config
        self.map_hash = hashlib.sha256("\n".join(nodes).encode()).hexdigest()
        self.states = ["N"] * len(nodes)
        self.states[own] = "C"
        self.ready = False
        self.beat = max(1.0, len(nodes) / 6)  # seconds between hellos: grows with the domain, to stay cheap

    def hello(self) -> bytes:
        return json.dumps({"version": self.version, "map": self.map_hash}).encode() + b"\n"

    def judge(self, line: bytes) -> str:
        try:
            peer = json.loads(line)
        except ValueError:
            return "N"
        if peer.get("version") != self.version:
            return "V"
        return "C" if peer.get("map") == self.map_hash else "M"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Server side: reply to each hello with our own."""
        try:
            while await reader.readline():
                writer.write(self.hello())
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def follow(self, index: int) -> None:
        """Client side: keep a connection to one peer for ever, and note what becomes of it."""
        port = int(self.config["SERVER_PORT"])
        while True:
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection(self.nodes[index], port), 1.5)
                try:
                    await self._talk(index, reader, writer)
                finally:
                    writer.close()
            except (TimeoutError, OSError, ValueError):
                pass
            if self.states[index] != "N":
                self.states[index] = "D"
            await asyncio.sleep(self.beat / 2)

    async def _talk(self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(self.hello())
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 1.5)
            if not line:
                return
            self.states[index] = self.judge(line)
            await asyncio.sleep(self.beat)

    async def status(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The command port, which nvidia-imex-ctl of any node asks."""
        view = {
            "status": "READY" if self.ready else "INITIALIZING", "version": self.version, "own": self.own,
            "host": socket.gethostname(), "nodes": self.nodes, "states": self.states, "map": self.map_hash,
        }  # fmt: skip
        writer.write(json.dumps(view).encode() + b"\n")
        await writer.drain()
        writer.close()

    async def run(self, sockets: tuple[socket.socket, socket.socket], started: int) -> None:
        await asyncio.start_server(self.answer, sock=sockets[0])
        await asyncio.start_server(self.status, sock=sockets[1])
        peers = [asyncio.create_task(self.follow(i)) for i in range(len(self.nodes)) if i != self.own]
        os.write(started, b"1")
        await asyncio.sleep(0.3)
        self.ready = True
        await asyncio.gather(*peers, asyncio.Event().wait())


def main(program: str, version: str, args: Sequence[str]) -> int:
    """Start the daemon; exit code 1 with a reason when it cannot serve. The parent returns when it listens."""
    if "--version" in args or "-v" in args:
        print(f"NVIDIA IMEX version is: {version}")  # spelling from memory
        return 0
    if "--help" in args or "-h" in args:
        print("nvidia-imex (rackproof lab stand-in) [-c CONFIG] [--version]")
        return 0
    config = read_config(args[list(args).index("-c") + 1] if "-c" in args else CONFIG)
    if truth.loaded_driver() is None:
        return _refuse("failed to open the NVIDIA driver: is the kernel module loaded?")
    nodes = read_nodes(config["IMEX_NODE_CONFIG_FILE"])
    if not nodes:
        print(f"nvidia-imex: no nodes in {config['IMEX_NODE_CONFIG_FILE']}, nothing to do", file=sys.stderr)
        return 0
    own = next((i for i, node in enumerate(nodes) if is_own(node)), None)
    if own is None:
        return _refuse(f"no address of this host is in {config['IMEX_NODE_CONFIG_FILE']}")
    return _daemonise(Daemon(version, nodes, own, config))


def _refuse(reason: str) -> int:
    print(f"[ERROR] nvidia-imex: {reason}", file=sys.stderr)
    return 1


def _daemonise(daemon: Daemon) -> int:
    try:
        ports = (int(daemon.config["SERVER_PORT"]), int(daemon.config["IMEX_CMD_PORT"]))
        sockets = (socket.create_server(("", ports[0])), socket.create_server(("", ports[1])))
    except OSError as error:
        return _refuse(f"cannot listen: {error}")
    receive, started = os.pipe()
    if os.fork():
        os.close(started)
        return 0 if os.read(receive, 1) else 1
    os.close(receive)
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    _log(daemon)
    asyncio.run(daemon.run(sockets, started))
    return 0


def _log(daemon: Daemon) -> None:
    path = daemon.config["LOG_FILE_NAME"]
    if path:
        with Path(path).open("a") as handle:
            handle.write(f"IMEX version {daemon.version} is running (rackproof lab stand-in), nodes {daemon.nodes}\n")
