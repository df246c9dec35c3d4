"""The launch of one deployment unit: composed, checked against the rules, one process for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackproof import hardware as hardware_profiles
from rackproof import recipes
from rackproof.hardware import Hardware
from rackproof.launch import rules
from rackproof.launch.compose import Composer
from rackproof.launch.container import RunImage, container_for, image_for
from rackproof.launch.given import Given, Node, gather
from rackproof.launch.model import Launch, Process, Value
from rackproof.launch.pools import Parallel, check_pool
from rackproof.recipes import Layout, Pool, Recipe
from rackproof.recipes import settings as recipe_settings
from rackproof.recipes.settings import Settings, by
from rackproof.site import Site

BALANCING = ("multi_node_dep", "pd_cluster")  # strategies whose nodes each have a front end of their own


def plan_launch(
    layout_id: str,
    site: Site,
    *,
    fabric: str | None = None,
    nodes: Sequence[Node] | None = None,
    nodes_source: str = "",
    example: bool = False,
) -> Launch:
    """What every node of a unit runs. `nodes` are the unit's, by rank, where an inventory names them.

    `fabric` overrides the layout's own (mnnvl | rdma | node); `example` fills in what no site says. Raises InputError
    for a rejected layout, a missing value, or a combination that breaks a rule of the recipe.
    """
    cell = site.require("recipe")
    recipe = recipes.load(cell.value, cell.source)
    layout = recipe.layout(layout_id, "LAYOUT")
    if not (example or site.value("allow_derived", default=False)):
        recipe.refuse_derived(layout, layout.source)
    return _Planner(recipe, layout, site, fabric or layout.fabric).launch(nodes, nodes_source, example)


class _Planner:
    def __init__(self, recipe: Recipe, layout: Layout, site: Site, fabric: str) -> None:
        self.recipe, self.layout, self.site, self.fabric = recipe, layout, site, fabric
        self.settings: Settings = recipe_settings.load(recipe.id)
        self.hardware: Hardware = hardware_profiles.load(layout.hardware, layout.source)
        self.image: RunImage = image_for(recipe, site, self.settings, self.hardware.vendor)

    def launch(self, nodes: Sequence[Node] | None, nodes_source: str, example: bool) -> Launch:
        for pool in self.layout.pools:
            check_pool(self.layout, pool, self.hardware.gpus_per_node.value)
        given = gather(
            self.site, self.recipe, self.settings, nodes=self.layout.nodes, meet=self.layout.nodes > 1,
            every=bool(self.layout.roles), inventory=nodes, inventory_source=nodes_source, example=example,
        )  # fmt: skip
        processes: list[Process] = []
        for pool in self.layout.pools:
            processes += self._pool(pool, given, first=len(processes))
        return Launch(
            layout=self.layout.id,
            tier=self.layout.tier,
            title=self.recipe.title,
            recipe_commit=self.recipe.commit,
            fabric=self.fabric,
            processes=tuple(processes),
            router=self._router(given),
            example=given.filled,
        )

    def _pool(self, pool: Pool, given: Given, first: int) -> list[Process]:
        head = given.address(first) if pool.nodes > 1 else None
        parallel = Parallel(
            pool, head, self.layout.source, self.settings, given.ports,
            node_balances=self.layout.strategy in BALANCING,
        )  # fmt: skip
        facts = self._facts(pool, given, head)
        return [self._process(pool, rank, given, first + rank, facts, parallel) for rank in range(pool.nodes)]

    def _process(
        self, pool: Pool, rank: int, given: Given, index: int, facts: Mapping[str, Any], parallel: Parallel
    ) -> Process:
        composer = Composer(self.settings, facts, _known(given, index))
        composer.args.update(parallel.args(rank))
        composer.apply_recipe()
        composer.apply_site(self.site)
        checked = composer.facts_with_values()
        rules.refuse(rules.broken(self.settings.rules, checked), checked, composer.places(), self.layout.id)
        model = given.model.text or ""
        across = self.fabric == "mnnvl" and pool.nodes > 1
        return Process(
            pool=pool,
            rank=rank,
            node=given.nodes[index].name,
            address=given.nodes[index].address,
            model=model,
            args=composer.args,
            env=composer.env,
            container=container_for(
                self.settings, self.site, self.image, vendor=self.hardware.vendor, model=model,
                imex_channel=self.recipe.host["imex_channel"].value if across else None,
                rdma=self.fabric == "rdma" or bool(pool.name),
            ),
            warnings=self._warnings(checked),
        )  # fmt: skip

    def _facts(self, pool: Pool, given: Given, head: Value | None) -> dict[str, Any]:
        return {
            "vendor": self.hardware.vendor,
            "generation": self.hardware.generation,
            "hardware": self.hardware.id,
            "layout": self.layout.id,
            "strategy": self.layout.strategy,
            "role": pool.name,
            "fabric": self.fabric,
            "nvlink": self.hardware.fabric_kind.value,
            "multi_node": pool.nodes > 1,
            "nodes": pool.nodes,
            "tp": pool.tp,
            "pp": pool.pp,
            "dp": pool.dp,
            "data_parallel": pool.dp > 1,
            "ep": pool.ep,
            "feature": given.features,
            "storage": given.storage,
            "dmabuf": given.dmabuf,
            "peermem": given.peermem,
            "has_hcas": given.hcas is not None,
            "has_gid_index": given.gid_index is not None,
            "head": head.text if head else None,
            "image": self.image.reference,
            "image_tag": self.image.tag,
        }

    def _warnings(self, facts: Mapping[str, Any]) -> tuple[str, ...]:
        found = [f"{rule.title} ({by(rule.source)})" for rule in rules.applying(self.settings.warnings, facts)]
        if self.layout.warn:
            found.append(f"{self.layout.warn} ({by(self.layout.source)})")
        if self.layout.tier == "derived":
            found.append("derived layout: the recipe site renders it and nobody has shown it running")
        if self.fabric != self.layout.fabric:
            found.append(f"fabric {self.fabric} was asked for; the layout is published for {self.layout.fabric}")
        return tuple(found)

    def _router(self, given: Given) -> tuple[str, ...]:
        """The router in front of prefill and decode: the first node of a TP pool, every node of a DP pool."""
        if not self.layout.roles:
            return ()
        words, index = list(self.settings.router.value), 0
        for pool in self.layout.pools:
            ends = pool.nodes if pool.dp > 1 else 1
            port = given.ports[pool.name].text
            for node in given.nodes[index : index + ends]:
                words += [f"--{pool.name}", f"http://{_host(node.address)}:{port}"]
            index += pool.nodes
        return (*words, "--intra-node-data-parallel-size", "1")


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _known(given: Given, index: int) -> dict[str, Value]:
    """What a setting may refer to, on this node."""
    ports = {f"port_{name}": value for name, value in given.ports.items()}
    known = {
        **ports,
        "model_repo": given.model_repo,
        "interface": given.interface,
        "own_address": given.address(index),
        "hcas": given.hcas,
        "gid_index": given.gid_index,
    }
    return {name: value for name, value in known.items() if value is not None}
