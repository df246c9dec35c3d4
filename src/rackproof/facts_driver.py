"""Parts of facts.DriverFacts."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.facts import Fact


@dataclass(frozen=True)
class Library:
    """One of the driver's libraries as the dynamic linker finds it."""

    name: str  # libcuda.so.1 | libnvidia-ml.so.1
    path: str
    target: str  # what the link leads to
    version: Fact[str]  # in the target's name
    size_bytes: Fact[int]  # 0: an installation that broke off
