"""More of what `nvidia-smi -q -x` says of one GPU: identity of the board, memory, temperatures, fabric health in detail.

facts.Gpu holds what the first checks ask for; this hangs below it as `Gpu.detail`, since not every source has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.facts import Fact, Missing

_NOT_PRINTED: Missing = Missing("not printed")


@dataclass(frozen=True)
class GpuDetail:
    """Names as in the XML. Temperatures are degrees Celsius, power watts, memory bytes."""

    pci_id: Fact[str] = _NOT_PRINTED  # "10de:2941"
    subsystem_id: Fact[str] = _NOT_PRINTED  # "10de:2046"; tells boards of one product apart
    part_number: Fact[str] = _NOT_PRINTED  # board_part_number: "900-2G548-A801-000"
    gsp_firmware: Fact[str] = _NOT_PRINTED
    chassis_serial: Fact[str] = _NOT_PRINTED  # platformInfo, R570 and later
    slot: Fact[int] = _NOT_PRINTED
    tray: Fact[int] = _NOT_PRINTED
    module: Fact[int] = _NOT_PRINTED
    addressing_mode: Fact[str] = _NOT_PRINTED  # ATS | HMM | None
    c2c: Fact[bool] = _NOT_PRINTED  # NVLink-C2C to the Grace CPU
    memory_used_bytes: Fact[int] = _NOT_PRINTED
    memory_reserved_bytes: Fact[int] = _NOT_PRINTED  # by the driver, beside what is used
    protected_bytes: Fact[int] = _NOT_PRINTED  # memory under confidential compute; 0 where it is off
    sram_threshold_exceeded: Fact[bool] = _NOT_PRINTED  # SRAM errors over the life of the board: to be replaced
    channel_repair_pending: Fact[bool] = _NOT_PRINTED  # a reset would repair HBM
    tpc_repair_pending: Fact[bool] = _NOT_PRINTED
    unrepairable_memory: Fact[bool] = _NOT_PRINTED  # R580 and later
    temperature_c: Fact[float] = _NOT_PRINTED
    temperature_margin_c: Fact[float] = _NOT_PRINTED  # gpu_temp_tlimit: how far below the slowdown limit; Hopper and later
    memory_temperature_c: Fact[float] = _NOT_PRINTED
    power_max_w: Fact[float] = _NOT_PRINTED  # the highest limit that may be set
    power_min_w: Fact[float] = _NOT_PRINTED
    pcie_gen_max: Fact[int] = _NOT_PRINTED  # of device and host together
    pcie_replays: Fact[int] = _NOT_PRINTED  # since the driver was loaded
    sync_boost: Fact[bool] = _NOT_PRINTED  # held back by another GPU of its group
    fabric_bandwidth: Fact[str] = _NOT_PRINTED  # Full | Degraded; N/A on HGX is Missing
    fabric_route_recovery: Fact[bool] = _NOT_PRINTED  # in progress now
    fabric_route_unhealthy: Fact[bool] = _NOT_PRINTED
    fabric_access_timeout_recovery: Fact[bool] = _NOT_PRINTED
    # None | Invalid System GUID | Invalid Chassis SN | No Partition | Insufficient NVLinks | ...: "None" is a value here.
    fabric_incorrect_configuration: Fact[str] = _NOT_PRINTED
