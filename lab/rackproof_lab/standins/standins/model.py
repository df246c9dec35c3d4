"""The values behind one GPU's report, and the tree that puts them in order."""

from __future__ import annotations

from pathlib import Path
from string import Template

from . import truth


class Entry:
    """A line of gpu.tree: XML tag, label of the text form, value (None for a group)."""

    def __init__(self, tag: str, label: str, value: str | None) -> None:
        self.tag, self.label, self.value = tag, label, value
        self.children: list[Entry] = []


def tree() -> list[Entry]:
    """gpu.tree as nested entries; two blanks of indent a level."""
    root = Entry("", "", None)
    path = [root]
    for line in (Path(__file__).parent / "gpu.tree").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        tag, label, *value = [part[1:] if part.startswith(" ") else part for part in line.strip().split(" |")]
        entry = Entry(tag, label, value[0].strip() if value else None)
        del path[depth + 1 :]
        path[depth].children.append(entry)
        path.append(entry)
    return root.children


def values(gpu: truth.Json, driver: str) -> dict[str, str]:
    """Every value that gpu.tree and the other forms name, faults applied."""
    node = truth.node()
    kind = node["gpu"]
    domain, bus, rest = gpu["bdf"].split(":")
    found = {
        **_constants(),
        **{key: str(value) for key, value in kind["smi"].items()},
        **_fabric(node["fabric"]),
        "product_name": kind["name"], "architecture": kind["architecture"], "driver": driver,
        "index": str(gpu["index"]), "uuid": gpu["uuid"], "serial": gpu["serial"], "pdi": gpu["pdi"],
        "fabric_guid": gpu["fabric_guid"], "module_id": str(gpu["module_id"]), "bus_id": f"0000{gpu['bdf'].upper()}",
        "pci_domain": domain.upper(), "pci_bus": bus.upper(), "pci_device": rest.split(".")[0].upper(),
        "board_id": f"0x{bus}00", "pci_device_id": f"{kind['device'][2:].upper()}10DE",
        "pci_subsystem_id": f"{kind['subsystem'][2:].upper()}10DE", "memory_total": str(kind["memory_mib"]),
        "power_limit": f"{kind['power_w']}.00", "power_default": f"{kind['power_w']}.00",
        "temperature": str(31 + gpu["index"]), "power_draw": f"{kind['idle_w'] + 2 * gpu['index']}.10",
        "persistence_mode": truth.persistence(),
        **{key: str(node["place"][key]) for key in ("chassis_serial", "slot", "tray_index", "host_id", "peer_type")},
        **{key: str(value) for key, value in truth.overrides(gpu["index"]).items()},
    }  # fmt: skip
    reserved, used = int(found["memory_reserved"]), int(found["memory_used"])
    found.setdefault("memory_free", str(int(found["memory_total"]) - reserved - used))
    return found


def _constants() -> dict[str, str]:
    """A healthy GPU; faults overwrite these by name."""
    zero = ("ecc_volatile_sram_parity", "ecc_volatile_dram", "ecc_aggregate_sram_parity", "ecc_aggregate_dram",
            "remap_correctable", "remap_uncorrectable", "remap_high", "remap_none")  # fmt: skip
    idle = ("reason_sw_power", "reason_hw_slowdown", "reason_hw_thermal", "reason_hw_brake", "reason_sw_thermal")
    return {
        **dict.fromkeys(zero, "0"), **dict.fromkeys(idle, "Not Active"), "reason_idle": "Active",
        "mig_current": "Disabled", "mig_pending": "Disabled", "recovery_action": "None", "compute_mode": "Default",
        "ecc_current": "Enabled", "ecc_pending": "Enabled", "unrepairable_memory": "No", "remap_pending": "No",
        "remap_failure": "No", "memory_reserved": "1006", "memory_used": "0",
        "fabric_route_recovery": "False", "fabric_route_unhealthy": "False", "fabric_access_timeout": "False",
    }  # fmt: skip


def _fabric(fabric: truth.Json) -> dict[str, str]:
    """As the profile says; where a fabric manager makes the fabric, only once that has run in this boot."""
    known = {key: str(value) for key, value in fabric.items()}
    if known["kind"] == "fabricmanager" and not (truth.RW / "fabric-completed").exists():
        known |= {
            "fabric_state": "In Progress",
            "fabric_status": "N/A",
            "fabric_summary": "N/A",
            "fabric_bandwidth": "N/A",
        }
    return known


def fill(text: str, known: dict[str, str]) -> str:
    return Template(text).substitute(known)
