"""What checks share about GPUs, versions, services, packages and images: how they are named, read and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from packaging.version import Version

from rackproof.baseline import Baseline
from rackproof.errors import MissingFact
from rackproof.facts import Fact, Gpu, ImageFacts, Missing, NodeFacts, Unit, UnitFacts, gpus
from rackproof.facts_image import by_chain, by_digest, may_lack_digest, short
from rackproof.layers.readings import Reading, of, seen
from rackproof.managed import File

A = TypeVar("A")

GIB = 1024**3
_VERSION = re.compile(r"(\d+(?:\.\d+)+)(?:[-+~].*)?")  # 580.126.20, and 26.1.5+dfsg1 as Debian's docker says it
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PACKAGE_VERSION = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)*)")  # epoch:upstream-revision


# --- GPUs ---


def gpu_name(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({gpu.pci_address})"


def names_by_index(facts: NodeFacts, count: int) -> dict[int, str]:
    """A name for each GPU a node should have, with the PCI address where nvidia-smi told it."""
    told = {} if isinstance(facts.smi, Missing) else {gpu.index: gpu_name(gpu) for gpu in facts.smi.gpus}
    return {index: told.get(index, f"GPU {index}") for index in range(count)}


def on_each_gpu(
    facts: NodeFacts,
    read: Callable[[Gpu], Fact[A]],
    ok: Callable[[A], bool],
    show: Callable[[A], object] = str,
    what: str = "",
) -> dict[str, Fact[Reading]]:
    """One reading a GPU; `what` tells two readings of one GPU apart."""
    return {f"{gpu_name(gpu)} {what}".strip(): seen(read(gpu), ok, show) for gpu in gpus(facts)}


def clique_of(gpu: Gpu) -> Fact[tuple[int, str]]:
    """(clique id, cluster UUID): which NVLink partition of which rack the GPU joined."""
    return of(gpu.clique_id, lambda clique: of(gpu.cluster_uuid, lambda cluster: (clique, cluster)))


def joined_clique(gpu: Gpu, baseline: Baseline) -> Fact[tuple[int, str]]:
    """clique_of a GPU that has joined its fabric. Before that there is no clique to judge, only a fabric that failed."""
    wanted = (baseline.nvlink.fabric_state, baseline.nvlink.fabric_status)
    if (gpu.fabric_state, gpu.fabric_status) != wanted:
        return Missing(f"{gpu_name(gpu)} has not joined its NVLink fabric")
    return clique_of(gpu)


def is_clique(clique: tuple[int, str]) -> bool:
    try:
        return clique[0] > 0 and UUID(clique[1]).int > 0
    except ValueError:
        return False


def clique_words(clique: tuple[int, str]) -> str:
    return f"clique {clique[0]} of cluster {clique[1]}"


# --- amounts and versions ---


def distinct(values: Iterable[str]) -> int:
    """How many there are; one that is listed twice counts once."""
    return len(set(values))


def positive(number: int, what: str) -> Fact[int]:
    """A count, or Missing where there was nothing."""
    return number if number > 0 else Missing(f"there was no {what}")


def gib(number: int) -> str:
    return f"{number / GIB:.1f} GiB"


def watts(number: float) -> str:
    return f"{number:g} W"


def on_off(flag: bool) -> str:
    return "on" if flag else "off"


def yes_no(flag: bool) -> str:
    return "yes" if flag else "no"


def version(text: str, what: str) -> Version:
    """A version to compare; raises MissingFact for text that is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise MissingFact(f"{what} says {text!r}, which is not a version")
    return Version(match[1])


def upstream(package_version: str) -> str:
    """The packaged software's own version: "3:580.126.20-1ubuntu1" is 580.126.20."""
    match = _PACKAGE_VERSION.match(package_version)
    return match[1] if match else ""


def sha256_of(text: str) -> Fact[str]:
    """The text itself, when it is a sha256 in hexadecimal."""
    return text if _SHA256.fullmatch(text) else Missing(f"{text!r} is not a sha256")


def sound_version(text: str, what: str) -> str:
    """The text itself, when it is a version."""
    version(text, what)
    return text


def driver_version(facts: NodeFacts) -> Fact[str]:
    """Version of the loaded driver; Missing where none is loaded."""
    unloaded = Missing("no NVIDIA kernel module is loaded")
    return of(
        facts.driver.loaded_version,
        lambda found: unloaded if found is None else sound_version(found, "the loaded kernel module"),
    )


# --- services, packages, files ---


def some(items: Fact[A], what: str) -> Fact[A]:
    """A collection that cannot be empty on a real host, so that an empty one was not read."""
    return of(items, lambda found: found if isinstance(found, Collection) and len(found) else Missing(f"no {what}"))


def service(facts: NodeFacts, name: str) -> Fact[Unit]:
    """A systemd unit by its name, with or without ".service"."""
    unread = Missing(f"the state of {name} was not read")
    return of(facts.host.units, lambda units: units.get(name, units.get(f"{name}.service", unread)))


def service_words(unit: Unit) -> str:
    return f"{unit.active}, {unit.enabled or 'not enabled'}" if unit.installed else unit.load


def starts_and_runs(unit: Unit) -> bool:
    """Runs now, and will after the next boot."""
    return unit.installed and unit.running and unit.enabled == "enabled"


def is_off(unit: Unit) -> bool:
    """Does not run now, and nothing will start it by itself."""
    return not unit.running and (unit.load in ("not-found", "masked") or unit.enabled in ("disabled", "masked"))


def packages(facts: NodeFacts) -> Fact[Mapping[str, str]]:
    return some(facts.host.packages, "package was listed")


def absence(facts: NodeFacts, name: str) -> Fact[Reading]:
    """Whether a package is not installed."""
    return seen(packages(facts), lambda found: name not in found, lambda found: found.get(name, "not installed"))


def branch_package(facts: NodeFacts, name: str) -> Fact[tuple[str, ...]]:
    """Versions of a package whose name may carry the driver branch: nvidia-imex, nvidia-imex-580. () if not there."""
    named = re.compile(re.escape(name) + r"(-\d+)?")
    return of(
        packages(facts),
        lambda found: tuple(sorted({upstream(found[key]) for key in found if named.fullmatch(key)})),
    )


def at_driver_version(facts: NodeFacts, name: str) -> Fact[Reading]:
    """Whether a package is installed at exactly the version of the loaded driver, as fabric daemons must be."""
    versions = branch_package(facts, name)
    return of(
        driver_version(facts),
        lambda driver: seen(
            versions,
            lambda found: found == (driver,),
            lambda found: f"{' and '.join(found)} with driver {driver}" if found else "not installed",
        ),
    )


def as_rendered(facts: NodeFacts, files: Iterable[File]) -> dict[str, Fact[Reading]]:
    """One reading a managed file: whether it is there with exactly the content the baseline renders."""
    return {file.path: _as_rendered(facts, file) for file in files}


def _as_rendered(facts: NodeFacts, file: File) -> Fact[Reading]:
    unread = Missing(f"{file.path} was not read")
    sha256 = of(facts.host.files, lambda files: of(files.get(file.path, unread), lambda found: (found.sha256,)))
    return seen(
        sha256,
        lambda found: found[0] == file.sha256,
        lambda found: "does not exist" if found[0] is None else "as rendered" if found[0] == file.sha256 else "changed",
    )


def as_trace(text: str | None) -> Fact[tuple[str]]:
    """What a place says of a self-build; empty where it says nothing. Text that says nothing was not understood."""
    understood = text is None or (isinstance(text, str) and text != "")
    return (text or "",) if understood else Missing(f"not understood: {text!r}")


# --- images ---


def pinned_images(facts: NodeFacts, baseline: Baseline) -> Fact[tuple[ImageFacts, ...]]:
    """Local images that are the baseline's: by the engine's own digest, or by the chain from the pin to the image's id.

    Only an image that may lack its digest can be one by its chain, so that nothing else waits for chains to be read.
    """
    wanted = baseline.image

    def find(images: tuple[ImageFacts, ...]) -> Fact[tuple[ImageFacts, ...]]:
        nameless = tuple(image for image in images if may_lack_digest(image, baseline.runtime.engine))
        proven = of(facts.runtime.image_chains, lambda chains: tuple(i for i in nameless if by_chain(i, wanted, chains)))
        named = tuple(image for image in images if by_digest(image, wanted))
        if isinstance(proven, Missing):
            return named if named or not nameless else proven
        return tuple(image for image in images if image in named or image in proven)

    return of(facts.runtime.images, find)


def recipe_digest(facts: NodeFacts, baseline: Baseline) -> Fact[str]:
    """The pinned index digest where that image is here, else whatever digests of its repository are; "" for none."""
    start = plain_name(f"{baseline.image.repository}@")
    others = of(
        facts.runtime.images,
        lambda images: ", ".join(
            sorted(
                plain_name(digest).removeprefix(start)
                for image in images
                for digest in image.digests
                if plain_name(digest).startswith(start)
            )
        ),
    )
    return of(pinned_images(facts, baseline), lambda pinned: baseline.image.index if pinned else others)


plain_name = short  # docker leaves the name of its own registry out


# --- units of several nodes ---


def of_each_node(unit: UnitFacts, read: Callable[[NodeFacts], Fact[A]]) -> dict[str, Fact[A]]:
    """One value a declared node. A node nobody gave facts of is Missing, not left out."""
    absent = Missing("no evidence of this node was given")
    return {name: of(unit.nodes.get(name, absent), read) for name in unit.declared}


def asked(value: A | None) -> A:
    """A value of the baseline that is set wherever the requirement applies."""
    if value is None:
        raise MissingFact("the baseline does not say")
    return value
