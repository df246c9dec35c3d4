"""What checks ask of the NVIDIA driver as software: libraries, packages and their origin, kernels, DKMS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.facts_driver import Library
from rackproof.facts_system import DkmsModule, SystemFacts
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import packages

A_LIBRARY = ("libcuda.so.1", "libnvidia-ml.so.1")
# Names of one driver's own packages, in apt and rpm repositories; the toolkit of containers goes by its own versions.
_DRIVER = re.compile(
    r"(?:lib)?nvidia-(?!container|ctk|docker|gds|fs\b|driver-assistant|libxnvctrl|nvlsm)[a-z0-9.+-]+|kmod-nvidia-[a-z0-9.+-]+|libnvidia-[a-z0-9.+-]+",
    re.IGNORECASE,
)
_TOOLKIT = re.compile(r"libnvidia-container|nvidia-container|nvidia-driver-pinning|nvidia-settings|nvidia-firmware-.*-wl")
# 580.126.20-0ubuntu0.24.04.1 is Canonical's build; NVIDIA's repository has -1ubuntu1 and -0ubuntu1, and -1.el9.
_CANONICAL = re.compile(r"ubuntu[0-9]+\.[0-9]{2}\.[0-9]{2}")


def as_driver(found: Fact[str], loaded: Fact[str]) -> Fact[Reading]:
    """A version that has to be that of the loaded driver."""
    return of(loaded, lambda wanted: seen(found, lambda version: version == wanted))


def each_library(found: Sequence[Library]) -> dict[str, Reading]:
    """One reading a library that has to be there."""
    names = {library.name for library in found}
    return {name: Reading(name in names, "installed" if name in names else "not installed") for name in A_LIBRARY}


# --- packages ---


def driver_packages(facts: NodeFacts) -> Fact[Mapping[str, str]]:
    """Packages of the driver, Fabric Manager and IMEX included, with their whole versions; missing where none is."""
    none = Missing("no package of the NVIDIA driver is installed")
    return of(packages(facts), lambda found: {name: found[name] for name in found if _is_driver(name)} or none)


def _is_driver(name: str) -> bool:
    return bool(_DRIVER.fullmatch(name)) and not _TOOLKIT.match(name)


def origin(version: str) -> str:
    """Who built a package, by the form of its version."""
    return "Canonical's archive" if _CANONICAL.search(version) else "NVIDIA's repository"


def by_origin(found: Mapping[str, str]) -> dict[str, list[str]]:
    """Origin -> names of driver packages from there."""
    groups: dict[str, list[str]] = {}
    for name, version in sorted(found.items()):
        groups.setdefault(origin(version), []).append(name)
    return groups


def protection(facts: NodeFacts) -> dict[str, Fact[Reading]]:
    """The ways in which a driver is kept from being upgraded by itself, one of which is enough."""
    system = facts.system
    return {
        "pin": seen(packages(facts), _pinned, lambda found: "installed" if _pinned(found) else "no pinning package"),
        "hold": seen(_of_system(system, "held"), _names_driver, _words("no driver package on hold")),
        "versionlock": seen(_of_system(system, "versionlocks"), _names_driver, _words("no versionlock of the driver")),
        "blacklist": seen(
            of(system, lambda found: of(found.apt, lambda apt: apt.blacklist)), _names_driver, _words("not excluded")
        ),
        "upgrades": seen(
            of(system, lambda found: of(found.apt, lambda apt: apt.upgrades_itself)),
            lambda found: not found,
            lambda found: "apt upgrades by itself" if found else "apt upgrades nothing by itself",
        ),
    }


def _of_system(system: Fact[SystemFacts], name: str) -> Fact[tuple[str, ...]]:
    return of(system, lambda found: getattr(found, name))


def _pinned(found: Mapping[str, str]) -> bool:
    return any(name.startswith("nvidia-driver-pinning") for name in found)


def _names_driver(entries: Iterable[str]) -> bool:
    return any("nvidia" in entry for entry in entries)


def _words(otherwise: str) -> object:
    def show(found: Iterable[str]) -> str:
        return ", ".join(entry for entry in found if "nvidia" in entry) or otherwise

    return show


# --- kernels ---


def kernels(facts: NodeFacts) -> Fact[Mapping[str, str | None]]:
    """Installed kernel -> version of the NVIDIA module it would load; None: it has none."""
    none = Missing("no installed kernel was listed")
    found = of(facts.system, lambda system: of(system.kernels, lambda kernels: kernels.nvidia))
    return of(found, lambda listed: listed or none)


def dkms(facts: NodeFacts, module: str) -> Fact[tuple[DkmsModule, ...]]:
    """What DKMS knows of a module; () where it is not built by DKMS."""
    found = of(facts.system, lambda system: of(system.kernels, lambda kernels: kernels.dkms))
    return of(found, lambda listed: tuple(entry for entry in listed if entry.module == module))


def dkms_words(entry: DkmsModule) -> str:
    return f"{entry.module}/{entry.version}{f', {entry.kernel}' if entry.kernel else ''}: {entry.state}"


def newest(entries: Sequence[DkmsModule]) -> dict[str, str]:
    """Kernel -> state, of the entries that name one; an old version that is left for a kernel is told as well."""
    return {dkms_words(entry): entry.state for entry in entries}
