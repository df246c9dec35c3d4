"""What the model takes of a GPU, as published: weights, residents measured by others, utilisation, context.

Rows name the shape they were measured on. A row that says less (no generation, no hardware) holds for more; where
several hold, the one that asks for most memory is used.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rackproof.sourced import Cell, Cells, cell

GIB = 1024**3

_SHAPE: dict[str, Any] = {
    "hardware": {"type": "string"},
    "generation": {"type": "string"},
    "strategy": {"type": "string"},
    "tp": {"type": "integer", "minimum": 1},
    "tp_min": {"type": "integer", "minimum": 1},
    "pp": {"type": "integer", "minimum": 1},
    "dp": {"type": "integer", "minimum": 1},
    "note": {"type": "string"},
    "src": {"type": "array", "items": {"type": "string"}, "minItems": 1},
}
_COUNT_OR_NONE = {"type": ["integer", "null"], "minimum": 1}
_ROWS: dict[str, dict[str, Any]] = {
    "utilisation": {"value": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}},
    "resident": {"gib": {"type": "number", "exclusiveMinimum": 0}},
    "overhead": {"gib": {"type": "number", "exclusiveMinimum": 0}},
    "kv": {"gib": {"type": "number", "exclusiveMinimum": 0}, "tokens": {"type": "integer", "minimum": 1}},
    "context": {"max_model_len": _COUNT_OR_NONE, "max_num_seqs": _COUNT_OR_NONE},
}
_CELLS = {
    "heads": "integer",
    "vocabulary": "integer",
    "largest_shard_gib": "number",
    "slack": "number",
    "upstream_gate_gb": "integer",
    "ready_timeout_s": "integer",
    "ready_timeout_default_s": "integer",
}


def _rows(own: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": [*own, "src"],
            "properties": {**_SHAPE, **own},
        },
    }


SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": [*_CELLS, *_ROWS],
    "properties": {
        **{key: cell(kind) for key, kind in _CELLS.items()},
        **{key: _rows(own) for key, own in _ROWS.items()},
    },
}


@dataclass(frozen=True)
class Row:
    """One published figure and the shape it is about. None in the shape: any."""

    source: str
    hardware: str | None = None
    generation: str | None = None
    strategy: str | None = None
    tp: int | None = None
    tp_min: int | None = None
    pp: int | None = None
    dp: int | None = None
    note: str = ""
    value: float | None = None  # of utilisation: the fraction of memory that the engine may take
    gib: float | None = None  # GiB of one GPU
    tokens: int | None = None  # that fitted into `gib` of KV cache
    max_model_len: int | None = None
    max_num_seqs: int | None = None

    @property
    def bytes(self) -> int:
        """`gib` in bytes, of one GPU."""
        return round((self.gib or 0) * GIB)


@dataclass(frozen=True)
class Footprint:
    """All that the fit is computed from, beside the size of the weights."""

    heads: Cell[int]  # TP must divide both
    vocabulary: Cell[int]
    largest_shard_gib: Cell[float]  # what a loader without GDS stages in host memory
    slack: Cell[float]  # fraction of the weights that must be left over all GPUs
    upstream_gate_gb: Cell[int]  # the recipe's own estimate, which nothing here is computed from
    ready_timeout_s: Cell[int]  # weights must be loaded by then
    ready_timeout_default_s: Cell[int]  # the engine's own, where a recipe block sets none
    utilisation: tuple[Row, ...]  # in order, later wins
    resident: tuple[Row, ...]  # weights of one GPU, padding included
    overhead: tuple[Row, ...]  # taken outside the engine's share of the memory
    kv: tuple[Row, ...]  # KV cache of one GPU, measured on that hardware
    context: tuple[Row, ...]


def read(cells: Cells, data: dict[str, Any]) -> Footprint:
    """The footprint block of a loaded recipe."""
    known = {field.name for field in fields(Row)}
    found: dict[str, Any] = {key: cells.get("footprint", key) for key in _CELLS}
    found |= {
        kind: tuple(
            Row(**{k: v for k, v in item.items() if k in known}, source=cells.source(item["src"], "footprint", kind, i))
            for i, item in enumerate(data[kind])
        )
        for kind in _ROWS
    }
    return Footprint(**found)
