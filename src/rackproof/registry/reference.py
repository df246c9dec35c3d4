"""The name of an image: registry, repository, tag, digest.

Grammar: github.com/distribution/reference. As docker does, a name without a registry is Docker Hub's.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from rackproof.errors import InputError

HUB = "docker.io"
_HUB_API = "registry-1.docker.io"
_HUB_NAMES = (HUB, "index.docker.io", _HUB_API)
ACCEPTED = "[REGISTRY[:PORT]/]NAME[:TAG][@sha256:DIGEST], such as vllm/vllm-openai:v0.28.0"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?")
_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Reference:
    """`registry` as people write it ("docker.io"), `repository` with all its parts ("vllm/vllm-openai")."""

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        return f"{self.registry}/{self.repository}"

    @property
    def api_host(self) -> str:
        """The host that answers for the registry."""
        return _HUB_API if self.registry == HUB else self.registry

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.registry)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")


def parse(text: str, where: str = "REF") -> Reference:
    """A reference from text; without tag and digest it means the tag `latest`. Raises InputError."""
    rest, at, digest = text.partition("@")
    head, slash, tail = rest.partition("/")
    has_registry = bool(slash) and ("." in head or ":" in head or head == "localhost")
    registry, rest = (head, tail) if has_registry else (HUB, rest)
    path, colon, tag = rest.partition(":")
    registry = HUB if registry.lower() in _HUB_NAMES else registry
    if registry == HUB and "/" not in path:
        path = f"library/{path}"
    if not _HOST.fullmatch(registry) or not _PATH.fullmatch(path) or len(path) > 255:
        raise InputError(where, f"{text!r} is not the name of an image", ACCEPTED)
    if (colon and not _TAG.fullmatch(tag)) or (at and not DIGEST.fullmatch(digest)):
        raise InputError(where, f"{text!r} has a malformed {'digest' if at else 'tag'}", ACCEPTED)
    return Reference(registry, path, tag or (None if digest else "latest"), digest or None)


def is_loopback(host: str) -> bool:
    """Whether a host (with or without a port) is this machine."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
