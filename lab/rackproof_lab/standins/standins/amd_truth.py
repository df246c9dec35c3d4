"""What this node is, where its GPUs are AMD's: from sysfs, as ROCm's tools read it, and from the profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import truth

MODULE = Path("/sys/module/amdgpu")
DEVICES = Path("/sys/bus/pci/devices")
COMPUTE, MEMORY = "current_compute_partition", "current_memory_partition"
FIRST_RENDER = 128


def loaded() -> str | None:
    """Version of the loaded amdgpu; None where the module has none or is not there: then no tool sees a GPU."""
    return _text(MODULE / "version") or None


def mode(gpu: truth.Json, file: str) -> str:
    """A partition mode as the driver says it now."""
    return _text(DEVICES / gpu["bdf"] / file) or "N/A"


def set_mode(gpu: truth.Json, file: str, value: str) -> None:
    (DEVICES / gpu["bdf"] / file).write_text(value + "\n")


def values(gpu: truth.Json) -> truth.Json:
    """What a healthy GPU of this profile has, and what faults make of it."""
    kind = truth.node()["gpu"]
    healthy = {
        **{key: kind[key] for key in ("memory_bytes", "memory_used_bytes", "power_w")},
        "draw_w": kind["idle_w"] + gpu["index"], "temperature_c": 36 + gpu["index"], "vbios": kind["vbios"],
        "ecc_uncorrectable": 0, "ecc_correctable": 0, "throttle": "UNTHROTTLED", "pcie_width": 16,
    }  # fmt: skip
    return {**healthy, **truth.overrides(gpu["index"])}


def uuid(gpu: truth.Json) -> str:
    """With the device id in it, as amd-smi of MI355X prints it."""
    digits = gpu["pdi"][2:]
    return f"{digits[:2]}ff{truth.node()['gpu']['device'][2:]}-0000-1000-80{digits[2:4]}-{digits[4:16]}"


def chosen(args: Sequence[str], gpus: list[truth.Json]) -> list[truth.Json]:
    """Those that -g or --gpu names; all without it."""
    at = next((i for i, word in enumerate(args) if word in ("-g", "--gpu")), None)
    named = []
    for word in args[at + 1 :] if at is not None else []:
        if word.startswith("-"):
            break
        named.append(word)
    return [gpu for gpu in gpus if not named or "all" in named or str(gpu["index"]) in named]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
