"""The baseline: recipe + hardware + site + layout, resolved into all that one node must be.

The deploy applies it and the checks judge against it; nothing else holds an expected value. Each value says where it
comes from (`provenance`), which is not part of what makes two baselines equal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import InvalidVersion, Version

from rackproof import hardware as hardware_profiles
from rackproof import recipes
from rackproof.baseline_parts import (
    DriverBaseline,
    GpuBaseline,
    HostBaseline,
    ImageBaseline,
    NvlinkBaseline,
    PackageBaseline,
    RuntimeBaseline,
)
from rackproof.errors import InputError
from rackproof.package_names import PackageNames
from rackproof.recipes import Layout
from rackproof.site import Site
from rackproof.sourced import Cell

MIB = 1024 * 1024
OCI_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Baseline:
    """All that one node must be. Two trays of a unit have equal baselines."""

    recipe: str
    recipe_commit: str
    hardware: str
    layout: Layout
    simulated: bool  # the site declares a lab: every report says so, and a real node cannot meet it
    host: HostBaseline
    driver: DriverBaseline
    gpus: GpuBaseline
    nvlink: NvlinkBaseline
    runtime: RuntimeBaseline
    image: ImageBaseline
    packages: PackageBaseline | None
    provenance: Mapping[str, str] = field(compare=False, hash=False, default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without anything that only says where a value stands: what the hash is taken of."""
        data = dataclasses.asdict(self)
        del data["provenance"]
        for words in ("source", "why", "warn", "upstream"):
            del data["layout"][words]
        return data

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `as_dict`."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def source(self, key: str) -> str:
        """Where the value at a dotted path comes from."""
        return self.provenance[key]


def resolve(
    site: Site,
    *,
    hardware_id: str | None = None,
    layout_id: str | None = None,
    domain: tuple[str, ...] | None = None,
    domain_source: str = "",
) -> Baseline:
    """The baseline of a node. `domain` are the addresses of its NVLink domain as the inventory declares them.

    Raises InputError when site, hardware and layout contradict each other.
    """
    return _Resolver(site, hardware_id, layout_id).baseline(domain, domain_source)


def unsupported(recipe: recipes.Recipe, hardware: hardware_profiles.Hardware) -> str | None:
    """Why no node of this product can be brought to a baseline by this version, or None."""
    if hardware.vendor != "nvidia":
        return f"{hardware.title}: checks and deploys of {hardware.vendor.upper()} GPUs are not part of this version"
    tiers = {layout.tier for layout in recipe.layouts.values() if layout.hardware == hardware.id}
    if tiers <= {"rejected"}:
        return f"{hardware.title}: recipe {recipe.id} has no layout for it that works"
    return None


def default_layout(recipe: recipes.Recipe, hardware_id: str) -> Layout:
    """The first official layout of a product, for a node nobody chose a layout for."""
    for layout in recipe.layouts.values():
        if layout.hardware == hardware_id and layout.tier == "official":
            return layout
    raise InputError("--layout", f"recipe {recipe.id} has no official layout for {hardware_id}", sorted(recipe.layouts))


class _Resolver:
    """Takes values from their cells and notes, for each, under which key it went and where it stood."""

    def __init__(self, site: Site, hardware_id: str | None, layout_id: str | None) -> None:
        self.site = site
        self.notes: dict[str, str] = {}
        recipe_cell = site.require("recipe")
        self.recipe = recipes.load(recipe_cell.value, recipe_cell.source)
        self.hardware = self._hardware(hardware_id)
        refused = unsupported(self.recipe, self.hardware)
        if refused:
            raise InputError(self.notes["hardware"], f"{refused}; `rackproof eligible` says what it can run")
        self.layout = self._layout(layout_id)

    def take(self, key: str, cell: Cell[Any]) -> Any:
        self.notes[key] = cell.source
        return cell.value

    def _hardware(self, asked: str | None) -> hardware_profiles.Hardware:
        cell = Cell(asked, "--hardware") if asked else self.site.require("hardware")
        return hardware_profiles.load(self.take("hardware", cell), cell.source)

    def _layout(self, asked: str | None) -> Layout:
        cell = Cell(asked, "--layout") if asked else self.site.get("layout")
        if cell is None:
            cell = Cell(default_layout(self.recipe, self.hardware.id).id, "first official layout of the hardware")
        layout = self.recipe.layout(self.take("layout", cell), cell.source)
        if layout.hardware != self.hardware.id:
            fitting = sorted(name for name, other in self.recipe.layouts.items() if other.hardware == self.hardware.id)
            raise InputError(cell.source, f"layout {layout.id} is for {layout.hardware}, not {self.hardware.id}", fitting)
        if not self.site.value("allow_derived", default=False):
            self.recipe.refuse_derived(layout, cell.source)
        return layout

    def baseline(self, domain: tuple[str, ...] | None, domain_source: str) -> Baseline:
        self.notes["recipe"] = self.site.require("recipe").source
        self.notes["recipe_commit"] = f"recipes/{self.recipe.id}.yaml"
        simulated = any(key[0] == "simulation" for key in self.site.cells)
        self.notes["simulated"] = "group_vars: simulation" if simulated else "no simulation is declared"
        host = self._host()
        return Baseline(
            recipe=self.recipe.id,
            recipe_commit=self.recipe.commit,
            hardware=self.hardware.id,
            layout=self.layout,
            simulated=simulated,
            host=host,
            driver=self._driver(),
            gpus=self._gpus(),
            nvlink=self._nvlink(domain, domain_source),
            runtime=self._runtime(),
            image=self._image(OCI_ARCHITECTURE[host.architecture]),
            packages=self._packages(),
            provenance=self.notes,
        )

    def _host(self) -> HostBaseline:
        hw, site = self.hardware, self.site
        return HostBaseline(
            architecture=self.take("host.architecture", site.get("simulation", "architecture") or hw.cpu_architecture),
            operating_systems=self.take(
                "host.operating_systems", site.get("simulation", "operating_systems") or hw.operating_systems
            ),
        )

    def _driver(self) -> DriverBaseline:
        hw, rules = self.hardware, self.recipe.host
        flavours = rules["open_module_generations"]
        self.notes["driver.flavour"] = flavours.source
        pinned = self.site.get("driver", "version")
        branch_min = self.take("driver.branch_min", rules["driver_branch_min"])
        floor = self.take("driver.floor", hw.driver_floor)
        lowest = max(Version(floor or "0"), Version(str(branch_min)))
        self.notes["driver.version"] = pinned.source if pinned else "the site pins none"
        if pinned and version(pinned) < lowest:
            raise InputError(pinned.source, f"driver.version is {pinned.value}", f">= {floor or lowest} on {hw.id}")
        parameters = self.take("driver.parameters", rules["module_parameters"])
        return DriverBaseline(
            branch_min=branch_min,
            floor=floor,
            version=pinned.value if pinned else None,
            flavour="open" if hw.generation in flavours.value else None,
            parameters=tuple(sorted(parameters.get(hw.fabric_kind.value, {}).items())),
        )

    def _gpus(self) -> GpuBaseline:
        hw, rules = self.hardware, self.recipe.host
        size = self.take("gpus.memory_bytes_min", hw.memory_mib)
        return GpuBaseline(
            count=self.take("gpus.count", hw.gpus_per_node),
            product=self.take("gpus.product", hw.product),
            memory_bytes_min=int(size * MIB * (1 - hw.memory_tolerance.value)),
            pci_device_ids=self.take("gpus.pci_device_ids", hw.pci_device_ids),
            power_limits_w=self.take("gpus.power_limits_w", hw.power_limits_w),
            fatal_xids=self.take("gpus.fatal_xids", rules["fatal_xids"]),
            expect_idle=self.take("gpus.expect_idle", self.site.require("gpus", "expect_idle")),
        )

    def _nvlink(self, domain: tuple[str, ...] | None, domain_source: str) -> NvlinkBaseline:
        hw, rules = self.hardware, self.recipe.host
        limit = hw.domain_nodes_max
        if domain is not None and len(domain) > limit.value:
            raise InputError(domain_source, f"the NVLink domain has {len(domain)} nodes", f"at most {limit.value}")
        self.notes["nvlink.domain"] = domain_source or "no inventory declares it"
        self.notes["nvlink.across_nodes"] = self.layout.source
        return NvlinkBaseline(
            kind=self.take("nvlink.kind", hw.fabric_kind),
            links_per_gpu=self.take("nvlink.links_per_gpu", hw.links_per_gpu),
            link_rate_min_gb_per_s=self.take("nvlink.link_rate_min_gb_per_s", hw.link_rate_min_gb_per_s),
            fabric_state=self.take("nvlink.fabric_state", rules["fabric_state"]),
            fabric_status=self.take("nvlink.fabric_status", rules["fabric_status"]),
            across_nodes=self.layout.fabric == "mnnvl" and self.layout.nodes > 1,
            imex_channel=self.take("nvlink.imex_channel", rules["imex_channel"]),
            domain=domain,
            daemons_required=self.take("nvlink.daemons_required", hw.daemons_required),
            daemons_forbidden=self.take("nvlink.daemons_forbidden", hw.daemons_forbidden),
        )

    def _runtime(self) -> RuntimeBaseline:
        rules, site = self.recipe.host, self.site
        engine = self.take("runtime.engine", site.require("container", "engine"))
        toolkit = site.get("container", "toolkit_version")
        floor = self.take("runtime.toolkit_min", rules["toolkit_min"])
        self.notes["runtime.toolkit_version"] = toolkit.source if toolkit else "the site pins none"
        if toolkit and version(toolkit) < Version(floor):
            raise InputError(toolkit.source, f"container.toolkit_version is {toolkit.value}", f">= {floor}")
        return RuntimeBaseline(
            engine=engine,
            engine_package=self.take("runtime.engine_package", site.require("container", "engine_package")),
            engine_min=self.take("runtime.engine_min", rules["engine_min"])[engine],
            toolkit_min=floor,
            toolkit_version=toolkit.value if toolkit else None,
        )

    def _image(self, architecture: str) -> ImageBaseline:
        chosen = self.site.require("image", "id")
        image = self.recipe.image(chosen.value, chosen.source)
        mirror = self.site.get("image", "repository")
        digests = self.site.under("simulation", "image")
        if digests:  # all or none: a simulated image whose platform is the real one is neither
            digests = {key: self.site.require("simulation", "image", key) for key in ("index", "amd64", "arm64")}
        self.notes.update(
            {
                "image.repository": mirror.source if mirror else image.source,
                "image.tag": image.source,
                "image.index": digests["index"].source if digests else image.source,
                "image.platform": digests[architecture].source if digests else image.source,
                "image.architecture": self.notes["host.architecture"],
                "image.cuda_major": image.source,
            }
        )
        published = image.amd64 if architecture == "amd64" else image.arm64
        return ImageBaseline(
            repository=mirror.value if mirror else image.repository,
            tag=image.tag,
            index=digests["index"].value if digests else image.index,
            platform=digests[architecture].value if digests else published,
            architecture=architecture,
            cuda_major=image.cuda,
        )

    def _packages(self) -> PackageBaseline | None:
        pinned = self.site.get("driver", "version")
        if pinned is None or self.site.get("packages", "repository") is None:
            self.notes["packages"] = "the site pins no driver version or names no package repository"
            return None
        return PackageBaseline(
            repository=self.take("packages.repository", self.site.require("packages", "repository")),
            key_url=self.take("packages.key_url", self.site.require("packages", "key_url")),
            key_fingerprint=self.take("packages.key_fingerprint", self.site.require("packages", "key_fingerprint")),
            names=self._package_names(pinned),
        )

    def _package_names(self, pinned: Cell[str]) -> PackageNames:
        names, source = PackageNames.of(
            pinned.value, self.hardware.fabric_kind.value, self.hardware.generation, pinned.source
        )
        self.notes["packages.names"] = source
        return names


def version(cell: Cell[str]) -> Version:
    """A version out of a cell; raises InputError where it is none."""
    try:
        return Version(cell.value)
    except InvalidVersion:
        raise InputError(cell.source, f"{cell.value!r} is not a version", "digits and dots: 580.126.20") from None
