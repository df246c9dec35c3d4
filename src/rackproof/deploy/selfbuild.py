"""The self-build path, and the way back from it to the official one.

A self-built host is marked in every place a person could look, and remembers it in places of its own
(rackproof.facts_selfbuild); nothing but `convert` ends that.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from importlib import resources
from pathlib import Path
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from rackproof.baseline_launch import selfbuilt_files
from rackproof.deploy import selfbuild_scripts as scripts
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.operations import as_connected
from rackproof.deploy.selfbuild_scripts import MARK, WORK, Build
from rackproof.deploy.selfbuild_source import archive
from rackproof.deploy.stamp import KEEP, choices
from rackproof.errors import InputError, RackproofError
from rackproof.facts import Missing
from rackproof.facts_selfbuild import CONVERTED, LAYER, TIER, traces
from rackproof.inventory import current_plan, member_of, refuse
from rackproof.managed import STAMP, File
from rackproof.recipes import settings
from rackproof.site import Site

REPOSITORY = "https://github.com/vllm-project/vllm.git"
BUILD_S = 12 * 3600
_WATCH = Watch(files=(MARK, STAMP))


def bring_about(node: Node) -> None:
    """Mark the host, build the image, install its unit where the site wants one, stamp the host as unsupported."""
    with node.layer(LAYER):
        if node.stopped:
            return
        try:
            build = _build(node)
            _warn(node)
            if not _is_marked(node, build):
                node.shell(f"Mark as {build.label}", scripts.mark(build), watch=_WATCH)
            if not _is_built(node, build):
                _make(node, build)
            _unit(node, build)
            _stamp(node, build)
        except RackproofError as error:
            refuse(error)
    logger.warning(
        f"{current_host.print_prefix}verdict: unsupported; `rackproof verify` ends with exit code 4 for this host, "
        "and an official deploy refuses it until convert: true"
    )


def convert(node: Node) -> None:
    """Where the site says so, take what a self-build left away; the official layers then follow."""
    found = {place: said for place, said in traces(node.facts).items() if said}
    with node.layer(LAYER):
        if not found or node.stopped or not node.site.value("convert", default=False):
            return
        label = settings.load(node.baseline.recipe).selfbuild["label"].value
        node.shell(
            f"{CONVERTED}: what the self-build left is removed",
            scripts.convert(label, node.run.operator),
            disrupts=True,
            watch=_WATCH,
        )


def _build(node: Node) -> Build:
    """What the site asks for. Refused without its own words that nobody supports it."""
    site, data = node.site, settings.load(node.baseline.recipe).selfbuild
    engine = site.require("container", "engine")
    if engine.value != "docker":
        raise InputError(engine.source, f"a self-build is made by docker build, and container.engine is {engine.value}", "docker")
    commit, base = site.require("selfbuild", "commit"), site.require("selfbuild", "base")
    if not site.value("selfbuild", "accept_unsupported", default=False):
        raise InputError(
            commit.source,
            f"a self-build is unsupported and never passes for official (CUDA 12.9: {data['cuda_12_9'].value})",
            "selfbuild.accept_unsupported: true, from somebody who knows that",
        )
    return Build(commit.value, base.value, data["label"].value, node.run.operator, _containerfile(site))


def _containerfile(site: Site) -> str:
    own = site.get("selfbuild", "containerfile")
    if own is None:
        return resources.files("rackproof.deploy").joinpath("selfbuild.Containerfile").read_text("utf-8")
    try:
        return Path(own.value).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(own.source, f"{own.value} cannot be read on this machine", "a Containerfile") from None


def _warn(node: Node) -> None:
    """What is known to fail, before anything is begun."""
    data = settings.load(node.baseline.recipe).selfbuild
    logger.warning(
        f"{current_host.print_prefix}UNSUPPORTED self-build. CUDA 12.9 and R575: {data['cuda_12_9'].value} "
        f"({data['cuda_12_9'].source}). Nobody but its builder tests this image."
    )
    node.notes.append("self-build: never accepted, exit code 4 from verify and judge")


def _is_marked(node: Node, build: Build) -> bool:
    """Marked for this commit, and recorded: a mark alone would not be remembered."""
    found = traces(node.facts)
    places = (known_or(found.get(place, Missing("")), None) or "" for place in ("mark", "record"))
    return all(build.commit[:12] in said for said in places)


def _is_built(node: Node, build: Build) -> bool:
    images = known_or(node.facts.runtime.images, ())
    return any(build.tag in image.tags and scripts.labelled(image.labels, build) for image in images)


def _make(node: Node, build: Build) -> None:
    repository = node.site.get("selfbuild", "repository")
    source = archive(
        repository.value if repository else REPOSITORY,
        build.commit,
        repository.source if repository else "selfbuild.commit",
    )
    there = f"{WORK}/source.tar"
    node.shell("Make room for the source", f"mkdir -p {WORK}")
    if not node.stopped:
        sends(name=f"Copy the source of vLLM {build.commit[:12]}", local=str(source), there=there)
    node.watched(
        f"Build vLLM {build.commit[:12]}", scripts.build(build, there), BUILD_S, watch=Watch(images=(build.tag,))
    )


@operation(is_idempotent=False)
def sends(local: str, there: str) -> Generator[FunctionCommand, None, None]:
    """Copy a file of this machine to the host."""
    yield FunctionCommand(_send, (local, there), {})


def _send(state: Any, host: Any, local: str, there: str) -> bool:
    return bool(host.put_file(local, there, **as_connected(host)))


def _unit(node: Node, build: Build) -> None:
    """The unit of the self-built image, never started by the deploy; its description says what it is."""
    member = member_of(current_plan(), node.name)
    if not node.site.value("serving", "install", default=False) or member is None:
        return
    files = [
        File(LAYER, path, text)
        for path, text in selfbuilt_files(node.baseline, node.site, member, build.tag, build.title)
    ]
    node.files("Install the unit of the self-built image", files, then="systemctl daemon-reload")


def _stamp(node: Node, build: Build) -> None:
    wanted = {
        "tier": TIER, "support": build.label, "commit": build.commit, "base": build.base, "image": build.tag,
        "recipe": node.baseline.recipe, "simulated": node.baseline.simulated, "site": choices(node.site),
    }  # fmt: skip
    there = known_or(node.facts.host.stamp, None) or {}
    if all(there.get(key) == value for key, value in wanted.items()):
        return
    text = json.dumps({**wanted, "builder": build.builder}, indent=1)[:-2] + ',\n "written": "@now@"\n}\n'
    node.files(
        "Stamp the host as unsupported", [File(LAYER, STAMP, text)], first="" if there.get("tier") == TIER else KEEP,
        then=f"sed -i \"s/@now@/$(date -u +%Y-%m-%dT%H:%M:%SZ)/\" {STAMP}",
    )  # fmt: skip
