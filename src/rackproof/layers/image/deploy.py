"""Layer image: the official image, pulled by digest; the tag, where it is there, names the same image."""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import ImageFacts


def bring_about(node: Node) -> None:
    """Pull by index digest, check the architecture, point the tag at it."""
    with node.layer("image"):
        image = node.baseline.image
        if not _in_place(node):
            node.shell(
                f"Pull {image.repository.rpartition('/')[2]} by digest {image.index[7:19]}",
                f"docker pull -q '{image.reference}'\n"
                f"got=$(docker image inspect --format '{{{{.Architecture}}}}' '{image.reference}')\n"
                f"if [ \"$got\" != {image.architecture} ]; then\n"
                f"  echo \"rackproof: the image is for $got, this host needs {image.architecture}\" >&2; exit 1\n"
                "fi\n"
                f"docker tag '{image.reference}' '{image.repository}:{image.tag}'",
                watch=Watch(images=(image.reference, f"{image.repository}:{image.tag}")),
            )


def _in_place(node: Node) -> bool:
    image = node.baseline.image
    images: tuple[ImageFacts, ...] = known_or(node.facts.runtime.images, ())
    pinned = [i for i in images if _short(image.reference) in map(_short, i.digests)]
    tagged = [i for i in images if _short(f"{image.repository}:{image.tag}") in map(_short, i.tags)]
    return bool(pinned) and pinned[0].architecture == image.architecture and tagged == pinned[:1]


def _short(name: str) -> str:
    """Docker leaves out its own registry's name."""
    return name.removeprefix("docker.io/")
