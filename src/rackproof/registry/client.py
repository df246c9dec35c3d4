"""Manifests and configurations of one registry, each verified against its digest.

Source: github.com/opencontainers/distribution-spec (pulling); distribution.github.io/distribution/spec/auth/token.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from rackproof.registry.credentials import Credentials
from rackproof.registry.reference import DIGEST, Reference
from rackproof.registry.transport import Answer, RegistryError, Transport, Trouble

MANIFEST_BYTES = 4 * 1024 * 1024  # what a registry has to take, by the distribution specification
CONFIG_BYTES = 8 * 1024 * 1024
_TOKEN_BYTES = 256 * 1024
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CLIENT = "rackproof"


@dataclass(frozen=True)
class Document:
    """A manifest, an index or a configuration: its bytes, their digest, and the JSON object they spell."""

    digest: str
    raw: bytes = field(repr=False)
    data: dict[str, Any] = field(repr=False)

    @property
    def is_index(self) -> bool:
        return "manifests" in self.data


class Registry:
    """Reads one repository. Asks for a token when the registry wants one, for nothing but reading this repository."""

    def __init__(self, reference: Reference, transport: Transport, credentials: Credentials | None = None) -> None:
        self._repository, self._transport, self._credentials = reference.repository, transport, credentials
        self._base = transport.base(reference.api_host)
        self._host = reference.api_host
        self._authorization: str | None = None

    def manifest(self, reference: str) -> Document:
        """The manifest or index by tag or digest. Raises RegistryError, also where bytes and digest do not agree."""
        accept = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
        answer = self._get(f"manifests/{reference}", accept, MANIFEST_BYTES, reference)
        claimed = reference if DIGEST.fullmatch(reference) else answer.headers.get("Docker-Content-Digest")
        return self._document(answer.body, claimed, f"the manifest {reference}")

    def config(self, digest: str) -> Document:
        """The configuration of a platform, by the digest that its manifest names."""
        answer = self._get(f"blobs/{digest}", "*/*", CONFIG_BYTES, digest)
        return self._document(answer.body, digest, f"the configuration {digest}")

    def _document(self, raw: bytes, claimed: str | None, what: str) -> Document:
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        if claimed is not None and DIGEST.fullmatch(claimed) and claimed != digest:
            said = f"{what} was tampered with or damaged: its bytes have the digest {digest}, not {claimed}"
            raise RegistryError(Trouble.TAMPERED, self._host, said)
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise RegistryError(Trouble.BROKEN, self._host, f"{what} is not a JSON object")
        return Document(digest, raw, data)

    def _get(self, path: str, accept: str, limit: int, wanted: str) -> Answer:
        url = f"{self._base}/v2/{self._repository}/{path}"
        headers = {"Accept": accept}
        for fresh in (False, True):
            if self._authorization:
                headers["Authorization"] = self._authorization
            answer = self._transport.request(url, headers, limit)
            if answer.status != 401 or fresh:
                break
            self._authorization = self._authorize(answer)
        if answer.status == 401:
            raise RegistryError(Trouble.REFUSED, self._host, self._refusal())
        if answer.status == 404:
            raise RegistryError(Trouble.MISSING, self._host, f"{self._repository} has no {wanted}{_code(answer.body)}")
        return answer

    def _refusal(self) -> str:
        if self._credentials is None:
            return f"wants a login to read {self._repository}: `docker login {self._host}` on this machine"
        return (
            f"does not take the credentials of this machine for {self._repository}: `docker login {self._host}` again"
        )

    def _authorize(self, answer: Answer) -> str:
        """An Authorization header that answers a challenge. Raises RegistryError where there is none to give."""
        offers = _challenges(answer.headers.get_all("WWW-Authenticate") or [])
        if "bearer" in offers:
            return f"Bearer {self._token(offers['bearer'])}"
        if "basic" in offers and self._credentials is not None and not self._credentials.is_token:
            return self._credentials.basic
        raise RegistryError(Trouble.REFUSED, self._host, self._refusal())

    def _token(self, challenge: dict[str, str]) -> str:
        realm = challenge.get("realm", "")
        parts = urlsplit(realm)
        if not parts.hostname or parts.scheme not in ("https", urlsplit(self._base).scheme):
            raise RegistryError(Trouble.BROKEN, self._host, "names a token service that is not reached by TLS")
        asked = {"service": challenge["service"]} if "service" in challenge else {}
        asked["scope"] = f"repository:{self._repository}:pull"
        answer = self._ask_for_token(realm, asked)
        if answer.status != 200:
            raise RegistryError(Trouble.REFUSED, self._host, self._refusal())
        token = _token_of(answer.body)
        if token is None:
            raise RegistryError(Trouble.BROKEN, parts.netloc, "the token service sent no token")
        return token

    def _ask_for_token(self, realm: str, asked: dict[str, str]) -> Answer:
        given = self._credentials
        if given is not None and given.is_token:
            form = {**asked, "grant_type": "refresh_token", "refresh_token": given.secret, "client_id": _CLIENT}
            return self._transport.request(realm, {}, _TOKEN_BYTES, urlencode(form).encode())
        headers = {"Authorization": given.basic} if given is not None else {}
        return self._transport.request(
            f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}", headers, _TOKEN_BYTES
        )


def _challenges(headers: list[str]) -> dict[str, dict[str, str]]:
    """Scheme in lower case -> its parameters, of WWW-Authenticate headers with one challenge each."""
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        scheme, _, rest = header.strip().partition(" ")
        pairs = [item for item in urllib.request.parse_http_list(rest) if "=" in item]
        found.setdefault(scheme.lower(), {k.lower(): v for k, v in urllib.request.parse_keqv_list(pairs).items()})
    return found


def _token_of(body: bytes) -> str | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    token = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
    return token if isinstance(token, str) and re.fullmatch(r"[\x21-\x7e]+", token) else None


def _code(body: bytes) -> str:
    """ " (MANIFEST_UNKNOWN)" of the error document of a registry, where it sent one."""
    match = re.search(rb'"code"\s*:\s*"([A-Z_]{1,40})"', body[:65536])
    return f" ({match[1].decode()})" if match else ""
