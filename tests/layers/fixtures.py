"""Complete facts of healthy nodes, as the probe would give them, and ways to change one thing about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.evidence.tools.systemd import UNITS
from rackproof.facts import (
    CdiSpec,
    DriverFacts,
    Gpu,
    HostFacts,
    ImageFacts,
    KernelLogFacts,
    ManagedFile,
    Missing,
    NodeFacts,
    RuntimeFacts,
    SmiFacts,
    Unit,
    UnitFacts,
)
from rackproof.facts_nvlink import ImexDomain, ImexPeer, NvlinkFacts, NvlinkPort
from rackproof.facts_system import AptFacts
from rackproof.managed import managed_files

from . import fixtures_rdma, fixtures_system
from .fixtures_amd import amd_node
from .fixtures_gpus import with_stack
from .fixtures_storage import with_storage

DRIVER = "580.126.20"
GONE = Missing("this was taken away by the test")
DOMAIN = ("10.1.0.1", "10.1.0.2")
CLUSTER = "5a1c6b9e-1ab0-4000-8000-0000000b300a"
NIL = "00000000-0000-0000-0000-000000000000"
MIB = 1024**2
PACKAGES = {
    "repository": "https://example.test/cuda/",
    "key_url": "https://example.test/cuda/key.pub",
    "key_fingerprint": "A" * 40,
}
PCI = {
    "gb300": ("00000008:06:00.0", "00000009:06:00.0", "00000018:06:00.0", "00000019:06:00.0"),
    "b300": tuple(f"00000000:{bus}:00.0" for bus in ("0f", "2e", "4d", "6c", "8b", "aa", "c9", "e8")),
}
DEVICE = {"gb300": "10de:31c2", "b300": "10de:3182"}
MEMORY_MIB = {"gb300": 284208, "b300": 275040}
POWER_W = {"gb300": 1400.0, "b300": 1100.0}
PRODUCT = {"gb300": "NVIDIA GB300", "b300": "NVIDIA B300 SXM6 AC"}
HEALTHY_UNIT = Unit("", "loaded", "active", "running", "enabled", 0, "success", "infinity", "")
NO_UNIT = Unit("", "not-found", "inactive", "dead", "", 0, "success", GONE, "")


@cache
def baseline(hardware: str) -> Baseline:
    """A site that deploys: it pins driver and toolkit and names a package repository."""
    values = {
        "hardware": hardware,
        "driver": {"version": DRIVER},
        "container": {"toolkit_version": "1.19.1"},
        "packages": PACKAGES,
    }
    domain = {"domain": DOMAIN, "domain_source": "inventory"} if hardware == "gb300" else {}
    return resolve(site.shipped().overlaid(values, "test"), **domain)  # type: ignore[arg-type]


@cache
def strangers(hardware: str) -> Baseline:
    """The baseline of a node about which no site has spoken."""
    return resolve(site.shipped(), hardware_id=hardware)


def node(hardware: str = "gb300", name: str = "tray01") -> NodeFacts:
    """A healthy node; a second tray is `node(name="tray02")`."""
    if hardware == "mi355x":
        return amd_node(node("b300", name), baseline(hardware))
    facts = NodeFacts(
        node=name,
        host=_host(hardware, name),
        driver=DriverFacts(
            loaded_version=DRIVER,
            flavour="open",
            disk_version=DRIVER,
            library_version=DRIVER,
            loaded_modules=frozenset({"nvidia", "nvidia_uvm", "mlx5_core"}),
            parameters={"CreateImexChannel0": "1" if hardware == "gb300" else "0", "ModifyDeviceFiles": "1"},
            nouveau_blacklisted=True,
            proc_gpus=PCI[hardware],
            pci_gpus=PCI[hardware],
            pci_ids=(DEVICE[hardware],) * len(PCI[hardware]),
        ),
        smi=SmiFacts(DRIVER, "13.0", len(PCI[hardware]), _gpus(hardware, name)),
        nvlink=_nvlink(hardware),
        kernel_log=KernelLogFacts(4711, "journalctl -k", ()),
        runtime=_runtime(hardware),
        system=fixtures_system.system(hardware),
        rdma=fixtures_rdma.rdma(len(PCI[hardware]), name),
        network=fixtures_rdma.network(len(PCI[hardware]), name),
        pci=fixtures_rdma.pci(PCI[hardware]),
        evidence="e" * 64,
    )
    return with_stack(with_storage(facts), hardware)


def _host(hardware: str, name: str) -> HostFacts:
    tray = hardware == "gb300"
    wanted = baseline(hardware)
    assert wanted.packages is not None
    names = wanted.packages.names
    units = {unit: replace(HEALTHY_UNIT, name=unit) for unit in UNITS}
    off = ("nvidia-fabricmanager",) if tray else ("nvidia-imex",)
    units |= {unit: replace(NO_UNIT, name=unit) for unit in (*off, "dnf-automatic.timer", "podman.socket")}
    packages = dict.fromkeys((*names.driver, *names.fabric, names.pin), f"{DRIVER}-1ubuntu1")
    packages |= dict.fromkeys(names.toolkit, "1.19.1-1")
    packages |= {"docker.io": "28.2.2-0ubuntu1", "unattended-upgrades": "2.9.1", "nvlsm": "2025.10.14-1"}
    return HostFacts(
        hostname=name,
        boot_id=f"boot-of-{name}",
        kernel=fixtures_system.KERNEL,
        architecture="aarch64" if tray else "x86_64",
        os_id="ubuntu",
        os_version="24.04",
        product_name="a server",
        cmdline=fixtures_system.GRACE_CMDLINE if tray else fixtures_system.X86_CMDLINE,
        page_size_bytes=65536,
        is_root=True,
        simulated=None,
        selfbuild=None,
        reboot_required=False,
        units=units,
        packages=packages,
        broken_packages=(),
        apt_sources={},
        apt_preferences={},
        files={file.path: ManagedFile(file.path, file.sha256) for file in managed_files(wanted)},
        stamp={"baseline": wanted.hash},
        addresses=(f"10.1.0.{name[-1]}", "fe80::1"),
        uptime_s=86400.0,
        dmi=fixtures_system.dmi(name),
    )


def _gpus(hardware: str, name: str) -> tuple[Gpu, ...]:
    tray = hardware == "gb300"
    return tuple(
        Gpu(
            index=index,
            pci_address=address,
            product=PRODUCT[hardware],
            uuid=f"GPU-{name}-{index}",
            serial=f"16{index}",
            vbios="97.10.4A.00.05",
            memory_bytes=MEMORY_MIB[hardware] * MIB,
            persistence=True,
            compute_mode="Default",
            mig_current=False,
            mig_pending=False,
            ecc_current=True,
            ecc_pending=True,
            ecc_uncorrectable_volatile=0,
            ecc_uncorrectable_aggregate=0,
            remap_pending=False,
            remap_failure=False,
            remapped_uncorrectable=0,
            recovery_action="None",
            power_limit_w=POWER_W[hardware],
            power_default_w=POWER_W[hardware],
            slowdown_reasons=(),
            pcie_gen=5,
            pcie_width=16,
            pcie_width_max=16,
            fabric_state="Completed",
            fabric_status="Success",
            fabric_health="Healthy",
            clique_id=32766 if tray else 0,
            cluster_uuid=CLUSTER if tray else NIL,
            processes=(),
        )
        for index, address in enumerate(PCI[hardware])
    )


def _nvlink(hardware: str) -> NvlinkFacts:
    tray, size = hardware == "gb300", len(PCI[hardware])
    peers = tuple(ImexPeer(address, "READY", DRIVER) for address in DOMAIN)
    return NvlinkFacts(
        ports=tuple(NvlinkPort(gpu, link, 53.125, True) for gpu in range(size) for link in range(18)),
        gpu_paths={(one, other): "NV18" for one in range(size) for other in range(size) if one != other},
        imex_nodes=DOMAIN if tray else None,
        imex_domain=ImexDomain("UP", peers, ()) if tray else Missing("nvidia-imex-ctl is not installed"),
        imex_channels=("/dev/nvidia-caps-imex-channels/channel0",) if tray else (),
    )


def _runtime(hardware: str) -> RuntimeFacts:
    devices = (*(str(index) for index in range(len(PCI[hardware]))), "all")
    return RuntimeFacts(
        engine="docker",
        engine_version="28.2.2",
        cgroup_version="2",
        runtimes=("nvidia", "runc"),
        cdi_devices=tuple(f"nvidia.com/gpu={device}" for device in devices),
        daemon_config=None,
        toolkit_version="1.19.1",
        cdi_specs=(CdiSpec("/var/run/cdi/nvidia.yaml", (DRIVER,), devices),),
        images=(official_image(hardware),),
        image_chains=(),
    )


def official_image(hardware: str) -> ImageFacts:
    """The image as Docker describes it: without its own registry's name."""
    wanted = baseline(hardware).image
    return ImageFacts(
        id="sha256:1234",
        tags=("vllm/vllm-openai:v0.28.0",),
        digests=(f"vllm/vllm-openai@{wanted.index}",),
        architecture=wanted.architecture,
        cuda_version="13.0.2",
        labels={},
    )


def unit_of(*nodes: NodeFacts, declared: tuple[str, ...] = ()) -> UnitFacts:
    """A deployment unit of these nodes."""
    return UnitFacts("unit-1", declared or tuple(one.node for one in nodes), {one.node: one for one in nodes})


# --- one thing changed ---


def host(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return replace(facts, host=replace(facts.host, **changes))


def driver(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return replace(facts, driver=replace(facts.driver, **changes))


def nvlink(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return replace(facts, nvlink=replace(facts.nvlink, **changes))


def runtime(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return replace(facts, runtime=replace(facts.runtime, **changes))


def smi(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.smi, SmiFacts)
    return replace(facts, smi=replace(facts.smi, **changes))


def gpu(facts: NodeFacts, index: int, **changes: Any) -> NodeFacts:
    """One GPU changed, all others as they were."""
    assert isinstance(facts.smi, SmiFacts)
    listed = tuple(replace(one, **changes) if one.index == index else one for one in facts.smi.gpus)
    return smi(facts, gpus=listed)


def every_gpu(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.smi, SmiFacts)
    return smi(facts, gpus=tuple(replace(one, **changes) for one in facts.smi.gpus))


def units(facts: NodeFacts, **changes: Mapping[str, Any] | None) -> NodeFacts:
    """Fields of units changed, or a unit taken out of what was read (None). `_` stands for `-`, `__` for `.`."""
    assert not isinstance(facts.host.units, Missing)
    found = dict(facts.host.units)
    for key, change in changes.items():
        name = key.replace("__", ".").replace("_", "-")
        if change is None:
            del found[name]
        else:
            found[name] = replace(found[name], **change)
    return host(facts, units=found)


def packages(facts: NodeFacts, changes: Mapping[str, str | None]) -> NodeFacts:
    """Packages at another version, or not installed (None)."""
    assert not isinstance(facts.host.packages, Missing)
    found = {**facts.host.packages, **changes}
    return host(facts, packages={name: version for name, version in found.items() if version is not None})


def files(facts: NodeFacts, path: str, sha256: str | None) -> NodeFacts:
    assert not isinstance(facts.host.files, Missing)
    return host(facts, files={**facts.host.files, path: ManagedFile(path, sha256)})


def apt(facts: NodeFacts, upgrades_itself: bool | Missing) -> NodeFacts:
    return fixtures_system.system_of(facts, apt=AptFacts({}, (), upgrades_itself))


def image(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert not isinstance(facts.runtime.images, Missing)
    return runtime(facts, images=tuple(replace(one, **changes) for one in facts.runtime.images))


SECTIONS = ("host", "driver", "smi", "nvlink", "kernel_log", "runtime", "evidence")
WHOLE = ("system", "rdma", "network", "pci")  # facts of their own


def without(facts: NodeFacts, section: str) -> NodeFacts:
    """The node without anything of one section."""
    part = getattr(facts, section)
    gone: Any = GONE
    if section not in ("smi", "kernel_log", "evidence", "pci", "amd"):
        gone = replace(part, **dict.fromkeys((field.name for field in fields(part)), GONE))
    return replace(facts, **{section: gone})


def nothing(facts: NodeFacts) -> NodeFacts:
    """A node of which nothing could be read."""
    for section in (*SECTIONS, "pci", "amd"):
        facts = without(facts, section)
    return replace(facts, **dict.fromkeys((*WHOLE, "weights", "serving", "control", "virtual_machine"), GONE))
