"""Values of amd-smi, rocm-smi and rocminfo, from JSON ({"value": 750, "unit": "W"}, 750, "750") or text ("750 W")."""

from __future__ import annotations

import re

from rackproof.evidence.tools.values import as_text, one_line, pci_address
from rackproof.facts import Fact, Missing

# amd-smi's MB is 2**20: an MI355X has 309220868096 bytes, and it prints 294896 MB.
_BYTES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def dig(value: object, path: str) -> object:
    """What stands at "asic.market_name" in nested objects, or None.

    A block that could not be read is one word ("N/A"); that word is then the value of everything below.
    """
    for name in path.split("."):
        if not isinstance(value, dict):
            return value if isinstance(value, str) else None
        if name not in value:
            return None
        value = value[name]
    return value


def first(record: object, *paths: str) -> object:
    """The first of these that is printed: names changed between versions."""
    return next((found for path in paths if (found := dig(record, path)) is not None), None)


def written(value: object) -> str | None:
    """A scalar or a value with its unit, as text: "750 W"; None for anything else."""
    if isinstance(value, dict) and "value" in value:
        number, unit = value["value"], value.get("unit", "")
        text = written(number) if not isinstance(number, dict) else None
        return text if text is None or not isinstance(unit, str) else f"{text} {unit}".strip()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value)[:400]


def text(value: object, what: str) -> Fact[str]:
    raw = written(value)
    return as_text(raw.removesuffix(" N/A") if raw else raw, what)


def whole(value: object, what: str) -> Fact[int]:
    """A whole number from 0 up, in decimal; "x16" and "16" are both 16."""
    number = text(value, what)
    if isinstance(number, Missing):
        return number
    match = re.fullmatch(r"x?([0-9]{1,18})", number)
    return int(match[1]) if match else Missing(f"{what}: {one_line(number)}")


def quantity(value: object, what: str, *units: str) -> Fact[float]:
    """A number with one of these units, or without any."""
    number = text(value, what)
    if isinstance(number, Missing):
        return number
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(\S*)", number)
    return float(match[1]) if match and match[2] in ("", *units) else Missing(f"{what}: {one_line(number)}")


def memory(value: object, what: str, unit: str = "") -> Fact[int]:
    """Bytes. `unit` is what a bare number means; without it, a bare number is missing."""
    amount = text(value, what)
    if isinstance(amount, Missing):
        return amount
    match = re.fullmatch(r"([0-9]{1,15})(\.[0-9]{1,3})?\s*(B|KB|MB|GB|TB)?", amount)
    factor = _BYTES.get(match[3] or unit) if match else None
    if not match or factor is None:
        return Missing(f"{what}: {one_line(amount)}")
    return int(match[1]) * factor + int(float(match[2] or 0) * factor)


def transfers(value: object, what: str) -> Fact[float]:
    """Transfers per second: "32 GT/s"; older versions print MT/s."""
    mega = quantity(value, what, "MT/s")
    giga = quantity(value, what, "GT/s")
    if not isinstance(giga, Missing):
        return giga * 1e9
    return mega if isinstance(mega, Missing) else mega * 1e6


def flag(value: object, what: str, yes: str, no: str) -> Fact[bool]:
    word = text(value, what)
    if isinstance(word, Missing):
        return word
    return {yes: True, no: False}.get(word.upper(), Missing(f"{what}: {one_line(word)}"))


def address(value: object, what: str) -> Fact[str]:
    raw = text(value, what)
    if isinstance(raw, Missing):
        return raw
    return pci_address(raw) or Missing(f"{what}: {one_line(raw)}")


def pci_id(vendor: object, device: object) -> Fact[str]:
    """ "1002:75a3" from 0x1002 and 0x75a3; the vendor is AMD where a tool does not print it."""
    parts = []
    for value, what in ((vendor if vendor is not None else "0x1002", "vendor_id"), (device, "device_id")):
        raw = text(value, what)
        if isinstance(raw, Missing):
            return raw
        match = re.fullmatch(r"0x([0-9a-f]{1,4})", raw.lower())
        if not match:
            return Missing(f"{what}: {one_line(raw)}")
        parts.append(match[1].zfill(4))
    return ":".join(parts)


def architecture(value: object, what: str) -> Fact[str]:
    word = text(value, what)
    if isinstance(word, Missing):
        return word
    return word if re.fullmatch(r"gfx[0-9a-f]{3,5}", word) else Missing(f"{what}: {one_line(word)}")
