"""Layer image."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackproof.facts import NodeFacts
from rackproof.facts_image import ImageChain
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, image, node, official_image, runtime

GB300 = node()
B300 = node("b300", "b300-01")
WANTED = baseline("gb300").image
OTHER = "sha256:" + "0" * 64
STRAY = replace(official_image("gb300"), id="sha256:9999", digests=())


def only(*digests: str, tags: tuple[str, ...] = ()) -> NodeFacts:
    return image(GB300, digests=digests, tags=tags)


CONFIG, MANIFEST = "sha256:" + "c" * 64, "sha256:" + "d" * 64
TAG = "vllm/vllm-openai:v0.28.0"


def imported(*chains: ImageChain, image_id: str = CONFIG, tags: tuple[str, ...] = (TAG,)) -> NodeFacts:
    """The image as Docker's own store shows it after `docker load`: an id, and no digest."""
    facts = image(GB300, id=image_id, digests=(), tags=tags)
    return runtime(facts, image_chains=chains)


PROVEN = ImageChain(MANIFEST, (WANTED.index,), CONFIG)
NONE_HERE = [runtime(GB300, images=GONE), runtime(GB300, images=()), only()]

TABLE = {
    "image.digest": Cases(
        green=[
            GB300,
            B300,
            only(f"vllm/vllm-openai@{WANTED.platform}"),
            only(f"docker.io/vllm/vllm-openai@{WANTED.index}"),
            imported(PROVEN),
            imported(ImageChain(MANIFEST, (OTHER,), CONFIG), PROVEN),
            imported(ImageChain(str(WANTED.platform), (), CONFIG)),
            runtime(GB300, images=(replace(STRAY, tags=("mine:latest",)), official_image("gb300"))),
        ],
        red=[
            Red(only(f"vllm/vllm-openai@{OTHER}"), f"other digests: {OTHER}"),
            Red(only(f"somebody/vllm-openai@{WANTED.index}"), "no such image on the node"),
            Red(runtime(GB300, images=()), "no such image on the node"),
            Red(runtime(GB300, images=(STRAY,)), "no such image"),
            Red(imported(), "no such image"),
            Red(imported(ImageChain(MANIFEST, (OTHER,), CONFIG)), "no such image"),
            Red(imported(ImageChain(OTHER, (), CONFIG)), "no such image"),
            Red(imported(PROVEN, image_id=MANIFEST), "no such image"),
            Red(imported(replace(PROVEN, config=OTHER)), "no such image"),
            # an engine that says another digest is believed, whatever lies beside the image
            Red(runtime(only(f"vllm/vllm-openai@{OTHER}"), image_chains=(replace(PROVEN, config="sha256:1234"),)), "other digests"),
            Red(runtime(GB300, images=(official_image("gb300"), STRAY)), "v0.28.0 is another image: sha256:9999"),
        ],
        garbage=[*NONE_HERE, only("", "@"), only(WANTED.index), runtime(imported(PROVEN), image_chains=GONE)],
    ),
    "image.architecture": Cases(
        green=[GB300, B300],
        red=[Red(image(GB300, architecture="amd64"), "amd64")],
        garbage=[*NONE_HERE, image(GB300, architecture=GONE), image(GB300, architecture="")],
    ),
    "image.cuda": Cases(
        green=[GB300, B300, image(GB300, cuda_version="13.2.1")],
        red=[Red(image(GB300, cuda_version="12.9.1"), "12.9.1")],
        garbage=[
            *NONE_HERE,
            image(GB300, cuda_version=GONE),
            image(GB300, cuda_version=""),
            image(GB300, cuda_version="garbage"),
            image(GB300, cuda_version="-13.0"),
        ],
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_questions_about_an_absent_image_are_blocked_by_its_absence() -> None:
    found = outcome("image.cuda", runtime(GB300, images=()))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "image.digest")


def test_a_platform_digest_nobody_published_does_not_match_anything() -> None:
    wanted = baseline("gb300")
    unpublished = replace(wanted, image=replace(wanted.image, platform=None))
    assert outcome("image.digest", only("vllm/vllm-openai@None"), unpublished).status is Status.FAIL
    assert outcome("image.digest", GB300, unpublished).status is Status.PASS


def test_an_image_without_a_digest_is_unknown_while_its_proof_is_unread() -> None:
    unread = runtime(imported(PROVEN), image_chains=GONE)
    assert outcome("image.digest", unread).status is Status.UNKNOWN
    assert outcome("image.digest", runtime(GB300, image_chains=GONE)).status is Status.PASS
    assert outcome("image.digest", runtime(GB300, images=(), image_chains=GONE)).status is Status.FAIL
