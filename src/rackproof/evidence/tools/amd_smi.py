"""amd-smi: static, metric, process, bad-pages, firmware, list and partition, of AMD SMI 24 (ROCm 6) to 26 (ROCm 7).

Every function reads any subcommand in any form; what a subcommand does not print is missing. amd-smi may take half a
second a call, and hangs with a wedged driver, so each subcommand is a section with a deadline of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools import amd_values as v
from rackproof.evidence.tools.amd_smi_forms import Record, records
from rackproof.evidence.tools.values import one_line, output
from rackproof.facts import Fact, GpuProcess, Missing
from rackproof.facts_amd import AmdGpu, join

COMMANDS = tuple(
    Command(f"amd_smi_{name.replace('-', '_')}", f"amd-smi {name} --json", requires="amd-smi", root=root, deadline_s=20)
    for name, root in (
        ("static", Root.HELPS), ("metric", Root.HELPS), ("process", Root.HELPS), ("bad-pages", Root.HELPS),
        ("firmware", Root.HELPS),
    )
)  # fmt: skip

_NONE_RUNNING = "no running processes detected"
_NO_BAD_PAGES = "no bad pages found"


def static(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    return _section(evidence, "static")


def metric(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    return _section(evidence, "metric")


def process(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    return _section(evidence, "process")


def bad_pages(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    return _section(evidence, "bad_pages")


def firmware(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    return _section(evidence, "firmware")


def _section(evidence: Evidence, name: str) -> Fact[tuple[AmdGpu, ...]]:
    text = output(evidence, f"amd_smi_{name}", "amd-smi")
    return text if isinstance(text, Missing) else parse_amd_smi(text)


def parse_amd_smi(text: str) -> Fact[tuple[AmdGpu, ...]]:
    """GPUs with all that this output says of them. Entries of one GPU (a CSV row a process) are joined."""
    found = records(text)
    if isinstance(found, Missing):
        return found
    gpus = join(*((_gpu(record),) for record in found))
    if isinstance(gpus, Missing):
        return gpus
    rows: dict[int, list[GpuProcess]] = {}
    for index, record in found:
        listed = _processes(record)
        if not isinstance(listed, Missing):
            rows.setdefault(index, []).extend(listed)
    return tuple(
        gpu if gpu.index not in rows else AmdGpu(**{**vars(gpu), "processes": tuple(rows[gpu.index])}) for gpu in gpus
    )


def _gpu(entry: Record) -> AmdGpu:
    index, r = entry
    return AmdGpu(
        index=index,
        pci_address=v.address(v.first(r, "bus.bdf", "bdf", "gpu_bdf"), "bdf"),
        product=v.text(v.first(r, "asic.market_name"), "market_name"),
        pci_id=v.pci_id(v.dig(r, "asic.vendor_id"), v.dig(r, "asic.device_id")),
        architecture=v.architecture(v.dig(r, "asic.target_graphics_version"), "target_graphics_version"),
        compute_units=v.whole(v.dig(r, "asic.num_compute_units"), "num_compute_units"),
        uuid=v.text(v.first(r, "uuid", "gpu_uuid"), "uuid"),
        serial=v.text(v.first(r, "asic.asic_serial"), "asic_serial"),
        vbios=v.text(v.first(r, "vbios.version", "ifwi.version", "vbios.part_number", "vbios.name"), "vbios"),
        memory_bytes=v.memory(v.first(r, "vram.size", "mem_usage.total_vram", "fb_usage.total_vram"), "vram"),
        memory_used_bytes=v.memory(v.first(r, "mem_usage.used_vram", "fb_usage.used_vram"), "used_vram"),
        compute_partition=v.text(
            v.first(r, "partition.compute_partition", "partition.accelerator_partition", "accelerator_type"),
            "compute_partition",
        ),
        memory_partition=v.text(v.first(r, "partition.memory_partition", "memory"), "memory_partition"),
        ecc_uncorrectable_volatile=v.whole(v.dig(r, "ecc.total_uncorrectable_count"), "total_uncorrectable_count"),
        ecc_correctable_volatile=v.whole(v.dig(r, "ecc.total_correctable_count"), "total_correctable_count"),
        ecc_deferred_volatile=v.whole(v.dig(r, "ecc.total_deferred_count"), "total_deferred_count"),
        poison_enabled=v.flag(v.dig(r, "ras.poison_schema"), "poison_schema", "ENABLED", "DISABLED"),
        bad_pages_retired=_pages(r, "retired"),
        bad_pages_pending=_pages(r, "pending"),
        bad_pages_unreservable=_pages(r, "un_res"),
        power_w=v.quantity(v.first(r, "power.socket_power", "power.current_socket_power"), "power", "W"),
        power_limit_w=v.quantity(
            v.first(r, "limit.socket_power", "limit.ppt0.socket_power_limit"), "limit.socket_power", "W"
        ),
        power_max_w=v.quantity(v.first(r, "limit.ppt0.max_power_limit", "limit.max_power"), "limit.max_power", "W"),
        throttled=v.flag(v.dig(r, "power.throttle_status"), "throttle_status", "THROTTLED", "UNTHROTTLED"),
        temperature_c=v.quantity(v.dig(r, "temperature.hotspot"), "hotspot", "C", "\u00b0C"),
        utilization_percent=v.quantity(v.dig(r, "usage.gfx_activity"), "gfx_activity", "%"),
        pcie_speed=v.transfers(v.dig(r, "pcie.speed"), "pcie.speed"),
        pcie_speed_max=v.transfers(v.dig(r, "bus.max_pcie_speed"), "max_pcie_speed"),
        pcie_width=v.whole(v.dig(r, "pcie.width"), "pcie.width"),
        pcie_width_max=v.whole(v.dig(r, "bus.max_pcie_width"), "max_pcie_width"),
        firmware=_firmware(r),
        driver_version=_driver(r),
        processes=_processes(r),
    )


def _driver(record: dict[str, object]) -> Fact[str]:
    """The module's version; of a module that has none amd-smi prints the kernel's banner without blanks."""
    version = v.text(v.first(record, "driver.version", "driver.driver_version"), "driver version")
    if isinstance(version, Missing) or version[:1].isdigit():
        return version
    return Missing(f"amdgpu has no version, amd-smi prints {one_line(version, 60)}")


def _pages(record: dict[str, object], name: str) -> Fact[int]:
    """How many pages are listed; amd-smi writes a sentence where there are none."""
    value = record.get(name)
    if isinstance(value, str) and value.lower().rstrip(".") == _NO_BAD_PAGES:
        return 0
    listed = list(_page_entries(value, 0))
    if listed:
        return len(listed)
    said = v.written(value)
    return Missing(f"bad pages {name}: {one_line(said) if said else 'not printed'}")


def _page_entries(value: object, depth: int) -> Iterator[object]:
    """Every entry with an address, in lists (JSON) or repeated blocks (text)."""
    if depth > 6:
        return
    if isinstance(value, list):
        for item in value:
            yield from _page_entries(item, depth + 1)
    elif isinstance(value, dict):
        if any("address" in str(key) for key in value):
            yield value
        else:
            for item in value.values():
                yield from _page_entries(item, depth + 1)


def _firmware(record: dict[str, object]) -> Fact[dict[str, str]]:
    """Name -> version; {"fw_list": [{"fw_id": ..., "fw_version": ...}]}, or blocks "FW 0" in text."""
    listed = record.get("fw_list")
    entries = listed if isinstance(listed, list) else list(listed.values()) if isinstance(listed, dict) else []
    found = {}
    for entry in entries:
        name, version = v.written(v.first(entry, "fw_id", "fw_name")), v.written(v.dig(entry, "fw_version"))
        if name and version:
            found[name] = version
    return found or Missing("fw_list: not printed")


def _processes(record: dict[str, object]) -> Fact[tuple[GpuProcess, ...]]:
    """Processes of the GPU; () where amd-smi says that none is running. 0 B of memory is normal for one."""
    listed = record.get("process_list", record.get("process_info"))
    if listed is None:
        return Missing("processes: not printed")
    found = []
    for entry in listed if isinstance(listed, list) else [listed]:
        info = entry.get("process_info", entry) if isinstance(entry, dict) else entry
        if isinstance(info, str) and info.strip().lower().rstrip(".") == _NONE_RUNNING:
            continue
        pid = v.whole(v.dig(info, "pid"), "pid") if isinstance(info, dict) else Missing("processes: not a list")
        if isinstance(pid, Missing):
            return pid
        name = v.text(v.dig(info, "name"), "name")
        used = v.memory(v.first(info, "memory_usage.vram_mem", "vram_mem"), "vram_mem", "B")
        found.append(GpuProcess(pid, name if isinstance(name, str) else "?", used))
    return tuple(found)
