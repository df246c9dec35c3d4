"""The less common half of a `<gpu>` element of `nvidia-smi -q -x`; see nvidia_smi_gpu for the other.

Elements come with drivers: platformInfo R570, unrepairable_memory and incorrect_configuration R580. Source: captures of
R515 to R595; DTD v12 and v13.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree.ElementTree import Element

from rackproof.evidence.tools.values import as_bytes, as_flag, as_int, as_quantity, as_text, one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_gpu import GpuDetail

Value = Callable[[str], str | None]  # text of the element at a path below the GPU; None where it is not printed
_LINK = "pci/pci_gpu_link_info/pcie_gen"


def parse_detail(element: Element, value_of: Callable[[Element, str], str | None]) -> GpuDetail:
    """Facts below one `<gpu>`; every one that is not printed, or printed as N/A, is missing with that reason."""

    def value(path: str) -> str | None:
        return value_of(element, path)

    def text(path: str) -> Fact[str]:
        return as_text(value(path), path)

    def number(path: str) -> Fact[int]:
        return as_int(value(path), path)

    def memory(path: str) -> Fact[int]:
        return as_bytes(value(path), path)

    def yes(path: str) -> Fact[bool]:
        return as_flag(value(path), path, "Yes", "No")

    def true(path: str) -> Fact[bool]:
        return as_flag(value(path), path, "True", "False")

    return GpuDetail(
        pci_id=_id(value, "pci/pci_device_id"),
        subsystem_id=_id(value, "pci/pci_sub_system_id"),
        part_number=text("board_part_number"),
        gsp_firmware=text("gsp_firmware_version"),
        chassis_serial=text("platformInfo/chassis_serial_number"),
        slot=number("platformInfo/slot_number"),
        tray=number("platformInfo/tray_index"),
        module=number("platformInfo/module_id"),
        addressing_mode=text("addressing_mode"),
        c2c=as_flag(value("c2c_mode"), "c2c_mode", "Enabled", "Disabled"),
        memory_used_bytes=memory("fb_memory_usage/used"),
        memory_reserved_bytes=memory("fb_memory_usage/reserved"),
        protected_bytes=memory("cc_protected_memory_usage/total"),
        sram_threshold_exceeded=yes("ecc_errors/aggregate/sram_threshold_exceeded"),
        channel_repair_pending=yes("ecc_errors/channel_repair_pending"),
        tpc_repair_pending=yes("ecc_errors/tpc_repair_pending"),
        unrepairable_memory=yes("ecc_errors/unrepairable_memory"),
        temperature_c=_celsius(value, "temperature/gpu_temp"),
        temperature_margin_c=_celsius(value, "temperature/gpu_temp_tlimit"),
        memory_temperature_c=_celsius(value, "temperature/memory_temp"),
        power_max_w=_watts(value, "max_power_limit"),
        power_min_w=_watts(value, "min_power_limit"),
        pcie_gen_max=number(f"{_LINK}/max_link_gen"),
        pcie_replays=number("pci/replay_counter"),
        sync_boost=_sync_boost(value),
        fabric_bandwidth=text("fabric/health/bandwidth"),
        fabric_route_recovery=true("fabric/health/route_recovery_in_progress"),
        fabric_route_unhealthy=true("fabric/health/route_unhealthy"),
        fabric_access_timeout_recovery=true("fabric/health/access_timeout_recovery"),
        fabric_incorrect_configuration=text("fabric/health/incorrect_configuration"),
    )


def _id(value: Value, path: str) -> Fact[str]:
    """ "10de:2941" from "294110DE" or "0x294110DE": the device before the vendor."""
    text = as_text(value(path), path)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"(?:0[xX])?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", text)
    return f"{match[2]}:{match[1]}".lower() if match else Missing(f"{path}: {one_line(text)}")


def _celsius(value: Value, path: str) -> Fact[float]:
    """A margin can be below zero, which as_quantity takes for no number."""
    raw = value(path)
    negative = raw is not None and raw.strip().startswith("-")
    found = as_quantity(raw.strip()[1:] if raw is not None and negative else raw, path, "C")
    return -found if negative and not isinstance(found, Missing) else found


def _watts(value: Value, name: str) -> Fact[float]:
    """Of the GPU alone: `gpu_power_readings`, and `power_readings` up to R530."""
    paths = (f"gpu_power_readings/{name}", f"power_readings/{name}")
    raw = next((text for path in paths if (text := value(path)) is not None), None)
    return as_quantity(raw, paths[0], "W")


def _sync_boost(value: Value) -> Fact[bool]:
    paths = ("clocks_event_reasons/clocks_event_reason_sync_boost", "clocks_throttle_reasons/clocks_throttle_reason_sync_boost")
    raw = next((text for path in paths if (text := value(path)) is not None), None)
    return as_flag(raw, paths[0], "Active", "Not Active")
