"""What a host with AMD Instinct GPUs must be, where that has no counterpart on NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class AmdBaseline:
    """Values of rules/amd.yaml."""


def amd_baseline(r: Resolving) -> AmdBaseline | None:
    r.notes["amd"] = r.notes["hardware"]
    r.notes["amd"] = r.notes["hardware"]
    return AmdBaseline() if r.hardware.vendor == "amd" else None
