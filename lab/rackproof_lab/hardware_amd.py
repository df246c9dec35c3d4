"""What a boot and a fault make of simulated AMD GPUs: the module amdgpu, /dev/kfd and /dev/dri, KFD's topology, sysfs.

Partition modes live in files of the boot that the node may write, as sysfs lets root do; like a reload of the real
driver, a boot puts them back to whole GPUs. A mode changes what is said of it and nothing else here: a real CPX also
makes more render nodes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from rackproof_lab import boot_files, kernel_amd
from rackproof_lab.proc import replace

Json = dict[str, Any]
MODES = {"current_compute_partition": "SPX", "current_memory_partition": "NPS1"}  # file of sysfs -> mode after a boot
KFD_MAJOR, DRM_MAJOR, FIRST_RENDER = 234, 226, 128
CPUS = 2  # nodes of KFD before those of GPUs
_RW = "/run/rackproof-lab-rw"  # where the node sees its own folder of this boot
_PARAMETERS = {"noretry": "-1", "vm_fragment_size": "-1", "gpu_recovery": "-1", "ras_enable": "-1"}


def boot(node_dir: Path, node: Json) -> None:
    """Work out and write all that this boot decides."""
    sim, rw = node_dir / "sim", node_dir / "rw"
    state = kernel_amd.boot(node_dir / "root")
    boot_files.load(rw, [("amdgpu", state.version)] if state.module is not None else [])
    _module(rw / "module/amdgpu", state)
    replace(sim / "cmdline", state.cmdline + "\n")
    majors = {"kfd": KFD_MAJOR, "drm": DRM_MAJOR} if state.module is not None else {}
    replace(sim / "devices", boot_files.majors(majors))
    replace(sim / "nodes.sh", _devices(state, node))
    replace(sim / "boot.json", json.dumps({"amdgpu": state.version, "loaded": state.module is not None}))
    replace(sim / "dmesg.boot", "".join(f"{line}\n" for line in _log(state, node)))
    for folder in ("driver", "pci", "class/kfd", "class/drm"):
        shutil.rmtree(sim / folder, ignore_errors=True)
    (sim / "driver").mkdir()
    if state.module is not None:
        _topology(sim / "class/kfd/kfd/topology/nodes", node, node["gpus"] if state.drives else [])
    if state.drives:
        for gpu in node["gpus"]:
            _modes(rw, gpu)
            card = sim / "class/drm" / f"card{gpu['index']}"
            card.mkdir(parents=True)
            (card / "device").symlink_to(f"/sys/bus/pci/devices/{gpu['bdf']}")


def refresh(node_dir: Path, node: Json, present: list[Json], changes: dict[str, Json]) -> None:
    """amdgpu's own files of each device; `changes`: what faults say of a GPU, by its index."""
    info = json.loads((node_dir / "sim/boot.json").read_text())
    kind = node["gpu"]
    for gpu in present if info["amdgpu"] else []:
        folder = node_dir / "sim/pci" / gpu["bdf"]
        found = {**kind, **changes.get("*", {}), **changes.get(str(gpu["index"]), {})}
        files = {"mem_info_vram_total": found["memory_bytes"], "mem_info_vram_used": found["memory_used_bytes"],
                 "unique_id": gpu["pdi"][2:], "vbios_version": found["vbios"]}  # fmt: skip
        for name, value in files.items():
            replace(folder / name, f"{value}\n")
        for name in MODES:
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"{_RW}/partition/{gpu['bdf']}/{name}")


def _module(folder: Path, state: kernel_amd.AmdKernel) -> None:
    if state.module is None:
        return
    replace(folder / "srcversion", state.module.get("srcversion", "") + "\n")
    for name, value in _PARAMETERS.items():
        replace(folder / "parameters" / name, value + "\n")


def _modes(rw: Path, gpu: Json) -> None:
    for name, mode in MODES.items():
        replace(rw / "partition" / gpu["bdf"] / name, mode + "\n")


def _devices(state: kernel_amd.AmdKernel, node: Json) -> str:
    """Device nodes as the driver and udev's own rules make them: /dev/kfd and render nodes are of group render."""
    if state.module is None:
        return "exit 0\n"
    lines = ['mk() { [ -e "$1" ] || mknod -m 660 "$1" c "$2" "$3"; chgrp "$4" "$1"; }',
             f"mk /dev/kfd {KFD_MAJOR} 0 render"]  # fmt: skip
    if state.drives:
        lines.append("mkdir -p /dev/dri")
        for gpu in node["gpus"]:
            lines.append(f"mk /dev/dri/card{gpu['index']} {DRM_MAJOR} {gpu['index']} video")
            lines.append(
                f"mk /dev/dri/renderD{FIRST_RENDER + gpu['index']} {DRM_MAJOR} {FIRST_RENDER + gpu['index']} render"
            )
    return "\n".join(lines) + "\n"


def _topology(folder: Path, node: Json, gpus: list[Json]) -> None:
    """Nodes of KFD: the CPUs, then the GPUs, each joined to every other GPU by XGMI and to its CPU by PCIe."""
    for number in range(CPUS):
        values = {"cpu_cores_count": node["cores_per_socket"] * 2, "simd_count": 0, "mem_banks_count": 1}
        replace(folder / str(number) / "properties", _properties(values))
    for gpu in gpus:
        mine = folder / str(CPUS + gpu["index"])
        replace(mine / "properties", _properties(_gpu(node, gpu)))
        others = [CPUS + other["index"] for other in gpus if other is not gpu]
        links = [(2, gpu["index"] * CPUS // len(gpus), 20), *((11, other, 15) for other in others)]
        for number, (kind, to, weight) in enumerate(links):
            values = {"type": kind, "version_major": 0, "version_minor": 0, "node_from": CPUS + gpu["index"],
                      "node_to": to, "weight": weight, "flags": 1}  # fmt: skip
            replace(mine / "io_links" / str(number) / "properties", _properties(values))


def _gpu(node: Json, gpu: Json) -> dict[str, int]:
    domain, bus, rest = gpu["bdf"].split(":")
    device, function = rest.split(".")
    return {
        "cpu_cores_count": 0, "simd_count": node["gpu"]["compute_units"] * 4, "mem_banks_count": 1,
        "io_links_count": len(node["gpus"]), "simd_per_cu": 4, "wave_front_size": 64, "num_xcc": 8,
        "gfx_target_version": 90500, "vendor_id": 0x1002, "device_id": int(node["gpu"]["device"], 16),
        "location_id": int(bus, 16) << 8 | int(device, 16) << 3 | int(function), "domain": int(domain, 16),
        "drm_render_minor": FIRST_RENDER + gpu["index"], "unique_id": int(gpu["pdi"], 16),
    }  # fmt: skip


def _properties(values: dict[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _log(state: kernel_amd.AmdKernel, node: Json) -> list[str]:
    lines = ["[    0.000000] Linux version (rackproof lab: simulated host)"]
    lines.append(f"[    0.000000] Command line: {state.cmdline}")
    if state.module is None:
        return lines
    lines.append("[    5.100000] [drm] amdgpu kernel modesetting enabled.")
    if state.drives:
        lines.append(f"[    5.100100] [drm] amdgpu version: {state.version}")
        start = "[    6.000000] [drm] Initialized amdgpu for"
        lines += [f"{start} {gpu['bdf']} on minor {gpu['index']}" for gpu in node["gpus"]]
    return lines
