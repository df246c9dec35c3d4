"""Renders a node's simulated hardware into the folder that the node sees at /run/rackproof-lab.

`boot()` writes what a boot decides; `refresh()` rewrites the parts that a fault changes while the node runs. Every
file is replaced whole or changed in place inside folders that are bind-mounted, so the node sees it at once.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from rackproof_lab import boot_files, hardware_amd, kernel
from rackproof_lab.proc import replace

Json = dict[str, Any]
SYSCTLS = {
    "vm.nr_hugepages": "0", "vm.max_map_count": "65530", "vm.swappiness": "60", "kernel.numa_balancing": "1",
    "vm.overcommit_memory": "0", "vm.min_free_kbytes": "67584", "kernel.panic": "0", "net.core.rmem_max": "212992",
    "net.core.wmem_max": "212992", "net.core.rmem_default": "212992", "net.core.wmem_default": "212992",
    "fs.file-max": "1000000", "kernel.pid_max": "4194304", "kernel.threads-max": "1029000",
    "fs.inotify.max_user_instances": "128", "fs.inotify.max_user_watches": "65536",
    "net.core.netdev_max_backlog": "1000",
}  # fmt: skip
KNOWN_MODULES = "ib_umad\nib_core\nib_uverbs\nmlx5_core\nmlx5_ib\nrdma_ucm\nnvme_rdma\nbr_netfilter\noverlay\n"
_BUILD = "(builder@rackproof-lab)  Mon Mar  2 00:00:00 UTC 2026"


def boot(node_dir: Path) -> None:
    """Work out and write everything that a boot decides. `node_dir`/root must hold the node's file system."""
    sim, node = node_dir / "sim", _node(node_dir)
    (hardware_amd.boot if _is_amd(node) else _boot)(node_dir, node)
    settings = {**SYSCTLS, **_kernel_name(node_dir / "root")}
    replace(sim / "sysctl", "".join(f"{k}={v}\n" for k, v in settings.items()))
    replace(sim / "known-modules", KNOWN_MODULES)
    _sysfs(sim, node)
    refresh(node_dir)


def _boot(node_dir: Path, node: Json) -> None:
    """What a boot decides on a host with NVIDIA's GPUs."""
    sim = node_dir / "sim"
    state = kernel.boot(node_dir / "root")
    modules = [("nouveau", "")] if state.nouveau else []
    if state.driver:
        modules += [(name, state.driver) for name in ("nvidia", "nvidia_uvm", "nvidia_modeset")]
    boot_files.load(node_dir / "rw", modules)
    replace(sim / "cmdline", state.cmdline + "\n")
    replace(sim / "devices", _devices(state, node))
    replace(sim / "nodes.sh", _nodes_script(state, node, faults(node_dir)))
    replace(sim / "boot.json", json.dumps({"driver": state.driver, "open": state.open_module}))
    replace(sim / "dmesg.boot", "".join(f"{line}\n" for line in _log(state, node)))
    _driver(sim / "driver", state, node)


def _kernel_name(root: Path) -> Json:
    """The one kernel setting that a node of another system has of its own."""
    name = kernel.release(root)
    return {} if name == os.uname().release else {"kernel.osrelease": name}


def refresh(node_dir: Path) -> None:
    """Rewrite what faults change in a running node: PCI, /proc/driver/nvidia/gpus, kernel log, clock state."""
    sim, node, active = node_dir / "sim", _node(node_dir), faults(node_dir)
    missing = {index for part in active.values() for index in part.get("gpus_missing", [])}
    present = [gpu for gpu in node["gpus"] if gpu["index"] not in missing]
    _pci(sim / "pci", node, present)
    if _is_amd(node):
        changes = {key: value for part in active.values() for key, value in part.get("gpu", {}).items()}
        hardware_amd.refresh(node_dir, node, present, changes)
    else:
        info = json.loads((sim / "boot.json").read_text())
        driven = present if info["driver"] and (info["open"] or not node["gpu"]["needs_open_module"]) else []
        _proc_gpus(sim / "driver/nvidia/gpus", node, driven if info["driver"] else None)
    lines = [line for part in active.values() for line in part.get("kernel_log", [])]
    replace(sim / "dmesg", (sim / "dmesg.boot").read_text() + "".join(f"{line}\n" for line in lines))
    ntp = [part["ntp"] for part in active.values() if "ntp" in part]
    replace(sim / "ntp", (ntp or ["yes"])[-1] + "\n")


def faults(node_dir: Path) -> dict[str, Json]:
    """The `set:` parts of the active faults, by fault id."""
    try:
        found: dict[str, Json] = json.loads((node_dir / "sim/faults.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def _node(node_dir: Path) -> Json:
    data: Json = json.loads((node_dir / "sim/node.json").read_text())
    return data


def _is_amd(node: Json) -> bool:
    return node.get("vendor") == "amd"


def _devices(state: kernel.Kernel, node: Json) -> str:
    if not state.driver:
        return boot_files.majors({})
    majors = {"nvidia": 195, "nvidiactl": 195, "nvidia-caps": 234, "nvidia-uvm": 511}
    return boot_files.majors({**majors, "nvidia-caps-imex-channels": node["imex_major"]})


def _drives(state: kernel.Kernel, node: Json) -> bool:
    return state.driver is not None and (state.open_module or not node["gpu"]["needs_open_module"])


def _nodes_script(state: kernel.Kernel, node: Json, active: dict[str, Json]) -> str:
    """Device nodes as udev and the driver would make them; run as the last step of the node's boot unit."""
    if not state.driver:
        return "exit 0\n"
    make = 'mk() { [ -e "$1" ] || mknod -m 666 "$1" c "$2" "$3"; }\n'
    missing = {index for part in active.values() for index in part.get("gpus_missing", [])}
    lines = ["mk /dev/nvidiactl 195 255", "mk /dev/nvidia-uvm 511 0", "mk /dev/nvidia-uvm-tools 511 1"]
    if _drives(state, node):
        lines += [f"mk /dev/nvidia{g['index']} 195 {g['index']}" for g in node["gpus"] if g["index"] not in missing]
    if state.open_module and state.options.get("CreateImexChannel0") == "1":
        lines += ["mkdir -p /dev/nvidia-caps-imex-channels",
                  f"mk /dev/nvidia-caps-imex-channels/channel0 {node['imex_major']} 0"]  # fmt: skip
    return make + "\n".join(lines) + "\n"


def _driver(folder: Path, state: kernel.Kernel, node: Json) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if not state.driver:
        return
    machine = os.uname().machine
    kind = f"Open Kernel Module for {machine}" if state.open_module else f"{machine} Kernel Module"
    version = f"NVRM version: NVIDIA UNIX {kind}  {state.driver}  Release Build  {_BUILD}\n"
    replace(folder / "nvidia/version", version + "GCC version:  gcc version 14.2.0 (Debian 14.2.0-19)\n")
    replace(folder / "nvidia/params", "".join(f"{k}: {v}\n" for k, v in state.options.items()))


def _proc_gpus(folder: Path, node: Json, gpus: list[Json] | None) -> None:
    if gpus is None:
        return
    folder.mkdir(exist_ok=True)
    wanted = {gpu["bdf"]: gpu for gpu in gpus}
    for old in folder.iterdir():
        if old.name not in wanted:
            shutil.rmtree(old)
    for bdf, gpu in wanted.items():
        replace(
            folder / bdf / "information",
            f"Model: \t\t {node['gpu']['name']}\nIRQ:   \t\t {100 + gpu['index']}\nGPU UUID: \t {gpu['uuid']}\n"
            f"Video BIOS: \t {node['gpu']['smi']['vbios']}\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
            f"Bus Location: \t {bdf}\nDevice Minor: \t {gpu['index']}\nGPU Excluded:\t No\n",
        )


def _sysfs(sim: Path, node: Json) -> None:
    vendor, product = node["system"]["vendor"], node["system"]["product"]
    board = {"sys_vendor": vendor, "board_vendor": vendor, "chassis_vendor": "rackproof lab", "product_name": product}
    board |= {"product_serial": f"LAB-{node['gpus'][0]['serial']}", "bios_version": "rackproof lab"}
    for name, value in board.items():
        replace(sim / "class/dmi/id" / name, value + "\n")
    (sim / "bus/pci/devices").mkdir(parents=True, exist_ok=True)


def _pci(folder: Path, node: Json, gpus: list[Json]) -> None:
    kind, vendor = node["gpu"], "0x1002" if _is_amd(node) else "0x10de"
    devices = {g["bdf"]: (vendor, kind["device"], kind["class"], kind["subsystem"]) for g in gpus}
    devices |= {n["bdf"]: ("0x15b3", n["device"], "0x020700", n["device"]) for n in node["nics"]}
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.name not in devices:
            shutil.rmtree(old)
    for bdf, (vendor, device, class_code, subsystem) in devices.items():
        most = f"{kind.get('pcie_speed', '64.0')} GT/s PCIe"
        speeds = {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": most,
                  "current_link_width": "16", "max_link_width": "16", "numa_node": "0"}  # fmt: skip
        files = {"vendor": vendor, "device": device, "class": class_code, "subsystem_vendor": vendor,
                 "subsystem_device": subsystem, "revision": "0xa1", **speeds}  # fmt: skip
        for name, value in files.items():
            replace(folder / bdf / name, value + "\n")


def _log(state: kernel.Kernel, node: Json) -> list[str]:
    lines = ["[    0.000000] Linux version (rackproof lab: simulated host)"]
    lines.append(f"[    0.000000] Command line: {state.cmdline}")
    if state.nouveau:
        lines += [f"[    3.1{i}0000] nouveau {g['bdf']}: unknown chipset" for i, g in enumerate(node["gpus"])]
    if not state.driver:
        return lines
    kind = "Open Kernel Module" if state.open_module else "Kernel Module"
    lines.append(f"[    4.200000] NVRM: loading NVIDIA UNIX {kind} for {os.uname().machine}  {state.driver}")
    lines += [f"[    4.210000] nvidia: unknown parameter '{word}' ignored" for word in state.ignored]
    if not _drives(state, node):
        device = f"10de:{node['gpu']['device'][2:]}"
        for gpu in node["gpus"]:
            lines.append(f"[    4.300000] NVRM: The NVIDIA GPU {gpu['bdf']} (PCI ID: {device})")
            lines.append(
                "[    4.300001] NVRM: installed in this system requires use of the NVIDIA open kernel modules."
            )
    return lines


if __name__ == "__main__":
    boot(Path(sys.argv[1]))
