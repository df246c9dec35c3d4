"""What checks ask of a driver as software: libraries, packages and their origin, kernels, DKMS, amdgpu's release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import Version

from rackproof.facts import Fact, Missing, NodeFacts, known
from rackproof.facts_amd import AmdDriverFacts
from rackproof.facts_driver import Library
from rackproof.facts_system import AptFacts, DkmsModule, KernelFacts
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import packages, upstream, version
from rackproof.package_names import plain as plain

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
_NAMES = ("nvidia-", "libnvidia-", "kmod-nvidia-")
_BRANCH = re.compile(r"[0-9]{3}\.[0-9]+")  # 580.126: tools beside the driver count from 1
# 580.126.20-0ubuntu0.24.04.1 is Canonical's build; NVIDIA's repository has -1ubuntu1, -0ubuntu1, -1 and -1.el9.
_CANONICAL = re.compile(r"ubuntu[0-9.]*[0-9]{2}\.[0-9]{2}\.[0-9]")


# --- libraries ---


def libraries(facts: NodeFacts, wanted: Fact[str]) -> dict[str, Fact[Reading]]:
    """Readings of every library of the driver: there, not empty, and of the wanted version."""
    found = known(facts.driver.libraries)
    names = {library.name for library in found}
    readings: dict[str, Fact[Reading]] = {
        name: Reading(name in names, "installed" if name in names else "not installed") for name in LIBRARIES
    }
    for library in found:
        readings[library.path] = _of_version(library, wanted)
        readings[f"size of {library.path}"] = seen(
            library.size_bytes, lambda size: size > 0, lambda size: "not empty" if size > 0 else f"{size} bytes"
        )
    return readings


def _of_version(library: Library, wanted: Fact[str]) -> Fact[Reading]:
    return of(wanted, lambda driver: seen(library.version, lambda found: found == driver))


# --- packages ---


def driver_packages(facts: NodeFacts) -> Fact[Mapping[str, str]]:
    """Packages of the NVIDIA driver, Fabric Manager and IMEX included, with whole versions; missing where none is."""
    none = Missing("no package of the NVIDIA driver is installed")
    found = of(packages(facts), lambda listed: {name: listed[name] for name in listed if _is_driver(name, listed[name])})
    return of(found, lambda named: named or none)


def _is_driver(name: str, package_version: str) -> bool:
    return name.startswith(_NAMES) and bool(_BRANCH.match(upstream(package_version)))


def by_origin(found: Mapping[str, str]) -> dict[str, list[str]]:
    """Who built them, by the form of their versions -> names."""
    groups: dict[str, list[str]] = {}
    for name, package_version in sorted(found.items()):
        canonical = _CANONICAL.search(package_version)
        groups.setdefault("Canonical's archive" if canonical else "NVIDIA's repository", []).append(name)
    return groups


def protection(facts: NodeFacts) -> list[Fact[Reading]]:
    """The ways to keep a driver from being upgraded by itself, of which one is enough."""
    system = facts.system
    apt: Fact[AptFacts] = of(system, lambda found: found.apt)
    held = of(system, lambda found: found.held)
    locks = of(system, lambda found: found.versionlocks)
    return [
        seen(_driver_names(packages(facts), "nvidia-driver-pinning"), bool, lambda names: names or "no pinning package"),
        seen(_driver_names(held, "nvidia"), bool, lambda names: names or "no driver package on hold"),
        seen(_driver_names(locks, "nvidia"), bool, lambda names: names or "no versionlock of the driver"),
        seen(_driver_names(of(apt, lambda found: found.blacklist), "nvidia"), bool, lambda names: names or "not excluded"),
        seen(
            of(apt, lambda found: found.upgrades_itself),
            lambda found: not found,
            lambda found: "unattended-upgrade runs" if found else "apt upgrades nothing by itself",
        ),
    ]


def _driver_names(entries: Fact[Iterable[str]], word: str) -> Fact[str]:
    return of(entries, lambda found: ", ".join(sorted(entry for entry in found if word in entry)))


def upgrades(facts: NodeFacts) -> Fact[dict[str, str]]:
    """Driver packages that the next upgrade would change: name -> "580.126.20 to 580.178.04"."""
    found = of(facts.system, lambda system: system.candidates)
    return of(
        found,
        lambda listed: {
            name: f"{one.installed} to {one.candidate}"
            for name, one in listed.items()
            if _is_driver(name, one.installed) and one.candidate != one.installed
        },
    )


def differences(tables: Mapping[str, Fact[Mapping[str, str]]]) -> dict[str, Fact[str]]:
    """Of each node the values that are not the same on all: "ImexChannelCount 16"; "all equal" where there is none."""
    read = {node: table for node, table in tables.items() if not isinstance(table, Missing)}
    names = sorted({name for table in read.values() for name in table})
    differ = [name for name in names if len({table.get(name) for table in read.values()}) > 1]
    words = {
        node: ", ".join(f"{name} {table.get(name, 'not listed')}" for name in differ) or "all equal"
        for node, table in read.items()
    }
    return {node: words.get(node, table) if isinstance(table, Missing) else words[node] for node, table in tables.items()}


# --- kernels ---


def kernel_facts(facts: NodeFacts) -> Fact[KernelFacts]:
    return of(facts.system, lambda system: system.kernels)


def kernel_modules(facts: NodeFacts) -> Fact[Mapping[str, str | None]]:
    """Installed kernel -> version of the NVIDIA module it would load; None: it has none."""
    none = Missing("no installed kernel was listed")
    return of(of(kernel_facts(facts), lambda found: found.nvidia), lambda listed: listed or none)


def dkms(facts: NodeFacts, module: str) -> Fact[tuple[DkmsModule, ...]]:
    """What DKMS knows of a module; () where DKMS does not build it."""
    found = of(kernel_facts(facts), lambda kernels: kernels.dkms)
    return of(found, lambda listed: tuple(entry for entry in listed if entry.module == module))


def unbuilt(entries: Sequence[DkmsModule], kernel: str) -> list[str]:
    """What DKMS did not bring as far as a module that this kernel loads: all of it, where one entry is enough."""
    here = [entry for entry in entries if entry.kernel in ("", kernel)]
    installed = any(entry.state == "installed" and entry.kernel == kernel for entry in here)
    words = [f"{entry.version}{f' for {entry.kernel}' if entry.kernel else ''}: {entry.state}" for entry in here]
    return [] if installed or not entries else words or [f"nothing for {kernel}"]


# --- amdgpu ---


def amd_module(driver: AmdDriverFacts) -> Fact[str]:
    """Version of the loaded module; the kernel's own has none."""
    unversioned = Missing("the loaded amdgpu has no version: it is the kernel's own module")
    return of(driver.loaded_version, lambda found: unversioned if found is None else found)


def amd_release(driver: AmdDriverFacts, releases: Sequence[tuple[str, str]]) -> Fact[str]:
    """The driver release that a module belongs to, "" for a module of none: 6.16.13 is of 30.30."""
    table = dict(releases)
    return of(amd_module(driver), lambda found: table.get(_three(found), ""))


def amd_at_least(driver: AmdDriverFacts, floor: str) -> Fact[Reading]:
    return seen(amd_module(driver), lambda found: version(found, "amdgpu") >= Version(floor), lambda found: f"module {found}")


def in_groups(user: str, groups: Sequence[str], members: Fact[Mapping[str, Sequence[str]]]) -> Fact[Reading]:
    """Whether a user is listed in each of the groups."""

    def reading(found: Mapping[str, Sequence[str]]) -> Fact[Reading]:
        outside = [group for group in groups if user not in found.get(group, ())]
        return Reading(not outside, f"not in {' and '.join(outside)}" if outside else f"in {' and '.join(groups)}")

    return of(members, reading)


def _three(module: str) -> str:
    """6.16.13.30300300 as amd-smi may print it, without the release that some builds put behind."""
    return ".".join(version(module, "amdgpu").base_version.split(".")[:3])
