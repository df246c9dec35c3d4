"""What the operating system under the GPUs must be: kernel settings, memory, limits, time, storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class SystemBaseline:
    """Values of rules/system.yaml for one platform. None, or (): nothing is asked of it."""

    across_nodes: bool  # the layout takes several nodes, which meet over the network
    cmdline_required: tuple[str, ...]
    cmdline_banned: tuple[str, ...]
    iommu_passthrough: tuple[str, ...]  # any of these tokens
    numa_balancing: str | None
    governor: str
    transparent_hugepages: tuple[str, ...]
    page_size_bytes: int | None
    shared_memory_bytes_min: int
    shared_memory_bytes: int
    host_memory_bytes: int | None  # None in a simulation, whose hosts have the memory of the machine they are on
    hugepages_bytes_max: int
    clock_offset_s_max: float
    memory_outlier_fraction: float
    watched_units: tuple[str, ...]


def platform(r: Resolving) -> str:
    """The key of rules that differ: grace (NVIDIA on Arm), hgx (NVIDIA on x86) or amd."""
    if r.hardware.vendor == "amd":
        return "amd"
    architecture = r.site.get("simulation", "architecture") or r.hardware.cpu_architecture
    return "grace" if architecture.value == "aarch64" else "hgx"


def system_baseline(r: Resolving) -> SystemBaseline:
    def rule(name: str) -> Any:
        return r.rule(f"system.{name}", "system", name)

    def of_platform(name: str, otherwise: Any = None) -> Any:
        return rule(name).get(kind, otherwise)

    kind = platform(r)
    simulated = any(key[0] == "simulation" for key in r.site.cells)
    r.notes["system.across_nodes"] = r.layout.source
    memory = r.rule("system.host_memory_bytes", "system", "host_memory_bytes_per_gpu")
    return SystemBaseline(
        across_nodes=r.layout.nodes > 1,
        cmdline_required=tuple(of_platform("cmdline_required", ())),
        cmdline_banned=rule("cmdline_banned"),
        iommu_passthrough=rule("iommu_passthrough"),
        numa_balancing=of_platform("numa_balancing"),
        governor=rule("governor"),
        transparent_hugepages=tuple(of_platform("transparent_hugepages", ())),
        page_size_bytes=of_platform("page_size_bytes"),
        shared_memory_bytes_min=rule("shared_memory_bytes_min"),
        shared_memory_bytes=rule("shared_memory_bytes"),
        host_memory_bytes=None if simulated else memory * r.hardware.gpus_per_node.value,
        hugepages_bytes_max=rule("hugepages_bytes_max"),
        clock_offset_s_max=rule("clock_offset_s_max"),
        memory_outlier_fraction=rule("memory_outlier_fraction"),
        watched_units=rule("watched_units"),
    )
