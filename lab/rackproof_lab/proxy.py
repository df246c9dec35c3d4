"""A registry that misbehaves: HTTPS in front of the lab's real one, with faults from a file.

Run as `python -m rackproof_lab.proxy ADDRESS PORT UPSTREAM CA CERTIFICATE KEY FAULTS` in the lab's network namespace.
FAULTS is JSON, read at every request: {"login": "user:password", "rules": [{"path": "REGEX", "do": 429, "times": 1}]}.
`do` is cut (half a body, then the line goes dead), tamper (one byte changed), or a status; `headers` go with a status.
"""

from __future__ import annotations

import base64
import http.server
import json
import re
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

TOKEN = "lab-token"


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards GET and HEAD to the upstream."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, upstream: str, ca: str, faults: str) -> None:
        super().__init__((address, port), Handler)
        self.base = f"https://{address}:{port}"
        self.upstream, self.faults = upstream, Path(faults)
        self.context = ssl.create_default_context(cafile=ca)
        self.used: Counter[str] = Counter()
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        print(f"{client_address}: {sys.exc_info()[1]}", flush=True)

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.faults.read_text())
        return found

    def fault(self, path: str) -> dict[str, Any] | None:
        """The first rule for a path that has not been used up."""
        for rule in self.settings().get("rules", []):
            key = json.dumps(rule, sort_keys=True)
            if re.search(rule["path"], path):
                with self.lock:
                    self.used[key] += 1
                    if self.used[key] <= rule.get("times", 10**9):
                        return dict(rule)
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: Proxy

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        login = self.server.settings().get("login")
        if self.path.startswith("/token"):
            return self._token(login)
        if login and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            challenge = f'Bearer realm="{self.server.base}/token",service="lab"'
            return self._answer(401, b"{}", {"WWW-Authenticate": challenge})
        rule = self.server.fault(self.path)
        if rule is not None and isinstance(rule["do"], int):
            return self._answer(rule["do"], b"{}", rule.get("headers", {}))
        return self._forward("" if rule is None else rule["do"])

    def _token(self, login: str | None) -> None:
        basic = "Basic " + base64.b64encode((login or "").encode()).decode()
        if login and self.headers.get("Authorization") != basic:
            return self._answer(401, b"{}")
        return self._answer(200, json.dumps({"token": TOKEN}).encode(), {"Content-Type": "application/json"})

    def _forward(self, fault: str) -> None:
        asked = {name: self.headers.get_all(name) or [] for name in ("Accept", "Range")}
        sent = {name: ", ".join(values) for name, values in asked.items() if values}
        request = urllib.request.Request(self.server.upstream + self.path, headers=sent, method=self.command)
        try:
            with urllib.request.urlopen(request, context=self.server.context) as answer:
                status, headers, body = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            status, headers, body = error.code, error.headers, error.read()
        kept = {
            name: headers[name]
            for name in ("Content-Type", "Docker-Content-Digest", "Content-Range")
            if name in headers
        }
        if fault == "tamper" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        length = headers.get("Content-Length") or str(len(body))
        self._answer(status, body[: len(body) // 2] if fault == "cut" else body, kept, length)
        self.close_connection = self.close_connection or fault == "cut"

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, length: str = "") -> None:
        self.send_response(status)
        for name, value in {"Docker-Distribution-Api-Version": "registry/2.0", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        print(f"{self.client_address[0]} {format % args}", flush=True)


def main(address: str, port: str, upstream: str, ca: str, certificate: str, key: str, faults: str) -> None:
    server = Proxy(address, int(port), upstream, ca, faults)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
