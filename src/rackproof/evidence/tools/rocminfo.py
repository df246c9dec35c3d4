"""`rocminfo`: the agents ROCm's runtime can open. ROCm 6 and 7.

Not part of the probe: it belongs to ROCm, which a node that runs containers need not have; KFD's files say the same.
"""

from __future__ import annotations

import re

from rackproof.evidence.sections import Command
from rackproof.evidence.tools import amd_values as v
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_amd import AmdGpu, RocmInfo

COMMANDS: tuple[Command, ...] = ()

_PAIR = re.compile(r"( *)([A-Za-z][^:]{0,40}?):{1,2}\s*(.*?)\s*")
_NUMBER = re.compile(r"([0-9]{1,15})\(0x[0-9a-f]{1,13}\)")


def parse_rocminfo(text: str) -> Fact[RocmInfo]:
    text = plain(text)
    if "HSA Agents" not in text:
        return Missing(f"rocminfo lists no agents: {one_line(text) or 'empty'}")
    head, _, agents = text.partition("HSA Agents")
    loaded = re.search(r"^ROCk module is (loaded|NOT loaded)|^ROCk module version .* is loaded", head, re.MULTILINE)
    dmabuf = re.search(r"^DMAbuf Support: *(YES|NO)\s*$", head, re.MULTILINE)
    gpus = [agent for agent in _agents(agents) if agent.get("Device Type") == "GPU"]
    return RocmInfo(
        complete="*** Done ***" in agents,
        module_loaded=loaded[1] != "NOT loaded" if loaded else Missing("ROCk module: not printed"),
        dmabuf=dmabuf[1] == "YES" if dmabuf else Missing("DMAbuf Support: not printed"),
        gpus=tuple(_gpu(index, agent) for index, agent in enumerate(gpus)),
    )


def _agents(text: str) -> list[dict[str, str]]:
    """Pairs of each agent; a new one starts where "Name" stands at its level. Of its pools only the first counts."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        match = _PAIR.fullmatch(line)
        if not match:
            continue
        if len(match[1]) == 2:
            if match[2] == "Name":
                found.append({})
            if found:
                found[-1].setdefault(match[2], match[3])
        elif found and match[2] == "Size" and len(match[1]) == 6:
            found[-1].setdefault("Pool 1 size", match[3])
    return found


def _gpu(index: int, agent: dict[str, str]) -> AmdGpu:
    chip = _NUMBER.fullmatch(agent.get("Chip ID", ""))
    return AmdGpu(
        index=index,
        pci_address=_address(agent),
        product=v.text(agent.get("Marketing Name"), "Marketing Name"),
        pci_id=v.pci_id(None, f"0x{int(chip[1]):x}" if chip else None),
        architecture=v.architecture(agent.get("Name"), "Name"),
        compute_units=v.whole(agent.get("Compute Unit"), "Compute Unit"),
        uuid=v.text(agent.get("Uuid"), "Uuid"),
        memory_bytes=_pool(agent.get("Pool 1 size", "")),
    )


def _pool(raw: str) -> Fact[int]:
    number = _NUMBER.match(raw)
    return int(number[1]) * 1024 if number and raw.endswith(" KB") else Missing("Pool 1 Size: not printed")


def _address(agent: dict[str, str]) -> Fact[str]:
    """From BDFID (bus, device and function in one number) and, since ROCm 6.2, the domain."""
    raw, domain = agent.get("BDFID", ""), agent.get("Domain", "0")
    if not re.fullmatch("[0-9]{1,5}", raw) or not re.fullmatch("[0-9]{1,7}", domain):
        return Missing("BDFID: not printed")
    return location(int(raw), int(domain))


def location(number: int, domain: int) -> str:
    """00000000:c6:00.0 from a location id."""
    return f"{domain:08x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
