"""Stand-in for nvidia-smi: which form was asked for, and the states in which it cannot answer."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence

from . import smi_csv, smi_report, smi_table, truth

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver "
    "is properly installed and present in your system.\nPlease also try adding directory that contains "
    "libnvidia-ml.so to your system PATH.\n"
)
GARBAGE = "\x1b[2J\x07%s\ufffd\x00<gpu> 0x7fff ::: ERR! \n" * 40


def main(program: str, version: str, args: Sequence[str]) -> int:
    """Exit code of one call; 9, 12, 18 and 6 as the real one uses them."""
    if "--help" in args or "-h" in args:
        print(f"NVIDIA System Management Interface -- v{version} (rackproof lab stand-in: simulated GPUs)")
        return 0
    fault = truth.faults().get("smi")
    if fault == "hang":
        hang()
    if fault == "garbage":
        sys.stdout.write(GARBAGE)
        return 0
    return _answer(version, list(args), fault == "truncate")


def _answer(version: str, args: list[str], truncate: bool) -> int:
    library, loaded = truth.library_version(), truth.loaded_driver()
    if library is None:
        print(NO_LIBRARY)
        return 12
    if loaded is None:
        print(NO_DRIVER)
        return 9
    if loaded[0] != library:
        print("Failed to initialize NVML: Driver/library version mismatch")
        print(f"NVML library version: {truth.short_version(library)}")
        return 18
    if args[:1] == ["--version"]:
        return smi_table.version(version, library, loaded[0])
    gpus = truth.gpus()
    if not gpus:
        print("No devices were found")
        return 6
    return _form(args, gpus, loaded[0], truncate)


def _form(args: list[str], gpus: list[truth.Json], driver: str, truncate: bool) -> int:
    query = next((a.split("=", 1)[1] for a in args if a.startswith("--query-gpu=")), None)
    if query is not None:
        style = next((a.split("=", 1)[1] for a in args if a.startswith("--format=")), "csv")
        return smi_csv.query(query.split(","), style.split(","), _selected(args, gpus), driver)
    if args[:1] in (["-L"], ["--list-gpus"]):
        return smi_table.listing(gpus, driver)
    if args[:1] == ["topo"]:
        return smi_table.topology(gpus)
    if args[:1] == ["nvlink"]:
        return smi_table.nvlink(args[1:], gpus, driver)
    if any(a in ("-pm", "--persistence-mode") or a.startswith("--persistence-mode=") for a in args):
        return _set_persistence(args, gpus)
    if "-q" in args or "--query" in args:
        text = smi_report.xml(gpus, driver) if "-x" in args or "--xml-format" in args else smi_report.text(gpus, driver)
        print(text[: len(text) * 2 // 5] if truncate else text)
        return 0
    if args and args[0] not in ("-i", "--id"):
        print(
            f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. ({args[0]}: not simulated)"
        )
        return 2
    return smi_table.table(gpus, driver)


def _selected(args: list[str], gpus: list[truth.Json]) -> list[truth.Json]:
    wanted = next((args[i + 1] for i, a in enumerate(args[:-1]) if a in ("-i", "--id")), None)
    return [g for g in gpus if wanted is None or str(g["index"]) in wanted.split(",")]


def _set_persistence(args: list[str], gpus: list[truth.Json]) -> int:
    on = args[-1].rpartition("=")[2] == "1"
    flag = truth.RW / "persistence"
    if on:
        flag.touch()
    else:
        flag.unlink(missing_ok=True)
    for gpu in gpus:
        print(f"{'Enabled' if on else 'Disabled'} Legacy persistence mode for GPU 0000{gpu['bdf'].upper()}.")
    print("All done.")
    return 0


def hang() -> None:
    """A sick driver: the call does not come back, and does not listen to a polite end either."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
