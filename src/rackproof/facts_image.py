"""Which image a local image is, and what proves it.

An engine keeps the digest of a pull (`repository@sha256:...`). An image that came from an archive has none with Docker's
own image store: there it is known by its id alone, which is the digest of its configuration. So the deploy leaves beside
it the index and the manifest of the pin, byte for byte. They prove themselves: an index with the pinned digest lists the
manifest's digest, and a manifest with that digest names the configuration, whoever put them there.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.baseline_parts import ImageBaseline
from rackproof.facts import ImageFacts


@dataclass(frozen=True)
class ImageChain:
    """One manifest that lies on the node: digests of its bytes, of the indexes there that list it, of its configuration."""

    manifest: str
    indexes: tuple[str, ...]
    config: str


def short(name: str) -> str:
    """Docker leaves out its own registry's name."""
    return name.removeprefix("docker.io/")


def by_digest(image: ImageFacts, wanted: ImageBaseline) -> bool:
    """Whether the engine itself says that this is the pinned image, by the digest of the index or of the own platform."""
    names = {short(f"{wanted.repository}@{digest}") for digest in (wanted.index, wanted.platform) if digest}
    return bool(names & {short(digest) for digest in image.digests})


def may_lack_digest(image: ImageFacts, engine: str) -> bool:
    """Whether the digests of an image may not be those of its registry: it has none, or podman loaded it.

    Podman gives an image from an archive the digest of a manifest that it wrote by itself.
    """
    return engine == "podman" or not image.digests


def by_chain(image: ImageFacts, wanted: ImageBaseline, chains: tuple[ImageChain, ...]) -> bool:
    """Whether the id of this image is the configuration of the pinned one."""
    return any(
        image.id == chain.config and (wanted.index in chain.indexes or chain.manifest == wanted.platform)
        for chain in chains
    )
