"""The recipe: what the official vLLM recipe (and the vendors' own) ask of hosts, as data with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.sourced import SOURCES, Cell, Cells, cell

FOLDER = Path(__file__).parent
TIERS = ("official", "vendor", "derived", "rejected")

_DIGEST = {"type": "string", "pattern": r"^sha256:[0-9a-f]{64}\Z", "description": "sha256: and 64 hex digits"}
_DIGEST_OR_NONE = {**_DIGEST, "type": ["string", "null"]}
_LAYOUT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "hardware", "strategy", "nodes", "fabric", "tier", "src"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "hardware": {"type": "string"},
        "strategy": {"type": "string"},
        "nodes": {"type": "integer", "minimum": 1},
        "tp": {"type": "integer", "minimum": 1},
        "pp": {"type": "integer", "minimum": 1},
        "dp": {"type": "integer", "minimum": 1},
        "ep": {"type": "boolean"},
        "fabric": {"enum": ["node", "mnnvl", "rdma"]},
        "tier": {"enum": list(TIERS)},
        "why": {"type": "string"},
        "src": {"type": "array", "items": {"type": "string"}},
    },
}
_IMAGE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "repository", "tag", "cuda", "role", "index", "amd64", "arm64", "src"],
    "properties": {
        "id": {"type": "string"},
        "repository": {"type": "string"},
        "tag": {"type": "string"},
        "cuda": {"type": "integer"},
        "role": {"enum": ["preferred", "accepted", "accepted_with_warning"]},
        "index": _DIGEST,
        "amd64": _DIGEST_OR_NONE,
        "arm64": _DIGEST_OR_NONE,
        "src": {"type": "array", "items": {"type": "string"}},
    },
}
_HOST = {
    "driver_branch_min": "integer",
    "open_module_generations": "array",
    "toolkit_min": "string",
    "engine_min": "object",
    "fatal_xids": "array",
    "application_xids": "array",
    "fabric_state": "string",
    "fabric_status": "string",
    "imex_channel": "string",
    "module_parameters": "object",
}
_MODEL = {"repo": "string", "revision": "string", "bytes": "integer", "shards": "integer"}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "id", "title", "provenance", "sources", "model", "tiers", "host", "images", "layouts"],
    "properties": {
        "schema": {"const": 1},
        "id": {"type": "string"},
        "title": {"type": "string"},
        "provenance": {
            "type": "object",
            "required": ["upstream_commit"],
            "additionalProperties": {"type": "string"},
        },
        "sources": SOURCES,
        "tiers": {"type": "object", "additionalProperties": {"type": "string"}},
        "model": {
            "type": "object",
            "additionalProperties": False,
            "required": list(_MODEL),
            "properties": {key: cell(kind) for key, kind in _MODEL.items()},
        },
        "host": {
            "type": "object",
            "additionalProperties": False,
            "required": list(_HOST),
            "properties": {key: cell(kind) for key, kind in _HOST.items()},
        },
        "images": {"type": "array", "items": _IMAGE, "minItems": 1},
        "layouts": {"type": "array", "items": _LAYOUT, "minItems": 1},
    },
}


@dataclass(frozen=True)
class Layout:
    """One named way to run the recipe. `nodes` is the size of a deployment unit."""

    id: str
    hardware: str
    strategy: str
    nodes: int
    fabric: str  # node | mnnvl | rdma: what carries traffic between the GPUs of a unit
    tier: str
    source: str
    why: str = ""
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False


@dataclass(frozen=True)
class Image:
    """An image the recipe accepts. A digest nobody has published is None, and then only the index counts."""

    id: str
    repository: str
    tag: str
    cuda: int
    role: str
    index: str
    amd64: str | None
    arm64: str | None
    source: str


@dataclass(frozen=True)
class Recipe:
    """The recipe as loaded. `host` holds the cells of what it asks of every host."""

    id: str
    title: str
    commit: str
    host: Mapping[str, Cell[Any]]
    model: Mapping[str, Cell[Any]]
    images: Mapping[str, Image]
    layouts: Mapping[str, Layout]

    def layout(self, layout_id: str, where: str = "--layout") -> Layout:
        """A layout by id; raises InputError for one that is unknown or rejected."""
        if layout_id not in self.layouts:
            raise InputError(where, f"no layout {layout_id!r} in recipe {self.id}", sorted(self.layouts))
        layout = self.layouts[layout_id]
        if layout.tier == "rejected":
            usable = sorted(name for name, other in self.layouts.items() if other.tier != "rejected")
            raise InputError(where, f"layout {layout_id!r} is rejected: {layout.why}", usable)
        return layout

    def image(self, image_id: str, where: str) -> Image:
        """An image by id; raises InputError naming those there are."""
        if image_id not in self.images:
            raise InputError(where, f"no image {image_id!r} in recipe {self.id}", sorted(self.images))
        return self.images[image_id]


def load(recipe_id: str = "kimi_k3", where: str = "recipe", folder: Path = FOLDER) -> Recipe:
    """A recipe by id; raises InputError naming those there are, or the line that is wrong."""
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if recipe_id not in known:
        raise InputError(where, f"no recipe {recipe_id!r}", known)
    file = yamlfile.load(folder / f"{recipe_id}.yaml", _SCHEMA)
    cells = Cells(file, f"recipes/{recipe_id}.yaml")
    data = file.data
    for kind in ("images", "layouts"):
        ids = [item["id"] for item in data[kind]]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise InputError(file.where(kind), f"{kind} {', '.join(twice)} stand there twice", "each id once")
    images = {
        item["id"]: Image(**_without(item, "src"), source=cells.source(item["src"], "images", i))
        for i, item in enumerate(data["images"])
    }
    layouts = {
        item["id"]: Layout(**_without(item, "src"), source=cells.source(item["src"], "layouts", i))
        for i, item in enumerate(data["layouts"])
    }
    return Recipe(
        id=data["id"],
        title=data["title"],
        commit=data["provenance"]["upstream_commit"],
        host={key: cells.get("host", key) for key in _HOST},
        model={key: cells.get("model", key) for key in _MODEL},
        images=images,
        layouts=layouts,
    )


def _without(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}
