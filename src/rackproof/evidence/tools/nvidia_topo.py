"""`nvidia-smi topo -m`: how each GPU reaches each other GPU, and `-p2p r`: whether it may read from it. R470 to R620.

A matrix with one row and one column a GPU, then NIC columns and affinities. Cells are divided by tabs (by blanks in
copies); the header is underlined with terminal escapes even in a file. Source: captures of R535 to R590.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing

COMMANDS = (
    Command("nvidia_smi_topo", "nvidia-smi topo -m", requires="nvidia-smi", deadline_s=20),
    Command("nvidia_smi_p2p", "nvidia-smi topo -p2p r", requires="nvidia-smi", deadline_s=20),
)

_HEADER = re.compile(r"\s*GPU0(?:\s+GPU[0-9]+)*(?:\s|$)(?!.*(?:^|\s)X(?:\s|$))")
_P2P = re.compile(r"OK|U|[A-Z]{0,3}NS|DR")  # the legend: CNS chipset, GNS GPU, TNS topology not supported ...
_ROW = re.compile(r"\s*GPU([0-9]{1,3})\s+(.*)")


def gpu_paths(evidence: Evidence) -> Fact[Mapping[tuple[int, int], str]]:
    text = _answer(evidence, "nvidia_smi_topo", "topo -m")
    return text if isinstance(text, Missing) else parse_topo(text)


def p2p(evidence: Evidence) -> Fact[Mapping[tuple[int, int], str]]:
    text = _answer(evidence, "nvidia_smi_p2p", "topo -p2p")
    return text if isinstance(text, Missing) else parse_p2p(text)


def _answer(evidence: Evidence, name: str, what: str) -> str | Missing:
    section = evidence.usable(name, "nvidia-smi")
    if isinstance(section, Missing):
        return section
    if section.rc:
        said = one_line(section.text) or one_line(section.error_text)
        return Missing(f"nvidia-smi {what} ended with exit code {section.rc}: {said}")
    return section.text


def parse_p2p(text: str) -> Fact[Mapping[tuple[int, int], str]]:
    """{(0, 1): "OK", ...} for every ordered pair of two different GPUs, in the words of the legend."""
    pairs = parse_topo(text)
    if isinstance(pairs, Missing):
        return Missing(pairs.reason.replace("topo -m", "topo -p2p"))
    strange = next((word for word in pairs.values() if not _P2P.fullmatch(word)), None)
    return Missing(f"nvidia-smi topo -p2p prints {one_line(strange)}") if strange else pairs


def parse_topo(text: str) -> Fact[Mapping[tuple[int, int], str]]:
    """{(0, 1): "NV18", (1, 0): "NV18", ...} for every ordered pair of two different GPUs; {} for a single GPU.

    Words are kept as printed: NV18, SYS, NODE, PHB, PXB, PIX. A matrix that is not complete is missing as a whole.
    """
    lines = plain(text).splitlines()
    header = next((line for line in lines if _HEADER.match(line)), None)
    if header is None:
        return Missing(f"nvidia-smi topo -m printed no matrix: {one_line(text) or 'empty'}")
    columns = [int(number) for number in re.findall(r"\bGPU([0-9]{1,3})(?![0-9])", header)]
    rows = {}
    for line in lines:
        row = _ROW.match(line)
        if row and line is not header:
            rows[int(row[1])] = row[2].split()[: len(columns)]
    if columns != list(range(len(columns))) or sorted(rows) != columns:
        return Missing(f"nvidia-smi topo -m lists {len(columns)} GPU columns and {len(rows)} GPU rows")
    paths = {}
    for gpu, cells in rows.items():
        if len(cells) != len(columns) or cells[gpu] != "X":
            return Missing(f"the topo row of GPU {gpu} is damaged: {one_line(' '.join(cells))}")
        paths.update({(gpu, other): cell for other, cell in zip(columns, cells, strict=True) if other != gpu})
    return paths
