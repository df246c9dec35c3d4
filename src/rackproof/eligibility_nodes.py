"""What eligibility needs to know of one node, taken from its facts: each value, or why it could not be read."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof import hardware as profiles
from rackproof import recipes
from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.baseline_rdma import crosses_by_rdma
from rackproof.errors import InputError
from rackproof.facts import Fact, Gpu, Missing, NodeFacts
from rackproof.facts_amd import AmdGpu
from rackproof.layers.readings import of
from rackproof.layers.words import clique_of, is_clique
from rackproof.site import Site
from rackproof.verdict.evaluate import evaluate_layer
from rackproof.verdict.model import Status

Clique = tuple[int, str]  # clique id, cluster UUID
_NOT_READ = Missing("not read")
NO_RDMA = Missing("no node was read, so whether RDMA between nodes works is not known")
NO_RATE = Missing("the read rate of the weights' storage is not in the evidence")


@dataclass(frozen=True)
class NodeView:
    """One node as eligibility sees it. `imex` and `rdma`: what is wrong with it, None where it works."""

    node: str
    hardware: Fact[str]  # id of a profile
    gpus: Fact[int]
    memory_bytes: Fact[int]  # of the GPU that has least
    architecture: Fact[str]  # uname -m
    clique: Fact[Clique | None] = None  # None: the GPUs are in no one clique
    imex: Fact[str | None] = _NOT_READ
    imex_peers: Fact[int] = _NOT_READ
    rdma: Fact[str | None] = NO_RDMA
    read_rate_bytes_per_s: Fact[float] = NO_RATE
    expected_architecture: str | None = None  # of a simulated site; None: the profile's
    simulated: bool = False


@dataclass(frozen=True)
class Said:
    """What the asker knows and the evidence does not: used only where no tool says otherwise."""

    hardware: str | None = None
    memory_bytes: int | None = None
    read_rate_bytes_per_s: float | None = None
    architecture: str | None = None  # that a simulated site plays
    site: Site | None = None  # which RDMA ports and which interface count; None: nobody says


def view(facts: NodeFacts, said: Said) -> NodeView:
    """One node's facts, as far as eligibility asks for them."""
    unread = facts.evidence if isinstance(facts.evidence, Missing) else None
    if unread is not None:
        product: Fact[str] = said.hardware or unread
        return NodeView(facts.node, product, unread, unread, unread, unread, unread, unread, unread, unread)
    listed = _listed(facts)
    hardware, domain = _hardware(facts, listed, said), facts.nvlink.imex_domain
    return NodeView(
        node=facts.node,
        hardware=hardware,
        gpus=_gpus(listed, hardware, said),
        memory_bytes=_memory(listed, said),
        architecture=facts.host.architecture,
        clique=listed if isinstance(listed, Missing) else _clique(listed),
        imex=_imex(facts),
        imex_peers=domain if isinstance(domain, Missing) else len({peer.host for peer in domain.peers}),
        rdma=_rdma(facts, hardware, said.site or sites.shipped()),
        read_rate_bytes_per_s=NO_RATE if said.read_rate_bytes_per_s is None else said.read_rate_bytes_per_s,
        expected_architecture=said.architecture,
        simulated=isinstance(facts.host.simulated, str),
    )


def stated(node: str, hardware: str, memory_bytes: int | None = None) -> NodeView:
    """A node that nobody has read: a product and, unless given, its profile's memory. For planning, not for proof."""
    profile = profiles.load(hardware)
    unread = Missing("no node was read")
    return NodeView(
        node, hardware, profile.gpus_per_node.value, memory_bytes or profile.memory_bytes,
        profile.cpu_architecture.value, unread, unread, unread,
    )  # fmt: skip


def _listed(facts: NodeFacts) -> Fact[tuple[Gpu | AmdGpu, ...]]:
    """nvidia-smi's GPUs; where it lists none, those of AMD's tools and driver."""
    if not isinstance(facts.smi, Missing):
        return facts.smi.gpus
    amd = facts.amd if isinstance(facts.amd, Missing) else facts.amd.gpus
    return facts.smi if isinstance(amd, Missing) or not amd else amd


def _hardware(facts: NodeFacts, listed: Fact[tuple[Gpu | AmdGpu, ...]], said: Said) -> Fact[str]:
    """By product name, else by PCI device id, else as said. Products that differ on one node are none."""
    if not isinstance(listed, Missing) and listed:
        names = {gpu.product for gpu in listed}
        named = sorted(str(name) for name in names if not isinstance(name, Missing))
        found = profiles.detect(named[0]) if len(names) == len(named) == 1 else None
        return found or Missing(f"no hardware profile for {', '.join(named) or 'an unnamed product'}")
    if not isinstance(facts.driver.pci_ids, Missing) and facts.driver.pci_ids:
        ids = sorted(set(facts.driver.pci_ids))
        found = profiles.detect_pci(ids[0]) if len(ids) == 1 else None
        return found or Missing(f"no hardware profile for PCI id {', '.join(ids)}")
    if said.hardware is not None:
        return profiles.load(said.hardware).id
    reason = facts.smi.reason if isinstance(facts.smi, Missing) else "nvidia-smi listed no GPU"
    return Missing(f"the product could not be detected: {reason}")


def _gpus(listed: Fact[tuple[Gpu | AmdGpu, ...]], hardware: Fact[str], said: Said) -> Fact[int]:
    if isinstance(listed, Missing):
        claimed = said.memory_bytes is not None and isinstance(hardware, str)
        return profiles.load(hardware).gpus_per_node.value if claimed and isinstance(hardware, str) else listed
    return len(listed)


def _memory(listed: Fact[tuple[Gpu | AmdGpu, ...]], said: Said) -> Fact[int]:
    if isinstance(listed, Missing) or not listed:
        missing = listed if isinstance(listed, Missing) else Missing("nvidia-smi listed no GPU")
        return missing if said.memory_bytes is None else said.memory_bytes
    sizes = [gpu.memory_bytes for gpu in listed]
    unread = next((size for size in sizes if isinstance(size, Missing)), None)
    return unread or min(size for size in sizes if not isinstance(size, Missing))


def _clique(listed: tuple[Gpu | AmdGpu, ...]) -> Fact[Clique | None]:
    """The one clique that all GPUs joined; None where they are in several, in none, or not on the fabric yet."""
    found: set[Clique] = set()
    for gpu in listed:
        if isinstance(gpu, AmdGpu):
            return None  # there is no NVLink to join
        if isinstance(gpu.fabric_state, str) and gpu.fabric_state != "Completed":
            return None
        clique = clique_of(gpu)
        if isinstance(clique, Missing):
            return clique
        found.add(clique)
    return found.pop() if len(found) == 1 and all(map(is_clique, found)) else None


def _rdma(facts: NodeFacts, hardware: Fact[str], site: Site) -> Fact[str | None]:
    """What the gates of layer rdma say, asked as for a layout whose nodes talk by RDMA."""
    baseline = of(hardware, lambda product: _over_rdma(product, site))
    if isinstance(baseline, Missing):
        return baseline
    gates = [outcome for outcome in evaluate_layer("rdma", facts, baseline) if outcome.decides]
    failed = [f"{outcome.requirement.title}: {outcome.observed}" for outcome in gates if outcome.status is Status.FAIL]
    unread = [outcome.reason for outcome in gates if outcome.status in (Status.UNKNOWN, Status.BLOCKED)]
    return failed[0] if failed else Missing(unread[0]) if unread else None


def _over_rdma(product: str, site: Site) -> Fact[Baseline]:
    recipe_cell = site.require("recipe")
    layouts = recipes.load(recipe_cell.value, recipe_cell.source).layouts.values()
    fitting = [one for one in layouts if one.hardware == product and one.tier != "rejected" and crosses_by_rdma(one)]
    if not fitting:
        return Missing(f"the recipe has no layout of {product} whose nodes talk by RDMA")
    try:
        allowing = site.overlaid({"allow_derived": True}, "eligible")
        return resolve(allowing, hardware_id=product, layout_id=fitting[0].id)
    except InputError as error:
        return Missing(str(error))


def _imex(facts: NodeFacts) -> Fact[str | None]:
    channels, domain = facts.nvlink.imex_channels, facts.nvlink.imex_domain
    if not isinstance(channels, Missing) and not any(path.endswith("/channel0") for path in channels):
        return "no /dev/nvidia-caps-imex-channels/channel0"
    if isinstance(domain, Missing):
        return domain
    waiting = sorted(peer.host for peer in domain.peers if peer.status != "READY")
    if domain.status != "UP" or waiting or domain.bad_links:
        return f"IMEX domain {domain.status}" + (f", not ready: {', '.join(waiting)}" if waiting else "")
    return channels if isinstance(channels, Missing) else None
