"""Redaction: evidence without serial numbers, UUIDs, hardware and network addresses, and host names.

It happens where the key is, after the node was read: a node has no tool for keyed hashes that one could count on, and
a key sent to a node would not stay with the asker. Each value is replaced by a token of its shape (tokens.py), the same
in every node's evidence under one key, so that judging a redacted set gives the outcomes of the original.

What stays, because a check reads it: PCI addresses, versions, image digests, hashes of managed files, the all-zero UUID,
and addresses inside URLs and image references (a check compares them with the site's own values).
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section
from rackproof.evidence.tokens import Tokens
from rackproof.evidence.tools import amd, control, gpu_holders, host, imex
from rackproof.facts import Missing

MIN_KEY_BYTES = 16
# Sections that hold nothing but names and versions of packages; some versions look like addresses.
_NO_IDENTITY = frozenset({"packages"})
# A host called like one of these gives nobody away, and replacing the word would spoil the evidence.
_ORDINARY = frozenset({
    "localhost", "ubuntu", "debian", "rocky", "redhat", "rhel", "linux", "docker", "nvidia", "amd", "gpu", "host", "node",
    "server", "kernel", "root", "none", "unknown", "container", "systemd", "local", "lab", "test", "true", "false",
    "default",
})  # fmt: skip
_PUBLIC = frozenset({"8be4df61-93ca-11d2-aa0d-00e098032b8c"})  # UUIDs of no machine: EFI's global variables
_WORD = r"[0-9A-Za-z][0-9A-Za-z._-]*"
_IDENTITY = re.compile(
    r"(?P<uuid>(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
    r"|(?P<pairs>(?<![0-9A-Fa-f:.])(?:(?:[0-9A-Fa-f]{2}:){19}|(?:[0-9A-Fa-f]{2}:){7}|(?:[0-9A-Fa-f]{2}:){5})"
    r"[0-9A-Fa-f]{2}(?![0-9A-Fa-f:]))"
    r"|(?P<guid>(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}(?![0-9A-Fa-f:])"
    r"|(?<![0-9A-Fa-f-])(?:[0-9A-Fa-f]{2}-){7}[0-9A-Fa-f]{2}(?![0-9A-Fa-f-])"
    r"|(?<![0-9A-Za-z])[0-9A-Fa-f]{32}(?![0-9A-Za-z]))"
    r"|(?P<ipv6>(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9A-Fa-f]{1,4})?"
    r"(?![0-9A-Za-z:]|\.[0-9]))"
    r"|(?P<ipv4>(?<![0-9A-Za-z_.])(?<!://)(?<!\*@)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z_]|\.[0-9]|:[0-9]+/))"
)
_DOTTED = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")
_TEXT = re.compile(rf"{_IDENTITY.pattern}|(?P<word>{_WORD})")
_LABEL = r"(?:\w*serial\w*|\w*guid|wwn|wwid|asset_tag)"
_SERIALS = re.compile(
    rf"<{_LABEL}>\s*([^<\s]+)\s*</"  # nvidia-smi -x
    rf'|"{_LABEL}"\s*:\s*"([^"\s]+)"'  # JSON
    rf"|^= \S*{_LABEL}\n\|([^\s]+)"  # a file of a group
    r"|\b(?:serial ?(?:number|no\.?)?|guid)\s*[:=]\s*([^\s,;\"<]+)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_SERIAL = re.compile(r"\W*(?:n/?a|none|0+|0x0+|not|unknown|default)\b.*|.{0,4}", re.IGNORECASE)
_AFTER_VERSION = re.compile(r"version[^\n]{0,20}$", re.IGNORECASE)


class Redaction:
    """One key, and the host names and serial numbers found in a set of evidence."""

    def __init__(self, key: bytes, evidence: Iterable[Evidence]) -> None:
        self.tokens = Tokens(key)
        self._table: dict[str, str] = {}
        for item in evidence:
            self._table.update((name, self.tokens.host(name)) for name in _host_names(item))
            self._table.update((value, self._serial(value)) for value in _serials(item))
        self._pieces = {piece for word in self._table for piece in re.split(r"[._-]", word)}

    def evidence(self, item: Evidence) -> Evidence:
        """The same evidence with tokens in place of identities. Its sha256 is its own, not that of the stream."""
        sections = {name: self._section(section) for name, section in item.sections.items()}
        digest = hashlib.sha256()
        for _, section in sorted(sections.items()):
            digest.update(f"{section.name} {section.status.value} {section.rc} {len(section.stdout)}\n".encode())
            digest.update(section.stdout + section.stderr)
        return replace(
            item,
            node=self.text(item.node),
            sections=sections,
            problem=None if item.problem is None else self.text(item.problem),
            sha256=digest.hexdigest() if item.sha256 else "",
            redacted=True,
        )

    def _section(self, section: Section) -> Section:
        if section.name in _NO_IDENTITY:
            return section
        return replace(section, stdout=self._bytes(section.stdout), stderr=self._bytes(section.stderr))

    def _bytes(self, data: bytes) -> bytes:
        return self.text(data.decode("latin-1")).encode("latin-1")  # every byte is a character, and comes back

    def text(self, text: str) -> str:
        """Text with every identity replaced, in one pass, so that no token is taken for an identity again."""
        return _TEXT.sub(self._token, text)

    def _token(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            return self._word(found)
        if kind == "pairs":
            return self.tokens.hardware_address(found)
        if kind in ("ipv4", "ipv6"):
            return self._address(match)
        return found if found.lower() in _PUBLIC else self.tokens.digits(found)

    def _address(self, match: re.Match[str]) -> str:
        found = match[0]
        whole = "::" in found or found.count(":") == 7 or ":" not in found  # and no PCI address, and no time of day
        if not whole or _AFTER_VERSION.search(match.string, max(0, match.start() - 30), match.start()):
            return found
        try:
            ipaddress.ip_address(found)
        except ValueError:
            return found
        return self.tokens.address(found)

    def _word(self, word: str) -> str:
        if word in self._table:
            return self._table[word]
        if _DOTTED.fullmatch(word):
            return word  # an address that stays: part of a URL or of an image reference
        first, dot, rest = word.partition(".")
        if dot and first in self._table:
            domain = re.fullmatch(r"(?:[A-Za-z][A-Za-z0-9-]*\.)*[A-Za-z][A-Za-z0-9-]*", rest)
            return f"{self._table[first]}.{self.tokens.domain(rest) if domain else rest}"
        parts = re.split(r"([._-])", word)
        if not self._pieces.isdisjoint(parts):
            return self._joined(parts)
        return _IDENTITY.sub(self._token, word)  # "GPU-" before a UUID belongs to the word

    def _joined(self, parts: list[str]) -> str:
        """Known words inside a longer one, the longest first: tray01-eth0."""
        out, at = "", 0
        while at < len(parts):
            end = next((end for end in range(len(parts), at, -1) if "".join(parts[at:end]) in self._table), None)
            out += parts[at] if end is None else self._table["".join(parts[at:end])]
            at = at + 1 if end is None else end
        return _IDENTITY.sub(self._token, out) if out == "".join(parts) else out

    def _serial(self, value: str) -> str:
        if _IDENTITY.fullmatch(value):
            return _IDENTITY.sub(self._token, value)
        if re.fullmatch(r"0x[0-9A-Fa-f]+", value):
            return "0x" + self.tokens.digits(value[2:])
        return self.tokens.serial(value)


def read_key(path: Path, output: Path) -> bytes:
    """The key; a new one where there is no file yet. It has to stay with the asker, so not where the output goes."""
    if path.resolve().is_relative_to(output.resolve()):
        raise InputError(str(path), f"lies in {output}, which is given away", "a key file elsewhere")
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        key = path.read_bytes().strip()
    except OSError as error:
        raise InputError(str(path), f"cannot be used: {error.strerror or error}", "a key file") from None
    if len(key) < MIN_KEY_BYTES:
        raise InputError(str(path), f"holds {len(key)} bytes", f"a key of {MIN_KEY_BYTES} bytes or more")
    return key


def redact(key: bytes, evidence: Iterable[Evidence]) -> list[Evidence]:
    """A set of evidence redacted together: a name that one node gives away is replaced in all of them."""
    items = list(evidence)
    redaction = Redaction(key, items)
    return [redaction.evidence(item) for item in items]


def _host_names(item: Evidence) -> set[str]:
    """Names of this node, and of its peers as IMEX knows them."""
    found = set(re.findall(_WORD, item.node))
    name, peers, domain = host.hostname(item), imex.nodes(item), imex.domain(item)
    if not isinstance(name, Missing):
        found.add(name)
    if peers and not isinstance(peers, Missing):
        found.update(peers)
    if not isinstance(domain, Missing):
        found.update(peer.host for peer in domain.peers)
    found |= _people(item)
    found |= {name.split(".")[0] for name in found if not _IDENTITY.fullmatch(name)}
    return {name for name in found if _is_name(name)}


def _people(item: Evidence) -> set[str]:
    """Who deployed, from which machine, whose programs hold GPUs, and who may open AMD's."""
    said: list[str] = []
    deploys, holders = control.control(item), gpu_holders.holders(item)
    if not isinstance(deploys, Missing):
        said += [] if isinstance(deploys.journal, Missing) else [change.operator for change in deploys.journal]
        if deploys.lock is not None and not isinstance(deploys.lock, Missing):
            said.append(deploys.lock.operator)
    if not isinstance(holders, Missing):
        said += [user for holder in holders for user in re.findall(r", user ([^,)]+)", holder)]
    driver = amd.driver(item)
    if not isinstance(driver, Missing) and not isinstance(driver.members, Missing):
        said += [name for names in driver.members.values() for name in names]
    return {word for text in said for word in re.findall(_WORD, text)}


def _is_name(name: str) -> bool:
    ordinary = name.lower() in _ORDINARY or name.isdigit() or len(name) < 2
    return bool(re.fullmatch(_WORD, name)) and not ordinary and not _IDENTITY.fullmatch(name)


def _serials(item: Evidence) -> set[str]:
    found: set[str] = set()
    for section in item.sections.values():
        if section.name in _NO_IDENTITY:
            continue
        for match in _SERIALS.finditer(section.stdout.decode("latin-1")):
            value = next(group for group in match.groups() if group)
            if re.fullmatch(_WORD, value) and not _NO_SERIAL.fullmatch(value):
                found.add(value)
    return found
