"""What the packages of a driver version are called, by where they come from (layers/packages.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.sourced import Cells

FILE = Path(__file__).parent / "layers" / "packages.yaml"
_REPOSITORY = re.compile(r"/repos/([a-z0-9.]+)/([A-Za-z0-9_]+)(?:/|$)")


@cache
def _file() -> yamlfile.YamlFile:
    return yamlfile.load(FILE)


@cache
def _cells() -> Cells:
    return Cells(_file(), "layers/packages.yaml")


@dataclass(frozen=True)
class Platform:
    """One release of a distribution, as NVIDIA's repositories name it: "ubuntu2404"."""

    id: str  # "" where neither the site nor the repository's address names one
    family: str  # ubuntu | debian | el
    manager: str  # apt | dnf
    operating_systems: tuple[str, ...]  # "ubuntu 24.04"; () where the platform is not known

    def is_of(self, os_id: str, os_version: str) -> bool:
        """Whether packages of this platform are for that operating system."""
        spellings = {f"{os_id} {os_version}", f"{os_id} {os_version.split('.')[0]}"}
        return not self.operating_systems or bool(spellings & set(self.operating_systems))


def platforms() -> tuple[str, ...]:
    return tuple(_file().data["platforms"])


def platform_of(repository: str, named: str | None, architecture: str, where: str) -> Platform:
    """The platform whose packages a repository holds; raises InputError where it has none for this architecture.

    `named`: what the site calls it, for a mirror whose address does not say. `architecture`: x86_64 | aarch64.
    """
    found = _REPOSITORY.search(repository)
    identity = named or (found[1] if found else None)
    if identity is None:  # a mirror with an address of its own: taken for what NVIDIA's names are made for first
        return Platform("", "ubuntu", _file().data["managers"]["ubuntu"], ())
    described = _file().data["platforms"].get(identity)
    if described is None:
        raise InputError(where, f"packages for {identity} are not known", ", ".join(platforms()))
    wanted = [name for name, machine in _file().data["directories"].items() if machine == architecture]
    offered = [name for name in wanted if name in described["directories"]]
    if not offered:
        raise InputError(where, f"NVIDIA has no repository of {identity} for {architecture}", _having(wanted))
    if found and not named and found[2] not in offered:
        raise InputError(
            where, f"packages.repository is for {found[2]}", f"{offered[0]}, NVIDIA's name for {architecture}"
        )
    family = described["family"]
    return Platform(identity, family, _file().data["managers"][family], tuple(described["operating_systems"]))


def _having(directories: Sequence[str]) -> str:
    return ", ".join(
        name for name, item in _file().data["platforms"].items() if set(directories) & set(item["directories"])
    )


@dataclass(frozen=True)
class PackageNames:
    """Package names with the branch and version filled in. A package known by several names stands under its first."""

    pin: str  # keeps apt from moving any part of the stack away from the version; "" where there is no such package
    driver: tuple[str, ...]  # all at exactly the driver's version
    fabric: tuple[str, ...]  # IMEX or Fabric Manager, at exactly the driver's version
    fabric_unversioned: tuple[str, ...]  # at whatever version the origin offers
    toolkit: tuple[str, ...]  # all four at one version
    alternatives: tuple[tuple[str, ...], ...] = ()  # of driver and fabric, those with more than one name
    kernel: str = ""  # signed modules, one package a kernel: this, "-" and the kernel's release; "": built by DKMS
    stream: str = ""  # dnf module stream to enable first
    version: str = ""  # of the driver as packages spell it; "": as the site does
    module: str = ""  # ... and as the kernel does
    suite: str = ""  # of an apt repository that is no flat one
    held: tuple[str, ...] = ()  # kept at the version by a preferences file of ours
    code: str = ""  # by which every package of AMD's driver shows its release: "30300300"

    def any_of(self, name: str) -> tuple[str, ...]:
        """All names of a package, the usual one first."""
        return next((names for names in self.alternatives if names[0] == name), (name,))

    def installed(self, packages: Mapping[str, str], name: str) -> str:
        """The name by which a package is installed; its usual one where it is not."""
        return next((other for other in self.any_of(name) if other in packages), name)

    @classmethod
    def of(
        cls, version: str, nvlink_kind: str, generation: str, where: str, platform: Platform | None = None,
        origin: str = "nvidia",
    ) -> tuple[PackageNames, str]:  # fmt: skip
        """Names for a driver version, and their source; raises InputError for a branch nobody has described."""
        platform = platform or platform_of("", None, "x86_64", where)
        branch = version.split(".")[0]
        fitting = {
            key: item for key, item in _file().data["origins"].items()
            if item["origin"] == origin and item["family"] == platform.family
        }  # fmt: skip
        if not fitting:
            raise InputError(
                where, f"there is no origin {origin} for {platform.id or platform.family}", "packages.origin: nvidia"
            )
        described: list[int] = []
        for key, item in fitting.items():
            branches = _cells().get("origins", key, "branches").value
            described += branches
            if int(branch) in branches:
                kind, generations = nvlink_kind, f"{nvlink_kind}_{generation}"
                if f"{generations}_refused" in item:
                    why = _cells().get("origins", key, f"{generations}_refused").value
                    raise InputError(where, f"packages.origin {origin}: {why}", "packages.origin: nvidia")
                return _Origin(key, item, version, platform.id).names(kind, generations)
        raise InputError(where, f"no package names are known for driver branch {branch}", f"branches {described}")


def amd_names(release: str, platform: Platform, where: str) -> tuple[PackageNames, str]:
    """Names of AMD's driver for a release, and their source; raises InputError for one that nobody has described."""
    releases = _cells().get("amd", "releases")
    codenames = _cells().get("amd", "codenames").value
    if release not in releases.value:
        raise InputError(where, f"driver.version is {release}", f"a release of amdgpu: {', '.join(releases.value)}")
    if platform.id not in codenames:
        raise InputError(where, f"AMD's packages for {platform.id} are not known", ", ".join(codenames))
    described = releases.value[release]
    return PackageNames(
        pin="", driver=_cells().get("amd", "driver").value, fabric=(), fabric_unversioned=(),
        toolkit=_cells().get("amd", "toolkit").value, version=described["package"], module=described["module"],
        suite=codenames[platform.id], held=_cells().get("amd", "pinned").value,
        code=described["package"].rpartition(".")[2],
    ), releases.source  # fmt: skip


@dataclass(frozen=True)
class _Origin:
    """One entry of `origins`, to be filled in for a version."""

    key: str
    item: Mapping[str, Any]
    version: str
    platform: str

    def names(self, kind: str, generations: str) -> tuple[PackageNames, str]:
        lists = {key: self._list(key) for key in ("driver", kind, f"{generations}_unversioned")}
        flat = {key: tuple(names[0] for names in value) for key, value in lists.items()}
        found = PackageNames(
            pin=self._text("pin"),
            driver=flat["driver"],
            fabric=flat[kind],
            fabric_unversioned=flat[f"{generations}_unversioned"],
            toolkit=_cells().get("toolkit").value,
            alternatives=tuple(names for value in lists.values() for names in value if len(names) > 1),
            kernel=self._text("kernel"),
            stream=self._fill(self._value("streams", {}).get(self.platform, "")),
        )
        return found, _cells().get("origins", self.key, "branches").source

    def _value(self, key: str, default: Any) -> Any:
        return _cells().get("origins", self.key, key).value if key in self.item else default

    def _fill(self, text: str) -> str:
        return text.format(branch=self.version.split(".")[0], version=self.version)

    def _text(self, key: str) -> str:
        return self._fill(self._value(key, ""))

    def _list(self, key: str) -> list[tuple[str, ...]]:
        return [tuple(name.strip() for name in self._fill(entry).split("|")) for entry in self._value(key, ())]


def foreign(packages: Mapping[str, str], origin: str) -> dict[str, str]:
    """Installed packages of the GPU stack that come from another origin, and which: by how origins spell versions."""
    marks = {key: re.compile(_cells().get("installed_from", key).value) for key in _file().data["installed_from"]}
    concerned = marks.pop("of")
    found = {}
    for name, version in packages.items():
        if concerned.search(name):
            source = next((key for key, mark in marks.items() if mark.search(f"{name} {version}")), "nvidia")
            if source != origin:
                found[name] = source
    return found


def locked(locks: Sequence[str], name: str, version: str) -> bool:
    """Whether dnf's versionlock keeps a package at a version; `locks`: its lines, "nvidia-imex-0:580.126.20-1.*"."""
    wanted = re.compile(rf"{re.escape(name)}-(?:[0-9]+:)?{re.escape(version)}-")
    return any(wanted.match(line) for line in locks)


def plain(version: str) -> str:
    """A package's version without epoch, revision, and the release of Ubuntu that AMD writes behind a tilde."""
    return re.split("[-~]", version.rpartition(":")[2])[0]


def amd_toolkit_repository() -> str:
    """Where AMD's container toolkit comes from, unless a site names a mirror."""
    found: str = _cells().get("amd", "toolkit_repository").value
    return found


def amd_modules() -> tuple[str, ...]:
    """Versions of amdgpu-dkms, without epoch and revision, of the releases that are known."""
    return tuple(item["package"] for item in _cells().get("amd", "releases").value.values())
