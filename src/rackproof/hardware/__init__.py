"""Hardware profiles: what one node of a GPU product is. One YAML per product; every value with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.sourced import SOURCES, Cell, Cells, cell

FOLDER = Path(__file__).parent
MIB = 1024 * 1024

_LINKS = {"links_per_gpu": cell("integer"), "link_rate_min_gb_per_s": cell("number")}
_NVLINK = {"kind": cell("string"), **_LINKS, "domain_nodes_max": cell("integer")}
_NIC: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["provider", "ports", "rate_gbit_per_s", "link_layer", "src"],
    "properties": {
        "provider": {"type": ["string", "null"]},
        "ports": {"type": "integer", "minimum": 1},
        "rate_gbit_per_s": {"type": "integer", "minimum": 1},
        "link_layer": {"enum": ["InfiniBand", "Ethernet", None]},
        "confidence": {"enum": ["unverified"]},
        "src": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "if": {"properties": {"link_layer": {"type": "null"}}},
    "then": {"required": ["confidence"]},
}
_CELLS = {
    "product": "string",
    "cpu_architecture": "string",
    "operating_systems": "array",
    "gpus_per_node": "integer",
    "memory_mib": "integer",
    "memory_tolerance": "number",
    "pci_device_ids": "array",
    "power_limits_w": "array",
    "driver_floor": "string",
}
_OPTIONAL_CELLS = {"product_aliases": "array", "pci_subsystem_ids": "array"}


def _group(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "id", "title", "vendor", "generation", "sources", *_CELLS, "daemons"],
    "properties": {
        "schema": {"const": 1},
        "id": {"type": "string", "pattern": "^[a-z0-9]+$"},
        "title": {"type": "string"},
        "vendor": {"enum": ["nvidia", "amd"]},
        "generation": {"enum": ["hopper", "blackwell", "cdna3", "cdna4"]},
        "sources": SOURCES,
        **{key: cell(kind) for key, kind in {**_CELLS, **_OPTIONAL_CELLS}.items()},
        "nvlink": _group(_NVLINK),
        "xgmi": _group(_LINKS),
        "daemons": _group({"required": cell("array"), "forbidden": cell("array")}),
        "nics": {"type": "array", "items": _NIC},
    },
    "if": {"properties": {"vendor": {"const": "amd"}}},
    "then": {"required": ["xgmi"]},
    "else": {"required": ["nvlink"]},
}


@dataclass(frozen=True)
class NicRole:
    """The RDMA ports that a node of one provider has. None: not published, and then nothing is expected of it."""

    provider: str | None  # None: not tied to one provider
    ports: int
    rate_gbit_per_s: int  # of one port, as /sys/class/infiniband/*/ports/*/rate prints it
    link_layer: str | None  # InfiniBand | Ethernet
    source: str


@dataclass(frozen=True)
class Hardware:
    """One product. Cells hold the value and where it comes from; a value nobody published is None."""

    id: str
    title: str
    vendor: str
    generation: str
    product: Cell[str]  # as nvidia-smi prints it, compared whole: "NVIDIA GB200" is not "NVIDIA B200"
    product_aliases: Cell[tuple[str, ...] | None]  # other whole names that tools print for the same silicon
    cpu_architecture: Cell[str]  # uname -m
    operating_systems: Cell[tuple[str, ...] | None]  # "ubuntu 24.04": os-release ID, VERSION_ID or its first number
    gpus_per_node: Cell[int]
    memory_mib: Cell[int]  # as the driver prints it for one GPU
    memory_tolerance: Cell[float]  # fraction below memory_mib that is still the same product
    pci_device_ids: Cell[tuple[str, ...] | None]  # "10de:31c2"
    pci_subsystem_ids: Cell[tuple[str, ...] | None]  # "10de:2046"
    power_limits_w: Cell[tuple[float, ...] | None]
    driver_floor: Cell[str | None]  # first driver that knows this product
    fabric_kind: Cell[str]  # nvl72 | hgx | xgmi
    links_per_gpu: Cell[int]
    link_rate_min_gb_per_s: Cell[float | None]
    domain_nodes_max: Cell[int]
    daemons_required: Cell[tuple[str, ...]]
    daemons_forbidden: Cell[tuple[str, ...]]
    nics: tuple[NicRole, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Of one GPU, as the driver prints it."""
        return self.memory_mib.value * MIB


def known_ids(folder: Path = FOLDER) -> list[str]:
    """Ids of the profiles there are."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load(hardware_id: str, where: str = "--hardware", folder: Path = FOLDER) -> Hardware:
    """A profile by id; raises InputError naming what is accepted."""
    if hardware_id not in known_ids(folder):
        raise InputError(where, f"no hardware profile {hardware_id!r}", known_ids(folder))
    path = folder / f"{hardware_id}.yaml"
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int) -> Hardware:
    """A profile from its file, once for each state of the file: a fleet asks for the same few a thousand times."""
    file = yamlfile.load(path, _SCHEMA)
    name = f"hardware/{path.name}"
    cells = Cells(file, name)
    unsaid: Cell[Any] = Cell(None, name)
    return Hardware(
        id=file.data["id"],
        title=file.data["title"],
        vendor=file.data["vendor"],
        generation=file.data["generation"],
        **{key: cells.get(key) for key in _CELLS},
        **{key: cells.get(key) if key in file.data else unsaid for key in _OPTIONAL_CELLS},
        **_links(file, cells),
        daemons_required=cells.get("daemons", "required"),
        daemons_forbidden=cells.get("daemons", "forbidden"),
        nics=_nics(file, cells),
    )


def _links(file: yamlfile.YamlFile, cells: Cells) -> dict[str, Cell[Any]]:
    """What joins the GPUs: NVLink of a rack or of a node, or xGMI, which never leaves the node."""
    block = "nvlink" if "nvlink" in file.data else "xgmi"
    found = {key: cells.get(block, key) for key in _LINKS}
    if block == "nvlink":
        return {
            "fabric_kind": cells.get(block, "kind"), "domain_nodes_max": cells.get(block, "domain_nodes_max"), **found
        }  # fmt: skip
    source = found["links_per_gpu"].source
    return {"fabric_kind": Cell("xgmi", source), "domain_nodes_max": Cell(1, source), **found}


def _nics(file: yamlfile.YamlFile, cells: Cells) -> tuple[NicRole, ...]:
    return tuple(
        NicRole(
            item["provider"], item["ports"], item["rate_gbit_per_s"], item["link_layer"],
            cells.source(item["src"], "nics", number),
        )
        for number, item in enumerate(file.data.get("nics", []))
    )  # fmt: skip


def detect(product: str, folder: Path = FOLDER) -> str | None:
    """The profile whose product is exactly this text, or None: a product nobody described is not guessed at."""
    for hardware_id in known_ids(folder):
        profile = load(hardware_id, folder=folder)
        if product in (profile.product.value, *(profile.product_aliases.value or ())):
            return hardware_id
    return None


def detect_pci(device_id: str, folder: Path = FOLDER) -> str | None:
    """The profile that lists this PCI device id ("1002:75a3"), or None; for nodes on which no tool names the product."""
    for hardware_id in known_ids(folder):
        if device_id in (load(hardware_id, folder=folder).pci_device_ids.value or ()):
            return hardware_id
    return None
