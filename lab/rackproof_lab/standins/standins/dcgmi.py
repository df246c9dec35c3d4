"""Stand-in for dcgmi: discovery -l and health, as far as the fault file says."""

from __future__ import annotations

from collections.abc import Sequence

from . import model, truth


def main(program: str, version: str, args: Sequence[str]) -> int:
    if "--version" in args or "-v" in args:
        print(f"Version : {version}")
        return 0
    loaded = truth.loaded_driver()
    gpus = truth.gpus() if loaded else []
    if args[:1] == ["discovery"]:
        print(f"{len(gpus)} GPUs found.")
        for gpu in gpus:
            known = model.values(gpu, loaded[0] if loaded else "")
            print(f"| {known['index']:<6} | Name: {known['product_name']}\n|        | PCI Bus ID: {known['bus_id']}")
        return 0
    if args[:1] == ["health"]:
        print("Overall Health: " + ("Failure" if truth.faults().get("gpu") else "Healthy"))
        return 0
    print("dcgmi (rackproof lab stand-in): discovery -l, health")
    return 1
