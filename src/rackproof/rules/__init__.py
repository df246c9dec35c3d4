"""Numbers and names that requirements compare with, as data: rules/<topic>.yaml, each value with its source.

What the recipe itself asks stands in recipes/, what one product is in hardware/; here is what documentation and
experience say of every host.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.sourced import SOURCES, Cell, Cells

FOLDER = Path(__file__).parent

_CELL = {
    "type": "object",
    "additionalProperties": False,
    "required": ["value", "src"],
    "properties": {
        "value": True,
        "src": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "note": {"type": "string"},
        "confidence": {"enum": ["unverified"]},  # no gate may rest on it
    },
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "sources", "rules"],
    "properties": {
        "schema": {"const": 1},
        "sources": SOURCES,
        "rules": {"type": "object", "additionalProperties": _CELL},
    },
}


@cache
def load(topic: str) -> Mapping[str, Cell[Any]]:
    """The rules of one topic by name; lists are tuples. Raises InputError with file and line where the file is wrong."""
    file = yamlfile.load(FOLDER / f"{topic}.yaml", _SCHEMA)
    cells = Cells(file, f"rules/{topic}.yaml")
    return {name: cells.get("rules", name) for name in file.data["rules"]}


def topics() -> list[str]:
    """The topics there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
