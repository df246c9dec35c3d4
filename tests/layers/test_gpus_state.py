"""Layer gpus: wear, errors and identity of NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import resolve
from rackproof.facts import KernelLogFacts, NodeFacts, Xid
from rackproof.facts_pci import PciFacts
from rackproof.facts_system import KernelState, NumaNode, SXid, SystemFacts
from rackproof.verdict.model import Severity, Status

from .cases import Cases, Red, outcome, verify
from .fixtures import DRIVER, GONE, MIB, PCI, baseline, driver, every_gpu, gpu, node, smi, strangers
from .fixtures_gpus import details, kernel_events, systems

GB300 = node()
B300 = node("b300", "b300-01")
NO_SMI = replace(GB300, smi=GONE)
SECOND = "GPU 1 (00000009:06:00.0)"
SERVING = resolve(site.shipped().overlaid({"gpus": {"expect_idle": False}}, "test"), hardware_id="gb300")
H200 = strangers("h200")
AMD = baseline("mi355x")
KNOWN_BOARDS = replace(baseline("gb300"), gpus=replace(baseline("gb300").gpus, pci_subsystem_ids=("10de:20e5",)))
UNKNOWN_BOARDS = replace(baseline("gb300"), gpus=replace(baseline("gb300").gpus, pci_subsystem_ids=None))


def unreadable(*fields: str) -> list[NodeFacts]:
    """Every way in which these fields of Gpu.detail can be missing."""
    gone: list[dict[str, Any]] = [{field: GONE} for field in fields]
    return [
        NO_SMI,
        smi(GB300, gpus=()),
        every_gpu(GB300, detail=GONE),
        *(details(GB300, **change) for change in gone),
        *(details(GB300, 3, **change) for change in gone),
    ]


def log(*said: tuple[int, str], lines: int = 4711) -> NodeFacts:
    xids = tuple(Xid(code, PCI["gb300"][1], text) for code, text in said)
    return replace(GB300, kernel_log=KernelLogFacts(lines, "journalctl -k", xids))


UNREAD_LOG = [replace(GB300, kernel_log=GONE), log(lines=0), log(lines=-3)]


def sxids(*found: SXid) -> NodeFacts:
    return kernel_events(B300, sxids=found)


def aer(count: Any, index: int | None = None) -> NodeFacts:
    assert isinstance(GB300.pci, PciFacts) and isinstance(GB300.pci.devices, tuple)
    devices = [
        replace(device, aer_fatal=count) if index in (None, number) else device
        for number, device in enumerate(GB300.pci.devices)
    ]
    return replace(GB300, pci=replace(GB300.pci, devices=tuple(devices)))


def numa(*nodes: NumaNode) -> NodeFacts:
    assert isinstance(GB300.system, SystemFacts) and isinstance(GB300.system.kernel, KernelState)
    return systems(GB300, kernel=replace(GB300.system.kernel, numa=nodes))


def kernel_state(**changes: Any) -> NodeFacts:
    assert isinstance(GB300.system, SystemFacts) and isinstance(GB300.system.kernel, KernelState)
    return systems(GB300, kernel=replace(GB300.system.kernel, **changes))


FATAL = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000)"
NONFATAL = "RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)"
SXID = SXid(12028, "00000000:c1:00.0", True, "Fatal, Link 32 egress non-posted PRIV error")
CPUS = (NumaNode(0, "0-71", 1), NumaNode(1, "72-143", 1))

TABLE = {
    "gpus.memory_idle": Cases(
        green=[GB300, B300, details(GB300, memory_used_bytes=1024 * MIB)],
        red=[Red(details(GB300, 1, memory_used_bytes=40000 * MIB), f"{SECOND}: 39.1 GiB")],
        garbage=[*unreadable("memory_used_bytes"), details(GB300, memory_used_bytes=-1)],
        not_applicable=SERVING,
    ),
    "gpus.memory_idle_tight": Cases(
        green=[(B300, H200), (details(B300, memory_used_bytes=100 * MIB), H200)],
        red=[Red(details(B300, 1, memory_used_bytes=101 * MIB), "GPU 1 (00000000:2e:00.0): 0.1 GiB", H200)],
        garbage=[
            *unreadable("memory_used_bytes"),
            details(B300, memory_used_bytes=-1),
            details(B300, memory_used_bytes=GONE),
            details(B300, 7, memory_used_bytes=GONE),
        ],
        not_applicable=baseline("gb300"),
        garbage_baseline=H200,
    ),
    "gpus.identical": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, memory_bytes=96256 * MIB), f"94.0 GiB: {SECOND}"),
            Red(gpu(GB300, 1, product="NVIDIA GB200"), f"NVIDIA GB200 with 277.5 GiB: {SECOND}"),
            Red(gpu(gpu(GB300, 0, product=GONE), 1, product="NVIDIA GB200"), SECOND),
        ],
        garbage=[NO_SMI, smi(GB300, gpus=()), every_gpu(GB300, memory_bytes=GONE), gpu(GB300, 3, product=GONE)],
    ),
    "gpus.firmware": Cases(
        green=[GB300, B300],
        red=[
            Red(gpu(GB300, 1, vbios="97.10.4A.00.01"), f"VBIOS 97.10.4A.00.01, GSP {DRIVER}: {SECOND}"),
            Red(details(GB300, 1, gsp_firmware="575.57.08"), "GSP 575.57.08"),
        ],
        garbage=[*unreadable("gsp_firmware"), every_gpu(GB300, vbios=GONE), gpu(GB300, 1, vbios=GONE)],
    ),
    "gpus.subsystem_ids": Cases(
        green=[(GB300, KNOWN_BOARDS)],
        red=[Red(details(GB300, 1, subsystem_id="10de:1999"), f"{SECOND}: 10de:1999", KNOWN_BOARDS)],
        garbage=[*unreadable("subsystem_id"), details(GB300, subsystem_id="")],
        not_applicable=UNKNOWN_BOARDS,
        garbage_baseline=KNOWN_BOARDS,
    ),
    "gpus.sram_threshold": Cases(
        green=[GB300, B300],
        red=[Red(details(GB300, 1, sram_threshold_exceeded=True), f"{SECOND}: yes")],
        garbage=unreadable("sram_threshold_exceeded"),
    ),
    "gpus.aggregate_errors": Cases(
        green=[GB300, B300, every_gpu(GB300, ecc_uncorrectable_aggregate=4)],
        red=[Red(gpu(GB300, 1, ecc_uncorrectable_aggregate=5), f"{SECOND}: 5 errors")],
        garbage=[
            NO_SMI,
            every_gpu(GB300, ecc_uncorrectable_aggregate=GONE),
            gpu(GB300, 1, ecc_uncorrectable_aggregate=GONE),
            gpu(GB300, 1, ecc_uncorrectable_aggregate=-1),
        ],
    ),
    "gpus.remapped_rows": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, remapped_uncorrectable=2), f"{SECOND}: 2 rows")],
        garbage=[NO_SMI, gpu(GB300, 1, remapped_uncorrectable=GONE), gpu(GB300, 1, remapped_uncorrectable=-1)],
    ),
    "gpus.repairs": Cases(
        green=[GB300, B300],
        red=[
            Red(details(GB300, 1, channel_repair_pending=True), f"{SECOND} channel repair pending: yes"),
            Red(details(GB300, 1, tpc_repair_pending=True), f"{SECOND} TPC repair pending: yes"),
        ],
        garbage=unreadable("channel_repair_pending", "tpc_repair_pending"),
    ),
    "gpus.unrepairable": Cases(
        green=[GB300, B300],
        red=[Red(details(GB300, 1, unrepairable_memory=True), f"{SECOND}: yes")],
        garbage=unreadable("unrepairable_memory"),
    ),
    "gpus.nvlink_xid": Cases(
        green=[GB300, log((145, NONFATAL)), log((13, "Fatal")), log((79, FATAL))],
        red=[
            Red(log((145, NONFATAL), (149, FATAL)), "Xid 149 on 00000009:06:00.0"),
            Red(log((149, FATAL), lines=0), "Xid 149"),
            Red(log((149, FATAL), (149, NONFATAL), (149, "")), "Xid 149 on 00000009:06:00.0: fatal"),
        ],
        garbage=[*UNREAD_LOG, log((149, NONFATAL), lines=0), log((145, "RLW_RXPIPE XC0 i0 Link 13")), log((145, ""))],
        not_applicable=AMD,
    ),
    "gpus.other_xids": Cases(
        green=[GB300, log((13, "graphics exception"), (43, "stopped processing"), (79, "off the bus"))],
        red=[Red(log((63, "row remap"), (63, "row remap"), (145, NONFATAL)), "Xid 63 on 00000009:06:00.0, Xid 145")],
        garbage=[*UNREAD_LOG, log((13, ""), lines=0)],
        not_applicable=AMD,
    ),
    "gpus.sxid": Cases(
        green=[(B300, H200), (sxids(replace(SXID, fatal=False)), H200)],
        red=[
            Red(sxids(SXID), "SXid 12028 on 00000000:c1:00.0: fatal", H200),
            Red(replace(sxids(SXID), kernel_log=GONE), "SXid 12028", H200),
        ],
        garbage=[
            sxids(replace(SXID, fatal=GONE)),
            systems(B300, kernel_events=GONE),
            replace(B300, system=GONE),
            replace(B300, kernel_log=GONE),
            replace(B300, kernel_log=KernelLogFacts(0, "dmesg", ())),
        ],
        not_applicable=baseline("b300"),
        garbage_baseline=H200,
    ),
    "gpus.confidential_compute": Cases(
        green=[GB300, B300],
        red=[Red(details(GB300, 1, protected_bytes=1024 * MIB), f"{SECOND}: 1.0 GiB protected")],
        garbage=[*unreadable("protected_bytes"), details(GB300, protected_bytes=-1)],
    ),
    "gpus.temperature": Cases(
        green=[GB300, B300, details(GB300, 1, temperature_c=49.0)],
        red=[Red(details(GB300, 1, temperature_c=70.0), f"{SECOND}: +34.5 C")],
        garbage=[*unreadable("temperature_c")],
    ),
    "gpus.sync_boost": Cases(
        green=[GB300, B300],
        red=[Red(details(GB300, 1, sync_boost=True), f"{SECOND}: yes")],
        garbage=unreadable("sync_boost"),
    ),
    "gpus.pcie_generation": Cases(
        green=[GB300, B300],
        red=[Red(gpu(GB300, 1, pcie_gen=1), f"{SECOND}: generation 1 of 5")],
        garbage=[*unreadable("pcie_gen_max"), every_gpu(GB300, pcie_gen=GONE), details(every_gpu(GB300, pcie_gen=0), pcie_gen_max=0)],
    ),
    "gpus.pcie_replays": Cases(
        green=[GB300, B300],
        red=[Red(details(GB300, 1, pcie_replays=7), f"{SECOND}: 7 replays")],
        garbage=[*unreadable("pcie_replays"), details(GB300, pcie_replays=-1)],
    ),
    "gpus.aer": Cases(
        green=[GB300, B300, node("mi355x", "mi355x-01")],
        red=[Red(aer(2, 1), f"{SECOND}: 2 errors")],
        garbage=[
            NO_SMI,
            aer(GONE),
            aer(GONE, 3),
            aer(-1),
            replace(GB300, pci=GONE),
            replace(GB300, pci=PciFacts((), GONE, GONE)),
        ],
    ),
    "gpus.holders": Cases(
        green=[GB300],
        red=[Red(driver(GB300, holders=("python3 (4242)",)), "python3 (4242)")],
        garbage=[driver(GB300, holders=GONE), driver(GB300, holders=("",))],
        not_applicable=SERVING,
    ),
    "gpus.inventory": Cases(
        green=[GB300, B300, node("mi355x", "mi355x-01")],
        red=[
            Red(gpu(GB300, 1, uuid="GPU-tray01-0"), "listed twice: GPU-tray01-0"),
            Red(every_gpu(GB300, serial="0"), "listed twice: serial 0"),
        ],
        garbage=[NO_SMI, smi(GB300, gpus=()), every_gpu(GB300, uuid=GONE), gpu(GB300, 3, serial=GONE)],
    ),
    "gpus.c2c": Cases(
        green=[GB300],
        red=[Red(details(GB300, 1, c2c=False), f"{SECOND}: off")],
        garbage=unreadable("c2c"),
        not_applicable=baseline("b300"),
    ),
    "gpus.addressing_mode": Cases(
        green=[GB300, details(GB300, addressing_mode="HMM")],
        red=[Red(details(GB300, 1, addressing_mode="HMM"), f"HMM: {SECOND}")],
        garbage=[*unreadable("addressing_mode"), details(GB300, addressing_mode="")],
        not_applicable=baseline("b300"),
    ),
    "gpus.memory_nodes": Cases(
        green=[GB300, numa(*CPUS)],
        red=[
            Red(numa(*CPUS, NumaNode(2, "", 1)), "NUMA nodes of memory alone: 2"),
            Red(numa(*CPUS, *(NumaNode(2 + 8 * n, "", 1) for n in range(4))), "NUMA nodes of memory alone: 2, 10, 18, 26"),
        ],
        garbage=[kernel_state(numa=GONE), systems(GB300, kernel=GONE), replace(GB300, system=GONE)],
        not_applicable=baseline("b300"),
    ),
    "gpus.position": Cases(
        green=[GB300],
        red=[Red(details(GB300, 1, slot=4), f"slot 4, tray 1: {SECOND}")],
        garbage=unreadable("chassis_serial", "slot", "tray"),
        not_applicable=baseline("b300"),
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_errors_of_programs_are_never_counted() -> None:
    programs = log(*((code, "text") for code in baseline("gb300").gpus.application_xids))
    for requirement in ("gpus.xid", "gpus.nvlink_xid", "gpus.other_xids"):
        assert outcome(requirement, programs).status is Status.PASS, requirement


def test_a_link_that_idles_at_a_lower_generation_decides_nothing() -> None:
    found = outcome("gpus.pcie_generation", every_gpu(GB300, pcie_gen=1))
    assert found.status is Status.FAIL and found.requirement.severity is Severity.INFO
