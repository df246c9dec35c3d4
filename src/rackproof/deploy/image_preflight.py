"""What can be known about a pull before it starts: how much room it takes, and that it cannot work at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rackproof.baseline_parts import ImageBaseline
from rackproof.recipes import settings
from rackproof.registry import RegistryError, reference, resolve
from rackproof.registry import credentials as kept
from rackproof.registry.client import Registry
from rackproof.registry.transport import Transport
from rackproof.site import Site

ATTEMPTS, SILENCE_S = 2, 8  # a machine that deploys may have no way to a registry, and then must not wait for it


@dataclass(frozen=True)
class Room:
    """Bytes that must be free for a pull, and where that number comes from; `refusal`: why it cannot work."""

    bytes: int
    source: str
    refusal: str = ""


def room_for(image: ImageBaseline, site: Site) -> Room:
    """What the site says; else what the registry's manifest says; else the floor of the recipe's data."""
    said = site.get("image", "free_bytes")
    if said is not None:
        return Room(said.value, f"image.free_bytes, {said.source}")
    ca_file, plain = site.value("image", "ca_file"), bool(site.value("image", "plain_http", default=False))
    return _asked(image, ca_file, plain)


@lru_cache(maxsize=64)
def _asked(image: ImageBaseline, ca_file: str | None, plain_http: bool) -> Room:
    """Asks once for all nodes. A registry that does not answer here may well answer the node."""
    wanted = reference.parse(image.reference, "image.repository")
    transport = Transport(
        Path(ca_file) if ca_file else None, plain_http=plain_http, attempts=ATTEMPTS, silence_s=SILENCE_S
    )
    registry = Registry(wanted, transport, kept.find(wanted.registry))
    try:
        found = resolve(wanted, registry, image.index, (image.architecture,))
    except RegistryError:
        return _room(
            settings.load().limits["image_compressed_bytes"].value, "no registry could be asked: the recipe's floor"
        )
    platform = found.platforms.get(image.architecture)
    if platform is None:
        held = ", ".join(f"linux/{name}" for name in found.listed)
        said = f"{image.reference} has no linux/{image.architecture}, which this host needs; it has {held}"
        return Room(0, "", said)
    return _room(platform.bytes, f"{platform.bytes} compressed by its manifest")


def _room(compressed: int, source: str) -> Room:
    percent = settings.load().limits["image_unpacked_percent"].value
    return Room(compressed + compressed * percent // 100, f"{source}, and {percent} % of that unpacked")
