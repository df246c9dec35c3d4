"""Which product a node says it is: by what the GPUs' own tools print, or by PCI ids where no tool names them."""

from __future__ import annotations

from collections.abc import Sequence

from rackproof import hardware as profiles
from rackproof.facts import Fact, Missing, NodeFacts, SmiFacts

# PCI classes of AMD's accelerators; 0300 is a graphics card, which a server may have beside them.
_ACCELERATORS = ("1200", "0380", "0302")


def detected(facts: NodeFacts) -> Fact[str]:
    """Id of the one hardware profile that every GPU of the node is of; Missing with what was found instead."""
    if isinstance(facts.smi, SmiFacts) and facts.smi.gpus:
        products = [gpu.product for gpu in facts.smi.gpus]
        named = [None if isinstance(product, Missing) else product for product in products]
        ids = () if isinstance(facts.driver.pci_ids, Missing) else facts.driver.pci_ids
        return _one(named, [name and profiles.detect(name) for name in named], ids)
    amd = _amd(facts)
    if amd:
        return _one(
            [product for product, _ in amd],
            [profiles.detect(product) if product else profiles.detect_pci(pci_id) for product, pci_id in amd],
            [pci_id for _, pci_id in amd if pci_id],
        )
    if isinstance(facts.smi, Missing):
        return Missing(f"the product could not be detected: {facts.smi.reason}")
    return _one([], [], () if isinstance(facts.driver.pci_ids, Missing) else facts.driver.pci_ids)


def _one(named: Sequence[str | None], found: Sequence[str | None], pci_ids: Sequence[str]) -> Fact[str]:
    distinct = set(found)
    if len(distinct) == 1 and (hardware := distinct.pop()):
        return hardware
    words = ", ".join(sorted({name for name in named if name})) or "an unnamed product"
    ids = f", PCI ids {', '.join(pci_ids)}" if pci_ids else ""
    return Missing(f"no hardware profile for {words}{ids}; known: {', '.join(profiles.known_ids())}")


def _amd(facts: NodeFacts) -> list[tuple[str | None, str]]:
    """(market name where a tool prints it, PCI id) of each AMD GPU: of amdgpu's, or of PCI's while it is not loaded."""
    listed = () if isinstance(facts.amd, Missing) or isinstance(facts.amd.gpus, Missing) else facts.amd.gpus
    found = [(_text(gpu.product), _text(gpu.pci_id) or "") for gpu in listed]
    if found or isinstance(facts.pci, Missing) or isinstance(facts.pci.devices, Missing):
        return found
    accelerators = [device for device in facts.pci.devices if _text(device.class_code) in _ACCELERATORS]
    ids = [_text(device.id) or "" for device in accelerators]
    return [(None, pci_id) for pci_id in ids if pci_id.startswith("1002:")]


def _text(fact: Fact[str]) -> str | None:
    return None if isinstance(fact, Missing) else fact
