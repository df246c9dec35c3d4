"""Host, driver, GPUs, NVLink, container runtime, image and packages of a baseline, each from its cells."""

from __future__ import annotations

from dataclasses import replace

from packaging.version import Version

from rackproof.baseline_container import container_rules
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
from rackproof.resolving import MIB, Resolving, version
from rackproof.sourced import Cell

OCI_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


def host(r: Resolving) -> HostBaseline:
    hw, site = r.hardware, r.site
    return HostBaseline(
        architecture=r.take("host.architecture", site.get("simulation", "architecture") or hw.cpu_architecture),
        operating_systems=r.take(
            "host.operating_systems", site.get("simulation", "operating_systems") or hw.operating_systems
        ),
    )


def driver(r: Resolving) -> DriverBaseline:
    hw, rules = r.hardware, r.recipe.host
    flavours = rules["open_module_generations"]
    r.notes["driver.flavour"] = flavours.source
    pinned = r.site.get("driver", "version")
    branch_min = r.take("driver.branch_min", rules["driver_branch_min"])
    floor = r.take("driver.floor", hw.driver_floor)
    lowest = max(Version(floor or "0"), Version(str(branch_min)))
    r.notes["driver.version"] = pinned.source if pinned else "the site pins none"
    if pinned and hw.vendor == "nvidia" and version(pinned) < lowest:
        raise InputError(pinned.source, f"driver.version is {pinned.value}", f">= {floor or lowest} on {hw.id}")
    parameters = r.take("driver.parameters", rules["module_parameters"])
    return DriverBaseline(
        branch_min=branch_min,
        floor=floor,
        version=pinned.value if pinned else None,
        flavour="open" if hw.generation in flavours.value else None,
        parameters=tuple(sorted(parameters.get(hw.fabric_kind.value, {}).items())),
    )


def gpus(r: Resolving) -> GpuBaseline:
    hw, rules = r.hardware, r.recipe.host
    size = r.take("gpus.memory_bytes_min", hw.memory_mib)
    return GpuBaseline(
        count=r.take("gpus.count", hw.gpus_per_node),
        product=r.take("gpus.product", hw.product),
        memory_bytes_min=int(size * MIB * (1 - hw.memory_tolerance.value)),
        pci_device_ids=r.take("gpus.pci_device_ids", hw.pci_device_ids),
        power_limits_w=r.take("gpus.power_limits_w", hw.power_limits_w),
        fatal_xids=r.take("gpus.fatal_xids", rules["fatal_xids"]),
        expect_idle=r.take("gpus.expect_idle", r.site.require("gpus", "expect_idle")),
    )


def nvlink(r: Resolving, domain: tuple[str, ...] | None, domain_source: str) -> NvlinkBaseline:
    hw, rules = r.hardware, r.recipe.host
    limit = hw.domain_nodes_max
    if domain is not None and len(domain) > limit.value:
        raise InputError(domain_source, f"the NVLink domain has {len(domain)} nodes", f"at most {limit.value}")
    r.notes["nvlink.domain"] = domain_source or "no inventory declares it"
    r.notes["nvlink.across_nodes"] = r.layout.source
    return NvlinkBaseline(
        kind=r.take("nvlink.kind", hw.fabric_kind),
        links_per_gpu=r.take("nvlink.links_per_gpu", hw.links_per_gpu),
        link_rate_min_gb_per_s=r.take("nvlink.link_rate_min_gb_per_s", hw.link_rate_min_gb_per_s),
        fabric_state=r.take("nvlink.fabric_state", rules["fabric_state"]),
        fabric_status=r.take("nvlink.fabric_status", rules["fabric_status"]),
        across_nodes=r.layout.fabric == "mnnvl" and r.layout.nodes > 1,
        imex_channel=r.take("nvlink.imex_channel", rules["imex_channel"]),
        domain=domain,
        daemons_required=r.take("nvlink.daemons_required", hw.daemons_required),
        daemons_forbidden=r.take("nvlink.daemons_forbidden", hw.daemons_forbidden),
    )


def runtime(r: Resolving) -> RuntimeBaseline:
    rules, site = r.recipe.host, r.site
    engine = r.take("runtime.engine", site.require("container", "engine"))
    toolkit = site.get("container", "toolkit_version")
    floor = r.take("runtime.toolkit_min", rules["toolkit_min"])
    r.notes["runtime.toolkit_version"] = toolkit.source if toolkit else "the site pins none"
    if toolkit and version(toolkit) < Version(floor):
        raise InputError(toolkit.source, f"container.toolkit_version is {toolkit.value}", f">= {floor}")
    return RuntimeBaseline(
        engine=engine,
        engine_package=r.take("runtime.engine_package", site.require("container", "engine_package")),
        engine_min=r.take("runtime.engine_min", rules["engine_min"])[engine],
        toolkit_min=floor,
        toolkit_version=toolkit.value if toolkit else None,
        rules=container_rules(r),
    )


def image(r: Resolving, architecture: str) -> ImageBaseline:
    image = _rocm_image(r) if r.hardware.vendor == "amd" else _cuda_image(r, architecture)
    mirror = r.site.get("image", "repository")
    if mirror is not None:
        r.notes["image.repository"] = mirror.source
        image = replace(image, repository=mirror.value)
    if r.site.under("simulation", "image"):
        # All or none: a simulated image whose platform is the real one is neither.
        digests = {key: r.site.require("simulation", "image", key) for key in ("index", "amd64", "arm64")}
        r.notes.update({"image.index": digests["index"].source, "image.platform": digests[architecture].source})
        image = replace(image, index=digests["index"].value, platform=digests[architecture].value)
    r.notes["image.architecture"] = r.notes["host.architecture"]
    return replace(image, architecture=architecture)


def _cuda_image(r: Resolving, architecture: str) -> ImageBaseline:
    chosen = r.site.require("image", "id")
    image = r.recipe.image(chosen.value, chosen.source)
    for key in ("repository", "tag", "index", "platform", "cuda_major"):
        r.notes[f"image.{key}"] = image.source
    platforms = {"amd64": image.amd64, "arm64": image.arm64}
    return ImageBaseline(image.repository, image.tag, image.index, platforms[architecture], architecture, image.cuda)


def _rocm_image(r: Resolving) -> ImageBaseline:
    """Of the ROCm image only the digest of its one platform is published, which is what is pulled."""
    rocm = r.settings().container["rocm_image"]
    for key in ("repository", "tag", "index", "platform", "cuda_major"):
        r.notes[f"image.{key}"] = rocm.source
    found = rocm.value
    return ImageBaseline(found["repository"], found["tag"], found["digest"], found["digest"], "amd64", None)


def packages(r: Resolving) -> PackageBaseline | None:
    pinned = r.site.get("driver", "version")
    if pinned is None or r.site.get("packages", "repository") is None or r.hardware.vendor != "nvidia":
        r.notes["packages"] = "the site pins no driver version or names no package repository"
        return None
    return PackageBaseline(
        repository=r.take("packages.repository", r.site.require("packages", "repository")),
        key_url=r.take("packages.key_url", r.site.require("packages", "key_url")),
        key_fingerprint=r.take("packages.key_fingerprint", r.site.require("packages", "key_fingerprint")),
        names=package_names(r, pinned),
    )


def package_names(r: Resolving, pinned: Cell[str]) -> PackageNames:
    names, source = PackageNames.of(pinned.value, r.hardware.fabric_kind.value, r.hardware.generation, pinned.source)
    r.notes["packages.names"] = source
    return names
