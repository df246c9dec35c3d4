"""Host, driver, GPUs, NVLink, container runtime, image and packages of a baseline, each from its cells."""

from __future__ import annotations

import re
from dataclasses import replace

from packaging.version import Version

from rackproof import rules
from rackproof.baseline_container import container_rules, engine_package
from rackproof.baseline_parts import (
    DriverBaseline,
    GpuBaseline,
    HostBaseline,
    ImageBaseline,
    NvlinkBaseline,
    PackageBaseline,
    RdmaPackages,
    RuntimeBaseline,
)
from rackproof.errors import InputError
from rackproof.package_names import PackageNames, Platform, amd_names, amd_toolkit_repository, platform_of
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
    parameters = r.take("driver.parameters", rules["module_parameters"]).get(hw.fabric_kind.value, {})
    if r.site.value("imex", "owner", default="host") == "kubernetes":  # whose driver makes channels as jobs need them
        parameters = {name: value for name, value in parameters.items() if name != "CreateImexChannel0"}
    return DriverBaseline(
        branch_min=branch_min,
        floor=floor,
        version=pinned.value if pinned else None,
        flavour="open" if hw.generation in flavours.value else None,
        parameters=tuple(sorted(parameters.items())),
        device_nodes=r.rule("driver.device_nodes", "gpus", "device_nodes"),
    )


def gpus(r: Resolving) -> GpuBaseline:
    hw, rules = r.hardware, r.recipe.host
    size = r.take("gpus.memory_bytes_min", hw.memory_mib)
    amd = hw.vendor == "amd"
    tight = r.rule("gpus.idle_memory_tight_bytes", "gpus", "idle_memory_tight_mib").get(hw.id)
    idle = r.rule("gpus.idle_memory_max_bytes", "amd" if amd else "gpus", "idle_memory_max_mib")
    return GpuBaseline(
        count=r.take("gpus.count", hw.gpus_per_node),
        product=r.take("gpus.product", hw.product),
        memory_bytes_min=int(size * MIB * (1 - hw.memory_tolerance.value)),
        pci_device_ids=r.take("gpus.pci_device_ids", hw.pci_device_ids),
        pci_subsystem_ids=r.take("gpus.pci_subsystem_ids", hw.pci_subsystem_ids),
        power_limits_w=r.take("gpus.power_limits_w", hw.power_limits_w),
        fatal_xids=r.take("gpus.fatal_xids", rules["fatal_xids"]),
        expect_idle=r.take("gpus.expect_idle", r.site.require("gpus", "expect_idle")),
        application_xids=r.take("gpus.application_xids", rules["application_xids"]),
        nvlink_xids=r.rule("gpus.nvlink_xids", "gpus", "nvlink_xids"),
        has_sxids=hw.generation in r.rule("gpus.has_sxids", "gpus", "sxid_generations"),
        idle_memory_max_bytes=idle * MIB,
        idle_memory_tight_bytes=tight * MIB if tight else None,
        aggregate_uncorrectable_max=r.rule("gpus.aggregate_uncorrectable_max", "gpus", "aggregate_uncorrectable_max"),
        temperature_above_median_c=r.rule("gpus.temperature_above_median_c", "gpus", "temperature_above_median_c"),
        pcie_replays_max=r.rule("gpus.pcie_replays_max", "gpus", "pcie_replays_max"),
    )


def nvlink(r: Resolving, domain: tuple[str, ...] | None, domain_source: str) -> NvlinkBaseline:
    hw, rules = r.hardware, r.recipe.host
    limit = hw.domain_nodes_max
    if domain is not None and len(domain) > limit.value:
        raise InputError(domain_source, f"the NVLink domain has {len(domain)} nodes", f"at most {limit.value}")
    r.notes["nvlink.domain"] = domain_source or "no inventory declares it"
    r.notes["nvlink.across_nodes"] = r.layout.source
    across = r.layout.fabric == "mnnvl" and r.layout.nodes > 1
    owner = r.choose("nvlink.imex_owner", "imex", "owner", default="host") if across else None
    r.notes["nvlink.imex_owner"] = r.notes["nvlink.host_imex"] = r.notes.get("nvlink.imex_owner", r.layout.source)
    switched = hw.fabric_kind.value == "hgx"
    managed = switched and hw.generation in r.rule("nvlink.fabric_modules", "gpus", "subnet_manager_generations")
    modules = r.rule("nvlink.fabric_modules", "gpus", "subnet_manager_modules")
    return NvlinkBaseline(
        kind=r.take("nvlink.kind", hw.fabric_kind),
        links_per_gpu=r.take("nvlink.links_per_gpu", hw.links_per_gpu),
        link_rate_min_gb_per_s=r.take("nvlink.link_rate_min_gb_per_s", hw.link_rate_min_gb_per_s),
        link_rate_gb_per_s=r.rule("nvlink.link_rate_gb_per_s", "gpus", "nvlink_rate_gb_per_s").get(hw.generation),
        error_counters=r.rule("nvlink.error_counters", "gpus", "nvlink_error_counters"),
        fabric_state=r.take("nvlink.fabric_state", rules["fabric_state"]),
        fabric_status=r.take("nvlink.fabric_status", rules["fabric_status"]),
        across_nodes=across,
        imex_owner=owner,
        host_imex=owner == "host",
        imex_quorum=r.rule("nvlink.imex_quorum", "gpus", "imex_quorum"),
        imex_channel=r.take("nvlink.imex_channel", rules["imex_channel"]),
        domain=domain,
        daemons_required=r.take("nvlink.daemons_required", hw.daemons_required),
        daemons_forbidden=r.take("nvlink.daemons_forbidden", hw.daemons_forbidden),
        fabric_modules=modules if managed else (),
        fabric_manager_restarts_max=r.rule(
            "nvlink.fabric_manager_restarts_max", "gpus", "fabric_manager_restarts_max"
        ),
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
        engine_package=engine_package(r, engine),
        engine_min=r.take("runtime.engine_min", rules["engine_min"])[engine],
        toolkit_min=floor,
        toolkit_version=toolkit.value if toolkit else None,
        rules=container_rules(r, engine),
        amd_toolkit=_amd_toolkit(r),
    )


def _amd_toolkit(r: Resolving) -> str | None:
    """The version of AMD's container toolkit that the site asks for; None on GPUs of another maker."""
    if r.hardware.vendor != "amd":
        r.notes["runtime.amd_toolkit"] = r.notes["hardware"]
        return None
    found: str | None = r.choose("runtime.amd_toolkit", "container", "amd_toolkit", "version")
    return found


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
    if pinned is None or r.site.get("packages", "repository") is None:
        r.notes["packages"] = "the site pins no driver version or names no package repository"
        return None
    repository, origin = r.site.require("packages", "repository"), r.site.get("packages", "origin")
    r.notes["packages.toolkit_repository"] = "the site asks for no container toolkit of AMD's"
    if r.hardware.vendor == "amd":
        return _amd_packages(r, pinned, repository)
    where = origin.source if origin else pinned.source
    platform = _platform(r, repository)
    names, r.notes["packages.names"] = PackageNames.of(
        pinned.value, r.hardware.fabric_kind.value, r.hardware.generation, where, platform,
        origin.value if origin else "nvidia",
    )  # fmt: skip
    return PackageBaseline(
        repository=r.take("packages.repository", repository),
        key_url=r.take("packages.key_url", r.site.require("packages", "key_url")),
        key_fingerprint=r.take("packages.key_fingerprint", r.site.require("packages", "key_fingerprint")),
        names=names,
        platform=platform,
        rdma=_rdma_packages(r, platform),
        origin=r.choose("packages.origin", "packages", "origin", default="nvidia"),
    )


def _amd_packages(r: Resolving, pinned: Cell[str], repository: Cell[str]) -> PackageBaseline | None:
    if r.site.get("packages", "platform") is None:  # AMD's address does not say
        r.notes["packages"] = "the site names no packages.platform, without which AMD's packages are not known"
        return None
    platform = _platform(r, repository)
    names, r.notes["packages.names"] = amd_names(pinned.value, platform, pinned.source)
    served = re.search(r"/amdgpu/([0-9.]+)(?:/|$)", repository.value)
    if served and not f"{pinned.value}.".startswith(f"{served[1]}."):
        raise InputError(repository.source, f"packages.repository serves release {served[1]}", f".../amdgpu/{pinned.value}/ubuntu")
    r.notes["packages.origin"] = r.notes["hardware"]
    return PackageBaseline(
        repository=r.take("packages.repository", repository),
        key_url=r.take("packages.key_url", r.site.require("packages", "key_url")),
        key_fingerprint=r.take("packages.key_fingerprint", r.site.require("packages", "key_fingerprint")),
        names=names, platform=platform, rdma=_rdma_packages(r, platform), origin="amd",
        toolkit_repository=_toolkit_repository(r),
    )  # fmt: skip


def _toolkit_repository(r: Resolving) -> str:
    if r.site.get("container", "amd_toolkit", "version") is None:
        return ""
    default = amd_toolkit_repository()
    found: str = r.choose("packages.toolkit_repository", "container", "amd_toolkit", "repository", default=default)
    return found


def _rdma_packages(r: Resolving, platform: Platform) -> RdmaPackages | None:
    stack = r.choose("packages.rdma", "rdma", "stack", default="none")
    if stack == "none":
        return None
    if stack == "inbox":
        names = tuple(rules.load("deploy")["rdma_inbox"].value[platform.manager])
        return RdmaPackages(stack, names, ("rdma-core", "infiniband-diags"), "", "", "")
    names = rules.load("deploy")["rdma_doca"].value
    needed = [r.site.require("rdma", key).value for key in ("repository", "key_url", "key_fingerprint")]
    return RdmaPackages(stack, names, names, *needed)


def _platform(r: Resolving, repository: Cell[str]) -> Platform:
    named = r.site.get("packages", "platform")
    cell = named or repository
    architecture = (r.site.get("simulation", "architecture") or r.hardware.cpu_architecture).value
    r.notes["packages.platform"] = cell.source
    return platform_of(repository.value, named.value if named else None, architecture, cell.source)
