"""Our own data, held against itself: what `rackproof recipe lint` reports. An empty list means that it holds together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rackproof import hardware as profiles
from rackproof import recipes, yamlfile
from rackproof.errors import InputError
from rackproof.hardware import Hardware
from rackproof.recipes import Layout, Recipe
from rackproof.recipes.fit import Answer, fit
from rackproof.verdict.catalogue import requirements

# What may carry expert parallelism over which fabric; None: within a node the engine chooses.
_ALL2ALL: dict[str, set[str | None]] = {
    "mnnvl": {None, "flashinfer_nvlink_one_sided"}, "rdma": {None, "deepep_v2"}, "node": {None},
}  # fmt: skip
_MEGA_MOE = "deep_gemm_mega_moe"


def lint(
    recipe_id: str = "kimi_k3", recipe_folder: Path = recipes.FOLDER, hardware_folder: Path = profiles.FOLDER
) -> list[str]:
    """Everything that does not hold together, one line each: what, where."""
    found: list[str] = []
    hardware: dict[str, Hardware] = {}
    for hardware_id in profiles.known_ids(hardware_folder):
        profile = _tried(lambda name=hardware_id: profiles.load(name, folder=hardware_folder), found)  # type: ignore[misc]
        if profile is not None:
            hardware[hardware_id] = profile
        found += _unsourced(hardware_folder / f"{hardware_id}.yaml")
    found += _shared(hardware)
    recipe = _tried(lambda: recipes.load(recipe_id, folder=recipe_folder), found)
    if recipe is not None:
        found += _unsourced(recipe_folder / f"{recipe_id}.yaml")
        for layout in recipe.layouts.values():
            found += _layout(recipe, layout, hardware)
    found += _requirements()
    return found


def _tried(load: Callable[[], Any], found: list[str]) -> Any:
    """What loads; schema errors, ids that stand there twice and sources that do not resolve become findings."""
    try:
        return load()
    except InputError as error:
        found.append(str(error))
        return None


def _unsourced(path: Path) -> Iterator[str]:
    """Cells with a value that nobody vouches for."""
    try:
        file = yamlfile.load(path)
    except InputError:
        return  # reported where it was loaded in earnest
    yield from _cells(file, file.data, ())


def _cells(file: yamlfile.YamlFile, node: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    if isinstance(node, dict) and "value" in node and "src" in node:
        if node["value"] not in (None, []) and not node["src"]:
            yield f"{file.where(*path)}: {'.'.join(map(str, path))} cites no source"
        return
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _cells(file, value, (*path, key))


def _shared(hardware: dict[str, Hardware]) -> Iterator[str]:
    """Two profiles that the same node would be."""
    seen: dict[str, str] = {}
    for name, profile in hardware.items():
        marks = (profile.product.value, *(profile.product_aliases.value or ()), *(profile.pci_device_ids.value or ()))
        for mark in marks:
            if seen.setdefault(mark, name) != name:
                yield f"{profile.product.source}: {mark} is also of hardware {seen[mark]}"


def _layout(recipe: Recipe, layout: Layout, hardware: dict[str, Hardware]) -> Iterator[str]:
    profile = hardware.get(layout.hardware)
    where = f"{layout.source}: layout {layout.id}"
    if profile is None:
        yield f"{where} is for {layout.hardware}, which has no profile that can be read"
        return
    yield from (f"{where} {words}" for words in (*_shape(layout, profile), *_carried(layout, profile)))
    answer = fit(recipe, layout, profile, profile.memory_bytes).answer
    if answer is Answer.NO and layout.tier != "rejected":
        yield f"{where} does not fit {profile.id} and is not rejected"
    if layout.tier == "official" and layout.upstream not in ("recommended", "rendered"):
        yield f"{where} is official, and upstream does not render it"
    if layout.tier not in recipe.tiers:
        yield f"{where} has tier {layout.tier}, which no text explains"


def _shape(layout: Layout, profile: Hardware) -> Iterator[str]:
    per_node = profile.gpus_per_node.value
    for pool in layout.pools:
        name = f"{pool.name} " if pool.name else ""
        if pool.gpus != pool.nodes * per_node and layout.tier != "rejected":
            yield f"{name}has {pool.shape} on {pool.nodes * per_node} GPUs"
        if pool.dp_local is not None and pool.dp % pool.dp_local:
            yield f"{name}has {pool.dp} data-parallel ranks, {pool.dp_local} on a node"
    if layout.tier == "rejected" and not layout.why:
        yield "is rejected without a reason"


def _carried(layout: Layout, profile: Hardware) -> Iterator[str]:
    if (layout.fabric == "node") != (layout.nodes == 1):
        yield f"takes {layout.nodes} nodes over fabric {layout.fabric}"
    if layout.fabric == "mnnvl" and profile.fabric_kind.value != "nvl72":
        yield f"crosses nodes by NVLink, which {profile.id} cannot"
    for pool in layout.pools:
        if pool.all2all not in _ALL2ALL[layout.fabric]:
            yield f"uses {pool.all2all} over {layout.fabric}"
        if pool.moe == _MEGA_MOE and layout.fabric != "mnnvl":
            yield f"uses {_MEGA_MOE} over {layout.fabric}; it needs NVLink between nodes"


def _requirements() -> Iterator[str]:
    """Ids are unique and checks match one to one, or `requirements` raises."""
    try:
        listed = requirements()
    except InputError as error:
        yield str(error)
        return
    for requirement in listed.values():
        if not [source for source in requirement.sources if source.strip()]:
            yield f"requirement {requirement.id} cites no source"
