"""Hardware profiles: what one node of a GPU product is. One YAML per product; every value with its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.sourced import SOURCES, Cell, Cells, cell

FOLDER = Path(__file__).parent

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "schema", "id", "title", "vendor", "generation", "sources", "product", "cpu_architecture",
        "operating_systems", "gpus_per_node", "memory_mib", "memory_tolerance", "pci_device_ids",
        "power_limits_w", "driver_floor", "nvlink", "daemons",
    ],
    "properties": {
        "schema": {"const": 1},
        "id": {"type": "string", "pattern": "^[a-z0-9]+$"},
        "title": {"type": "string"},
        "vendor": {"enum": ["nvidia", "amd"]},
        "generation": {"enum": ["hopper", "blackwell", "cdna3", "cdna4"]},
        "sources": SOURCES,
        "product": cell("string"),
        "cpu_architecture": cell("string"),
        "operating_systems": cell("array"),
        "gpus_per_node": cell("integer"),
        "memory_mib": cell("integer"),
        "memory_tolerance": cell("number"),
        "pci_device_ids": cell("array"),
        "power_limits_w": cell("array"),
        "driver_floor": cell("string"),
        "nvlink": {
            "type": "object",
            "additionalProperties": False,
            "required": ["kind", "links_per_gpu", "link_rate_min_gb_per_s", "domain_nodes_max"],
            "properties": {
                "kind": cell("string"),
                "links_per_gpu": cell("integer"),
                "link_rate_min_gb_per_s": cell("number"),
                "domain_nodes_max": cell("integer"),
            },
        },
        "daemons": {
            "type": "object",
            "additionalProperties": False,
            "required": ["required", "forbidden"],
            "properties": {"required": cell("array"), "forbidden": cell("array")},
        },
    },
}


@dataclass(frozen=True)
class Hardware:
    """One product. Cells hold the value and where it comes from; a value nobody published is None."""

    id: str
    title: str
    vendor: str
    generation: str
    product: Cell[str]  # as nvidia-smi prints it, compared whole: "NVIDIA GB200" is not "NVIDIA B200"
    cpu_architecture: Cell[str]  # uname -m
    operating_systems: Cell[tuple[str, ...]]  # "ubuntu 24.04": os-release ID, VERSION_ID or its first number
    gpus_per_node: Cell[int]
    memory_mib: Cell[int]  # as the driver prints it for one GPU
    memory_tolerance: Cell[float]  # fraction below memory_mib that is still the same product
    pci_device_ids: Cell[tuple[str, ...] | None]  # "10de:31c2"
    power_limits_w: Cell[tuple[float, ...]]
    driver_floor: Cell[str]  # first driver that knows this product
    nvlink_kind: Cell[str]  # nvl72 | hgx
    links_per_gpu: Cell[int]
    link_rate_min_gb_per_s: Cell[float]
    domain_nodes_max: Cell[int]
    daemons_required: Cell[tuple[str, ...]]
    daemons_forbidden: Cell[tuple[str, ...]]


def known_ids(folder: Path = FOLDER) -> list[str]:
    """Ids of the profiles there are."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load(hardware_id: str, where: str = "--hardware", folder: Path = FOLDER) -> Hardware:
    """A profile by id; raises InputError naming what is accepted."""
    if hardware_id not in known_ids(folder):
        raise InputError(where, f"no hardware profile {hardware_id!r}", known_ids(folder))
    file = yamlfile.load(folder / f"{hardware_id}.yaml", _SCHEMA)
    cells = Cells(file, f"hardware/{hardware_id}.yaml")
    return Hardware(
        id=file.data["id"],
        title=file.data["title"],
        vendor=file.data["vendor"],
        generation=file.data["generation"],
        product=cells.get("product"),
        cpu_architecture=cells.get("cpu_architecture"),
        operating_systems=cells.get("operating_systems"),
        gpus_per_node=cells.get("gpus_per_node"),
        memory_mib=cells.get("memory_mib"),
        memory_tolerance=cells.get("memory_tolerance"),
        pci_device_ids=cells.get("pci_device_ids"),
        power_limits_w=cells.get("power_limits_w"),
        driver_floor=cells.get("driver_floor"),
        nvlink_kind=cells.get("nvlink", "kind"),
        links_per_gpu=cells.get("nvlink", "links_per_gpu"),
        link_rate_min_gb_per_s=cells.get("nvlink", "link_rate_min_gb_per_s"),
        domain_nodes_max=cells.get("nvlink", "domain_nodes_max"),
        daemons_required=cells.get("daemons", "required"),
        daemons_forbidden=cells.get("daemons", "forbidden"),
    )


def detect(product: str, folder: Path = FOLDER) -> str | None:
    """The profile whose product is exactly this text, or None: a product nobody described is not guessed at."""
    for hardware_id in known_ids(folder):
        if load(hardware_id, folder=folder).product.value == product:
            return hardware_id
    return None
