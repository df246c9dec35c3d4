"""A healthy node with eight MI355X, as the probe gives it: driver and amd-smi, and nothing of NVIDIA."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations
from typing import Any

from rackproof.baseline import Baseline
from rackproof.facts import CdiSpec, ImageFacts, Missing, NodeFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, AmdGpu, DeviceAccess, KfdNode, RasEvent
from rackproof.facts_nvlink import NvlinkFacts
from rackproof.facts_pci import PciFacts
from rackproof.facts_system import DkmsModule, KernelFacts, KernelState, SystemFacts

from .fixtures_gpus import UNTOLD, with_gpus

ADDRESSES = tuple(f"00000000:{bus}:00.0" for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5"))
KERNEL = "6.8.0-60-generic"
MODULE = "6.19.14"
FIRMWARE = {"CP_MEC1": "180", "PSP_SOSDRV": "00.36.02.4A"}
VRAM = 309220868096
CDI_NODES = tuple(sorted(["/dev/kfd", *(f"/dev/dri/renderD{128 + index}" for index in range(8))]))
NO_TOOL = Missing("amd-smi is not installed")
NO_SMI = Missing("nvidia-smi is not installed")
# What sysfs alone says of a GPU, when ROCm's tools are not there.
BARE = ("pci_address", "pci_id", "serial", "vbios", "memory_bytes", "memory_used_bytes", "compute_partition",
        "memory_partition")  # fmt: skip


EARLIER = "vllm/vllm-openai-rocm"


def amd_node(other: NodeFacts, wanted: Baseline) -> NodeFacts:
    """The host of another healthy node, with AMD's GPUs and driver in place of NVIDIA's."""
    gone = {field.name: NO_SMI for field in fields(NvlinkFacts)}
    return replace(
        other,
        host=replace(
            other.host, kernel=KERNEL, cmdline=("ro", "iommu=pt", "pci=realloc=off", "pci=bfsort"), files={},
            packages={
                "amdgpu-dkms": "1:6.19.14.31400000-2364437.24.04", "docker.io": "28.2.2-0ubuntu1",
                "amd-container-toolkit": "1.3.0~24.04",
            },
            stamp=None, page_size_bytes=4096,
        ),
        driver=replace(other.driver, **_no_nvidia(), loaded_version=None, loaded_modules=frozenset({"amdgpu", "mlx5_core"})),
        smi=NO_SMI,
        nvlink=NvlinkFacts(**gone),  # type: ignore[arg-type]
        runtime=replace(
            other.runtime, runtimes=("amd", "runc"), cdi_devices=(), toolkit_version=None, cdi_specs=(),
            amd_cdi_specs=(CdiSpec("/etc/cdi/amd.json", (), ("0", "all"), CDI_NODES),),
            images=(image(wanted), replace(image(wanted), id="sha256:0999", tags=(), digests=(f"{EARLIER}@sha256:{'9' * 64}",))),
        ),
        system=_system(other.system),
        pci=with_gpus(PciFacts((), UNTOLD, UNTOLD), ADDRESSES, "1002:75a3"),
        amd=AmdFacts(driver(), tuple(gpu(index) for index in range(8)), ()),
    )  # fmt: skip


def _no_nvidia() -> dict[str, Any]:
    absent = Missing("no NVIDIA module is loaded")
    names = ("flavour", "disk_version", "library_version", "parameters", "proc_gpus")
    return {**dict.fromkeys(names, absent), "pci_gpus": (), "pci_ids": (), "device_nodes": (), "libraries": ()}


def _system(found: Any) -> SystemFacts:
    assert isinstance(found, SystemFacts)
    state = found.kernel if isinstance(found.kernel, KernelState) else KernelState(
        **dict.fromkeys(KernelState.__dataclass_fields__, UNTOLD)
    )
    known = state.sysctl if isinstance(state.sysctl, dict) else {}
    modules = (DkmsModule("amdgpu", "6.19.14-2364437.24.04", KERNEL, "installed"),)
    return replace(
        found,
        kernel=replace(state, sysctl={**known, "kernel.numa_balancing": "0"}),
        kernels=KernelFacts({KERNEL: None}, KERNEL, modules),
    )


def driver() -> AmdDriverFacts:
    return AmdDriverFacts(
        loaded=True,
        loaded_version=MODULE,
        loaded_srcversion="0123456789ABCDEF0123456",
        disk_srcversion="0123456789ABCDEF0123456",
        disk_path=f"/lib/modules/{KERNEL}/updates/dkms/amdgpu.ko.zst",
        parameters={"noretry": "-1"},
        kfd_device=True,
        render_nodes=tuple(f"renderD{128 + index}" for index in range(8)),
        kfd_nodes=tuple(
            KfdNode(2 + index, "gfx950", 256, address, "1002:75a3") for index, address in enumerate(ADDRESSES)
        ),
        gpus=tuple(bare(gpu(index)) for index in range(8)),
        kfd_access=DeviceAccess("660", "render"),
        xgmi=frozenset(permutations(range(2, 10), 2)),
        members={"render": ("alice", "bob"), "video": ("bob", "alice", "carol")},
    )


def gpu(index: int) -> AmdGpu:
    return AmdGpu(
        index=index,
        pci_address=ADDRESSES[index],
        product="AMD Instinct MI355X",
        pci_id="1002:75a3",
        architecture="gfx950",
        compute_units=256,
        uuid=f"{index}cff75a3-0000-1000-8000-000000000000",
        serial=f"0x6BFF75A3{index}",
        vbios="113-M355-X",
        memory_bytes=VRAM,
        memory_used_bytes=298119168,
        memory_used_percent=0.0,
        compute_partition="SPX",
        memory_partition="NPS1",
        ecc_uncorrectable_volatile=0,
        ecc_correctable_volatile=0,
        ecc_deferred_volatile=0,
        poison_enabled=True,
        bad_pages_retired=0,
        bad_pages_pending=0,
        bad_pages_unreservable=0,
        power_w=239.0,
        power_limit_w=1400.0,
        power_max_w=1400.0,
        throttled=False,
        temperature_c=45.0 + index,
        utilization_percent=0.0,
        pcie_speed=32e9,
        pcie_speed_max=32e9,
        pcie_width=16,
        pcie_width_max=16,
        firmware=dict(FIRMWARE),
        driver_version=MODULE,
        processes=(),
    )


def bare(found: AmdGpu) -> AmdGpu:
    """A GPU of which only amdgpu's own files tell."""
    names = [field.name for field in fields(AmdGpu)[1:] if field.name not in BARE]
    return replace(found, **dict.fromkeys(names, NO_TOOL))  # type: ignore[arg-type]


def without_tools(facts: NodeFacts) -> NodeFacts:
    """A host that carries the driver and nothing of ROCm, as it may."""
    assert isinstance(facts.amd, AmdFacts) and isinstance(facts.amd.gpus, tuple)
    return amd(facts, gpus=tuple(map(bare, facts.amd.gpus)))


def image(wanted: Baseline) -> ImageFacts:
    name = wanted.image.repository.removeprefix("docker.io/")
    return ImageFacts(
        id="sha256:5678",
        tags=(f"{name}:{wanted.image.tag}",),
        digests=(f"{name}@{wanted.image.index}",),
        architecture="amd64",
        cuda_version=Missing("the image sets no CUDA_VERSION"),
        labels={},
    )


# --- one thing changed ---


def amd(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.amd, AmdFacts)
    return replace(facts, amd=replace(facts.amd, **changes))


def amd_driver(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.amd, AmdFacts) and isinstance(facts.amd.driver, AmdDriverFacts)
    return amd(facts, driver=replace(facts.amd.driver, **changes))


def amd_gpu(facts: NodeFacts, index: int | None, **changes: Any) -> NodeFacts:
    """One GPU changed, or every one."""
    assert isinstance(facts.amd, AmdFacts) and isinstance(facts.amd.gpus, tuple)
    return amd(
        facts,
        gpus=tuple(replace(one, **changes) if index in (None, one.index) else one for one in facts.amd.gpus),
    )


def ras(facts: NodeFacts, kind: str, address: str = ADDRESSES[1], text: str = "text") -> NodeFacts:
    return amd(facts, ras=(RasEvent(address, kind, 1, text),))
