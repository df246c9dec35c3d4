"""What an image is, as its registry tells: digests by platform, and what each configuration states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackproof.registry.client import Document, Registry
from rackproof.registry.reference import DIGEST, Reference
from rackproof.registry.transport import RegistryError, Trouble

MAX_PLATFORMS = 32
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+_-]*")


@dataclass(frozen=True)
class Platform:
    """One platform of an image. `bytes` is what its layers take compressed, as the manifest says."""

    os: str
    architecture: str  # as OCI spells it
    digest: str
    config_digest: str
    bytes: int
    layers: int
    cuda: str | None  # CUDA_VERSION in the environment
    vllm: str | None  # where the image states one
    labels: Mapping[str, str]
    config_architecture: str | None  # what the configuration itself says
    manifest: Document = field(repr=False)


@dataclass(frozen=True)
class Resolved:
    """An image as a registry holds it. `index` is None where the reference is one platform's manifest."""

    reference: Reference
    index: Document | None
    listed: Mapping[str, str]  # architecture -> digest of every Linux platform of the index
    platforms: Mapping[str, Platform]  # those that were read

    @property
    def digest(self) -> str:
        """What pins the image: the index, or the one manifest there is."""
        return self.index.digest if self.index else next(iter(self.platforms.values())).digest


def resolve(
    reference: Reference, registry: Registry, wanted: str | None = None, architectures: tuple[str, ...] | None = None
) -> Resolved:
    """Ask for `wanted` (a digest or tag; else what the reference says) and the configuration of its platforms.

    `architectures`: read only these; those the index does not list are left out. Raises RegistryError.
    """
    top = registry.manifest(wanted or reference.digest or reference.tag or "latest")
    if not top.is_index:
        platform = _platform(reference, registry, top, None)
        return Resolved(reference, None, {platform.architecture: platform.digest}, {platform.architecture: platform})
    listed = linux_platforms(top.data, reference.api_host)
    asked = listed if architectures is None else {name: listed[name] for name in architectures if name in listed}
    platforms = {
        name: _platform(reference, registry, registry.manifest(digest), name) for name, digest in asked.items()
    }
    return Resolved(reference, top, listed, platforms)


def linux_platforms(index: Mapping[str, Any], host: str) -> dict[str, str]:
    """Architecture -> digest of the Linux platforms of an index. Attestations, which say "unknown", are left out."""
    entries = index.get("manifests")
    found: dict[str, str] = {}
    for entry in entries if isinstance(entries, list) else []:
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(platform, dict) or platform.get("os") != "linux":
            continue
        architecture, digest = platform.get("architecture"), entry.get("digest")
        if not isinstance(architecture, str) or not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise RegistryError(Trouble.BROKEN, host, "an entry of the index has no architecture or no sha256 digest")
        found.setdefault(architecture, digest)
    if not found or len(found) > MAX_PLATFORMS:
        raise RegistryError(Trouble.BROKEN, host, f"the index lists {len(found)} Linux platforms")
    return found


def _platform(reference: Reference, registry: Registry, manifest: Document, listed_as: str | None) -> Platform:
    descriptor = manifest.data.get("config")
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    layers = manifest.data.get("layers")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest) or not isinstance(layers, list):
        raise RegistryError(Trouble.BROKEN, reference.api_host, f"{manifest.digest} is not the manifest of an image")
    config = registry.config(digest).data
    architecture = config.get("architecture")
    settings = _object(config, "config")
    labels = {str(key): str(value) for key, value in _object(settings, "Labels").items()}
    variables = _variables(settings)
    return Platform(
        os=str(config.get("os") or "linux"),
        architecture=listed_as or str(architecture),
        digest=manifest.digest,
        config_digest=digest,
        bytes=sum(_size(layer) for layer in layers),
        layers=len(layers),
        cuda=variables.get("CUDA_VERSION"),
        vllm=_vllm(variables, labels),
        labels=labels,
        config_architecture=architecture if isinstance(architecture, str) else None,
        manifest=manifest,
    )


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _variables(settings: Mapping[str, Any]) -> dict[str, str]:
    env = settings.get("Env")
    lines = [line for line in env if isinstance(line, str) and "=" in line] if isinstance(env, list) else []
    return dict(line.split("=", 1) for line in lines)


def _size(layer: Any) -> int:
    size = layer.get("size") if isinstance(layer, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0


def _vllm(variables: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """The version the image states. A label "22.04" is that of a base image, which builds inherit, and is none."""
    stated = variables.get("VLLM_VERSION") or labels.get("org.opencontainers.image.version") or ""
    return stated if _VERSION.fullmatch(stated) else None
