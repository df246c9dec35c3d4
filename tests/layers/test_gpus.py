"""Layer gpus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import resolve
from rackproof.baseline_parts import GpuBaseline
from rackproof.facts import GpuProcess, KernelLogFacts, Missing, NodeFacts, Xid
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import DRIVER, GONE, MIB, PCI, baseline, driver, every_gpu, gpu, node, smi, strangers

GB300 = node()
B300 = node("b300", "b300-01")
NO_SMI = replace(GB300, smi=GONE)
SECOND = "GPU 1 (00000009:06:00.0)"
SERVING = resolve(site.shipped().overlaid({"gpus": {"expect_idle": False}}, "test"), hardware_id="gb300")
NO_LIMITS = replace(baseline("gb300"), gpus=replace(baseline("gb300").gpus, power_limits_w=None))
UNPUBLISHED = replace(baseline("gb300"), gpus=replace(baseline("gb300").gpus, pci_device_ids=None))


def log(*codes: int, lines: int = 4711) -> NodeFacts:
    return replace(
        GB300,
        kernel_log=KernelLogFacts(lines, "journalctl -k", tuple(Xid(code, PCI["gb300"][1], "text") for code in codes)),
    )


def unreadable(*fields: str) -> list[NodeFacts]:
    """Every way in which these fields of the GPUs can be missing."""
    gone: list[dict[str, Any]] = [{field: GONE} for field in fields]
    return [
        NO_SMI,
        smi(GB300, gpus=()),
        *(every_gpu(GB300, **change) for change in gone),
        *(gpu(GB300, 3, **change) for change in gone),
    ]


SEVEN = smi(driver(B300, pci_gpus=PCI["b300"][:7], proc_gpus=PCI["b300"][:7]), attached=7)

TABLE = {
    "gpus.query": Cases(
        green=[GB300, B300],
        red=[
            Red(smi(GB300, warnings=("WARNING: infoROM is corrupted at gpu 0008:06:00.0",)), "infoROM"),
            Red(smi(GB300, gpus=()), "0 GPUs"),
        ],
        garbage=[NO_SMI, smi(GB300, gpus=()), smi(GB300, warnings=("",))],
    ),
    "gpus.count": Cases(
        green=[GB300, B300],
        red=[
            Red(SEVEN, "7 GPUs"),
            Red(driver(NO_SMI, pci_gpus=PCI["gb300"][:3]), "PCI: 3 GPUs"),
            Red(driver(NO_SMI, proc_gpus=PCI["gb300"][:3], pci_gpus=GONE), "/proc/driver/nvidia/gpus: 3 GPUs"),
            Red(smi(GB300, attached=3), "nvidia-smi attached_gpus: 3 GPUs"),
            Red(smi(GB300, gpus=()), "nvidia-smi: 0 GPUs"),
            Red(driver(GB300, pci_gpus=(*PCI["gb300"], "00000020:06:00.0")), "PCI: 5 GPUs"),
        ],
        garbage=[
            NO_SMI,
            driver(GB300, pci_gpus=GONE),
            driver(GB300, pci_gpus=()),
            driver(GB300, proc_gpus=GONE),
            driver(GB300, proc_gpus=(PCI["gb300"][0],) * 4),
            smi(GB300, attached=GONE),
            smi(GB300, attached=-4),
            every_gpu(GB300, pci_address=""),
        ],
    ),
    "gpus.product": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, product="NVIDIA GB200"), f"{SECOND}: NVIDIA GB200"),
            Red(every_gpu(GB300, product="NVIDIA B300 SXM6 AC"), "NVIDIA B300 SXM6 AC"),
            Red(every_gpu(GB300, product="NVIDIA GB300 Max-Q"), "Max-Q"),
        ],
        garbage=[*unreadable("product"), every_gpu(GB300, product="")],
    ),
    "gpus.pci_ids": Cases(
        green=[GB300, B300],
        red=[Red(driver(GB300, pci_ids=("10de:31c2", "10de:2941", "10de:31c2", "10de:31c2")), "00000009:06:00.0")],
        garbage=[
            driver(GB300, pci_ids=GONE),
            driver(GB300, pci_ids=()),
            driver(GB300, pci_ids=("10de:31c2",)),
            driver(GB300, pci_ids=("10de:?",) * 4),
            driver(GB300, pci_gpus=GONE),
            driver(GB300, pci_ids=(), pci_gpus=()),
        ],
        not_applicable=UNPUBLISHED,
    ),
    "gpus.memory": Cases(
        green=[GB300, B300, every_gpu(GB300, memory_bytes=283000 * MIB)],
        red=[
            Red(gpu(GB300, 1, memory_bytes=96256 * MIB), f"{SECOND}: 94.0 GiB"),
            Red(gpu(gpu(GB300, 0, memory_bytes=GONE), 1, memory_bytes=96256 * MIB), SECOND),
            Red(gpu(GB300, 1, memory_bytes=1), ">= 276.2 GiB each"),
        ],
        garbage=[*unreadable("memory_bytes"), gpu(GB300, 0, memory_bytes=0), gpu(GB300, 0, memory_bytes=-1)],
    ),
    "gpus.ecc_mode": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, ecc_current=False), f"{SECOND} now: off"),
            Red(gpu(GB300, 1, ecc_pending=False), f"{SECOND} after a reset: off"),
            Red(gpu(every_gpu(GB300, ecc_pending=GONE), 1, ecc_current=False), f"{SECOND} now: off"),
        ],
        garbage=unreadable("ecc_current", "ecc_pending"),
    ),
    "gpus.ecc_errors": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, ecc_uncorrectable_volatile=2), f"{SECOND}: 2 errors")],
        garbage=[*unreadable("ecc_uncorrectable_volatile"), gpu(GB300, 1, ecc_uncorrectable_volatile=-1)],
    ),
    "gpus.row_remap": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, remap_pending=True), f"{SECOND} remap pending: yes"),
            Red(gpu(GB300, 1, remap_failure=True), f"{SECOND} remap failed: yes"),
        ],
        garbage=unreadable("remap_pending", "remap_failure"),
    ),
    "gpus.recovery_action": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, recovery_action="Reset"), f"{SECOND}: Reset")],
        garbage=[*unreadable("recovery_action"), gpu(GB300, 1, recovery_action="")],
    ),
    "gpus.xid": Cases(
        green=[GB300, log(13, 31, 43)],
        red=[Red(log(13, 79), "Xid 79 on 00000009:06:00.0"), Red(log(48, lines=0), "Xid 48")],
        garbage=[replace(GB300, kernel_log=GONE), log(lines=0), log(lines=-3), log(13, lines=0)],
    ),
    "gpus.mig": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, mig_current=True), f"{SECOND} now: on"),
            Red(gpu(GB300, 1, mig_pending=True), f"{SECOND} after a reset: on"),
        ],
        garbage=unreadable("mig_current", "mig_pending"),
    ),
    "gpus.compute_mode": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, compute_mode="Exclusive_Process"), f"{SECOND}: Exclusive_Process")],
        garbage=[*unreadable("compute_mode"), gpu(GB300, 1, compute_mode="")],
    ),
    "gpus.power_limit": Cases(
        not_applicable=NO_LIMITS,
        green=[
            GB300,
            B300,
            every_gpu(GB300, power_limit_w=1300.0, power_default_w=1300.0),
            every_gpu(GB300, power_default_w=GONE),
        ],
        red=[Red(gpu(GB300, 1, power_limit_w=900.0), f"{SECOND}: 900 W, the board's default is 1400 W")],
        garbage=[
            *unreadable("power_limit_w"),
            gpu(GB300, 1, power_limit_w=900.0, power_default_w=GONE),
            gpu(GB300, 1, power_limit_w=-1.0, power_default_w=-1.0),
            gpu(GB300, 1, power_limit_w=0.0, power_default_w=0.0),
        ],
    ),
    "gpus.slowdown": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, slowdown_reasons=("hw_thermal_slowdown",)), f"{SECOND}: hw_thermal_slowdown")],
        garbage=unreadable("slowdown_reasons"),
    ),
    "gpus.idle": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, processes=(GpuProcess(4242, "python3", GONE),)), f"{SECOND}: process 4242 python3")],
        garbage=unreadable("processes"),
        not_applicable=SERVING,
    ),
    "gpus.pcie_width": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, pcie_width=8), f"{SECOND}: x8 of x16")],
        garbage=[
            *unreadable("pcie_width", "pcie_width_max"),
            gpu(GB300, 1, pcie_width=0, pcie_width_max=0),
            gpu(GB300, 1, pcie_width=-1, pcie_width_max=-1),
        ],
    ),
    "gpus.persistence": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 2, persistence=False), "GPU 2 (00000018:06:00.0): off"),
            Red(gpu(gpu(GB300, 0, persistence=GONE), 2, persistence=False), "GPU 2"),
        ],
        garbage=[every_gpu(GB300, persistence=GONE), gpu(GB300, 1, persistence=GONE), smi(GB300, gpus=())],
        not_applicable=strangers("gb300"),
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_an_unread_nvidia_smi_is_blocked_by_its_cause() -> None:
    mismatch = Missing("nvidia-smi: Failed to initialize NVML: Driver/library version mismatch")
    facts = driver(replace(GB300, smi=mismatch), library_version="580.159.04")
    for requirement in ("gpus.query", "gpus.memory", "gpus.xid", "nvlink.fabric_state"):
        found = outcome(requirement, facts)
        if requirement != "gpus.xid":
            assert (found.status, found.blocked_by) == (Status.BLOCKED, "gpu_driver.lockstep"), requirement
            assert "mismatch" in found.reason


def test_the_fixture_has_the_size_of_the_baseline() -> None:
    asked: GpuBaseline = baseline("gb300").gpus
    assert asked.count == len(PCI["gb300"]) and baseline("gb300").driver.version == DRIVER
