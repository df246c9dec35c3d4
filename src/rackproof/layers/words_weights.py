"""What checks of weights and disks share: the file system of the model directory, NVMe disks, sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from rackproof.facts import Fact, Missing, NodeFacts, known
from rackproof.facts_system import Disk, Filesystem, NvmeController, NvmeHealth
from rackproof.facts_weights import Shard
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import gib

D = TypeVar("D", NvmeController, NvmeHealth)


def within(found: int, wanted: int, tolerance: float) -> bool:
    """Whether a size is the wanted one, give or take a share of it."""
    return abs(found - wanted) <= wanted * tolerance


def room_for(facts: NodeFacts, wanted: int, tolerance: float) -> Fact[Reading]:
    """Whether weights of this size fit: what is there already and what is free, in bytes."""
    free = of(model_filesystem(facts), lambda found: found.available_bytes)

    def with_free(have: int) -> Fact[Reading]:
        if within(have, wanted, tolerance):
            return Reading(True, "the weights are there")
        return seen(free, lambda left: have + left >= wanted, lambda left: f"{gib(have)} there, {gib(left)} free")

    return of(of(facts.weights, lambda found: found.shard_bytes), with_free)


def model_filesystem(facts: NodeFacts) -> Fact[Filesystem]:
    return of(facts.weights, lambda found: found.filesystem)


def below(path: str, folders: Collection[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def disk_at(facts: NodeFacts) -> Fact[Disk]:
    """The block device that the model directory lies on, as lsblk mounts it."""
    disks = of(facts.system, lambda system: system.disks)

    def mounted(filesystem: Filesystem) -> Fact[Disk]:
        unknown = Missing(f"lsblk mounts nothing at {filesystem.mount}")
        return of(disks, lambda found: next((disk for disk in found if filesystem.mount in disk.mounts), unknown))

    return of(model_filesystem(facts), mounted)


def shard_words(shards: Iterable[Shard]) -> str:
    return ", ".join(f"{shard.name} has {shard.bytes} bytes" for shard in shards)


def nvme_health(facts: NodeFacts) -> Fact[tuple[NvmeHealth, ...]]:
    """Health of each NVMe disk; a node without any has nothing that could be well."""
    health = of(facts.system, lambda system: system.nvme_health)
    return of(health, lambda found: found or Missing("no NVMe disk was found"))


def each_disk(disks: Fact[Sequence[D]], read: Callable[[D], Fact[Reading]]) -> dict[str, Fact[Reading]]:
    """One reading a disk, by its name."""
    return {disk.name: read(disk) for disk in known(disks)}


def nvme_disks(facts: NodeFacts) -> Fact[tuple[Disk, ...]]:
    """Whole NVMe disks, without partitions."""
    disks = of(facts.system, lambda system: system.disks)
    return of(disks, lambda found: tuple(disk for disk in found if disk.kind == "disk" and _is_nvme(disk)))


def _is_nvme(disk: Disk) -> bool:
    return disk.transport == "nvme" or disk.name.startswith("nvme")


def total(sizes: Iterable[Fact[int]]) -> Fact[int]:
    """The sum; Missing where one of them is."""
    found = list(sizes)
    return next((size for size in found if isinstance(size, Missing)), sum(s for s in found if isinstance(s, int)))
