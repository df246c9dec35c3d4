"""Values that carry their source: the cells of the recipe and hardware files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rackproof.errors import InputError
from rackproof.yamlfile import YamlFile

T = TypeVar("T")

SOURCES: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "at"],
        "properties": {
            "kind": {"enum": ["git", "url", "issue", "note", "decision"]},
            "at": {"type": "string"},
            "date": {"type": "string"},
        },
    },
}


def cell(kind: str) -> dict[str, Any]:
    """JSON Schema of one `{value, src}` cell. A null value must say that it is unverified."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["value", "src"],
        "properties": {
            "value": {"type": [kind, "null"]},
            "src": {"type": "array", "items": {"type": "string"}},
            "confidence": {"enum": ["unverified"]},
        },
        "if": {"properties": {"value": {"type": "null"}}},
        "then": {"required": ["confidence"]},
    }


@dataclass(frozen=True)
class Cell(Generic[T]):
    """A value with where it stands and who says so: "recipes/kimi_k3.yaml:58 (rcp, trt)"."""

    value: T
    source: str


class Cells:
    """Reads cells out of a loaded file and resolves their sources."""

    def __init__(self, file: YamlFile, name: str) -> None:
        self._file = file
        self._name = name

    def get(self, *keys: str) -> Cell[Any]:
        """The cell at a path of keys. Lists become tuples; a `src` that `sources` does not hold is an error."""
        node: Any = self._file.data
        for key in keys:
            node = node[key]
        return Cell(freeze(node["value"]), self.source(node["src"], *keys))

    def source(self, src: list[str], *keys: str | int) -> str:
        unknown = [name for name in src if name not in self._file.data["sources"]]
        if unknown:
            raise InputError(
                self._file.where(*keys), f"unknown source {', '.join(unknown)}", sorted(self._file.data["sources"])
            )
        line = self._file.where(*keys).rpartition(":")[2]
        return f"{self._name}:{line} ({', '.join(src)})" if src else f"{self._name}:{line}"


def freeze(value: Any) -> Any:
    """Lists as tuples, all the way down, so that what holds them can be frozen and hashed."""
    if isinstance(value, list):
        return tuple(freeze(item) for item in value)
    return value
