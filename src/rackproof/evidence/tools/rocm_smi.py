"""rocm-smi: the JSON of `-a` or of single options, the concise table, and `--showtopo`. ROCm 5.7 to 7.1.

Asked on a node only where amd-smi is not installed. Names of keys differ by version ("Card series", "Card Series").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools import amd_values as v
from rackproof.evidence.tools.values import load_object, one_line, output, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_amd import AmdGpu

_SCRIPT = """
command -v amd-smi >/dev/null && { echo 'amd-smi is asked instead' >&2; exit 0; }
exec rocm-smi --showid --showproductname --showbus --showmeminfo vram --showuniqueid --showmaxpower --showpower \
  --showdriverversion --json
"""

COMMANDS = (Command("rocm_smi", _SCRIPT, requires="rocm-smi", deadline_s=20),)

_END = "End of ROCm SMI Log"
_ROW = re.compile(
    r"([0-9]{1,3})\s+(?:[0-9]{1,3}\s+)?(?:\[(0x[0-9a-f]{4}) : 0x[0-9a-f]{2}\]|(0x[0-9a-f]{4}),\s+[0-9]{1,6})\s+"
    r"(\S+)\s+(\S+)\s+(\w+), (\w+)(?:, [0-9]+)?\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*"
)
_TOPO = re.compile(r"GPU([0-9]{1,3})\s+((?:\w+\s*)+)")


def cards(evidence: Evidence) -> Fact[tuple[AmdGpu, ...]]:
    text = output(evidence, "rocm_smi", "rocm-smi")
    return text if isinstance(text, Missing) else parse_rocm_smi(text)


def parse_rocm_smi(text: str) -> Fact[tuple[AmdGpu, ...]]:
    text = plain(text)
    if re.search(r"^\{", text, re.MULTILINE):
        return _json(text)
    return _table(text)


def _json(text: str) -> Fact[tuple[AmdGpu, ...]]:
    document = load_object(text, "rocm-smi")
    if isinstance(document, Missing):
        return document
    system = document.get("system")
    driver = v.text(v.dig(system, "Driver version"), "Driver version")
    found = []
    for name, card in document.items():
        number = re.fullmatch("card([0-9]{1,3})", name)
        if number and isinstance(card, dict):
            found.append(_card(int(number[1]), {str(key).lower(): value for key, value in card.items()}, driver))
    return tuple(found) or Missing(f"rocm-smi lists no card: {one_line(text)}")


def _card(index: int, card: Mapping[str, object], driver: Fact[str]) -> AmdGpu:
    def get(*names: str) -> object:
        return next((card[name] for name in names if name in card), None)

    vram = "vram total memory (b)"
    power = get("average graphics package power (w)", "current socket graphics package power (w)")
    return AmdGpu(
        index=index,
        pci_address=v.address(get("pci bus"), "PCI Bus"),
        product=v.text(get("card series", "device name"), "Card series"),
        pci_id=v.pci_id(None, get("device id", "gpu id")),
        architecture=v.architecture(get("gfx version"), "GFX Version"),
        uuid=v.text(get("unique id"), "Unique ID"),
        serial=v.text(get("serial number"), "Serial Number"),
        vbios=v.text(get("vbios version"), "VBIOS version"),
        memory_bytes=v.memory(get(vram), vram, "B"),
        memory_used_bytes=v.memory(get("vram total used memory (b)"), "vram total used memory (b)", "B"),
        compute_partition=v.text(get("compute partition"), "Compute Partition"),
        memory_partition=v.text(get("memory partition"), "Memory Partition"),
        power_w=v.quantity(power, "power"),
        power_max_w=v.quantity(get("max graphics package power (w)"), "max power"),
        temperature_c=v.quantity(get("temperature (sensor junction) (c)"), "junction temperature"),
        utilization_percent=v.quantity(get("gpu use (%)"), "GPU use"),
        firmware=_firmware(card),
        driver_version=driver,
    )


def _firmware(card: Mapping[str, object]) -> Fact[dict[str, str]]:
    suffix = " firmware version"
    versions = {key: v.text(value, key) for key, value in card.items() if key.endswith(suffix)}
    found = {key.removesuffix(suffix).upper(): text for key, text in versions.items() if isinstance(text, str)}
    return found or Missing("firmware versions: not printed")


def _table(text: str) -> Fact[tuple[AmdGpu, ...]]:
    """The concise table. Blanks may be no-break spaces in copies; a table without its end is cut off."""
    if _END not in text:
        return Missing(f"rocm-smi: cut off or no table: {one_line(text) or 'empty'}")
    found: list[AmdGpu] = []
    for line in text.splitlines():
        row = _ROW.fullmatch(line.strip())
        if row:
            found.append(_row(row))
        elif found and (name := re.fullmatch(r"\s{4,}(AMD .{1,60}?)\s*", line)):
            found[-1] = AmdGpu(**{**vars(found[-1]), "product": name[1]})
    return tuple(found) or Missing(f"rocm-smi lists no GPU: {one_line(text.replace('=', ''))}")


def _row(row: re.Match[str]) -> AmdGpu:
    cells = row.groups()
    return AmdGpu(
        index=int(cells[0]),
        pci_id=v.pci_id(None, cells[1] or cells[2]),
        temperature_c=v.quantity(cells[3], "Temp", "\u00b0C"),
        power_w=v.quantity(cells[4], "Power", "W"),
        memory_partition=v.text(cells[5], "Partitions"),
        compute_partition=v.text(cells[6], "Partitions"),
        power_limit_w=v.quantity(cells[11], "PwrCap", "W"),
        memory_used_percent=v.quantity(cells[12], "VRAM%", "%"),
        utilization_percent=v.quantity(cells[13], "GPU%", "%"),
    )


def parse_rocm_topo(text: str) -> Fact[Mapping[tuple[int, int], str]]:
    """{(0, 1): "XGMI", ...} from the link-type matrix of --showtopo, as nvidia_topo.parse_topo has it."""
    _, found, rest = plain(text).partition("Link Type between two GPUs")
    rows: dict[int, list[str]] = {}
    columns: list[int] = []
    for line in rest.splitlines()[1:]:
        if line.startswith("="):
            break
        header = re.fullmatch(r"\s*((?:GPU[0-9]{1,3}\s*)+)", line)
        row = _TOPO.fullmatch(line.strip())
        if header:
            columns = [int(number) for number in re.findall(r"[0-9]+", header[1])]
        elif row:
            rows[int(row[1])] = row[2].split()
    whole = columns == list(range(len(columns))) == sorted(rows) and all(len(r) == len(columns) for r in rows.values())
    if not found or not columns or not whole:
        return Missing(f"rocm-smi --showtopo: no complete matrix: {one_line(text.replace('=', '')) or 'empty'}")
    return {(gpu, other): cell for gpu, cells in rows.items() for other, cell in enumerate(cells) if other != gpu}
