"""What a host with AMD Instinct GPUs must be, where that has no counterpart on NVIDIA."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.baseline_kernel import pci_options
from rackproof.resolving import Resolving


@dataclass(frozen=True)
class AmdBaseline:
    """Values of rules/amd.yaml."""

    architecture: str  # gfx950
    compute_units: int | None  # of one GPU; None: not published
    compute_partition: str
    memory_partition: str
    releases: tuple[tuple[str, str], ...]  # version of the module amdgpu -> release of the driver
    secure_module: str  # the first module with the fix of the last published vulnerability
    kernel_arguments: tuple[str, ...]
    pci_options: tuple[str, ...]  # of the kernel argument pci=
    fatal_events: tuple[str, ...]  # kinds of RasEvent that condemn a GPU
    mec_name: str
    mec_min: int
    users: tuple[str, ...]  # who use GPUs on the host itself, as the site names them
    device_groups: tuple[str, ...]  # whose members may open the devices


def amd_baseline(r: Resolving) -> AmdBaseline | None:
    """None where the GPUs are not AMD's."""
    if r.hardware.vendor != "amd":
        r.notes["amd"] = r.notes["hardware"]
        return None
    generation = r.hardware.generation
    mec = r.rule("amd.mec_name", "amd", "mec_firmware")
    r.notes["amd.mec_min"] = r.notes["amd.mec_name"]
    return AmdBaseline(
        architecture=r.rule("amd.architecture", "amd", "architecture")[generation],
        compute_units=r.rule("amd.compute_units", "amd", "compute_units").get(generation),
        compute_partition=r.rule("amd.compute_partition", "amd", "compute_partition"),
        memory_partition=r.rule("amd.memory_partition", "amd", "memory_partition"),
        releases=tuple(r.rule("amd.releases", "amd", "releases").items()),
        secure_module=r.rule("amd.secure_module", "amd", "secure_module"),
        kernel_arguments=(r.rule("amd.kernel_arguments", "system", "iommu_word")["amd"],),
        pci_options=pci_options(r.rule("amd.pci_options", "system", "cmdline_required")["amd"]),
        fatal_events=r.rule("amd.fatal_events", "amd", "fatal_events"),
        mec_name=mec["name"],
        mec_min=mec["min"],
        users=tuple(r.choose("amd.users", "gpus", "users", default=())),
        device_groups=tuple(r.rule("amd.device_groups", "amd", "device_groups")),
    )
