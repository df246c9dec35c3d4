"""Stable tokens in the shape of what they stand for: the same value gives the same token under the same key.

A token tells nothing about its value without the key (HMAC-SHA256), and it still parses: an address is an address, a
UUID a UUID. Addresses keep what a check may ask of them: link-local stays link-local, IPv4-mapped stays mapped, and two
addresses share as many leading bits as before (the prefix-preserving scheme of Crypto-PAn, Xu et al., ICNP 2002), so
that "in the same subnet" survives. Private IPv4 stays in its private block; public IPv4 goes to 240.0.0.0/4, which
belongs to nobody; IPv6 goes to fd00::/8.
"""

from __future__ import annotations

import hmac
import ipaddress
import string
from functools import cached_property

_BLOCKS = tuple(ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"))
_NOBODYS = ipaddress.ip_network("240.0.0.0/4")
_LINK_LOCAL = ipaddress.ip_network("fe80::/10")
_CONSONANTS = "bcdfghjklmnpqrst"  # no digits: a nodeset would fold them; no vowels: no words


class Tokens:
    """Tokens of one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @cached_property
    def _known(self) -> dict[tuple[str, str], str]:
        return {}

    def host(self, name: str) -> str:
        """A host name: "host-" and ten letters (40 bits)."""
        return "host-" + self._letters("host", name)

    def domain(self, name: str) -> str:
        """What stands behind the first dot of a host name."""
        return f"net-{self._letters('domain', name)}.invalid"

    def digits(self, value: str) -> str:
        """UUID, MAC, GUID and the like: every hexadecimal digit replaced, all else as it was; zeros and ones stay.

        Two spellings of one value (colons, dashes, case) give two spellings of one token.
        """
        bare = "".join(c for c in value.lower() if c in string.hexdigits)
        if set(bare) <= {"0"} or set(bare) <= {"f"}:
            return value
        stream = iter(self._prf("digits", bare).hex() * 2)
        token = "".join(next(stream) if c in string.hexdigits else c for c in value)
        return token.upper() if value.isupper() else token

    def hardware_address(self, value: str) -> str:
        """A MAC, marked as locally administered, so that it cannot be a vendor's."""
        token = self.digits(value)
        return token if token == value else "02" + token[2:]

    def serial(self, value: str) -> str:
        """A serial number: digits for digits, letters for letters."""
        stream = iter(self._prf("serial", value) * (len(value) // 32 + 1))
        return "".join(_like(c, next(stream)) for c in value)

    def address(self, text: str) -> str:
        """An IPv4 or IPv6 address; unspecified, loopback, multicast and netmasks are nobody's and stay."""
        if ("address", text) not in self._known:
            address = ipaddress.ip_address(text)
            token = self._ipv4(address) if isinstance(address, ipaddress.IPv4Address) else self._ipv6(address, text)
            self._known["address", text] = token
        return self._known["address", text]

    def _ipv4(self, address: ipaddress.IPv4Address) -> str:
        if address.is_loopback or int(address) >> 24 == 0 or int(address) >> 24 >= 224:
            return str(address)
        block = next((block for block in _BLOCKS if address in block), None)
        if block is not None:
            return str(ipaddress.IPv4Address(self._kept_prefix(int(address), 32, block.prefixlen)))
        moved = self._kept_prefix(int(address), 32, 4) & 0x0FFFFFFF
        return str(ipaddress.IPv4Address(int(_NOBODYS.network_address) | moved))

    def _ipv6(self, address: ipaddress.IPv6Address, text: str) -> str:
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return text
        if address.ipv4_mapped is not None:
            inner = self._ipv4(address.ipv4_mapped)
            if "." in text:
                return f"::ffff:{inner}"
            token = ipaddress.IPv6Address((0xFFFF << 32) | int(ipaddress.IPv4Address(inner)))
        elif address in _LINK_LOCAL:
            token = ipaddress.IPv6Address(self._kept_prefix(int(address), 128, 64))
        else:
            moved = self._kept_prefix(int(address), 128, 8) & ((1 << 120) - 1)
            token = ipaddress.IPv6Address((0xFD << 120) | moved)
        return token.exploded if len(text) == 39 else str(token)

    def _kept_prefix(self, value: int, width: int, fixed: int) -> int:
        """Each bit behind the first `fixed` is turned by a bit that depends on all the bits before it."""
        found = value
        for bit in range(fixed, width):
            before = value >> (width - bit)
            found ^= (self._prf("address", f"{width}/{bit}/{before:x}")[0] & 1) << (width - 1 - bit)
        return found

    def _letters(self, kind: str, value: str) -> str:
        if (kind, value) not in self._known:
            self._known[kind, value] = "".join(_CONSONANTS[int(c, 16)] for c in self._prf(kind, value).hex()[:10])
        return self._known[kind, value]

    def _prf(self, kind: str, value: str) -> bytes:
        return hmac.digest(self._key, f"{kind}\0{value}".encode(), "sha256")


def _like(old: str, byte: int) -> str:
    for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if old in alphabet:
            return alphabet[byte % len(alphabet)]
    return old
