"""The lab's web server: HTTP on port 80 and HTTPS on 443, one folder per host name.

Run as `python -m rackproof_lab.web ROOT ADDRESS CERTIFICATE KEY` in the lab's network namespace. A file
ROOT/faults.json such as {"/compute": 503, "/debian": "slow", "/x": "cut"} makes paths fail.
"""

from __future__ import annotations

import http.server
import json
import re
import ssl
import sys
import threading
import time
from pathlib import Path

ROOT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Static files of the host that was asked for; 404 for a host the lab does not play."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def translate_path(self, path: str) -> str:
        host = (self.headers.get("Host") or "none").split(":")[0].replace("/", "")
        self.directory = str(ROOT / host)
        return super().translate_path(path)

    def do_GET(self) -> None:
        fault = self._fault()
        if fault == "slow":
            time.sleep(3)
        if fault in (None, "slow"):
            return self._rest() if "Range" in self.headers else super().do_GET()
        if fault == "cut":
            return self._cut()
        return self.send_error(int(str(fault)))

    def _fault(self) -> object:
        try:
            faults: dict[str, object] = json.loads((ROOT / "faults.json").read_text())
        except FileNotFoundError:
            return None
        return next((what for prefix, what in faults.items() if self.path.startswith(prefix)), None)

    def _rest(self) -> None:
        """A file from a byte on: the one form of Range that a download that goes on uses."""
        path, asked = Path(self.translate_path(self.path)), re.fullmatch(r"bytes=([0-9]+)-", self.headers["Range"])
        if asked is None or not path.is_file():
            return super().do_GET()
        data, start = path.read_bytes(), int(asked[1])
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])
        return None

    def _cut(self) -> None:
        """Half a body, then the line goes dead."""
        data = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        host = self.headers.get("Host", "-") if hasattr(self, "headers") else "-"
        print(f"{time.strftime('%H:%M:%S')} {self.client_address[0]} {host} {format % args}", flush=True)


class Server(http.server.ThreadingHTTPServer):
    """TLS handshakes happen in the worker thread, so that a silent client blocks nobody."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        print(f"{client_address}: {sys.exc_info()[1]}", flush=True)


def serve(address: str, port: int, certificate: str = "", key: str = "") -> None:
    server = Server((address, port), Handler)
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    threading.Thread(target=serve, args=(sys.argv[2], 80), daemon=True).start()
    serve(sys.argv[2], 443, sys.argv[3], sys.argv[4])
