"""From what a tool printed to a typed value, or to the reason why there is none. Nothing here raises on text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.facts import Fact, Missing

MAX_JSON_CHARS = 32 * 1024 * 1024

# What NVIDIA's and Docker's tools print in the place of a value; with or without square brackets, any case.
_NOT_A_VALUE = frozenset(
    {
        "", "n/a", "na", "none reported", "not supported", "not available", "not found", "unknown", "unknown error",
        "err!", "error", "insufficient permissions", "requested functionality has been deprecated", "gpu is lost",
        "gpu requires reset", "no value", "undefined",
    }
)  # fmt: skip
_ANSI = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def plain(text: str) -> str:
    """Text without terminal escapes; `nvidia-smi topo -m` underlines its header even into a file."""
    return _ANSI.sub("", text).replace("\r\n", "\n")


def one_line(text: str, limit: int = 160) -> str:
    """The first line that says something, printable and short enough for a reason."""
    for line in plain(text[:16384]).splitlines():
        words = " ".join("".join(c if c.isprintable() else " " for c in line).split())
        if words:
            return words if len(words) <= limit else words[: limit - 3] + "..."
    return ""


def output(evidence: Evidence, name: str, what: str) -> str | Missing:
    """Standard output of a section, or why there is none: absent, late, or silent (then what it said on stderr)."""
    section = evidence.usable(name, what)
    if isinstance(section, Missing):
        return section
    text = section.text
    if text.strip():
        return text
    said = one_line(section.error_text)
    return Missing(f"{what}: {said}" if said else f"{what} printed nothing (exit code {section.rc})")


def as_text(raw: str | None, what: str) -> Fact[str]:
    """A word or phrase; "N/A", "[Not Supported]", "ERR!" and the like are missing with that text as the reason."""
    if raw is None:
        return Missing(f"{what}: not printed")
    text = raw.strip()
    if text.strip("[]").strip().lower() in _NOT_A_VALUE or (text.startswith("[") and text.endswith("]")):
        return Missing(f"{what}: {one_line(text) or 'empty'}")
    return text


def as_int(raw: str | None, what: str, suffix: str = "") -> Fact[int]:
    """A whole number from 0 up, with exactly this suffix behind it ("16x")."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([0-9]{1,18})" + re.escape(suffix), text)
    return int(match[1]) if match else Missing(f"{what}: {one_line(text)}")


def as_quantity(raw: str | None, what: str, unit: str) -> Fact[float]:
    """A number from 0 up with this unit behind it: "1200.00 W"."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*" + re.escape(unit), text)
    return float(match[1]) if match else Missing(f"{what}: {one_line(text)}")


def as_bytes(raw: str | None, what: str) -> Fact[int]:
    """An amount of memory in bytes: "189471 MiB"."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([0-9]{1,15})\s*(B|KiB|MiB|GiB|TiB)", text)
    return int(match[1]) * _BYTES[match[2]] if match else Missing(f"{what}: {one_line(text)}")


def as_flag(raw: str | None, what: str, yes: str, no: str) -> Fact[bool]:
    """One of two words; any third word is missing."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    return {yes: True, no: False}.get(text, Missing(f"{what}: {one_line(text)}"))


def pci_address(text: str) -> str | None:
    """Lower case, 8-digit domain, with function: "0000:34:00" and "00000000:34:00.0" are both 00000000:34:00.0."""
    match = _PCI.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):08x}:{bus.lower()}:{device.lower()}.{function or 0}"


def load_json(text: str, what: str) -> Fact[object]:
    """Any JSON value; text before the first bracket (a warning of the tool) is left out."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return Missing(f"{what}: not JSON: {one_line(text) or 'empty'}")
    if len(text) > MAX_JSON_CHARS:
        return Missing(f"{what}: larger than {MAX_JSON_CHARS} characters")
    try:
        value: object = json.loads(text[start:])
    except (ValueError, RecursionError):
        return Missing(f"{what}: cut off or not JSON: {one_line(text)}")
    return value


def load_object(text: str, what: str) -> Fact[Mapping[str, object]]:
    """A JSON object."""
    value = load_json(text, what)
    if isinstance(value, Missing):
        return value
    return value if isinstance(value, dict) else Missing(f"{what}: a JSON {type(value).__name__}, not an object")


def strings(value: object) -> tuple[str, ...]:
    """The strings of a JSON list; null is an empty list, as Docker prints it."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def string(value: object, what: str) -> Fact[str]:
    return as_text(value if isinstance(value, str) else None, what)
