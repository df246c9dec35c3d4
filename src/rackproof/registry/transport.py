"""One HTTPS request to a registry, bounded in every way: size, time, retries, redirects.

A connection that breaks is tried again, and so is an answer that says "later" (429, 5xx); any other refusal is final. A
redirect to another place never carries the Authorization header along, and never leaves TLS.
"""

from __future__ import annotations

import http.client
import random
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from enum import Enum
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from rackproof import __version__
from rackproof.errors import InputError, RackproofError
from rackproof.registry.reference import is_loopback

ATTEMPTS = 4
SILENCE_S = 20  # without a byte
TOTAL_S = 120  # for one attempt
WAIT_MAX_S = 60  # the longest a registry may ask us to wait before the answer is "come back later"
REDIRECTS = 5
_LATER = (429, 500, 502, 503, 504)
_MOVED = (301, 302, 303, 307, 308)


class Trouble(Enum):
    """Why a registry gave no usable answer."""

    MISSING = "missing"  # it answered, and does not have what was asked for
    REFUSED = "refused"  # not without (other) credentials
    LIMITED = "limited"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"  # its certificate
    TAMPERED = "tampered"  # what it sent does not have the digest that it was asked for by
    BROKEN = "broken"  # what it sent makes no sense


class RegistryError(RackproofError):
    """A registry gave no usable answer. The message names the registry and the next step."""

    def __init__(self, trouble: Trouble, host: str, problem: str) -> None:
        super().__init__(f"registry {host}: {problem}")
        self.trouble = trouble
        self.host = host


@dataclass(frozen=True)
class Answer:
    """Status 2xx, 401 or 404; whatever else a registry can say has become a RegistryError."""

    status: int
    headers: Message
    body: bytes


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


class Transport:
    """Requests under one set of trusted certificates.

    `ca_file`: PEM certificates trusted besides the system's. Without TLS only where `plain_http` says so, or on this
    machine itself where no CA is named.
    """

    def __init__(
        self, ca_file: Path | None = None, *, plain_http: bool = False, attempts: int = ATTEMPTS,
        silence_s: float = SILENCE_S, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._context = _context(ca_file)
        self._attempts, self._silence_s = attempts, silence_s
        self._plain, self._plain_loopback, self._sleep = plain_http, ca_file is None, sleep

    def base(self, host: str) -> str:
        """https://HOST, or http:// where that is allowed."""
        plain = self._plain or (self._plain_loopback and is_loopback(host))
        return f"{'http' if plain else 'https'}://{host}"

    def request(self, url: str, headers: Mapping[str, str], limit: int, data: bytes | None = None) -> Answer:
        """GET (POST where there is data). `limit`: bytes of body that are taken. Raises RegistryError."""
        host = urlsplit(url).netloc
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                answer = self._follow(url, headers, limit, data)
            except (OSError, http.client.HTTPException) as error:
                self._refuse_untrusted(host, error)
                if last:
                    raise RegistryError(Trouble.UNREACHABLE, host, _connection_words(error, attempt)) from None
                self._sleep(_pause(attempt))
                continue
            if answer.status not in _LATER:
                return _final(host, answer)
            wait = _retry_after(answer.headers)
            if last or (wait or 0) > WAIT_MAX_S:
                raise _later(host, answer.status, wait, attempt)
            self._sleep(_pause(attempt) if wait is None else wait)
        raise AssertionError("the loop always ends by itself")

    def _refuse_untrusted(self, host: str, error: BaseException) -> None:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            said = f"its certificate is not trusted ({reason.verify_message}); a private CA is named by --ca-file or image.ca_file"
            raise RegistryError(Trouble.UNTRUSTED, host, said) from None
        if isinstance(reason, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(reason):
            said = "does not speak TLS; --plain-http or image.plain_http: true allows that"
            raise RegistryError(Trouble.UNTRUSTED, host, said) from None

    def _follow(self, url: str, headers: Mapping[str, str], limit: int, data: bytes | None) -> Answer:
        """One attempt, with its redirects."""
        sent = dict(headers)
        for _ in range(REDIRECTS + 1):
            answer = self._once(url, sent, limit, data)
            place = answer.headers.get("Location")
            if answer.status not in _MOVED or not place:
                return answer
            target = urljoin(url, place)
            host = urlsplit(url).netloc
            if urlsplit(target).scheme not in ("https", urlsplit(url).scheme):
                raise RegistryError(Trouble.BROKEN, host, "redirects to a place without TLS, which is not followed")
            if data is not None:
                raise RegistryError(Trouble.BROKEN, host, "redirects a request that carries credentials")
            if _origin(target) != _origin(url):
                sent.pop("Authorization", None)
            url = target
        raise RegistryError(Trouble.BROKEN, urlsplit(url).netloc, f"redirects more than {REDIRECTS} times")

    def _once(self, url: str, headers: Mapping[str, str], limit: int, data: bytes | None) -> Answer:
        host = urlsplit(url).hostname or ""
        proxies = [urllib.request.ProxyHandler({})] if is_loopback(host) else []
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=self._context), *proxies)
        opener.addheaders = [("User-Agent", f"rackproof/{__version__}")]
        request = urllib.request.Request(url, data=data, headers=dict(headers))
        try:
            with opener.open(request, timeout=self._silence_s) as answer:
                return Answer(answer.status, answer.headers, _read(answer, limit, urlsplit(url).netloc))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, _read(error, limit, urlsplit(url).netloc))


def _context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file.expanduser())
        except (OSError, ssl.SSLError) as error:
            problem = error.strerror if isinstance(error, FileNotFoundError) else "holds no certificate in PEM form"
            raise InputError(str(ca_file), problem or "cannot be read", "certificates of the CA, PEM") from None
    return context


def _read(answer: http.client.HTTPResponse | urllib.error.HTTPError, limit: int, host: str) -> bytes:
    """The body; a registry that sends more than it may, or drop by drop, is cut off."""
    deadline = time.monotonic() + TOTAL_S
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(65536) if isinstance(answer, http.client.HTTPResponse) else answer.read(65536):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise RegistryError(Trouble.BROKEN, host, f"sent more than {limit} bytes where less was to be expected")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end after {TOTAL_S} s")
    announced = answer.headers.get("Content-Length")
    if announced is not None and announced.isdigit() and size < int(announced):
        raise http.client.IncompleteRead(b"", int(announced) - size)
    return b"".join(parts)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _final(host: str, answer: Answer) -> Answer:
    if answer.status in (401, 404) or 200 <= answer.status < 300:
        return answer
    if answer.status == 403:
        raise RegistryError(Trouble.REFUSED, host, "answers 403: these credentials may not read this repository")
    raise RegistryError(Trouble.BROKEN, host, f"answers {answer.status}, which is not for trying again")


def _later(host: str, status: int, wait: float | None, tries: int) -> RegistryError:
    if status != 429:
        return RegistryError(Trouble.UNREACHABLE, host, f"answers {status}, {tries} times; look at the registry")
    when = f"in {wait:.0f} s" if wait is not None else "later"
    said = f"answers 429, its rate limit is used up; try again {when}, log in, or use a mirror (image.repository)"
    return RegistryError(Trouble.LIMITED, host, said)


def _retry_after(headers: Message) -> float | None:
    """Seconds, of a number or of a date; None where it says neither."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _pause(attempt: int) -> float:
    return float(2 ** (attempt - 1)) * random.uniform(0.5, 1)  # many machines must not come back at once


def _connection_words(error: BaseException, tries: int) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(error, http.client.IncompleteRead):
        return f"the connection broke off in the middle of an answer, {tries} times; look at the network or a proxy"
    text = str(getattr(reason, "strerror", None) or reason) or type(reason).__name__
    return f"no answer after {tries} tries ({text}); is the name right, and can this machine reach it?"
