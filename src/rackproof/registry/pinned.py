"""Whether a registry still holds what is pinned: the digest, the host's platform, what its configuration states.

A tag that has moved is a warning and nothing else: what is pulled is the digest, and no tool moves a pin by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rackproof.registry.client import Registry
from rackproof.registry.image import Platform, Resolved, resolve
from rackproof.registry.reference import Reference
from rackproof.registry.transport import RegistryError, Trouble


class Found(Enum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Pin:
    """What is pinned. `platform` and `cuda_major` are None where nobody says; `architecture` where any will do."""

    reference: Reference  # with its digest
    architecture: str | None = None
    platform: str | None = None
    cuda_major: int | None = None


@dataclass(frozen=True)
class Finding:
    name: str
    found: Found
    text: str


def exit_code(findings: list[Finding]) -> int:
    """4 unsupported, 1 something is wrong, 2 something could not be read, 0 all is there."""
    kinds = {finding.found for finding in findings}
    order = ((Found.UNSUPPORTED, 4), (Found.FAIL, 1), (Found.UNKNOWN, 2))
    return next((code for kind, code in order if kind in kinds), 0)


def check(pin: Pin, registry: Registry, selfbuild_label: str) -> list[Finding]:
    """One finding a question, in the order they are asked; a question without its premise is left out."""
    digest = pin.reference.digest or ""
    wanted = None if pin.architecture is None else (pin.architecture,)
    try:
        image = resolve(pin.reference, registry, digest, wanted)
    except RegistryError as error:
        return [_failure("digest", error), *_tag(pin, registry)]
    findings = [Finding("digest", Found.PASS, f"{digest} is there"), *_platform(pin, image)]
    for platform in image.platforms.values():
        findings += _configuration(pin, platform, selfbuild_label)
    return [*findings, *_tag(pin, registry)]


def _failure(name: str, error: RegistryError) -> Finding:
    wrong = error.trouble in (Trouble.MISSING, Trouble.TAMPERED)
    return Finding(name, Found.FAIL if wrong else Found.UNKNOWN, str(error))


def _platform(pin: Pin, image: Resolved) -> list[Finding]:
    if pin.architecture is None:
        return [Finding("platform", Found.PASS, ", ".join(f"linux/{name}" for name in image.listed))]
    there = image.listed.get(pin.architecture)
    if there is None:
        held = ", ".join(f"linux/{name}" for name in image.listed)
        return [Finding("platform", Found.FAIL, f"no linux/{pin.architecture}, which this host needs; it has {held}")]
    if pin.platform is not None and there != pin.platform and image.index is not None:
        said = f"linux/{pin.architecture} is {there}, and {pin.platform} is pinned"
        return [Finding("platform", Found.FAIL, said)]
    return [Finding("platform", Found.PASS, f"linux/{pin.architecture} is {there}")]


def _configuration(pin: Pin, platform: Platform, selfbuild_label: str) -> list[Finding]:
    return [
        _architecture(platform),
        _cuda(pin, platform),
        *_selfbuild(platform, platform.labels, selfbuild_label),
    ]


def _architecture(platform: Platform) -> Finding:
    name, inside = f"architecture of {platform.architecture}", platform.config_architecture
    if inside is None:
        return Finding(name, Found.UNKNOWN, "the configuration states none")
    return Finding(
        name, Found.PASS if inside == platform.architecture else Found.FAIL, f"the configuration says {inside}"
    )


def _cuda(pin: Pin, platform: Platform) -> Finding:
    name, stated = f"CUDA of {platform.architecture}", platform.cuda
    if pin.cuda_major is None:
        return Finding(name, Found.PASS, stated or "not stated")
    major = (stated or "").partition(".")[0]
    if not major.isdigit():
        return Finding(name, Found.UNKNOWN, "the image states no CUDA_VERSION")
    wrong = int(major) != pin.cuda_major
    return Finding(
        name, Found.FAIL if wrong else Found.PASS, f"{stated}" + (f", not {pin.cuda_major}" if wrong else "")
    )


def _selfbuild(platform: Platform, labels: Mapping[str, str], word: str) -> list[Finding]:
    if not any(word in text for pair in labels.items() for text in pair):
        return []
    return [Finding(f"labels of {platform.architecture}", Found.UNSUPPORTED, f"the image carries the mark {word}")]


def _tag(pin: Pin, registry: Registry) -> list[Finding]:
    tag, digest = pin.reference.tag, pin.reference.digest
    if tag is None:
        return []
    try:
        now = registry.manifest(tag).digest
    except RegistryError as error:
        said = f"there is no tag {tag} any more" if error.trouble is Trouble.MISSING else str(error)
        return [Finding("tag", Found.WARN, said)]
    if now == digest:
        return [Finding("tag", Found.PASS, f"{tag} is the pinned image")]
    return [Finding("tag", Found.WARN, f"{tag} has moved: it is {now} now. The pin stays; nothing follows a tag")]
