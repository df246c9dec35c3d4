"""What the operating system under the GPUs must be: kernel settings, memory, limits, time, storage."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class SystemBaseline:
    """Values of rules/system.yaml and of the hardware profile."""


def system_baseline(r: Resolving) -> SystemBaseline:
    r.notes["system"] = r.notes["hardware"]
    return SystemBaseline()
