"""What the probe reads of a healthy NVIDIA node beside fixtures.py: GPUs in detail, libraries, kernels, fabric daemons."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

from rackproof.facts import Missing, NodeFacts, SmiFacts
from rackproof.facts_driver import Library
from rackproof.facts_gpu import GpuDetail
from rackproof.facts_pci import PciDevice, PciFacts
from rackproof.facts_system import (
    Candidate,
    DkmsModule,
    FabricEvent,
    FabricManagerFacts,
    KernelEvents,
    KernelFacts,
    KernelState,
    NumaNode,
    NvlinkErrors,
    SystemFacts,
)

DRIVER = "580.126.20"
LIBRARY = "/usr/lib/aarch64-linux-gnu"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
CONFIGURED = FabricEvent("configured", "Successfully configured all the available GPUs and NVSwitches to route NVLink traffic.")
UNTOLD: Any = Missing("not told in this test")


def with_stack(facts: NodeFacts, hardware: str) -> NodeFacts:
    """A node of fixtures.node with the rest of what layers gpu_driver, gpus and nvlink ask."""
    assert isinstance(facts.smi, SmiFacts) and isinstance(facts.driver.loaded_modules, frozenset)
    assert isinstance(facts.host.kernel, str)
    tray, size = hardware == "gb300", len(facts.smi.gpus)
    gpus = tuple(replace(gpu, detail=detail(gpu.index, tray)) for gpu in facts.smi.gpus)
    return replace(
        facts,
        smi=replace(facts.smi, gpus=gpus),
        driver=replace(
            facts.driver,
            loaded_modules=facts.driver.loaded_modules | {"mlx5_ib", "ib_umad"},
            device_nodes=(*(f"nvidia{index}" for index in range(size)), "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"),
            libraries=tuple(library(name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")),
            holders=(),
        ),
        nvlink=replace(
            facts.nvlink,
            imex_config={"SERVER_PORT": "50000", "IMEX_WAIT_FOR_QUORUM": "RECOVERY"} if tray else None,
            imex_major=tray,
            imex_channel_modes={CHANNEL: "666"} if tray else {},
            p2p=dict.fromkeys(permutations(range(size), 2), "OK"),
            errors=tuple(NvlinkErrors(gpu, link, dict(COUNTERS)) for gpu in range(size) for link in range(18)),
        ),
        system=system(facts.system, facts.host.kernel, tray),
        pci=with_gpus(facts.pci, tuple(gpu.pci_address for gpu in gpus)),
    )


COUNTERS = {"Replay Errors": 0, "Recovery Errors": 0, "CRC Errors": 0}


def detail(index: int, tray: bool) -> GpuDetail:
    return GpuDetail(
        pci_id="10de:31c2" if tray else "10de:3182",
        subsystem_id="10de:20e5",
        part_number="900-2G548-A801-000",
        gsp_firmware=DRIVER,
        chassis_serial="1820225000001",
        slot=3,
        tray=1,
        module=index,
        addressing_mode="ATS" if tray else "None",
        c2c=True if tray else Missing("c2c_mode: N/A"),
        memory_used_bytes=0,
        memory_reserved_bytes=600 * 1024**2,
        protected_bytes=0,
        sram_threshold_exceeded=False,
        channel_repair_pending=False,
        tpc_repair_pending=False,
        unrepairable_memory=False,
        temperature_c=33.0 + index,
        temperature_margin_c=54.0,
        memory_temperature_c=35.0,
        power_max_w=1400.0,
        power_min_w=200.0,
        pcie_gen_max=5,
        pcie_replays=0,
        sync_boost=False,
        fabric_bandwidth="Full" if tray else Missing("fabric/health/bandwidth: N/A"),
        fabric_route_recovery=False,
        fabric_route_unhealthy=False,
        fabric_access_timeout_recovery=False,
        fabric_incorrect_configuration="None" if tray else Missing("fabric/health/incorrect_configuration: N/A"),
    )


def library(name: str, version: str = DRIVER, size: int = 123456) -> Library:
    target = f"{LIBRARY}/{name.removesuffix('.1')}.{version}"
    return Library(name, f"{LIBRARY}/{name}", target, version, size)


def system(facts: Any, kernel: str, tray: bool) -> SystemFacts:
    found = facts if isinstance(facts, SystemFacts) else SystemFacts()
    manager = FabricManagerFacts(DRIVER, "0", (CONFIGURED,), ())
    state = found.kernel if isinstance(found.kernel, KernelState) else _state()
    nodes = (NumaNode(0, "0-71", 480 * 1024**3), NumaNode(1, "72-143", 480 * 1024**3))
    return replace(
        found,
        kernel=replace(state, numa=nodes),
        kernels=KernelFacts({kernel: DRIVER}, kernel, (DkmsModule("nvidia", DRIVER, kernel, "installed"),)),
        kernel_events=KernelEvents((), (), (), (), "2026-11-01T00:00:00", 3),
        candidates={"curl": Candidate("8.5.0-2ubuntu10.5", "8.5.0-2ubuntu10.6")},
        held=(),
        versionlocks=(),
        fabric_manager=Missing("nv-fabricmanager is not installed") if tray else manager,
    )


def _state() -> KernelState:
    fields = KernelState.__dataclass_fields__
    return KernelState(**dict.fromkeys(fields, UNTOLD))


def with_gpus(pci: Any, addresses: tuple[str, ...], pci_id: str = "10de:31c2") -> PciFacts:
    """PCI facts with these GPUs beside whatever is listed already."""
    found = pci if isinstance(pci, PciFacts) else PciFacts((), UNTOLD, UNTOLD)
    listed = {one.address: one for one in found.devices} if isinstance(found.devices, tuple) else {}
    gpus = tuple(
        replace(
            listed.pop(address, PciDevice(address)), id=pci_id, class_code="1200" if pci_id.startswith("1002") else "0302",
            link_speed=32e9, link_speed_max=32e9, link_width=16, link_width_max=16,
            aer_fatal=0, aer_nonfatal=0, aer_correctable=0,
        )
        for address in addresses
    )  # fmt: skip
    return replace(found, devices=(*gpus, *listed.values()))


def details(facts: NodeFacts, index: int | None = None, **changes: Any) -> NodeFacts:
    """Fields of Gpu.detail changed, of one GPU or of all."""
    assert isinstance(facts.smi, SmiFacts)
    gpus = tuple(
        replace(gpu, detail=replace(gpu.detail, **changes))  # type: ignore[type-var]
        if index in (None, gpu.index)
        else gpu
        for gpu in facts.smi.gpus
    )
    return replace(facts, smi=replace(facts.smi, gpus=gpus))


def systems(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts)
    return replace(facts, system=replace(facts.system, **changes))


def kernel_events(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts) and isinstance(facts.system.kernel_events, KernelEvents)
    return systems(facts, kernel_events=replace(facts.system.kernel_events, **changes))
