"""A registry in this process: real HTTP on loopback, answers as a test wants them, and a note of what was asked."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OCI = "application/vnd.oci.image."
USER, PASSWORD = "puller", "correct horse"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class Store:
    """One repository. `faults`: path -> what happens there, once for each item: a status, or a function."""

    repository: str = "vllm/vllm-openai"
    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    auth: str = ""  # "" | basic | token | token-anonymous
    realm: str = ""
    faults: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # path, Authorization

    def image(
        self, tag: str = "v1", architectures: tuple[str, ...] = ("amd64", "arm64"), **config: Any
    ) -> dict[str, str]:
        """Add an image; returns its digests: index, and one an architecture."""
        entries = [self._platform(name, config) for name in architectures]
        attestation = {**entries[0], "platform": {"os": "unknown", "architecture": "unknown"}}
        index = json.dumps(
            {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [*entries, attestation]}
        )
        self.manifests[tag] = self.manifests[sha(index.encode())] = index.encode()
        return {"index": sha(index.encode()), **{e["platform"]["architecture"]: e["digest"] for e in entries}}

    def _platform(self, architecture: str, config: dict[str, Any]) -> dict[str, Any]:
        settings = {"Env": ["PATH=/bin", "CUDA_VERSION=13.0.2"], "Labels": {"maintainer": "x"}, **config}
        document = {"architecture": architecture, "os": "linux", "config": settings}
        if "claims" in config:
            document["architecture"] = settings.pop("claims")
        blob = json.dumps(document).encode()
        self.blobs[sha(blob)] = blob
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": {"mediaType": OCI + "config.v1+json", "digest": sha(blob), "size": len(blob)},
            "layers": [{"digest": "sha256:" + "1" * 64, "size": 1000}, {"digest": "sha256:" + "2" * 64, "size": 234}],
        }).encode()  # fmt: skip
        self.manifests[sha(manifest)] = manifest
        return {
            "digest": sha(manifest),
            "size": len(manifest),
            "platform": {"os": "linux", "architecture": architecture},
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.store.asked.append((self.path, self.headers.get("Authorization", "")))
        fault = self.store.faults.get(path)
        if fault:
            return self._fault(fault.pop(0))
        if path == "/token":
            return self._token(self.headers.get("Authorization", ""))
        if not self._allowed():
            return self._challenge()
        return self._serve(path)

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.store.asked.append((f"POST {self.path} {form}", ""))
        self.answer(200, b'{"access_token": "from-refresh"}' if "refresh_token=r3fresh" in form else b"{}")

    def _serve(self, path: str) -> None:
        prefix = f"/v2/{self.store.repository}/"
        kind, _, name = path.removeprefix(prefix).partition("/")
        body = {"manifests": self.store.manifests, "blobs": self.store.blobs}.get(kind, {}).get(name)
        if body is None or not path.startswith(prefix):
            return self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
        return self.answer(200, body, {"Docker-Content-Digest": sha(body)})

    def _fault(self, fault: Any) -> None:
        if isinstance(fault, int):
            return self.answer(fault, b"{}")
        fault(self)
        return None

    def _allowed(self) -> bool:
        given = self.headers.get("Authorization", "")
        kind = self.store.auth
        return (
            not kind
            or (kind == "basic" and given == BASIC)
            or (kind.startswith("token") and given.startswith("Bearer t-"))
        )

    def _challenge(self) -> None:
        realm = self.store.realm or f"http://{self.headers['Host']}/token"
        basic = self.store.auth == "basic"
        said = (
            'Basic realm="r"' if basic else f'Bearer realm="{realm}",service="reg,istry",scope="repository:x:pull,push"'
        )
        self.answer(401, b"{}", {"WWW-Authenticate": said})

    def _token(self, given: str) -> None:
        if self.store.auth == "token" and given != BASIC:
            return self.answer(401, b"{}")
        return self.answer(200, b'{"token": "t-0k3n"}')

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return None


@contextmanager
def serving(store: Store, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The store on loopback; yields host:port."""
    handler = type("Handler", (_Handler,), {"store": store})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def half(status: int, body: bytes) -> Callable[[Any], None]:
    """Announce a body and hang up in its middle."""

    def act(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2])
        handler.close_connection = True

    return act


def later(status: int, **headers: str) -> Callable[[Any], None]:
    return lambda handler: handler.answer(
        status, b"{}", {name.replace("_", "-"): value for name, value in headers.items()}
    )


def certificates(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server context for 127.0.0.1, and the file of the CA that signed it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(_loopback())]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "ca.crt", folder / "ca.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem, secret)
    return context, pem


def _loopback() -> Any:
    import ipaddress

    return ipaddress.ip_address("127.0.0.1")
