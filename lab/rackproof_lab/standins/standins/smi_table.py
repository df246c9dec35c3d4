"""nvidia-smi's short forms: the table, -L, --version, topo -m, nvlink --status."""

from __future__ import annotations

import time

from . import model, truth

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def version(program: str, library: str, driver: str) -> int:
    print(f"NVIDIA-SMI version  : {program}")
    print(f"NVML version        : {truth.short_version(library)}")
    if driver.startswith("610."):
        print('DRIVER version      : Deprecated, see "KMD version" instead')
        print('CUDA version        : Deprecated, see "CUDA UMD version" instead')
        print(f"KMD version         : {driver}")
        print(f"CUDA UMD version    : {truth.cuda_version(library)}")
        return 0
    print(f"DRIVER version      : {driver}")
    print(f"CUDA Version        : {truth.cuda_version(driver)}")
    return 0


def listing(gpus: list[truth.Json], driver: str) -> int:
    for gpu in gpus:
        print(_head(model.values(gpu, driver)))
    return 0


def _head(known: dict[str, str]) -> str:
    return f"GPU {known['index']}: {known['product_name']} (UUID: {known['uuid']})"


def nvlink(args: list[str], gpus: list[truth.Json], driver: str) -> int:
    """`nvlink --status`. The speed printed for GB300 is unverified: 53.125 is what B200 and B300 print."""
    if args[:1] not in (["-s"], ["--status"]):
        print("nvlink: only --status is simulated (rackproof lab stand-in)")
        return 2
    node = truth.node()
    down = {tuple(pair) for pair in truth.faults().get("nvlinks_down", [])}
    rates = truth.faults().get("nvlinks_rate", {})
    for gpu in gpus:
        known = model.values(gpu, driver)
        print(_head(known))
        if known["mig_current"] == "Enabled":
            print("Nvlink queries are not supported for Devices in MIG mode")
            continue
        rate = rates.get(str(gpu["index"]), node["nvlink"]["speed"])
        for number in range(node["nvlink"]["links"]):
            off = (gpu["index"], number) in down
            print(f"\t Link {number}: " + ("<inactive>" if off else f"{rate} GB/s"))
    return 0


def topology(gpus: list[truth.Json]) -> int:
    """`topo -m`; the head line carries an underline escape even into a pipe, as the real one does."""
    node = truth.node()
    nics = [f"NIC{i}" for i in range(len(node["nics"]))]
    names = [f"GPU{g['index']}" for g in gpus] + nics
    head = "".join(f"\t{name}" for name in names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    print(f"\x1b[4m{head}\x1b[0m")
    for name in names:
        cells = [_link(name, other, node["nvlink"]["links"]) for other in names]
        tail = ""
        if name.startswith("GPU"):
            socket = int(name[3:]) * node["sockets"] // len(node["gpus"])
            cores = node["cores_per_socket"]
            tail = f"\t{socket * cores}-{(socket + 1) * cores - 1}\t{socket}\t\tN/A"
        print("\t".join([name, *cells]) + tail)
    print(_LEGEND)
    if nics:
        print("NIC Legend:\n\n" + "\n".join(f"  {n}: mlx5_{i}" for i, n in enumerate(nics)) + "\n")
    return 0


def _link(one: str, other: str, links: int) -> str:
    if one == other:
        return " X "
    if one.startswith("GPU") and other.startswith("GPU"):
        return f"NV{links}"
    return "SYS"


def table(gpus: list[truth.Json], driver: str) -> int:
    wide, line = "+" + "-" * 89 + "+", "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    print(time.strftime("%a %b %e %H:%M:%S %Y       "))
    if driver.startswith("610."):
        head = f" NVIDIA-SMI {driver:<19} KMD Version: {driver:<15} CUDA UMD Version: {truth.cuda_version(driver)}"
    else:
        head = f" NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {truth.cuda_version(driver)}"
    print(f"{wide}\n|{head:<89}|\n{line}")
    print("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |")
    print("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |")
    print("|                                         |                        |               MIG M. |")
    print("|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|")
    for gpu in gpus:
        _row(model.values(gpu, driver))
        print(line)
    print(f"\n{wide}\n| Processes:{'':<78}|")
    print(f"|  GPU   GI   CI              PID   Type   Process name{'':<24}GPU Memory |")
    print(f"|        ID   ID{'':<63}Usage      |\n|{'=' * 89}|")
    print(f"|  {'No running processes found':<87}|\n{wide}")
    return 0


def _row(v: dict[str, str]) -> None:
    on = "On" if v["persistence_mode"] == "Enabled" else "Off"
    power = f"{float(v['power_draw']):.0f}W / {float(v['power_limit']):>4.0f}W"
    memory = f"{v['memory_used']}MiB / {v['memory_total']}MiB"
    print(
        f"| {v['index']:>3}  {v['product_name']:<27} {on:>6} | {v['bus_id']:>18} Off | {v['ecc_volatile_dram']:>20} |"
    )
    print(f"| N/A  {v['temperature']:>3}C    P0    {power:>20} | {memory:>22} | {'0%':>7} {v['compute_mode']:>12} |")
    print(f"|{'':<41}|{'':<24}| {v['mig_current']:>20} |")
