"""Layer image."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackproof.facts import NodeFacts
from rackproof.facts_image import ImageChain
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, image, node, official_image, runtime, smi, strangers
from .fixtures_storage import previous_image

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
PLAIN = strangers("gb300")
V0271 = previous_image(official_image("gb300"))
ALL_BUT_PREVIOUS = runtime(GB300, images=(official_image("gb300"),))
UNREAD = runtime(GB300, images=GONE)
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
        not_applicable=PLAIN,
    ),
    "image.selfbuild": Cases(
        green=[
            GB300,
            runtime(GB300, images=()),
            runtime(GB300, images=(replace(STRAY, tags=("mine:selfbuild",), labels={"UNSUPPORTED-SELFBUILD": "1"}),)),
        ],
        red=[
            Red(image(GB300, labels={"status": "UNSUPPORTED-SELFBUILD"}), "label status=UNSUPPORTED-SELFBUILD"),
            Red(image(GB300, labels={"unsupported-selfbuild": "vllm b6bbf29dd"}), "label unsupported-selfbuild"),
            Red(
                runtime(GB300, images=(replace(STRAY, tags=("vllm/vllm-openai:selfbuild-1",)),)),
                "tag vllm/vllm-openai",
                PLAIN,
            ),
        ],
        garbage=[UNREAD],
    ),
    "image.pulled": Cases(
        green=[(GB300, PLAIN)],
        red=[
            Red(runtime(GB300, images=()), "not on the node", PLAIN),
            Red(runtime(GB300, images=(STRAY,)), "not on", PLAIN),
        ],
        garbage=[UNREAD],
        not_applicable=baseline("gb300"),
        garbage_baseline=PLAIN,
    ),
    "image.tag": Cases(
        green=[(GB300, PLAIN), (runtime(GB300, images=()), PLAIN)],
        red=[Red(runtime(GB300, images=(STRAY,)), "v0.28.0 is another image: sha256:9999", PLAIN)],
        garbage=[UNREAD],
        not_applicable=baseline("gb300"),
        garbage_baseline=PLAIN,
    ),
    "image.driver_cuda": Cases(
        green=[GB300, B300, smi(GB300, cuda_version="13.1")],
        red=[
            Red(smi(GB300, cuda_version="12.9"), "13.0.2"),
            Red(image(GB300, cuda_version="13.2.1"), "13.2.1"),
        ],
        garbage=[
            *NONE_HERE,
            smi(GB300, cuda_version=GONE),
            smi(GB300, cuda_version=""),
            smi(GB300, cuda_version="garbage"),
            image(GB300, cuda_version=GONE),
            image(GB300, cuda_version="garbage"),
        ],
    ),
    "image.previous": Cases(
        green=[GB300, (B300, strangers("b300"))],
        red=[Red(ALL_BUT_PREVIOUS, "0 others"), Red(runtime(GB300, images=()), "0 others")],
        garbage=[UNREAD],
    ),
    "image.architecture": Cases(
        green=[GB300, B300],
        red=[Red(image(GB300, architecture="amd64"), "amd64")],
        garbage=[*NONE_HERE, image(GB300, architecture=GONE), image(GB300, architecture="")],
        not_applicable=PLAIN,
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
        not_applicable=PLAIN,
    ),
}
SOFT = {"image.pulled", "image.tag", "image.driver_cuda", "image.previous"}


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


def test_a_stranger_s_node_without_the_image_is_told_and_not_refused() -> None:
    empty = runtime(GB300, images=())
    found = {one.requirement.id: one for one in evaluate_node(empty, PLAIN) if one.requirement.layer == "image"}
    assert found["image.pulled"].status is Status.FAIL
    assert not [one for one in found.values() if one.decides and one.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert verdict_of(evaluate_node(empty, PLAIN)) is Verdict.ACCEPT


def test_the_previous_image_is_not_taken_for_the_pinned_one() -> None:
    assert outcome("image.digest", runtime(GB300, images=(V0271,))).status is Status.FAIL
