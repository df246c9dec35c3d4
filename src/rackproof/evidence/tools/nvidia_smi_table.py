"""The other two forms of nvidia-smi: its plain table, and `--query-gpu=... --format=csv` with a header line.

The probe does not ask for them, since `-q` says more at the same price; people send them. Both are turned into the
elements of the XML, as in nvidia_smi_text. Layouts: captures of R450 to R610 (R610 renames two fields of the banner).
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement

from rackproof.evidence.tools.nvidia_smi_gpu import parse_gpu
from rackproof.evidence.tools.values import as_int, as_text, one_line, plain
from rackproof.facts import Fact, Gpu, Missing, SmiFacts

MAX_CHARS = 1024 * 1024

_BANNER = re.compile(r"\| NVIDIA-SMI \S+\s+(?:Driver|KMD) Version: (\S+)\s+CUDA (?:UMD )?Version: (\S+)\s*\|")
_FIRST = re.compile(r"\|\s+([0-9]{1,3})  (\S.*?)\s+(On|Off|N/A|ERR!)\s*\|\s*([0-9A-Fa-f:.]{7,16}) +\S+\s*\|\s*(\S+)\s*\|")
_SECOND = re.compile(r"\|[^|/]*?\S*/?\S*.*\|\s*(?:\S+\s*/\s*([0-9]+)\s*MiB|\S+)\s*\|\s*\S+\s+(\S.*?)\s*\|")
_POWER = re.compile(r"/\s*([0-9]+)W\s*\|")
_THIRD = re.compile(r"\|[^|]*\|[^|]*\|\s*(\S+)\s*\|")
_BORDER = re.compile(r"[+|][-+]{20,}[+|]\s*")
_MODES = {"Default": "Default", "E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread",
          "Prohibited": "Prohibited"}  # fmt: skip
_FLAGS = {"On": "Enabled", "Off": "Disabled"}

# field of --query-gpu -> element of the XML
_FIELDS = {
    "name": "product_name", "uuid": "uuid", "serial": "serial", "vbios_version": "vbios_version",
    "persistence_mode": "persistence_mode", "compute_mode": "compute_mode", "memory.total": "fb_memory_usage/total",
    "mig.mode.current": "mig_mode/current_mig", "mig.mode.pending": "mig_mode/pending_mig",
    "ecc.mode.current": "ecc_mode/current_ecc", "ecc.mode.pending": "ecc_mode/pending_ecc",
    "gpu_recovery_action": "gpu_recovery_action", "power.limit": "gpu_power_readings/current_power_limit",
    "power.default_limit": "gpu_power_readings/default_power_limit",
    "pcie.link.gen.current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "fabric.state": "fabric/state", "fabric.status": "fabric/status", "fabric.health.summary": "fabric/health/summary",
    "fabric.cliqueId": "fabric/cliqueId", "fabric.clusterUuid": "fabric/clusterUuid",
}  # fmt: skip
for _word in ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"):
    for _kind in ("event", "throttle"):
        _FIELDS[f"clocks_{_kind}_reasons.{_word}"] = f"clocks_{_kind}_reasons/clocks_{_kind}_reason_{_word}"
_HEADER = re.compile(r"[a-zA-Z0-9_.]+(?: \[[^\]]*\])?")


def parse_table(text: str) -> Fact[SmiFacts]:
    """The plain table, top border to the border below the last GPU. How many GPUs are attached it does not say."""
    lines = [line.rstrip() for line in plain(text[:MAX_CHARS]).splitlines()]
    at = next((number for number, line in enumerate(lines) if _BANNER.fullmatch(line)), None)
    if at is None and any(_FIRST.fullmatch(line) for line in lines):
        return Missing("the nvidia-smi table is cut off at its top")
    if at is None:
        return Missing(f"nvidia-smi printed no table: {one_line(text) or 'empty'}")
    banner = _BANNER.fullmatch(lines[at])
    if at == 0 or not _BORDER.fullmatch(lines[at - 1]) or banner is None:
        return Missing("the nvidia-smi table is cut off at its top")
    starts = [number for number, line in enumerate(lines) if _FIRST.fullmatch(line)]
    found: list[Gpu] = []
    for start in starts:
        if any("Processes:" in line for line in lines[at:start]):
            break
        gpu = _row(lines[start : start + 4])
        if gpu is None or gpu.index != len(found):
            return Missing(f"the nvidia-smi table is damaged at GPU {len(found)}: {one_line(lines[start])}")
        found.append(gpu)
    if not found:
        return Missing("the nvidia-smi table lists no GPU")
    return SmiFacts(
        driver_version=as_text(banner[1], "Driver Version"),
        cuda_version=as_text(banner[2], "CUDA Version"),
        attached=Missing("the table does not say how many GPUs are attached"),
        gpus=tuple(found),
        warnings=_errors(lines),
    )


def _row(lines: list[str]) -> Gpu | None:
    """A GPU of two or three lines and the border below it."""
    first = _FIRST.fullmatch(lines[0])
    border = next((number for number, line in enumerate(lines) if _BORDER.fullmatch(line)), None)
    if first is None or border not in (1, 2, 3):
        return None
    element = Element("gpu", {"id": first[4]})
    name = first[2]
    _set(element, "product_name", Missing(f"product_name: cut to {name!r}") if name.endswith("...") else name)
    _set(element, "persistence_mode", _FLAGS.get(first[3], first[3]))
    if border > 1:
        second, power = _SECOND.fullmatch(lines[1]), _POWER.search(lines[1])
        if second is None:
            return None
        _set(element, "fb_memory_usage/total", f"{second[1]} MiB" if second[1] else "N/A")
        _set(element, "compute_mode", _MODES.get(second[2], "N/A"))
        _set(element, "gpu_power_readings/current_power_limit", f"{power[1]} W" if power else "N/A")
    if border > 2:
        third = _THIRD.fullmatch(lines[2])
        if third is None:
            return None
        _set(element, "mig_mode/current_mig", third[1].rstrip("*"))
    gpu = parse_gpu(element, int(first[1]))
    return replace(
        gpu,
        product=Missing(f"product_name: cut to {name!r}") if name.endswith("...") else gpu.product,
        ecc_uncorrectable_volatile=as_int(first[5], "Volatile Uncorr. ECC"),
    )


def parse_csv(text: str) -> Fact[SmiFacts]:
    """Rows below a header line of field names, with or without units behind the values. `count` is what is attached.

    Lines that are no row (a lost device handle) become warnings; a header is needed to know what a column is.
    """
    lines = [line for line in plain(text[:MAX_CHARS]).splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        return Missing(f"nvidia-smi --query-gpu printed no header line: {one_line(text) or 'empty'}")
    names = [name.split(" [")[0] for name in _cells(lines[start])]
    units = [name[:-1].split(" [")[1] if " [" in name else "" for name in _cells(lines[start])]
    rows, warnings = [], [one_line(line) for line in lines[:start]]
    for line in lines[start + 1 :]:
        cells = _cells(line)
        if len(cells) == len(names):
            rows.append(dict(zip(names, map(_with_unit, cells, units), strict=True)))
        else:
            warnings.append(one_line(line))
    if not rows:
        return Missing(f"nvidia-smi --query-gpu printed no row: {one_line(' '.join(warnings)) or 'empty'}")
    versions = {row.get("driver_version") for row in rows}
    counts = {row.get("count") for row in rows}
    return SmiFacts(
        driver_version=as_text(versions.pop() if len(versions) == 1 else None, "driver_version"),
        cuda_version=Missing("cuda_version: not a field of --query-gpu"),
        attached=as_int(counts.pop() if len(counts) == 1 else None, "count"),
        gpus=tuple(_csv_gpu(row, place) for place, row in enumerate(rows)),
        warnings=tuple(warnings),
    )


def _csv_gpu(row: dict[str, str], place: int) -> Gpu:
    element = Element("gpu", {"id": row.get("pci.bus_id", "")})
    for field, path in _FIELDS.items():
        if field in row:
            _set(element, path, row[field])
    width, width_max = (
        as_int(row.get(f"pcie.link.width.{which}"), f"pcie.link.width.{which}") for which in ("current", "max")
    )
    index = as_int(row.get("index"), "index")
    return replace(
        parse_gpu(element, index if isinstance(index, int) else place),
        pcie_width=width,
        pcie_width_max=width_max,
        ecc_uncorrectable_volatile=_total(row, "volatile"),
        ecc_uncorrectable_aggregate=_total(row, "aggregate"),
    )


def _total(row: dict[str, str], period: str) -> Fact[int]:
    field = f"ecc.errors.uncorrected.{period}.total"
    return as_int(row.get(field), field)


def _is_header(line: str) -> bool:
    cells = _cells(line)
    return any(cell.split(" [")[0] in (*_FIELDS, "index", "pci.bus_id", "driver_version") for cell in cells) and all(
        _HEADER.fullmatch(cell) for cell in cells
    )


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:
        return []


def _with_unit(cell: str, unit: str) -> str:
    """With `nounits` the unit stands in the header alone."""
    return f"{cell} {unit}" if unit in ("MiB", "W") and re.fullmatch(r"[0-9.]+", cell) else cell


def _set(element: Element, path: str, value: str | Missing) -> None:
    here = element
    for name in path.split("/"):
        below = here.find(name)
        here = SubElement(here, name) if below is None else below
    here.text = value if isinstance(value, str) else "N/A"


def _errors(lines: list[str]) -> tuple[str, ...]:
    """Lines outside the frame that are an error or a warning, and GPUs a handle error names."""
    wanted = ("unable to determine", "warning", "error", "failed")
    return tuple(one_line(line) for line in lines if line[:1] not in "|+ " and line.lower().startswith(wanted))


def parse_list(text: str) -> Fact[tuple[str, ...]]:
    """`nvidia-smi -L`: the name of each GPU in order; MIG devices are left out, any other line hides the answer."""
    found: list[str] = []
    for line in plain(text[:MAX_CHARS]).splitlines():
        match = re.fullmatch(r"GPU ([0-9]{1,3}): (\S.*) \(UUID: \S+\)\s*", line)
        if match and int(match[1]) == len(found):
            found.append(match[2])
        elif line.strip() and not re.match(r"\s+MIG \S+\s+Device ", line):
            return Missing(f"nvidia-smi -L: {one_line(line)}")
    return tuple(found) or Missing(f"nvidia-smi -L lists no GPU: {one_line(text) or 'empty'}")
