"""Words and numbers of RDMA ports, in the spellings of sysfs, ibstat, ibv_devinfo and `rdma link`, as one spelling.

    state       4: ACTIVE | Active | PORT_ACTIVE (4) | ACTIVE     -> ACTIVE
    phys_state  5: LinkUp | LinkUp | LINK_UP                      -> LinkUp
    rate        400 Gb/sec (4X NDR) | 400                         -> 400000000000
"""

from __future__ import annotations

import ipaddress
import re

from rackproof.evidence.tools.values import as_text, one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_rdma import Gid

_STATES = {
    "nop": "NOP", "down": "DOWN", "init": "INIT", "initializing": "INIT", "armed": "ARMED", "active": "ACTIVE",
    "activedefer": "ACTIVE_DEFER", "activedeferred": "ACTIVE_DEFER",
}  # fmt: skip
_PHYSICAL = {
    "sleep": "Sleep", "polling": "Polling", "disabled": "Disabled", "training": "Training",
    "portconfigurationtraining": "Training", "linkup": "LinkUp", "linkerrorrecovery": "LinkErrorRecovery",
    "phytest": "PhyTest", "nostatechange": "NoStateChange",
}  # fmt: skip
_NUMBERED = re.compile(r"([0-9]{1,2}): ?(.*)", re.DOTALL)


def state(raw: str | None) -> Fact[str]:
    return _word(raw, "port state", _STATES)


def phys_state(raw: str | None) -> Fact[str]:
    return _word(raw, "physical state", _PHYSICAL)


def link_layer(raw: str | None) -> Fact[str]:
    return _word(raw, "link layer", {"infiniband": "InfiniBand", "ethernet": "Ethernet"})


def _word(raw: str | None, what: str, words: dict[str, str]) -> Fact[str]:
    """The one spelling of a word; a word nobody knows is missing, so that no check takes it for a state it is not."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    numbered = _NUMBERED.fullmatch(text)
    bare = re.sub(r"\s*\([0-9]{1,2}\)$", "", numbered[2] if numbered else text).strip().lower()
    return words.get(re.sub(r"[ _]", "", bare.removeprefix("port_")), Missing(f"{what}: {one_line(text)}"))


def rate(raw: str | None) -> Fact[int]:
    """Bits per second from "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)", or ibstat's "400"."""
    text = as_text(raw, "rate")
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([0-9]{1,5})(?:\.([0-9]))?(?: Gb/sec(?: \([^()]{1,20}\))?)?", text)
    if not match:
        return Missing(f"rate: {one_line(text)}")
    return int(match[1]) * 10**9 + int(match[2] or 0) * 10**8


def number(raw: str | None, what: str) -> Fact[int]:
    """A number as C writes it: 5790, 0x1c7e; -1 (no NUMA node) is missing."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,16})|([0-9]{1,18})", text)
    if not match:
        return Missing(f"{what}: {one_line(text)}")
    return int(match[1], 16) if match[1] else int(match[2])


def guid(raw: str | None) -> Fact[str]:
    """16 hexadecimal digits from "58a2:e103:00c8:220e", "0x58a2e10300c8220e"."""
    text = as_text(raw, "GUID")
    if isinstance(text, Missing):
        return text
    digits = text.lower().removeprefix("0x").replace(":", "")
    return digits if re.fullmatch(r"[0-9a-f]{16}", digits) else Missing(f"GUID: {one_line(text)}")


def mtu(raw: str | None) -> Fact[int]:
    """Bytes from ibv_devinfo's "4096 (5)"."""
    text = as_text(raw, "active_mtu")
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"(256|512|1024|2048|4096)(?: \([0-9]\))?", text)
    return int(match[1]) if match else Missing(f"active_mtu: {one_line(text)}")


def gid(index: int, address: str, version: str | None, netdev: str | None) -> Gid | None:
    """One entry of a GID table; None for an empty entry and for what is no GID."""
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return None
    if int(parsed) in (0, 0xFE80 << 112):
        return None
    mapped = parsed.ipv4_mapped
    return Gid(
        index=index,
        address=f"::ffff:{mapped}" if mapped is not None else parsed.compressed,
        version=_version(version),
        netdev=as_text(netdev, "GID netdev"),
    )


def _version(raw: str | None) -> Fact[str]:
    text = as_text(raw, "GID type")
    if isinstance(text, Missing):
        return text
    words = {"roce v2": "RoCE v2", "v2": "RoCE v2", "ib/roce v1": "IB/RoCE v1", "roce v1": "IB/RoCE v1",
             "v1": "IB/RoCE v1", "ib": "IB/RoCE v1"}  # fmt: skip
    return words.get(text.lower(), Missing(f"GID type: {one_line(text)}"))
