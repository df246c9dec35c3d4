"""What `image resolve` prints: the digests, and what to write where to pin them."""

from __future__ import annotations

from typing import Any

from rackproof import __version__
from rackproof.recipes import Image, Recipe
from rackproof.registry.image import Platform, Resolved

_GB = 1e9


def as_data(found: Resolved, recipe: Recipe) -> dict[str, Any]:
    """Plain data for JSON. Labels are the image's own words and not to be trusted."""
    known = _known(found, recipe)
    return {
        "schema": 1,
        "tool": {"name": "rackproof", "version": __version__},
        "reference": str(found.reference),
        "index": found.index.digest if found.index else None,
        "recipe_image": known.id if known else None,
        "listed": dict(found.listed),
        "platforms": {name: _platform_data(platform) for name, platform in found.platforms.items()},
        "pin": pin_lines(found, recipe),
    }


def _platform_data(platform: Platform) -> dict[str, Any]:
    return {
        "digest": platform.digest, "config": platform.config_digest, "compressed_bytes": platform.bytes,
        "layers": platform.layers, "cuda": platform.cuda, "vllm": platform.vllm,
        "config_architecture": platform.config_architecture, "labels": dict(platform.labels),
    }  # fmt: skip


def as_text(found: Resolved, recipe: Recipe) -> str:
    lines = [str(found.reference)]
    if found.index:
        lines.append(f"  index        {found.index.digest}")
    for name, platform in found.platforms.items():
        stated = f"CUDA {platform.cuda or 'not stated'}, vLLM {platform.vllm or 'not stated'}"
        size = f"{platform.bytes / _GB:.2f} GB" if platform.bytes >= _GB / 100 else f"{platform.bytes} bytes"
        lines.append(f"  linux/{name:<7}{platform.digest}")
        lines.append(f"               {size} compressed in {platform.layers} layers, {stated}")
        if platform.config_architecture != name:
            lines.append(f"               its configuration says {platform.config_architecture}: do not use it")
    return "\n".join([*lines, "", *pin_lines(found, recipe)])


def pin_lines(found: Resolved, recipe: Recipe) -> list[str]:
    """YAML for the site where the recipe has this image; else what the recipe would have to say first."""
    known = _known(found, recipe)
    if known is not None:
        own = known.repository == found.reference.name
        mirror = [] if own else [f"  repository: {found.reference.name}"]
        return ["# group_vars: the digests are the recipe's", "image:", f"  id: {known.id}", *mirror]
    digests = {name: platform.digest for name, platform in found.platforms.items()}
    cuda = next((platform.cuda for platform in found.platforms.values() if platform.cuda), None)
    return [
        f"# Recipe {recipe.id} has no image with this digest, so no site can choose it. An entry of",
        f"# recipes/{recipe.id}.yaml under images, for when somebody has shown that it serves:",
        f"  - id: {(found.reference.tag or 'new').replace('.', '')}",
        f"    repository: {found.reference.name}",
        f"    tag: {found.reference.tag}",
        f"    cuda: {(cuda or 'unknown').partition('.')[0]}",
        "    role: accepted_with_warning",
        f"    index: {found.digest}",
        f"    amd64: {digests.get('amd64', 'null')}",
        f"    arm64: {digests.get('arm64', 'null')}",
    ]


def _known(found: Resolved, recipe: Recipe) -> Image | None:
    return next((image for image in recipe.images.values() if image.index == found.digest), None)
