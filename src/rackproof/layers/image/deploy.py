"""Layer image: the official image by digest, from a registry or an archive; the tag, where it is there, names the same.

Nothing is ever removed: the image that was there before stays, under a tag of its own.
"""

from __future__ import annotations

from pathlib import Path

from rackproof.deploy import image_scripts
from rackproof.deploy.image_archive import archive_of
from rackproof.deploy.image_preflight import room_for
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.errors import InputError, RackproofError
from rackproof.facts import ImageFacts
from rackproof.facts_image import ImageChain, by_chain, by_digest, may_lack_digest, short
from rackproof.inventory import refuse
from rackproof.managed import File
from rackproof.registry import credentials, reference


def bring_about(node: Node) -> None:
    """Get it where it is not here, check digest and architecture, point the tag at it."""
    with node.layer("image"):
        if not _in_place(node):
            try:
                _get(node)
            except RackproofError as error:
                refuse(error)


def _get(node: Node) -> None:
    image, site = node.baseline.image, node.site
    room = room_for(image, site)
    engine = node.baseline.runtime.engine
    archive = archive_of(image, site, room.bytes, room.source, engine)
    what = f"{image.repository.rpartition('/')[2]} by digest {image.index[7:19]}"
    watch = Watch(images=(image.reference, f"{image.repository}:{image.tag}"), engine=engine)
    if archive is not None:
        node.imports(f"Import {what}", archive, watch)
        return
    if room.refusal:
        node.stop(room.refusal)
        return
    _trust(node)
    named = reference.parse(image.reference, "image.repository")
    given = credentials.find(named.registry)
    script = image_scripts.pull(image, room.bytes, room.source, with_login=given is not None, engine=engine)
    secret = image_scripts.login_file(named, given) if given else ""
    node.watched(f"Pull {what}", script, secret=secret, watch=watch)


def _trust(node: Node) -> None:
    """An engine trusts the CA of a registry by a file of its own; for Docker Hub Docker takes only what the system trusts."""
    named, repository = node.site.get("image", "ca_file"), node.baseline.image.repository
    engine = node.baseline.runtime.engine
    hub = reference.parse(repository, "image.repository").registry == reference.HUB
    if named is None or (hub and engine == "docker"):
        return
    try:
        content = Path(named.value).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise InputError(named.source, f"{named.value} cannot be read", "certificates of the CA, PEM") from None
    node.files(
        "Trust the CA of the image's registry",
        [File("image", image_scripts.ca_path(repository, engine), content)],
    )


def _in_place(node: Node) -> bool:
    wanted, engine = node.baseline.image, node.baseline.runtime.engine
    images: tuple[ImageFacts, ...] = known_or(node.runtime.images, ())
    chains: tuple[ImageChain, ...] = known_or(node.runtime.image_chains, ())
    chained = [i for i in images if may_lack_digest(i, engine) and by_chain(i, wanted, chains)]
    pinned = [i for i in images if by_digest(i, wanted) or i in chained]
    tagged = [i for i in images if short(f"{wanted.repository}:{wanted.tag}") in map(short, i.tags)]
    return bool(pinned) and pinned[0].architecture == wanted.architecture and tagged == pinned[:1]
