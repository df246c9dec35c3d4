"""A mirror in this process: files over HTTP with ranges, and faults; and a small model to put on it."""

from __future__ import annotations

import hashlib
import http.server
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

INDEX = "model.safetensors.index.json"
REVISION = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"


def shard(name: str, size: int) -> bytes:
    """A safetensors file with one tensor of so many bytes."""
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + hashlib.sha256(name.encode()).digest() * (size // 32)


def model(shards: int = 3, size: int = 64 * 1024) -> dict[str, bytes]:
    names = [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
    files = {name: shard(name, size) for name in names}
    weight_map = {f"layer.{number}.weight": name for number, name in enumerate(names)}
    files[INDEX] = json.dumps({"metadata": {"total_size": shards * size}, "weight_map": weight_map}).encode()
    files["config.json"] = b'{"model_type": "test"}'
    return files


def sums(files: dict[str, bytes], prefix: str = "./") -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {prefix}{name}\n" for name, data in files.items()).encode()


@dataclass
class Mirror:
    """`faults`: name -> what happens there, once for each item: a status, or "cut"."""

    files: dict[str, bytes] = field(default_factory=model)
    faults: dict[str, list[object]] = field(default_factory=dict)
    ranges: bool = True
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, name, Range


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mirror: Mirror

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name, asked = self.path.removeprefix("/k3/"), self.headers.get("Range", "")
        self.mirror.asked.append((self.command, name, asked))
        faults = self.mirror.faults.get(name) if self.command == "GET" else None
        fault = faults.pop(0) if faults else None
        body = self.mirror.files.get(name)
        if body is None or isinstance(fault, int):
            return self._answer(fault if isinstance(fault, int) else 404, b"", 0)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.mirror.ranges else 0
        part = body[start:]
        sent = part[: len(part) // 2] if fault == "cut" else part
        return self._answer(
            206 if start else 200, sent, len(part), f"bytes {start}-{len(body) - 1}/{len(body)}" if start else ""
        )

    def _answer(self, status: int, body: bytes, length: int, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        self.close_connection = len(body) < length or self.command == "HEAD"

    def log_message(self, *args: object) -> None:
        return None


@contextmanager
def serving(mirror: Mirror) -> Iterator[str]:
    """Yields the URL of the folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"mirror": mirror}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/k3"
    finally:
        server.shutdown()
        server.server_close()
