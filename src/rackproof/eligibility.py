"""Which layouts these nodes can run: yes, no or unknown for each, with the slack, the reason and where upstream differs.

Eligible is not accepted: this asks whether a layout can work on such nodes, `verify` whether the nodes are in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rackproof import hardware as profiles
from rackproof.baseline_rdma import crosses_by_rdma
from rackproof.eligibility_nodes import Clique, NodeView
from rackproof.facts import Fact, Missing
from rackproof.hardware import Hardware
from rackproof.recipes import Layout, Recipe
from rackproof.recipes.fit import Answer, Fit, fit, worst
from rackproof.recipes.footprint import GIB

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


@dataclass(frozen=True)
class Part:
    """One thing that a layout stands or falls by. An optional one that is unknown does not keep a yes from being one."""

    name: str  # rule | product | nodes | gpus | architecture | memory | context | fabric | storage
    answer: Answer
    words: str
    optional: bool = False


@dataclass(frozen=True)
class Eligibility:
    """The answer for one layout."""

    layout: Layout
    parts: tuple[Part, ...]
    fit: Fit | None  # None: no memory was measured on its product
    nodes: tuple[str, ...]  # that it would run on
    differs: tuple[str, ...]  # where upstream says otherwise: both, and why

    @property
    def answer(self) -> Answer:
        return worst(part.answer for part in self.parts if not (part.optional and part.answer is UNKNOWN))

    @property
    def slack_bytes(self) -> int | None:
        """Of one GPU, beside the weights; below 0 where they do not fit."""
        return None if self.fit is None else self.fit.slack_bytes

    @property
    def reason(self) -> str:
        """What decides it: the first no, else the first unknown, else what it would run on."""
        for answer in (NO, UNKNOWN):
            words = [part.words for part in self.parts if part.answer is answer and not part.optional]
            if answer is self.answer:
                return words[0] if words else next(part.words for part in self.parts if part.answer is answer)
        return "; ".join(part.words for part in self.parts if part.name in ("memory", "fabric"))

    @property
    def missing(self) -> tuple[str, ...]:
        """Everything that could not be told, also what does not decide."""
        unread = [part.words for part in self.parts if part.answer is UNKNOWN]
        return tuple(dict.fromkeys([*unread, *(self.fit.missing if self.fit else ())]))


def eligible(
    recipe: Recipe, nodes: Sequence[NodeView], layouts: Iterable[Layout] | None = None, folder: Path = profiles.FOLDER
) -> tuple[Eligibility, ...]:
    """Every layout answered, in the recipe's order; products that are there come first. `folder`: of the profiles."""
    here = {node.hardware for node in nodes}
    wanted = recipe.layouts.values() if layouts is None else layouts
    ordered = sorted(wanted, key=lambda layout: layout.hardware not in here)
    return tuple(
        _Asked(recipe, layout, profiles.load(layout.hardware, layout.source, folder), nodes).answered()
        for layout in ordered
    )


def overall(answers: Sequence[Eligibility]) -> Answer:
    """Yes if any layout is; no only if none can be."""
    given = {answer.answer for answer in answers}
    return YES if YES in given else UNKNOWN if UNKNOWN in given or not given else NO


class _Asked:
    """Works out one layout."""

    def __init__(self, recipe: Recipe, layout: Layout, profile: Hardware, nodes: Sequence[NodeView]) -> None:
        self.recipe, self.layout, self.profile = recipe, layout, profile
        self.mine = [node for node in nodes if node.hardware == layout.hardware]
        self.unknown = [node for node in nodes if isinstance(node.hardware, Missing)]
        self.chosen = _choose(self.mine, layout, self.profile)

    def answered(self) -> Eligibility:
        fitted = self._fit()
        parts = (*self._rule(), *self._nodes(), *self._on_chosen(fitted))
        names = tuple(node.node for node in self.chosen)
        return Eligibility(self.layout, parts, fitted, names, tuple(_differs(self.layout, parts, self.recipe)))

    def _fit(self) -> Fit | None:
        sizes = [node.memory_bytes for node in self.chosen]
        read = [size for size in sizes if not isinstance(size, Missing)]
        return fit(self.recipe, self.layout, self.profile, min(read)) if read else None

    def _rule(self) -> list[Part]:
        if self.layout.tier == "rejected":
            return [Part("rule", NO, self.layout.why)]
        return []

    def _nodes(self) -> list[Part]:
        needed, there = self.layout.nodes, len(self.mine)
        unread = len(self.unknown)
        if not there:
            words = f"none of these nodes is a {self.profile.id}"
            return [Part("product", UNKNOWN if unread >= needed else NO, _but(words, self.unknown))]
        words = f"takes {_nodes(needed)} of {self.profile.id}, {there} given"
        if there >= needed:
            return [Part("nodes", YES, words)]
        return [Part("nodes", UNKNOWN if there + unread >= needed else NO, _but(words, self.unknown))]

    def _on_chosen(self, fitted: Fit | None) -> list[Part]:
        if not self.chosen:
            return []
        return [
            _all("gpus", self.chosen, lambda node: _gpu_count(node, self.profile)),
            _all("architecture", self.chosen, lambda node: _architecture(node, self.profile)),
            *self._memory(fitted),
            *self._fabric(),
            *self._storage(),
        ]

    def _memory(self, fitted: Fit | None) -> list[Part]:
        unread = [node.memory_bytes for node in self.chosen if isinstance(node.memory_bytes, Missing)]
        if fitted is None or unread:
            return [Part("memory", UNKNOWN, f"memory of a GPU was not read: {unread[0].reason}")]
        tight = min(fitted.pools, key=lambda pool: -GIB**3 if pool.memory.value is None else pool.memory.value)
        parts = [Part("memory", fitted.memory, _of_role(tight.pool.name, tight.memory.words))]
        short = next((pool for pool in fitted.pools if pool.context.answer is NO), None)
        if short is not None:
            return [*parts, Part("context", NO, _of_role(short.pool.name, short.context.words))]
        return [*parts, Part("context", tight.context.answer, tight.context.words, optional=True)]

    def _fabric(self) -> list[Part]:
        if self.layout.fabric == "node" or self.layout.nodes == 1:
            return []
        if self.layout.fabric == "rdma":
            return [_all("fabric", self.chosen, lambda node: _works(node.rdma, "RDMA"))]
        parts = [_one_clique(self.chosen, self.layout), _all("fabric", self.chosen, lambda n: _imex(n, self.layout))]
        if crosses_by_rdma(self.layout):  # KV cache between prefill and decode, beside the NVLink traffic of each role
            parts.append(_all("fabric", self.chosen, lambda node: _works(node.rdma, "RDMA")))
        return parts

    def _storage(self) -> list[Part]:
        timeout = self.recipe.footprint.ready_timeout_s.value
        needed = self.recipe.model["bytes"].value / timeout
        words = f"the weights must come at {needed / 1e6:.0f} MB/s or more on each node to load within {timeout} s"
        return [_all("storage", self.chosen, lambda node: _rate(node, needed, words), optional=True)]


def _choose(mine: Sequence[NodeView], layout: Layout, profile: Hardware) -> list[NodeView]:
    """The nodes a layout would best run on: of one clique where it crosses nodes by NVLink, sound ones, most memory."""
    groups: dict[object, list[NodeView]] = {}
    for node in mine:
        crossing = layout.fabric == "mnnvl" and not isinstance(node.clique, Missing)
        groups.setdefault(node.clique if crossing else None, []).append(node)
    ranked = [sorted(group, key=lambda node: _rank(node, layout, profile))[: layout.nodes] for group in groups.values()]
    if not ranked:
        return []
    best = min(ranked, key=lambda group: (-len(group), sorted(_rank(node, layout, profile) for node in group)))
    if len(best) == layout.nodes or layout.fabric != "mnnvl":
        return best
    return sorted(mine, key=lambda node: _rank(node, layout, profile))[: layout.nodes]


def _rank(node: NodeView, layout: Layout, profile: Hardware) -> tuple[int, int, str]:
    answers = [_gpu_count(node, profile)[0], _architecture(node, profile)[0]]
    if layout.fabric == "mnnvl" and layout.nodes > 1:
        answers += [_imex(node, layout)[0], YES if isinstance(node.clique, tuple) else NO if node.clique is None else UNKNOWN]
    if crosses_by_rdma(layout):
        answers.append(_works(node.rdma, "RDMA")[0])
    unread = isinstance(node.memory_bytes, Missing)
    worse = sum({YES: 0, UNKNOWN: 1, NO: 100}[answer] for answer in answers) + unread
    return worse, 0 if isinstance(node.memory_bytes, Missing) else -node.memory_bytes, node.node


def _all(
    name: str, nodes: Sequence[NodeView], ask: Callable[[NodeView], tuple[Answer, str]], optional: bool = False
) -> Part:
    """One answer for all nodes, in the words of the worst of them."""
    asked = [(node, *ask(node)) for node in nodes]
    answer = worst(given for _, given, _ in asked)
    node, _, words = next(item for item in asked if item[1] is answer)
    return Part(name, answer, words if answer is YES else f"{node.node}: {words}", optional)


def _gpu_count(node: NodeView, profile: Hardware) -> tuple[Answer, str]:
    if isinstance(node.gpus, Missing):
        return UNKNOWN, f"GPUs were not counted: {node.gpus.reason}"
    wanted = profile.gpus_per_node.value
    return (YES if node.gpus == wanted else NO), f"{node.gpus} of {wanted} GPUs"


def _architecture(node: NodeView, profile: Hardware) -> tuple[Answer, str]:
    if isinstance(node.architecture, Missing):
        return UNKNOWN, f"architecture was not read: {node.architecture.reason}"
    wanted = node.expected_architecture or profile.cpu_architecture.value
    return (YES if node.architecture == wanted else NO), f"{node.architecture}, the image for {profile.id} is {wanted}"


def _works(problem: Fact[str | None], what: str) -> tuple[Answer, str]:
    if isinstance(problem, Missing):
        return UNKNOWN, f"{what} was not read: {problem.reason}"
    return (YES, f"{what} works") if problem is None else (NO, problem)


def _imex(node: NodeView, layout: Layout) -> tuple[Answer, str]:
    answer, words = _works(node.imex, "IMEX")
    if answer is not YES or isinstance(node.imex_peers, Missing):
        return answer, words
    if node.imex_peers < layout.nodes:
        return NO, f"the IMEX domain has {node.imex_peers} nodes, the layout takes {layout.nodes}"
    return YES, "IMEX up"


def _one_clique(nodes: Sequence[NodeView], layout: Layout) -> Part:
    """Traffic over NVLink between trays needs one clique of one cluster, whatever the racks are called."""
    unread = [node for node in nodes if isinstance(node.clique, Missing)]
    found: set[Clique | None] = {node.clique for node in nodes if not isinstance(node.clique, Missing)}
    if None in found:
        outside = next(node for node in nodes if node.clique is None)
        return Part("fabric", NO, f"{outside.node}: its GPUs have not joined one NVLink clique")
    if len(found) > 1:
        return Part("fabric", NO, f"no {layout.nodes} of the nodes are in one NVLink clique")
    if unread:
        reason = unread[0].clique
        return Part("fabric", UNKNOWN, f"{unread[0].node}: NVLink clique was not read: {getattr(reason, 'reason', '')}")
    return Part("fabric", YES, f"{len(nodes)} in one NVLink clique" if len(nodes) > 1 else "in an NVLink clique")


def _rate(node: NodeView, needed: float, words: str) -> tuple[Answer, str]:
    rate = node.read_rate_bytes_per_s
    if isinstance(rate, Missing):
        return UNKNOWN, f"{rate.reason}; {words}"
    return (YES if rate >= needed else NO), f"storage reads {rate / 1e6:.0f} MB/s; {words}"


def _differs(layout: Layout, parts: Sequence[Part], recipe: Recipe) -> list[str]:
    """Where the recipe site says something else about this layout, what, and why we do not follow."""
    said: list[str] = []
    rendered = layout.upstream in ("recommended", "rendered")
    impossible = [part.words for part in parts if part.answer is NO and part.name in ("rule", "memory", "context")]
    if impossible and rendered:
        verb = "recommends" if layout.upstream == "recommended" else "renders"
        gate = recipe.footprint.upstream_gate_gb.value
        said.append(
            f"upstream {verb} it, by data-sheet GB and an estimate of {gate} GB that was never replaced; "
            f"we say no, by bytes and published runs: {impossible[0]}"
        )
    elif layout.tier == "derived" and rendered:
        said.append("upstream renders it as any other; we call it derived, because nobody has shown it running")
    elif layout.tier != "rejected" and not rendered:
        said.append(f"upstream does not render it; we list it as {layout.tier}, for who runs it: {layout.source}")
    if layout.fabric == "mnnvl" and layout.strategy in ("multi_node_tp", "multi_node_tep") and not impossible:
        said.append(
            "upstream's strategy asks for InfiniBand between nodes; we ask for one NVLink clique with IMEX, "
            "because between these trays traffic is NVLink"
        )
    return said


def _of_role(role: str, words: str) -> str:
    return f"{role}: {words}" if role else words


def _but(words: str, unknown: Sequence[NodeView]) -> str:
    if not unknown:
        return words
    reason = unknown[0].hardware
    why = reason.reason if isinstance(reason, Missing) else ""
    return f"{words}; of {_nodes(len(unknown))} the product is unknown ({unknown[0].node}: {why})"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
