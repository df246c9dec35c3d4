"""One `<gpu>` element of `nvidia-smi -q -x`, DTD v11 to v13 (R515 to R620).

Where a name changed between drivers, both are accepted:
- ECC: `sram_uncorrectable` (to R535, and T4 to this day), `sram_uncorrectable_parity` and `_secded` (later)
- slowdowns: `clocks_throttle_reasons` (to R530), `clocks_event_reasons` (later)
- power: `power_readings/power_limit` (to R530), `gpu_power_readings/current_power_limit` (later)
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rackproof.evidence.tools.nvidia_smi_detail import parse_detail
from rackproof.evidence.tools.values import as_bytes, as_flag, as_int, as_quantity, as_text, one_line, pci_address
from rackproof.facts import Fact, Gpu, GpuProcess, Missing

# the name in `clocks_event_reason_*` -> the name in our facts
_SLOWDOWNS = {
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sw_thermal_slowdown": "sw_thermal",
}
_SRAM_KINDS = (("sram_uncorrectable",), ("sram_uncorrectable_parity", "sram_uncorrectable_secded"))


def value_of(element: Element, path: str) -> str | None:
    """Text of the element at "a/b/c"; None where it is not printed.

    A driver that cannot read a block prints one word in its place (`<remapped_rows>N/A</remapped_rows>`); that word is
    then the value of everything below.
    """
    here: Element = element
    for name in path.split("/"):
        below = here.find(name)
        if below is None:
            return here.text if here is not element and len(here) == 0 else None
        here = below
    return here.text or ""


def parse_gpu(element: Element, index: int) -> Gpu:
    """Facts of one GPU. `index` is its place in the list, as `nvidia-smi -i` counts it."""

    def text(path: str) -> Fact[str]:
        return as_text(value_of(element, path), path)

    def flag(path: str, yes: str = "Enabled", no: str = "Disabled") -> Fact[bool]:
        return as_flag(value_of(element, path), path, yes, no)

    def number(path: str, suffix: str = "") -> Fact[int]:
        return as_int(value_of(element, path), path, suffix)

    return Gpu(
        index=index,
        pci_address=_pci(element),
        product=text("product_name"),
        uuid=text("uuid"),
        serial=text("serial"),
        vbios=text("vbios_version"),
        memory_bytes=as_bytes(value_of(element, "fb_memory_usage/total"), "fb_memory_usage/total"),
        persistence=flag("persistence_mode"),
        compute_mode=text("compute_mode"),
        mig_current=flag("mig_mode/current_mig"),
        mig_pending=flag("mig_mode/pending_mig"),
        ecc_current=flag("ecc_mode/current_ecc"),
        ecc_pending=flag("ecc_mode/pending_ecc"),
        ecc_uncorrectable_volatile=_uncorrectable(element, "volatile"),
        ecc_uncorrectable_aggregate=_uncorrectable(element, "aggregate"),
        remap_pending=flag("remapped_rows/remapped_row_pending", "Yes", "No"),
        remap_failure=flag("remapped_rows/remapped_row_failure", "Yes", "No"),
        remapped_uncorrectable=number("remapped_rows/remapped_row_unc"),
        recovery_action=text("gpu_recovery_action"),
        power_limit_w=_watts(element, "current_power_limit", "enforced_power_limit", "power_limit"),
        power_default_w=_watts(element, "default_power_limit"),
        slowdown_reasons=_slowdowns(element),
        pcie_gen=number("pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        pcie_width=number("pci/pci_gpu_link_info/link_widths/current_link_width", "x"),
        pcie_width_max=number("pci/pci_gpu_link_info/link_widths/max_link_width", "x"),
        fabric_state=text("fabric/state"),
        fabric_status=text("fabric/status"),
        fabric_health=text("fabric/health/summary"),
        clique_id=number("fabric/cliqueId"),
        cluster_uuid=text("fabric/clusterUuid"),
        processes=_processes(element),
        detail=parse_detail(element, value_of),
    )


def _pci(element: Element) -> str:
    """The address; an id that is none stays as it is, so that it can equal no real one."""
    raw = element.get("id") or value_of(element, "pci/pci_bus_id") or ""
    return pci_address(raw) or one_line(raw).lower()


def _uncorrectable(element: Element, period: str) -> Fact[int]:
    """SRAM and DRAM errors together.

    A counter this driver has and cannot read makes the sum missing, except that it does not hide errors another
    counter shows: then the sum is a lower bound.
    """
    block = f"ecc_errors/{period}"
    printed = element.find(block)
    if printed is None or len(printed) == 0:
        return as_int(value_of(element, block), block)
    names = {child.tag for child in printed}
    kinds = next((kinds for kinds in _SRAM_KINDS if names.intersection(kinds)), _SRAM_KINDS[0])
    total = 0
    unread: Missing | None = None
    for name in (*kinds, "dram_uncorrectable"):
        count = as_int(value_of(element, f"{block}/{name}"), f"{block}/{name}")
        if isinstance(count, Missing):
            unread = count
        else:
            total += count
    return total if total or unread is None else unread


def _watts(element: Element, *names: str) -> Fact[float]:
    """The first of these limits that the driver prints, in R610 one level deeper ("GPU Ceiling Power Limit").

    `module_power_readings` is GPU and CPU together: not asked.
    """
    for block in ("gpu_power_readings", "power_readings"):
        for name in names:
            raw = value_of(element, f"{block}/{name}")
            if raw is None:
                raw = element.findtext(f"{block}/*/{name}")
            if raw is not None:
                return as_quantity(raw, f"{block}/{name}", "W")
    return Missing(f"gpu_power_readings/{names[0]}: not printed")


def _slowdowns(element: Element) -> Fact[tuple[str, ...]]:
    """Reasons that are active now. One unreadable reason makes "none" unknown, but does not hide an active one."""
    event = element.find("clocks_event_reasons") is not None
    block, prefix = ("clocks_event_reasons", "clocks_event_reason_")
    if not event:
        block, prefix = ("clocks_throttle_reasons", "clocks_throttle_reason_")
    active: list[str] = []
    unread: Missing | None = None
    for printed, name in _SLOWDOWNS.items():
        path = f"{block}/{prefix}{printed}"
        state = as_flag(value_of(element, path), path, "Active", "Not Active")
        if isinstance(state, Missing):
            unread = state
        elif state:
            active.append(name)
    return tuple(active) if active or unread is None else unread


def _processes(element: Element) -> Fact[tuple[GpuProcess, ...]]:
    """Processes on the GPU. The list can be empty while memory is used: other containers' processes are not shown."""
    block = element.find("processes")
    if block is None:
        return Missing("processes: not printed")
    if len(block) == 0 and (block.text or "").strip():
        return Missing(f"processes: {one_line(block.text or '')}")
    found = []
    for entry in block.findall("process_info"):
        pid = as_int(value_of(entry, "pid"), "process_info/pid")
        if isinstance(pid, Missing):
            return pid
        name = as_text(value_of(entry, "process_name"), "process_name")
        used = as_bytes(value_of(entry, "used_memory"), "process_info/used_memory")
        found.append(GpuProcess(pid, name if isinstance(name, str) else "?", used))
    return tuple(found)
