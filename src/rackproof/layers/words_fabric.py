"""What checks ask of the links between GPUs and of the daemons that manage them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.facts_amd import KfdNode
from rackproof.facts_system import FabricEvent, NvlinkErrors
from rackproof.layers.readings import of
from rackproof.layers.words import some
from rackproof.layers.words_gpu import amd_driver

_TROUBLE = ("version-mismatch", "no-devices", "switch-error", "error")


def link_counters(facts: NodeFacts, names: Collection[str]) -> Fact[Mapping[int, list[str]]]:
    """GPU -> its counters of these names that are not 0: "link 7: 3 Replay Errors". Missing where a link lacks one."""
    return of(some(facts.nvlink.errors, "NVLink error counter was listed"), lambda listed: _counted(listed, names))


def _counted(listed: Sequence[NvlinkErrors], names: Collection[str]) -> Fact[Mapping[int, list[str]]]:
    found: dict[int, list[str]] = {}
    for link in listed:
        wrong = found.setdefault(link.gpu, [])
        lacking = [name for name in names if name not in link.counters]
        if lacking:
            return Missing(f"GPU {link.gpu} link {link.link} shows no {', '.join(lacking)}")
        wrong += [f"link {link.link}: {link.counters[name]} {name}" for name in names if link.counters[name]]
    return found


def after_configured(facts: NodeFacts) -> Fact[list[str]]:
    """What went wrong since Fabric Manager last said that the fabric is configured; all of it where it never did."""
    manager = of(facts.system, lambda system: system.fabric_manager)
    events: Fact[tuple[FabricEvent, ...]] = of(manager, lambda found: found.events)
    return of(some(events, "line of Fabric Manager's log tells how it went"), _trouble)


def _trouble(events: Sequence[FabricEvent]) -> Fact[list[str]]:
    done = [number for number, event in enumerate(events) if event.kind == "configured"]
    later = events[done[-1] + 1 :] if done else events
    wrong = [event.text for event in later if event.kind in _TROUBLE]
    return wrong if wrong or done else ["the log does not say that the fabric was configured"]


def own_entries(listed: Sequence[str], hostname: str, addresses: Collection[str]) -> list[str]:
    """Entries of an IMEX node list that are this node: by an address, or by its name with or without a domain."""
    name = hostname.partition(".")[0]
    return [entry for entry in listed if entry and (entry in addresses or (name and entry.partition(".")[0] == name))]


def open_to_all(mode: str) -> bool:
    """Permissions in octal that let every user read and write."""
    return mode.endswith(("6", "7"))


def xgmi_pairs(facts: NodeFacts) -> Fact[tuple[tuple[int, ...], frozenset[tuple[int, int]]]]:
    """(KFD nodes that are GPUs, pairs of them that xGMI joins)."""
    driver = amd_driver(facts)
    nodes = some(of(driver, lambda found: found.kfd_nodes), "GPU is in KFD's topology")
    return of(
        nodes, lambda listed: of(driver, lambda found: of(found.xgmi, lambda pairs: (_numbers(listed), pairs)))
    )


def _numbers(nodes: Sequence[KfdNode]) -> tuple[int, ...]:
    return tuple(node.node for node in nodes)
