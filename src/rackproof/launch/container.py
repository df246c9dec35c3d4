"""The container of one process: what the recipe's run profile says, for this GPU vendor and fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.launch.model import Container, Mount
from rackproof.recipes import Recipe
from rackproof.recipes.settings import Noted, Settings, by
from rackproof.site import Site
from rackproof.sourced import Cell


@dataclass(frozen=True)
class RunImage:
    """The image by digest, its tag for people, and where that stands."""

    reference: str
    tag: str
    source: str


def image_for(recipe: Recipe, site: Site, settings: Settings, vendor: str) -> RunImage:
    """What the baseline pulls, or for AMD the ROCm image; a mirror keeps the digest."""
    asked = site.get("image", "id") or Cell("v028", "")
    mirror = site.get("image", "repository")
    if vendor == "amd":
        rocm = settings.container["rocm_image"]
        own = mirror is not None and "rocm" in mirror.value
        repository = mirror.value if mirror is not None and own else rocm.value["repository"]
        digest = site.value("simulation", "image", "index", default=rocm.value["digest"])
        return RunImage(f"{repository}@{digest}", rocm.value["tag"], rocm.source)
    image = recipe.image(asked.value, asked.source)
    index = site.value("simulation", "image", "index", default=image.index)
    repository = mirror.value if mirror else image.repository
    return RunImage(f"{repository}@{index}", image.tag, image.source)


def container_for(
    settings: Settings, site: Site, image: RunImage, *, vendor: str, model: str, imex_channel: str | None, rdma: bool
) -> Container:
    """`imex_channel`: memory of other trays is mapped; `rdma`: InfiniBand or RoCE verbs are used."""
    profile, gpus = settings.container, settings.gpus[vendor]
    notes = [("GPUs", gpus.note, by(gpus.source))] if gpus.note else []
    devices = list(gpus.devices)
    if imex_channel is not None:
        devices.append(f"{profile['imex'].value}/{imex_channel}")
        notes.append(_note("IMEX channel", profile["imex"]))
    if rdma:
        devices.append(profile["infiniband"].value)
        notes.append(_note(profile["infiniband"].value, profile["infiniband"]))
    engine = site.value("container", "engine", default="docker")
    own = profile["podman"] if engine == "podman" else None
    if own is not None:
        notes.append(_note("podman", own))
    named = ("network", "privileged", "capabilities", "ulimits", "entrypoint", "pull")
    notes += [_note(name, profile[name]) for name in named if profile[name].note]
    return Container(
        image=image.reference,
        entrypoint=tuple(profile["entrypoint"].value),
        network=profile["network"].value,
        ipc=profile["ipc"].value,
        capabilities=tuple(profile["capabilities"].value),
        ulimits=tuple(profile["ulimits"].value.items()),
        devices=tuple(devices),
        groups=gpus.groups,
        security=gpus.security,
        mounts=_mounts(profile, site, model),
        pull=profile["pull"].value,
        stop_timeout_s=settings.limits["stop_timeout_s"].value,
        notes=tuple((what, f"{why} ({who})") for what, why, who in notes),
        engine=engine,
        engine_options=tuple(own.value.items()) if own is not None else (),
    )


def _note(what: str, noted: Noted) -> tuple[str, str, str]:
    return what, noted.note, by(noted.source)


def _mounts(profile: Mapping[str, Noted], site: Site, model: str) -> tuple[Mount, ...]:
    mounts = [Mount(model, model, read_only=True)]
    cache = site.value("serving", "cache_directory")
    if cache is not None:
        mounts.append(Mount(cache, profile["cache"].value, read_only=False))
    return tuple(mounts)
