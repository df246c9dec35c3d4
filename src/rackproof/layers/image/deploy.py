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
from rackproof.facts_image import ImageChain, by_chain, by_digest, short
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
    archive = archive_of(image, site, room.bytes, room.source)
    what = f"{image.repository.rpartition('/')[2]} by digest {image.index[7:19]}"
    watch = Watch(images=(image.reference, f"{image.repository}:{image.tag}"))
    if archive is not None:
        node.imports(f"Import {what}", archive, watch)
        return
    if room.refusal:
        node.stop(room.refusal)
        return
    _trust(node)
    named = reference.parse(image.reference, "image.repository")
    given = credentials.find(named.registry)
    script = image_scripts.pull(image, room.bytes, room.source, with_login=given is not None)
    secret = image_scripts.login_file(named, given) if given else ""
    node.watched(f"Pull {what}", script, secret=secret, watch=watch)


def _trust(node: Node) -> None:
    """Docker trusts the CA of a registry by a file of its own; for Docker Hub it takes only what the system trusts."""
    named, repository = node.site.get("image", "ca_file"), node.baseline.image.repository
    if named is None or reference.parse(repository, "image.repository").registry == reference.HUB:
        return
    try:
        content = Path(named.value).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        raise InputError(named.source, f"{named.value} cannot be read", "certificates of the CA, PEM") from None
    node.files(
        "Trust the CA of the image's registry",
        [File("image", image_scripts.ca_path(repository), content)],
    )


def _in_place(node: Node) -> bool:
    wanted = node.baseline.image
    images: tuple[ImageFacts, ...] = known_or(node.facts.runtime.images, ())
    chains: tuple[ImageChain, ...] = known_or(node.facts.runtime.image_chains, ())
    pinned = [i for i in images if by_digest(i, wanted) or (not i.digests and by_chain(i, wanted, chains))]
    tagged = [i for i in images if short(f"{wanted.repository}:{wanted.tag}") in map(short, i.tags)]
    return bool(pinned) and pinned[0].architecture == wanted.architecture and tagged == pinned[:1]
