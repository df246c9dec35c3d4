"""What the weights on a node, and what serves them, must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof import rules
from rackproof.errors import InputError
from rackproof.resolving import Resolving
from rackproof.sourced import Cell

Forbidden = tuple[tuple[str, tuple[str, ...]], ...]  # variables and the values they may not have


@dataclass(frozen=True)
class WeightsBaseline:
    """One model directory: sizes in bytes, shares from 0 to 1, NVMe values in percent."""

    directory: str | None  # where the site keeps the weights; None: it does not say, and nothing is asked
    storage: str  # local | slow: shared or network storage that the site chose
    local: bool | None  # True: the directory is named and must be on local storage
    revision: str
    bytes: int  # of all shards
    shards: int
    bytes_tolerance: float
    disk_bytes: int  # what a disk for one copy should have
    local_filesystems: tuple[str, ...]
    volatile_filesystems: tuple[str, ...]
    volatile_folders: tuple[str, ...]
    shared_mounts: tuple[str, ...]
    nvme_spare_min_percent: int
    nvme_used_max_percent: int


@dataclass(frozen=True)
class ServingBaseline:
    """What a unit that serves must say, and what must be free for it."""

    install: bool  # the site wants a serving unit of ours on the node
    start: bool  # and that it runs, now and after a boot; else it is installed and left to people
    prepared: bool  # the site brings the node to its baseline: what a deploy installs has to be there
    across: bool  # the layout serves from several nodes
    imex: bool  # its traffic between nodes goes over NVLink
    ready_timeout_s: int  # at least
    cache_directory: str | None
    ports: tuple[int, ...]
    forbidden: Forbidden
    gpu_lists: tuple[str, ...]
    gpu_devices: tuple[str, ...]  # how a container is given every GPU
    infiniband: str
    imex_channels: str
    selfbuild_label: str
    shm_used_max: float
    launch: str | None = None  # sha256 of the files of all ranks of the unit; None: nobody said which nodes serve together
    files: tuple[tuple[str, str], ...] = ()  # (path, text) of this node's: not part of what is hashed


def weights_baseline(r: Resolving) -> WeightsBaseline:
    model, limits = r.recipe.model, r.settings().limits
    directory = r.choose("weights.directory", "serving", "model_directory")
    storage = r.choose("weights.storage", "serving", "storage", default="local")
    r.notes["weights.local"] = r.notes["weights.storage"]
    return WeightsBaseline(
        directory=directory,
        storage=storage,
        local=True if directory and storage == "local" else None,
        revision=r.take("weights.revision", model["revision"]),
        bytes=r.take("weights.bytes", model["bytes"]),
        shards=r.take("weights.shards", model["shards"]),
        disk_bytes=r.take("weights.disk_bytes", limits["disk_free_bytes"]),
        **{name: r.rule(f"weights.{name}", "weights", name) for name in rules.load("weights")},
    )


def serving_baseline(r: Resolving) -> ServingBaseline:
    settings, layout = r.settings(), r.layout
    slow = r.site.value("serving", "storage", default="local") == "slow"
    install = r.choose("serving.install", "serving", "install", default=False)
    start = r.choose("serving.start", "serving", "start", default=False)
    _refuse_start(r, install, start)
    across = layout.nodes > 1
    r.notes["serving.launch"] = r.notes["serving.files"] = f"rackproof launch of {layout.id}"
    r.notes["serving.prepared"] = "group_vars: packages.repository or serving.install"
    r.notes["serving.across"] = r.notes["serving.imex"] = layout.source
    injection = settings.gpus[r.hardware.vendor]
    r.notes["serving.gpu_devices"] = injection.source
    return ServingBaseline(
        install=install,
        start=start,
        prepared=install or r.site.get("packages", "repository") is not None,
        across=across,
        imex=across and layout.fabric == "mnnvl",
        ready_timeout_s=r.take(
            "serving.ready_timeout_s", settings.limits[f"ready_timeout_{'slow_storage_' if slow else ''}s"]
        ),
        cache_directory=r.choose("serving.cache_directory", "serving", "cache_directory"),
        ports=_ports(r),
        forbidden=_forbidden(r, over_rdma=across and (layout.fabric == "rdma" or layout.strategy == "pd_cluster")),
        gpu_lists=r.rule("serving.gpu_lists", "serving", "gpu_lists"),
        gpu_devices=injection.devices,
        infiniband=_profile(r, "serving.infiniband", "infiniband"),
        imex_channels=_profile(r, "serving.imex_channels", "imex"),
        selfbuild_label=r.take("serving.selfbuild_label", settings.selfbuild["label"]),
        shm_used_max=r.rule("serving.shm_used_max", "serving", "shm_used_max"),
    )


def _refuse_start(r: Resolving, install: bool, start: bool) -> None:
    if not start:
        return
    source = r.site.require("serving", "start").source
    if not install:
        raise InputError(source, "serving.start is true, and no unit is installed", "serving.install: true as well")
    if r.site.value("gpus", "expect_idle"):
        raise InputError(
            source, "serving.start is true, and gpus.expect_idle says that nothing runs", "gpus.expect_idle: false as well"
        )


def _profile(r: Resolving, key: str, option: str) -> str:
    noted = r.settings().container[option]
    return str(r.take(key, Cell(noted.value, noted.source)))


def _ports(r: Resolving) -> tuple[int, ...]:
    """TCP ports that processes of this layout open: one server's, or those of prefill and decode; and where nodes meet."""
    names = ["prefill", "decode", "nixl_prefill", "nixl_decode"] if r.layout.strategy == "pd_cluster" else ["serve"]
    if r.layout.nodes > 1:
        names.append("master")
    chosen = {**r.settings().ports, **r.site.under("serving", "ports")}
    r.notes["serving.ports"] = ", ".join(dict.fromkeys(chosen[name].source for name in names))
    return tuple(sorted(chosen[name].value for name in names))


def _forbidden(r: Resolving, over_rdma: bool) -> Forbidden:
    topics = {
        "forbidden_always": True,
        "forbidden_over_rdma": over_rdma,
        "forbidden_over_mnnvl": r.layout.nodes > 1 and r.layout.fabric == "mnnvl",
        "forbidden_on_hgx": r.hardware.fabric_kind.value == "hgx",
    }
    cells = [rules.load("serving")[name] for name, holds in topics.items() if holds]
    r.notes["serving.forbidden"] = "; ".join(cell.source for cell in cells)
    merged: dict[str, tuple[str, ...]] = {}
    for cell in cells:
        values: Mapping[str, list[str]] = cell.value
        for name, found in values.items():
            merged[name] = (*merged.get(name, ()), *found)
    return tuple(sorted(merged.items()))
