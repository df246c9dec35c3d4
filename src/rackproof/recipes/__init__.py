"""The recipe: what the official vLLM recipe (and the vendors' own) ask of hosts, as data with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.recipes import footprint
from rackproof.recipes.footprint import Footprint
from rackproof.sourced import SOURCES, Cell, Cells, cell

FOLDER = Path(__file__).parent
TIERS = ("official", "vendor", "derived", "rejected")

_DIGEST = {"type": "string", "pattern": r"^sha256:[0-9a-f]{64}\Z", "description": "sha256: and 64 hex digits"}
_DIGEST_OR_NONE = {**_DIGEST, "type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 1}
_POOL: dict[str, Any] = {
    "nodes": _COUNT,
    "tp": _COUNT,
    "pp": _COUNT,
    "dp": _COUNT,
    "dp_local": _COUNT,
    "ep": {"type": "boolean"},
    "moe": {"enum": ["deep_gemm_mega_moe", "flashinfer_trtllm", "marlin"]},
    "all2all": {"enum": ["flashinfer_nvlink_one_sided", "deepep_v2"]},
}
_LAYOUT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "hardware", "strategy", "nodes", "fabric", "tier", "src"],
    "properties": {
        **_POOL,
        "id": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "hardware": {"type": "string"},
        "strategy": {"type": "string"},
        "roles": {
            "type": "object",
            "minProperties": 2,
            "additionalProperties": {
                "type": "object", "additionalProperties": False, "required": ["nodes"], "properties": _POOL
            },
        },
        "fabric": {"enum": ["node", "mnnvl", "rdma"]},
        "upstream": {"enum": ["recommended", "rendered", "unsupported", "absent"]},
        "tier": {"enum": list(TIERS)},
        "why": {"type": "string"},
        "warn": {"type": "string"},
        "src": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "if": {"properties": {"tier": {"const": "rejected"}}, "required": ["tier"]},
    "then": {"required": ["why"]},
}  # fmt: skip
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
    "required": [
        "schema", "id", "title", "provenance", "sources", "model", "footprint", "tiers", "host", "images", "layouts",
    ],
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
        "footprint": footprint.SCHEMA,
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
class Pool:
    """GPUs that hold one copy of the weights. A layout has one, or one for each role (prefill, decode)."""

    name: str  # "" where there is only one
    nodes: int
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_local: int | None = None  # data-parallel ranks on one node
    ep: bool = False
    moe: str | None = None  # MoE back end; None: the engine's own choice
    all2all: str | None = None  # of expert parallelism, by what carries it

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def shape(self) -> str:
        """"TP8", "TP4 DP4", "DP16 EP": as people write it."""
        sizes = [f"{word}{size}" for word, size in (("TP", self.tp), ("PP", self.pp), ("DP", self.dp)) if size > 1]
        return " ".join([*(sizes or ["TP1"]), *(["EP"] if self.ep else [])])


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
    why: str = ""  # of a rejected one
    warn: str = ""
    upstream: str = "absent"  # what the recipe site makes of it: recommended | rendered | unsupported | absent
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_local: int | None = None
    ep: bool = False
    moe: str | None = None
    all2all: str | None = None
    roles: tuple[Pool, ...] = ()

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Its roles, or itself as the one pool it is."""
        own = Pool("", self.nodes, self.tp, self.pp, self.dp, self.dp_local, self.ep, self.moe, self.all2all)
        return self.roles or (own,)


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
    tiers: Mapping[str, str]  # what each tier means
    host: Mapping[str, Cell[Any]]
    model: Mapping[str, Cell[Any]]
    footprint: Footprint
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

    def refuse_derived(self, layout: Layout, where: str) -> None:
        """Raise InputError for a layout that nobody has shown running; for sites that do not allow those."""
        if layout.tier != "derived":
            return
        shown = sorted(
            name for name, other in self.layouts.items()
            if other.hardware == layout.hardware and other.tier in ("official", "vendor")
        )  # fmt: skip
        said = f"layout {layout.id} is derived: the recipe site renders it and nobody has shown it running"
        raise InputError(where, said, f"{', '.join(shown)}; or allow_derived: true in the site")

    def image(self, image_id: str, where: str) -> Image:
        """An image by id; raises InputError naming those there are."""
        if image_id not in self.images:
            raise InputError(where, f"no image {image_id!r} in recipe {self.id}", sorted(self.images))
        return self.images[image_id]


def known_ids(folder: Path = FOLDER) -> list[str]:
    """Ids of the recipes there are. `ID_settings.yaml` beside one holds how its engine is started."""
    return sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.endswith(("_settings", "_snapshot")))


def load(recipe_id: str = "kimi_k3", where: str = "recipe", folder: Path = FOLDER) -> Recipe:
    """A recipe by id; raises InputError naming those there are, or the line that is wrong."""
    if recipe_id not in known_ids(folder):
        raise InputError(where, f"no recipe {recipe_id!r}", known_ids(folder))
    path = folder / f"{recipe_id}.yaml"
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int) -> Recipe:
    """A recipe from its file, once for each state of the file: a fleet asks for the same one a thousand times."""
    file = yamlfile.load(path, _SCHEMA)
    cells = Cells(file, f"recipes/{path.name}")
    data = file.data
    for kind in ("images", "layouts"):
        ids = [item["id"] for item in data[kind]]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise InputError(file.where(kind), f"{kind} {', '.join(twice)} stand there twice", "each id once")
    return Recipe(
        id=data["id"],
        title=data["title"],
        commit=data["provenance"]["upstream_commit"],
        tiers=data["tiers"],
        host={key: cells.get("host", key) for key in _HOST},
        model={key: cells.get("model", key) for key in _MODEL},
        footprint=footprint.read(cells, data["footprint"]),
        images={
            item["id"]: Image(**_without(item, "src"), source=cells.source(item["src"], "images", number))
            for number, item in enumerate(data["images"])
        },
        layouts={item["id"]: _layout(file, cells, number) for number, item in enumerate(data["layouts"])},
    )


def _layout(file: yamlfile.YamlFile, cells: Cells, number: int) -> Layout:
    item = file.data["layouts"][number]
    roles = tuple(Pool(name=name, **fields) for name, fields in item.get("roles", {}).items())
    if roles and sum(role.nodes for role in roles) != item["nodes"]:
        raise InputError(
            file.where("layouts", number, "roles"),
            f"the roles of {item['id']} take {sum(role.nodes for role in roles)} nodes",
            f"{item['nodes']}, as the layout says",
        )
    source = cells.source(item["src"], "layouts", number)
    return Layout(**{**_without(item, "src"), "roles": roles}, source=source)


def _without(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}
