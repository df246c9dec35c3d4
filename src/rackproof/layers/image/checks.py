"""Checks of layer image."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, seen
from rackproof.layers.words import asked, pinned_images, plain_name, recipe_digest, some, version
from rackproof.layers.words_storage import (
    cuda_version,
    engines_running,
    minor,
    named_as_pinned,
    official_or_in_use,
    running_selfbuilds,
    selfbuild_words,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("image.digest")
def digest(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.image
    pinned = known(pinned_images(facts, baseline))
    if not pinned:
        here = known(recipe_digest(facts, baseline))
        return judge(False, f"other digests: {here}" if here else "no such image on the node", wanted.reference)
    tag = plain_name(f"{wanted.repository}:{wanted.tag}")
    tagged = {image.id for image in known(facts.runtime.images) if tag in {plain_name(name) for name in image.tags}}
    strays = sorted(tagged - {image.id for image in pinned})
    return judge(not strays, f"{tag} is another image: {', '.join(strays)}" if strays else "present", wanted.reference)


@check("image.architecture")
def architecture(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.image.architecture
    images = known(some(pinned_images(facts, baseline), "image with the baseline's digest is on the node"))
    return all_of(wanted, {image.id: seen(image.architecture, lambda found: found == wanted) for image in images})


@check("image.cuda")
def cuda(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.image.cuda_major)
    images = known(some(pinned_images(facts, baseline), "image with the baseline's digest is on the node"))
    readings = {
        image.id: seen(image.cuda_version, lambda found: version(found, "CUDA_VERSION").major == wanted)
        for image in images
    }
    return all_of(f"CUDA {wanted}", readings)


@check("image.selfbuild")
def selfbuild(facts: NodeFacts, baseline: Baseline) -> Judgement:
    images = {image.id: image for image in known(official_or_in_use(facts, baseline))}
    label = baseline.serving.selfbuild_label
    found = {name: words for name, image in images.items() if (words := selfbuild_words(image, label))}
    found |= running_selfbuilds(known(engines_running(facts, baseline)), label)
    observed = "; ".join(f"{name}: {', '.join(words)}" for name, words in found.items())
    return judge(not found, observed or f"{len(images)} images looked at, none marked", f"no label or tag {label}")


@check("image.pulled")
def pulled(facts: NodeFacts, baseline: Baseline) -> Judgement:
    here = known(pinned_images(facts, baseline))
    return judge(bool(here), "present" if here else "not on the node", baseline.image.reference)


@check("image.tag")
def tag(facts: NodeFacts, baseline: Baseline) -> Judgement:
    name = plain_name(f"{baseline.image.repository}:{baseline.image.tag}")
    pinned = {image.id for image in known(pinned_images(facts, baseline))}
    tagged = {image.id for image in known(facts.runtime.images) if name in {plain_name(one) for one in image.tags}}
    strays = sorted(tagged - pinned)
    observed = f"{name} is another image: {', '.join(strays)}" if strays else f"no other image is {name}"
    return judge(not strays, observed, baseline.image.reference)


@check("image.driver_cuda")
def driver_cuda(facts: NodeFacts, baseline: Baseline) -> Judgement:
    images = known(some(pinned_images(facts, baseline), "image with the baseline's digest is on the node"))
    driver = known(cuda_version(facts))
    known_to = minor(driver, "nvidia-smi")
    readings = {
        image.id: seen(image.cuda_version, lambda found: minor(found, "CUDA_VERSION") <= known_to) for image in images
    }
    return all_of(f"CUDA <= {driver}, what the driver knows", readings)


@check("image.previous")
def previous(facts: NodeFacts, baseline: Baseline) -> Judgement:
    named = named_as_pinned(known(facts.runtime.images), baseline)
    others = {image.id for image in named} - {image.id for image in known(pinned_images(facts, baseline))}
    return judge(bool(others), f"{len(others)} others", "at least one other image of the repository")
