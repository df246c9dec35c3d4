"""Stand-in for amd-smi 26.2: list, static, metric, process, bad-pages, firmware and partition, as JSON or as text, and
`set` of a partition mode.

Of one version `metric` is wrapped in gpu_data and the others are bare lists, as in public outputs of MI355X. The words
of a node without a driver are from memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import amd_truth, smi, truth

NO_DRIVER = "ERROR: Unable to get devices, driver not initialized (amdgpu not found in modules)"
NO_PAGES = "No bad pages found."
MAKER = "Advanced Micro Devices Inc. [AMD/ATI]"
ROCM = "7.2.3"


def main(program: str, version: str, args: Sequence[str]) -> int:
    fault = truth.faults().get("smi")
    if fault == "hang":
        smi.hang()
    if fault == "garbage":
        sys.stdout.write(smi.GARBAGE)
        return 0
    driver = amd_truth.loaded()
    if args[:1] == ["version"]:
        print(f"AMDSMI Tool: {version}+lab | AMDSMI Library version: {version} | ROCm version: {ROCM} | "
              f"amdgpu version: {driver or 'N/A'} | hsmp version: N/A (rackproof lab)")  # fmt: skip
        return 0
    gpus = truth.gpus() if driver else []
    if not gpus:
        print(NO_DRIVER, file=sys.stderr)
        return 255
    return _command(list(args), gpus, driver or "", fault == "truncate")


def _command(args: list[str], gpus: list[truth.Json], driver: str, truncate: bool) -> int:
    name = args[0] if args else ""
    if name == "set":
        return _set(args[1:], gpus)
    if name not in FORMS:
        print(f"amd-smi (rackproof lab stand-in): {', '.join(FORMS)}, set, version", file=sys.stderr)
        return 2
    wanted = amd_truth.chosen(args, gpus)
    first = "gpu_id" if name == "partition" else "gpu"
    entries = [{first: gpu["index"], **FORMS[name](gpu, driver)} for gpu in wanted]
    if "--json" in args:
        key = {"metric": "gpu_data", "partition": "current_partition"}.get(name)
        text = json.dumps({key: entries} if key else entries, indent=4) + "\n"
    else:
        text = "".join(f"GPU: {entry.pop(first)}\n{_text(entry, 1)}\n\n" for entry in entries)
    sys.stdout.write(text[: len(text) * 2 // 5] if truncate else text)
    return 0


def _amount(value: object, unit: str) -> truth.Json:
    return {"value": value, "unit": unit}


def _list(gpu: truth.Json, driver: str) -> truth.Json:
    return {"bdf": gpu["bdf"], "uuid": amd_truth.uuid(gpu), "kfd_id": 10000 + gpu["index"], "node_id": 2 + gpu["index"],
            "partition_id": 0}  # fmt: skip


def _static(gpu: truth.Json, driver: str) -> truth.Json:
    kind, found = truth.node()["gpu"], amd_truth.values(gpu)
    return {
        "asic": {"market_name": kind["name"], "vendor_id": "0x1002", "vendor_name": MAKER, "subvendor_id": "0x1002",
                 "device_id": kind["device"], "subsystem_id": kind["subsystem"], "rev_id": "0x00",
                 "asic_serial": f"0x{gpu['pdi'][2:].upper()}", "oam_id": gpu["index"],
                 "num_compute_units": kind["compute_units"], "target_graphics_version": "gfx950"},
        "bus": {"bdf": gpu["bdf"], "max_pcie_width": 16, "max_pcie_speed": _amount(32, "GT/s"),
                "pcie_interface_version": "Gen 5", "slot_type": "OAM"},
        "ifwi": {"name": "AMD MI355X (lab)", "build_date": "2026/03/02", "part_number": found["vbios"],
                 "version": found["vbios"]},
        "limit": {"max_power": _amount(kind["power_w"], "W"), "min_power": _amount(0, "W"),
                  "socket_power": _amount(found["power_w"], "W")},
        "driver": {"name": "amdgpu", "version": driver},
        "board": {"model_number": "N/A", "product_serial": f"LAB{gpu['serial']}", "fru_id": "N/A",
                  "product_name": kind["name"], "manufacturer_name": "AMD"},
        "ras": {"eeprom_version": "0x30000", "bad_page_threshold": 128, "poison_schema": "ENABLED"},
        "vram": {"type": "HBM3E", "vendor": "N/A", "size": _amount(found["memory_bytes"] // 1048576, "MB"),
                 "bit_width": 8192, "max_bandwidth": _amount("N/A", "GB/s")},
    }  # fmt: skip


def _metric(gpu: truth.Json, driver: str) -> truth.Json:
    found = amd_truth.values(gpu)
    total, used = found["memory_bytes"] // 1048576, found["memory_used_bytes"] // 1048576
    return {
        "usage": {"gfx_activity": _amount(0, "%"), "umc_activity": _amount(0, "%"), "mm_activity": "N/A"},
        "power": {"socket_power": _amount(found["draw_w"], "W"), "gfx_voltage": _amount("N/A", "mV"),
                  "power_management": "ENABLED", "throttle_status": found["throttle"]},
        "temperature": {"edge": "N/A", "hotspot": _amount(found["temperature_c"], "C"), "mem": _amount(33, "C")},
        "pcie": {"width": found["pcie_width"], "speed": _amount(32, "GT/s"), "bandwidth": "N/A", "replay_count": 0,
                 "l0_to_recovery_count": 1, "nak_sent_count": 0, "nak_received_count": 0},
        "ecc": {"total_correctable_count": found["ecc_correctable"], "total_deferred_count": 0,
                "total_uncorrectable_count": found["ecc_uncorrectable"]},
        "mem_usage": {"total_vram": _amount(total, "MB"), "used_vram": _amount(used, "MB"),
                      "free_vram": _amount(total - used, "MB")},
    }  # fmt: skip


def _process(gpu: truth.Json, driver: str) -> truth.Json:
    return {"process_list": [{"process_info": "No running processes detected"}]}


def _bad_pages(gpu: truth.Json, driver: str) -> truth.Json:
    return dict.fromkeys(("retired", "pending", "un_res"), NO_PAGES)


def _firmware(gpu: truth.Json, driver: str) -> truth.Json:
    versions = truth.node()["gpu"]["firmware"]
    return {"fw_list": [{"fw_id": name, "fw_version": version} for name, version in versions.items()]}


def _partition(gpu: truth.Json, driver: str) -> truth.Json:
    return {"memory": amd_truth.mode(gpu, amd_truth.MEMORY), "accelerator_type": amd_truth.mode(gpu, amd_truth.COMPUTE),
            "accelerator_profile_index": "0", "partition_id": "0"}  # fmt: skip


FORMS: dict[str, Callable[[truth.Json, str], truth.Json]] = {
    "list": _list, "static": _static, "metric": _metric, "process": _process, "bad-pages": _bad_pages,
    "firmware": _firmware, "partition": _partition,
}  # fmt: skip


def _set(args: list[str], gpus: list[truth.Json]) -> int:
    """A partition mode. The real one ends what runs on the GPU, and needs root for it."""
    files = {"-C": amd_truth.COMPUTE, "--compute-partition": amd_truth.COMPUTE, "-M": amd_truth.MEMORY,
             "--memory-partition": amd_truth.MEMORY}  # fmt: skip
    asked = [(files[word], args[at + 1]) for at, word in enumerate(args[:-1]) if word in files]
    for gpu in amd_truth.chosen(args, gpus):
        for file, value in asked:
            amd_truth.set_mode(gpu, file, value)
            print(f"GPU: {gpu['index']}\n    Successfully set {file.removeprefix('current_')} to {value}")
    return 0 if asked else 2


def _text(entry: dict[str, Any], depth: int) -> str:
    """The indented form: names in capitals, an amount as "value unit"."""
    pad, lines = "    " * depth, []
    for key, value in entry.items():
        if isinstance(value, dict) and set(value) == {"value", "unit"}:
            lines.append(f"{pad}{key.upper()}: {value['value']} {value['unit']}")
        elif isinstance(value, dict):
            lines.append(f"{pad}{key.upper()}:\n{_text(value, depth + 1)}")
        elif isinstance(value, list):
            lines += [f"{pad}{key.upper()}:", *(_text(item, depth + 1) for item in value)]
        else:
            lines.append(f"{pad}{key.upper()}: {value}")
    return "\n".join(lines)
