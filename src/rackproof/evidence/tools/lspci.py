"""`lspci`, in any of its forms: plain, -nn, -D, -PP, -v to -vvv, and the lines people grep out of -vvv.

Without root -vvv shows `Capabilities: <access denied>`; links, errors and ACS are then unknown, never off.
Sources: captures of pciutils 3.5 to 3.13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.values import one_line, pci_address, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_pci import PciDevice

# Bridges (class 0604) and ConnectX only: -vvv of a whole HGX node is 9,000 lines.
_SCRIPT = r"""
{ lspci -D -vvv -d ::0604 && lspci -D -vvv -d 15b3: && echo .; } |
  grep -E '^[0-9a-f]{4,8}:|ACSCtl:|MaxReadReq|access denied|^[.]$'
"""

MAX_LINE = 1000  # the longest seen has 200 characters

COMMANDS = (Command("pci_bridges", _SCRIPT, requires="lspci", root=Root.NEEDED),)

_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_DEVICE = re.compile(rf"((?:{_ADDRESS}/)*(?:[0-9a-f]{{2}}\.[0-7]/)*)({_ADDRESS}) (\S.*)", re.IGNORECASE)
_ENDING = re.compile(r"(?:\s*\((?:rev [0-9a-f]{2}|prog-if [^()]*(?:\[[^\]]*\])?)\))+$")
_LNKSTA = re.compile(r"LnkSta:\s*Speed ([0-9.]{1,5})GT/s(?: \((\w+)\))?, Width x([0-9]{1,2})(?![0-9])(?: \((\w+)\))?")
_LNKCAP = re.compile(r"LnkCap:\s*(?:Port #[0-9]+, )?Speed ([0-9.]{1,5})GT/s, Width x([0-9]{1,2})(?![0-9])")
_BITS = re.compile(r"(ACSCtl|UESta|CESta):\s*(.*)")
_READ = re.compile(r"MaxPayload ([0-9]{2,4}) bytes, MaxReadReq ([0-9]{2,4}) bytes")
_DENIED = Missing("lspci: access denied (it needs root)")


def bridge_acs(evidence: Evidence) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Address -> what is on in its ACS control register; a device without the register is left out."""
    devices = _bridges(evidence)
    if isinstance(devices, Missing):
        return devices
    return {device.address: device.acs for device in devices if not isinstance(device.acs, Missing)}


def max_read_requests(evidence: Evidence) -> Fact[Mapping[str, int]]:
    devices = _bridges(evidence)
    if isinstance(devices, Missing):
        return devices
    sizes = {device.address: device.max_read_request_bytes for device in devices}
    return {address: size for address, size in sizes.items() if not isinstance(size, Missing)}


def _bridges(evidence: Evidence) -> Fact[tuple[PciDevice, ...]]:
    section = evidence.usable("pci_bridges", "lspci")
    if isinstance(section, Missing):
        return section
    lines = section.text.rstrip("\n").split("\n")
    if lines[-1] != ".":
        said = one_line(section.error_text) or one_line(lines[-1]) or "nothing printed"
        return Missing(f"lspci did not come to its end: {said}")
    if len(lines) == 1:
        return Missing("lspci shows neither a bridge nor a ConnectX: the node's PCI tree is hidden from it")
    devices = _parsed("\n".join(lines[:-1]))
    if not isinstance(devices, Missing) and any(device.acs == _DENIED for device in devices):
        return _DENIED
    return devices


@lru_cache(maxsize=2)  # two facts of a node are read from it
def _parsed(text: str) -> Fact[tuple[PciDevice, ...]]:
    return parse_lspci(text)


def parse_lspci(text: str) -> Fact[tuple[PciDevice, ...]]:
    """Every device line, with what the lines below it say. Link lines without a device: see parse_links."""
    found: list[PciDevice] = []
    for line in plain(text).splitlines():
        device = _device(line)
        if device:
            found.append(device)
        elif found and line[:1].isspace() and len(line) <= MAX_LINE:
            found[-1] = _with(found[-1], line)
        elif line.strip() and not found:
            return Missing(f"lspci shows no device: {one_line(line)}")
    return tuple(found) or Missing(f"lspci shows no device: {one_line(text) or 'empty'}")


def _device(line: str) -> PciDevice | None:
    """ "08:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:31c2] (rev a1)"."""
    match = _DEVICE.fullmatch(line.rstrip()) if len(line) <= MAX_LINE else None
    if not match:
        return None
    path, address, words = match.groups()
    class_name, colon, name = _ENDING.sub("", words).partition(": ")
    code = re.fullmatch(r"(.*?) \[([0-9a-f]{4})\]", class_name)
    ids = re.search(r"\s*\[([0-9a-f]{4}:[0-9a-f]{4})\]$", name)
    device = PciDevice(pci_address(address) or address, bridges=_path(path) if path else Missing("not printed"))
    if not colon:
        return device
    return replace(
        device,
        class_name=code[1] if code else class_name,
        class_code=code[2] if code else device.class_code,
        id=ids[1] if ids else device.id,
        name=name[: ids.start()] if ids else name,
    )


def _path(path: str) -> tuple[str, ...]:
    """The bridges of -P and -PP: "00:01.1/01:00.0/"."""
    return tuple(pci_address(part) or part for part in path.rstrip("/").split("/"))


def _with(device: PciDevice, line: str) -> PciDevice:
    """A device with what one more line says of it."""
    if "<access denied>" in line:
        return replace(
            device, acs=_DENIED, link_speed=_DENIED, link_width=_DENIED, link_downgraded=_DENIED,
            uncorrectable_status=_DENIED, correctable_status=_DENIED, max_read_request_bytes=_DENIED,
        )  # fmt: skip
    if match := _LNKCAP.search(line):
        return replace(device, link_speed_max=float(match[1]) * 1e9, link_width_max=int(match[2]))
    if match := _LNKSTA.search(line):
        now = replace(device, link_speed=float(match[1]) * 1e9, link_width=int(match[3]))
        return replace(now, link_downgraded=_downgraded(now, match[2], match[4]))
    if match := _BITS.search(line):
        field = {"ACSCtl": "acs", "UESta": "uncorrectable_status", "CESta": "correctable_status"}[match[1]]
        bits = tuple(re.findall(r"([A-Za-z]{2,20})\+", match[2]))
        whole = re.fullmatch(r"(?:[A-Za-z]{2,20}[+-]\s*)+", match[2].strip())
        value = bits if whole else Missing(f"{match[1]}: {one_line(match[2])}")
        return replace(device, **{field: value})  # type: ignore[arg-type]
    if match := _READ.search(line):
        return replace(device, max_payload_bytes=int(match[1]), max_read_request_bytes=int(match[2]))
    if match := re.fullmatch(r"\s+NUMA node: ([0-9]{1,4})", line):
        return replace(device, numa_node=int(match[1]))
    return device


def _downgraded(device: PciDevice, *marks: str | None) -> Fact[bool]:
    """By lspci's own words; pciutils before 3.6 has none, and then the capability above has to say."""
    if "downgraded" in marks:
        return True
    if all(mark is not None for mark in marks):
        return False
    speed, width = device.link_speed_max, device.link_width_max
    if isinstance(speed, Missing) or isinstance(width, Missing):
        return Missing("LnkSta: lspci does not say whether the link is downgraded")
    now_speed, now_width = device.link_speed, device.link_width
    return (not isinstance(now_speed, Missing) and now_speed < speed) or (
        not isinstance(now_width, Missing) and now_width < width
    )


def parse_links(text: str) -> Fact[Mapping[str, int]]:
    """How many links of each kind: {"32GT/s x16": 8}; of `lspci -vvv | grep LnkSta:`, with `uniq -c` or without.

    A downgraded link has a kind of its own: "16GT/s x4 downgraded".
    """
    found: dict[str, int] = {}
    for line in plain(text).splitlines():
        match = _LNKSTA.search(line)
        if match:
            count = re.match(r"\s*([0-9]{1,6})\s+LnkSta", line)
            mark = " downgraded" if "downgraded" in (match[2], match[4]) else ""
            kind = f"{match[1]}GT/s x{match[3]}{mark}"
            found[kind] = found.get(kind, 0) + (int(count[1]) if count else 1)
    return found or Missing(f"no LnkSta line: {one_line(text) or 'empty'}")
