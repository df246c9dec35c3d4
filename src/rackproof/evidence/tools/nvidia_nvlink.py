"""`nvidia-smi nvlink`: `--status`, every NVLink of every GPU with its rate, and `-e`, its error counters. R470 to R620.

    GPU 0: NVIDIA B300 SXM6 AC (UUID: GPU-...)
             Link 0: 53.125 GB/s
             Link 1: <inactive>

Source: captures of R535 to R610.
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.values import one_line, output, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_nvlink import NvlinkPort
from rackproof.facts_system import NvlinkErrors

COMMANDS = (
    Command("nvidia_smi_nvlink", "nvidia-smi nvlink --status", requires="nvidia-smi", deadline_s=20),
    Command("nvidia_smi_nvlink_errors", "nvidia-smi nvlink -e", requires="nvidia-smi", deadline_s=20),
)

ALL_LINKS = -1  # the link number when nvidia-smi only says that all links of a GPU are inactive

_GPU = re.compile(r"GPU ([0-9]{1,3}): .*")
_LINK = re.compile(r"Link ([0-9]{1,3}): (?:<(inactive)>|([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s)")
_COUNTER = re.compile(r"Link ([0-9]{1,3}): ([A-Z][A-Za-z -]{0,60}?) *: ([0-9]{1,20})")
_OTHER = re.compile(r"Link [0-9]{1,3}: [A-Z][A-Za-z -]{0,60}?: \S.*")  # a rate ("Effective BER: 15e-255"), N/A
_ALL_INACTIVE = re.compile(r".*all links are inactive.*", re.IGNORECASE)


def ports(evidence: Evidence) -> Fact[tuple[NvlinkPort, ...]]:
    text = output(evidence, "nvidia_smi_nvlink", "nvidia-smi")
    return text if isinstance(text, Missing) else parse_nvlink(text)


def parse_nvlink(text: str) -> Fact[tuple[NvlinkPort, ...]]:
    """All ports in the order printed.

    A GPU of which nvidia-smi says "all links are inActive" gives one inactive port numbered ALL_LINKS. Any line that is
    not understood (MIG mode, no NVLink, an error) makes the whole fact missing, since it hides ports.
    """
    found: list[NvlinkPort] = []
    gpu: int | None = None
    for raw in plain(text).splitlines():
        line = raw.strip()
        if not line or line.startswith("WARNING:"):
            continue
        heading, link = _GPU.fullmatch(line), _LINK.fullmatch(line)
        if heading:
            if _bare(gpu, found):
                return Missing(f"nvidia-smi lists no link of GPU {gpu}")
            gpu = int(heading[1])
        elif gpu is not None and link:
            inactive = Missing("the link is inactive")
            found.append(NvlinkPort(gpu, int(link[1]), float(link[3]) if link[3] else inactive, not link[2]))
        elif gpu is not None and _ALL_INACTIVE.fullmatch(line):
            found.append(NvlinkPort(gpu, ALL_LINKS, Missing("all links are inactive"), False))
        else:
            return Missing(f"{'nvidia-smi nvlink' if gpu is None else f'GPU {gpu}'}: {one_line(line)}")
    if gpu is None or _bare(gpu, found):
        return Missing(f"nvidia-smi lists no link of {'any GPU' if gpu is None else f'GPU {gpu}'}")
    return tuple(found)


def _bare(gpu: int | None, found: list[NvlinkPort]) -> bool:
    """The GPU just read had not one port."""
    return gpu is not None and not any(port.gpu == gpu for port in found)


def errors(evidence: Evidence) -> Fact[tuple[NvlinkErrors, ...]]:
    text = output(evidence, "nvidia_smi_nvlink_errors", "nvidia-smi")
    return text if isinstance(text, Missing) else parse_errors(text)


def parse_errors(text: str) -> Fact[tuple[NvlinkErrors, ...]]:
    """Counters of every link: {"Replay Errors": 0, ...}; what is no count is left out. A line not understood hides links."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    gpu: int | None = None
    for raw in plain(text).splitlines():
        line = raw.strip()
        heading, counter = _GPU.fullmatch(line), _COUNTER.fullmatch(line)
        if heading:
            gpu = int(heading[1])
        elif counter and gpu is not None:
            found.setdefault((gpu, int(counter[1])), {})[counter[2]] = int(counter[3])
        elif line and not (gpu is not None and _OTHER.fullmatch(line)) and not line.startswith("WARNING:"):
            return Missing(f"{'nvidia-smi nvlink -e' if gpu is None else f'GPU {gpu}'}: {one_line(line)}")
    if not found:
        return Missing(f"nvidia-smi nvlink -e prints no counter: {one_line(text) or 'empty'}")
    return tuple(NvlinkErrors(*place, counters) for place, counters in found.items())
