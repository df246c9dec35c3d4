"""Checks of layer image."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, seen
from rackproof.layers.words import asked, pinned_images, plain_name, recipe_digest, some, version
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
