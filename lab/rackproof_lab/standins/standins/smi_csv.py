"""nvidia-smi --query-gpu: fields, units and headers as the real one prints them."""

from __future__ import annotations

from . import model, truth

# field -> (value, unit)
FIELDS: dict[str, tuple[str, str]] = {
    "index": ("$index", ""), "name": ("$product_name", ""), "gpu_name": ("$product_name", ""),
    "uuid": ("$uuid", ""), "gpu_uuid": ("$uuid", ""), "serial": ("$serial", ""), "gpu_serial": ("$serial", ""),
    "count": ("$count", ""), "driver_version": ("$driver", ""), "vbios_version": ("$vbios", ""),
    "inforom.img": ("$inforom", ""), "inforom.image": ("$inforom", ""), "inforom.ecc": ("7.16", ""),
    "pci.bus_id": ("$bus_id", ""), "gpu_bus_id": ("$bus_id", ""), "pci.domain": ("0x$pci_domain", ""),
    "pci.bus": ("0x$pci_bus", ""), "pci.device": ("0x$pci_device", ""), "pci.device_id": ("0x$pci_device_id", ""),
    "pci.sub_device_id": ("0x$pci_subsystem_id", ""), "memory.total": ("$memory_total", "MiB"),
    "memory.used": ("$memory_used", "MiB"), "memory.free": ("$memory_free", "MiB"),
    "memory.reserved": ("$memory_reserved", "MiB"), "persistence_mode": ("$persistence_mode", ""),
    "addressing_mode": ("$addressing_mode", ""), "compute_mode": ("$compute_mode", ""),
    "compute_cap": ("$compute_cap", ""),
    "mig.mode.current": ("$mig_current", ""), "mig.mode.pending": ("$mig_pending", ""),
    "ecc.mode.current": ("$ecc_current", ""), "ecc.mode.pending": ("$ecc_pending", ""),
    "ecc.errors.uncorrected.volatile.total": ("$ecc_volatile_dram", ""),
    "ecc.errors.uncorrected.aggregate.total": ("$ecc_aggregate_dram", ""),
    "ecc.errors.uncorrected.volatile.dram": ("$ecc_volatile_dram", ""),
    "ecc.errors.uncorrected.aggregate.dram": ("$ecc_aggregate_dram", ""),
    "ecc.errors.corrected.volatile.total": ("0", ""), "ecc.errors.corrected.aggregate.total": ("0", ""),
    "remapped_rows.correctable": ("$remap_correctable", ""),
    "remapped_rows.uncorrectable": ("$remap_uncorrectable", ""),
    "remapped_rows.pending": ("$remap_pending", ""), "remapped_rows.failure": ("$remap_failure", ""),
    "power.draw": ("$power_draw", "W"), "power.limit": ("$power_limit", "W"),
    "power.default_limit": ("$power_default", "W"),
    "power.max_limit": ("$power_default", "W"), "power.min_limit": ("200.00", "W"), "pstate": ("P0", ""),
    "enforced.power.limit": ("$power_limit", "W"),
    "temperature.gpu": ("$temperature", ""), "temperature.memory": ("$temperature", ""),
    "clocks.max.sm": ("$clock_max", "MHz"), "clocks.max.graphics": ("$clock_max", "MHz"),
    "clocks.max.memory": ("$clock_memory", "MHz"), "clocks.current.sm": ("120", "MHz"), "clocks.sm": ("120", "MHz"),
    "clocks_event_reasons.active": ("$reasons_mask", ""), "clocks_throttle_reasons.active": ("$reasons_mask", ""),
    "pcie.link.gen.current": ("$pcie_gen", ""), "pcie.link.gen.max": ("$pcie_gen_max", ""),
    "pcie.link.gen.gpucurrent": ("$pcie_gen", ""), "pcie.link.gen.gpumax": ("$pcie_gen_device_max", ""),
    "pcie.link.gen.hostmax": ("[N/A]", ""), "pcie.link.width.current": ("$width", ""),
    "pcie.link.width.max": ("16", ""),
    "fabric.state": ("$fabric_state", ""), "fabric.status": ("$fabric_status", ""),
    "gpu_recovery_action": ("$recovery_action", ""), "utilization.gpu": ("0", "%"), "utilization.memory": ("0", "%"),
    "timestamp": ("$now", ""), "gsp.mode.current": ("Enabled", ""), "display_mode": ("Disabled", ""),
}  # fmt: skip
_REASONS = {
    "reason_idle": 0x1, "reason_sw_power": 0x4, "reason_hw_slowdown": 0x8, "reason_sw_thermal": 0x20,
    "reason_hw_thermal": 0x40, "reason_hw_brake": 0x80,
}  # fmt: skip


def query(fields: list[str], style: list[str], gpus: list[truth.Json], driver: str) -> int:
    names = [f.strip() for f in fields]
    for name in names:
        if name not in FIELDS:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    if "noheader" not in style:
        units = "nounits" not in style
        print(", ".join(f"{n} [{FIELDS[n][1]}]" if FIELDS[n][1] and units else n for n in names))
    for gpu in gpus:
        known = _known(gpu, driver, len(gpus))
        print(", ".join(_cell(name, known, "nounits" in style) for name in names))
    return 0


def _cell(name: str, known: dict[str, str], bare: bool) -> str:
    template, unit = FIELDS[name]
    value = model.fill(template, known)
    if value == "N/A":
        return "[N/A]"
    return value if bare or not unit else f"{value} {unit}"


def _known(gpu: truth.Json, driver: str, count: int) -> dict[str, str]:
    import time

    known = model.values(gpu, driver)
    mask = sum(bit for key, bit in _REASONS.items() if known[key] == "Active")
    extra = {
        "count": str(count), "reasons_mask": f"0x{mask:016X}", "width": known["pcie_width"].rstrip("x"),
        "now": time.strftime("%Y/%m/%d %H:%M:%S.000"),
    }  # fmt: skip
    return {**known, **extra}
