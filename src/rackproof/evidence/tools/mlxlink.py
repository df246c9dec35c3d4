"""`mlxlink -d DEVICE [-m -c -e]` as text or with --json: one port's link, its errors, and the tool's own advice.

Not part of the probe: it needs MFT and root, and takes seconds a port. Sources: captures of MFT 4.2x to 4.32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackproof.evidence.sections import Command
from rackproof.evidence.tools.values import as_text, load_object, one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_rdma import MlxLink

COMMANDS: tuple[Command, ...] = ()

_PAIR = re.compile(r"\s*([A-Za-z][^:]{0,60}?)\s*: (.*)")
_DEPTH = 8


def parse_mlxlink(text: str) -> Fact[MlxLink]:
    text = plain(text)
    if text.lstrip()[:1] == "{":
        document = load_object(text, "mlxlink")
        if isinstance(document, Missing):
            return document
        pairs = dict(reversed(list(_pairs(document, 0))))  # of a key that repeats, the first counts
    else:
        matches = (_PAIR.fullmatch(line) for line in reversed(text.splitlines()))
        pairs = {match[1].lower(): match[2].strip() for match in matches if match}
    if "state" not in pairs or "physical state" not in pairs:
        return Missing(f"mlxlink shows no port: {one_line(text) or 'empty'}")
    return MlxLink(
        state=as_text(pairs.get("state"), "State"),
        phys_state=as_text(pairs.get("physical state"), "Physical state"),
        speed=as_text(pairs.get("speed"), "Speed"),
        width=as_text(pairs.get("width"), "Width"),
        recommendation=as_text(pairs.get("recommendation"), "Recommendation"),
        fw_version=as_text(pairs.get("firmware version"), "Firmware Version"),
        raw_ber=_ratio(pairs.get("raw physical ber"), "Raw Physical BER"),
        effective_ber=_ratio(pairs.get("effective physical ber"), "Effective Physical BER"),
    )


def _pairs(value: object, depth: int) -> Iterator[tuple[str, str]]:
    """Every key with a text below a JSON object, however deep the version of the tool puts it."""
    if isinstance(value, dict) and depth < _DEPTH:
        for key, item in value.items():
            if isinstance(item, str):
                yield str(key).lower(), item
            else:
                yield from _pairs(item, depth + 1)


def _ratio(raw: str | None, what: str) -> Fact[float]:
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,6})?(?:[eE]-[0-9]{1,3})?", text)
    return float(match[0]) if match else Missing(f"{what}: {one_line(text)}")
