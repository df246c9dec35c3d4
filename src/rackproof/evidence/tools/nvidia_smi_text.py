"""`nvidia-smi -q`: the report as indented text, R450 to R620. What is read when the XML cannot be used.

The labels are turned into the elements of the XML, so that one function (nvidia_smi_gpu) knows what a GPU is. Text has
no closing tag; what is cut off is simply not printed, and so missing. Source: captures of R510 to R610.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from rackproof.evidence.tools.nvidia_smi_gpu import parse_gpu
from rackproof.evidence.tools.values import as_int, as_text, one_line, plain
from rackproof.facts import Fact, Gpu, Missing, SmiFacts

MAX_CHARS = 8 * 1024 * 1024
MAX_DEPTH = 12

_LINE = re.compile(r"( *)(\S.*?)\s*(?:\s: ?(.*)|)")
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_NOTE = re.compile(r"\s*\[[^\]]*\]\s*$")  # "610.57.04 [Deprecated; will be removed in CUDA 14.0 ...]"

# label path below the GPU -> element path in the XML
_LABELS = {
    "Product Name": "product_name",
    "GPU UUID": "uuid",
    "Serial Number": "serial",
    "VBIOS Version": "vbios_version",
    "Persistence Mode": "persistence_mode",
    "Compute Mode": "compute_mode",
    "MIG Mode": "mig_mode",
    "MIG Mode/Current": "mig_mode/current_mig",
    "MIG Mode/Pending": "mig_mode/pending_mig",
    "GPU Recovery Action": "gpu_recovery_action",
    "PCI/Bus Id": "pci/pci_bus_id",
    "PCI/GPU Link Info/PCIe Generation/Current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "PCI/GPU Link Info/Link Width/Current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "PCI/GPU Link Info/Link Width/Max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "FB Memory Usage": "fb_memory_usage",
    "FB Memory Usage/Total": "fb_memory_usage/total",
    "ECC Mode": "ecc_mode",
    "ECC Mode/Current": "ecc_mode/current_ecc",
    "ECC Mode/Pending": "ecc_mode/pending_ecc",
    "ECC Errors": "ecc_errors",
    "Remapped Rows": "remapped_rows",
    "Remapped Rows/Uncorrectable Error": "remapped_rows/remapped_row_unc",
    "Remapped Rows/Pending": "remapped_rows/remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows/remapped_row_failure",
    "Power Readings/Power Limit": "power_readings/power_limit",
    "Power Readings/Enforced Power Limit": "power_readings/enforced_power_limit",
    "Power Readings/Default Power Limit": "power_readings/default_power_limit",
    "GPU Power Readings/Current Power Limit": "gpu_power_readings/current_power_limit",
    "GPU Power Readings/Default Power Limit": "gpu_power_readings/default_power_limit",
    "GPU Power Readings/GPU Ceiling Power Limit/Current Power Limit": "gpu_power_readings/current_power_limit",
    "GPU Power Readings/GPU Ceiling Power Limit/Default Power Limit": "gpu_power_readings/default_power_limit",
    "Fabric": "fabric",
    "Fabric/State": "fabric/state",
    "Fabric/Status": "fabric/status",
    "Fabric/CliqueId": "fabric/cliqueId",
    "Fabric/ClusterUUID": "fabric/clusterUuid",
    "Fabric/Health": "fabric/health",
    "Fabric/Health/Summary": "fabric/health/summary",
    "Processes": "processes",
}
for _period in ("Volatile", "Aggregate"):
    _LABELS[f"ECC Errors/{_period}"] = f"ecc_errors/{_period.lower()}"
    for _label, _tag in {
        "SRAM Uncorrectable": "sram_uncorrectable",
        "SRAM Uncorrectable Parity": "sram_uncorrectable_parity",
        "SRAM Uncorrectable SEC-DED": "sram_uncorrectable_secded",
        "DRAM Uncorrectable": "dram_uncorrectable",
    }.items():
        _LABELS[f"ECC Errors/{_period}/{_label}"] = f"ecc_errors/{_period.lower()}/{_tag}"
for _block, _start in {
    "Clocks Event Reasons": "clocks_event_reasons/clocks_event_reason_",
    "Clocks Throttle Reasons": "clocks_throttle_reasons/clocks_throttle_reason_",
}.items():
    _LABELS[f"{_block}/HW Slowdown"] = f"{_start}hw_slowdown"
    _LABELS[f"{_block}/HW Slowdown/HW Thermal Slowdown"] = f"{_start}hw_thermal_slowdown"
    _LABELS[f"{_block}/HW Slowdown/HW Power Brake Slowdown"] = f"{_start}hw_power_brake_slowdown"
    _LABELS[f"{_block}/SW Thermal Slowdown"] = f"{_start}sw_thermal_slowdown"

# The other half of a GPU (nvidia_smi_detail).
_LABELS |= {
    "PCI/Device Id": "pci/pci_device_id",
    "PCI/Sub System Id": "pci/pci_sub_system_id",
    "PCI/Replays Since Reset": "pci/replay_counter",
    "PCI/GPU Link Info/PCIe Generation/Max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "Board Part Number": "board_part_number",
    "GSP Firmware Version": "gsp_firmware_version",
    "Platform Info/Chassis Serial Number": "platformInfo/chassis_serial_number",
    "Platform Info/Slot Number": "platformInfo/slot_number",
    "Platform Info/Tray Index": "platformInfo/tray_index",
    "Platform Info/Module Id": "platformInfo/module_id",
    "Addressing Mode": "addressing_mode",
    "GPU C2C Mode": "c2c_mode",
    "FB Memory Usage/Used": "fb_memory_usage/used",
    "FB Memory Usage/Reserved": "fb_memory_usage/reserved",
    "Conf Compute Protected Memory Usage": "cc_protected_memory_usage",
    "Conf Compute Protected Memory Usage/Total": "cc_protected_memory_usage/total",
    "ECC Errors/Aggregate/SRAM Threshold Exceeded": "ecc_errors/aggregate/sram_threshold_exceeded",
    "ECC Errors/Channel Repair Pending": "ecc_errors/channel_repair_pending",
    "ECC Errors/TPC Repair Pending": "ecc_errors/tpc_repair_pending",
    "ECC Errors/Unrepairable Memory": "ecc_errors/unrepairable_memory",
    "Temperature/GPU Current Temp": "temperature/gpu_temp",
    "Temperature/GPU T.Limit Temp": "temperature/gpu_temp_tlimit",
    "Temperature/Memory Current Temp": "temperature/memory_temp",
    "Clocks Event Reasons/Sync Boost": "clocks_event_reasons/clocks_event_reason_sync_boost",
    "Clocks Throttle Reasons/Sync Boost": "clocks_throttle_reasons/clocks_throttle_reason_sync_boost",
    "Fabric/Health/Bandwidth": "fabric/health/bandwidth",
    "Fabric/Health/Route Recovery in progress": "fabric/health/route_recovery_in_progress",
    "Fabric/Health/Route Unhealthy": "fabric/health/route_unhealthy",
    "Fabric/Health/Access Timeout Recovery": "fabric/health/access_timeout_recovery",
    "Fabric/Health/Incorrect Configuration": "fabric/health/incorrect_configuration",
}
for _label, _tag in {"Max Power Limit": "max_power_limit", "Min Power Limit": "min_power_limit"}.items():
    _LABELS[f"Power Readings/{_label}"] = f"power_readings/{_tag}"
    _LABELS[f"GPU Power Readings/{_label}"] = f"gpu_power_readings/{_tag}"

_PROCESS = {"Name": "process_name", "Used GPU Memory": "used_memory"}


def parse_text(text: str) -> Fact[SmiFacts]:
    """The facts of every GPU the text describes. An excerpt gives what it holds; whole() says whether it is one."""
    if len(text) > MAX_CHARS:
        return Missing(f"the text is larger than {MAX_CHARS} characters")
    lines = plain(text).replace("\u00a0", " ").expandtabs(4).splitlines()
    starts = [number for number, line in enumerate(lines) if _GPU.fullmatch(line)]
    if not starts:
        return Missing(f"nvidia-smi -q describes no GPU: {one_line(text) or 'empty'}")
    head = {label: value for path, value in _entries(lines[: starts[0]]) if value for label in path[-1:]}
    ends = [*starts[1:], len(lines)]
    return SmiFacts(
        driver_version=as_text(_version(head, "KMD Version", "Driver Version"), "Driver Version"),
        cuda_version=as_text(_version(head, "CUDA UMD Version", "CUDA Version"), "CUDA Version"),
        attached=as_int(head.get("Attached GPUs"), "Attached GPUs"),
        gpus=tuple(_gpu(lines[start:end], index) for index, (start, end) in enumerate(zip(starts, ends, strict=True))),
    )


def whole(facts: SmiFacts) -> bool:
    """Whether the text describes as many GPUs as the driver has attached, each to the end of its block."""
    return facts.attached == len(facts.gpus) and all(isinstance(gpu.processes, tuple) for gpu in facts.gpus)


def _gpu(lines: list[str], index: int) -> Gpu:
    found = _GPU.fullmatch(lines[0])
    element = Element("gpu", {"id": found[1] if found else ""})
    process: Element | None = None
    for path, value in _entries(lines[1:]):
        if path[0] == "Processes" and len(path) > 1:
            block = _at(element, "processes")
            if path[-1] == "Process ID":
                block.text = None
                process = SubElement(block, "process_info")
                SubElement(process, "pid").text = value
            elif process is not None and path[-1] in _PROCESS:
                SubElement(process, _PROCESS[path[-1]]).text = value
            continue
        tag = _LABELS.get("/".join(path))
        if tag is None:
            continue
        if value is not None:
            _at(element, tag).text = "" if (tag, value) == ("processes", "None") else value
        elif tag == "processes":
            _at(element, tag).text = "the list is cut off"  # a heading promises at least one process
    return parse_gpu(element, index)


def _entries(lines: list[str]) -> Iterator[tuple[list[str], str | None]]:
    """(labels from the outermost to this one, value or None for a heading), by indentation."""
    stack: list[tuple[int, str]] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            continue
        indent = len(match[1])
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if len(stack) < MAX_DEPTH:
            stack.append((indent, match[2]))
        yield [label for _, label in stack], None if match[3] is None else match[3].strip()


def _at(element: Element, path: str) -> Element:
    """The element at a path, made where it is not there yet."""
    here = element
    for name in path.split("/"):
        below = here.find(name)
        here = SubElement(here, name) if below is None else below
    return here


def _version(head: dict[str, str], *labels: str) -> str | None:
    value = next((head[label] for label in labels if label in head), None)
    return None if value is None else _NOTE.sub("", value)
