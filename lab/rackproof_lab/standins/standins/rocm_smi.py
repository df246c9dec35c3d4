"""Stand-in for rocm-smi 7: `--json` with the keys of the options that are asked for, and the concise table without."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from . import amd_truth, truth

_NO_DRIVER = "ERROR:root:Driver not initialized (amdgpu not found in modules)"


def main(program: str, version: str, args: Sequence[str]) -> int:
    driver = amd_truth.loaded()
    gpus = truth.gpus() if driver else []
    if "--version" in args or "-V" in args:
        print(f"ROCM-SMI version: 4.0.0+lab\nROCM-SMI-LIB version: {version} (rackproof lab)")
        return 0
    if not gpus:
        print(_NO_DRIVER, file=sys.stderr)
        return 2
    if "--json" not in args:
        print(_table(gpus))
        return 0
    found: dict[str, truth.Json] = {f"card{gpu['index']}": _card(gpu, args) for gpu in gpus}
    if "--showdriverversion" in args:
        found["system"] = {"Driver version": driver}
    print(json.dumps(found))
    return 0


def _card(gpu: truth.Json, args: Sequence[str]) -> truth.Json:
    kind, values = truth.node()["gpu"], amd_truth.values(gpu)
    by_option: dict[str, truth.Json] = {
        "--showid": {"Device Name": kind["name"], "Device ID": kind["device"], "Device Rev": "0x00",
                     "Subsystem ID": kind["subsystem"], "GUID": str(20000 + gpu["index"])},
        "--showuniqueid": {"Unique ID": gpu["pdi"]},
        "--showbus": {"PCI Bus": gpu["bdf"].upper()},
        "--showmaxpower": {"Max Graphics Package Power (W)": f"{kind['power_w']}.0"},
        "--showpower": {"Current Socket Graphics Package Power (W)": f"{values['draw_w']}.0"},
        "--showproductname": {"Card Series": kind["name"], "Card Model": kind["device"], "Card Vendor":
                              "Advanced Micro Devices, Inc. [AMD/ATI]", "GFX Version": "gfx950"},
    }  # fmt: skip
    found = {key: value for option, part in by_option.items() if option in args for key, value in part.items()}
    if "--showmeminfo" in args:
        found["VRAM Total Memory (B)"] = str(values["memory_bytes"])
        found["VRAM Total Used Memory (B)"] = str(values["memory_used_bytes"])
    return found


def _table(gpus: list[truth.Json]) -> str:
    width = 124
    lines = [" ROCm System Management Interface ".center(width, "="), " Concise Info ".center(width, "=")]
    lines.append("Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK     Fan  Perf  "
                 "PwrCap   VRAM%  GPU%")  # fmt: skip
    lines.append("              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)")
    lines.append("=" * width)
    for gpu in gpus:
        found, kind = amd_truth.values(gpu), truth.node()["gpu"]
        modes = f"{amd_truth.mode(gpu, amd_truth.MEMORY)}, {amd_truth.mode(gpu, amd_truth.COMPUTE)}, 0"
        ids = f"{gpu['index']:<8}{2 + gpu['index']:<6}{kind['device']},   {20000 + gpu['index']:<7}"
        now = f"{found['temperature_c']}.0\u00b0C      {found['draw_w']}.0W    {modes:<20}"
        lines.append(f"{ids}{now}143Mhz  2000Mhz  0%   auto  {found['power_w']}.0W  0%     0%")
    return "\n".join([*lines, "=" * width, " End of ROCm SMI Log ".center(width, "=")])
