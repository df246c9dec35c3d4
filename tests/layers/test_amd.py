"""AMD in every layer: what only AMD is asked, and how requirements of both makers judge AMD's facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rackproof.baseline import Baseline
from rackproof.facts import CdiSpec, GpuProcess, KernelLogFacts, NodeFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, DeviceAccess, RasEvent
from rackproof.facts_pci import PciFacts
from rackproof.facts_system import DkmsModule, KernelFacts, SystemFacts
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, MIB, baseline, driver, host, node, official_image, runtime, unit_of
from .fixtures_amd import ADDRESSES, CDI_NODES, KERNEL, VRAM, amd, amd_driver, amd_gpu, ras, without_tools
from .fixtures_gpus import systems, with_gpus

NODE = node("mi355x", "mi355x-01")
AMD, NVIDIA = baseline("mi355x"), baseline("gb300")
NO_AMD = replace(NODE, amd=GONE)
BARE = without_tools(NODE)
SECOND = f"GPU 1 ({ADDRESSES[1]})"
NO_UNITS = replace(AMD, amd=replace(AMD.amd, compute_units=None))  # type: ignore[type-var]


def gone(field: str, *more: Any) -> list[NodeFacts]:
    """Every way in which a field of the driver can be missing."""
    missing = [amd_driver(NODE, **{field: value}) for value in (GONE, *more)]
    return [NO_AMD, amd(NODE, driver=GONE), *missing]


def lost(field: str) -> list[NodeFacts]:
    """Every way in which a field of the GPUs can be missing."""
    change: dict[str, Any] = {field: GONE}
    return [NO_AMD, amd(NODE, gpus=GONE), amd(NODE, gpus=()), amd_gpu(NODE, None, **change), amd_gpu(NODE, 7, **change)]


def dkms(*entries: DkmsModule) -> NodeFacts:
    assert isinstance(NODE.system, SystemFacts) and isinstance(NODE.system.kernels, KernelFacts)
    return systems(NODE, kernels=replace(NODE.system.kernels, dkms=entries))


def kfd(number: int, **changes: Any) -> NodeFacts:
    assert isinstance(NODE.amd, AmdFacts) and isinstance(NODE.amd.driver, AmdDriverFacts)
    nodes = NODE.amd.driver.kfd_nodes
    assert isinstance(nodes, tuple)
    return amd_driver(NODE, kfd_nodes=tuple(replace(n, **changes) if n.node == number else n for n in nodes))


def cmdline(*words: str) -> NodeFacts:
    return host(NODE, cmdline=words)


def naming(*users: str) -> Baseline:
    """The baseline of a site that names users."""
    assert AMD.amd is not None
    return replace(AMD, amd=replace(AMD.amd, users=users))


ASKING = replace(AMD, runtime=replace(AMD.runtime, amd_toolkit="1.3.0"))


def packaged(version: str) -> NodeFacts:
    return host(NODE, packages={"amd-container-toolkit": version} if version else {"docker.io": "28"})


def spec(nodes: tuple[str, ...]) -> NodeFacts:
    return runtime(NODE, amd_cdi_specs=(CdiSpec("/etc/cdi/amd.json", (), ("all",), nodes),))


UNREAD_LOG = [replace(NODE, kernel_log=GONE), replace(NODE, kernel_log=KernelLogFacts(0, "dmesg", ()))]

TABLE = {
    "gpu_driver.amdgpu": Cases(
        green=[NODE],
        red=[Red(amd_driver(NODE, loaded=False), "amdgpu is loaded: no")],
        garbage=[NO_AMD, amd(NODE, driver=GONE)],
        not_applicable=NVIDIA,
    ),
    "gpu_driver.amdgpu_next_boot": Cases(
        green=[NODE],
        red=[Red(amd_driver(NODE, disk_srcversion="FFFF"), "FFFF: module on disk")],
        garbage=[*gone("loaded_srcversion", ""), *gone("disk_srcversion", "")],
    ),
    "gpu_driver.amdgpu_packaged": Cases(
        green=[NODE, amd_driver(NODE, disk_path="/lib/modules/5.14.0/extra/amdgpu.ko.xz")],
        red=[Red(amd_driver(NODE, disk_path="/lib/modules/6.8.0/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst"), "kernel/drivers")],
        garbage=gone("disk_path", ""),
    ),
    "gpu_driver.amdgpu_dkms": Cases(
        green=[NODE, dkms()],
        red=[
            Red(dkms(DkmsModule("amdgpu", "6.16.13", KERNEL, "built")), f"6.16.13 for {KERNEL}: built"),
            Red(dkms(DkmsModule("amdgpu", "6.16.13", "", "added")), "6.16.13: added"),
        ],
        garbage=[systems(NODE, kernels=GONE), replace(NODE, system=GONE), host(NODE, kernel=GONE)],
    ),
    "gpu_driver.amdgpu_release": Cases(
        green=[NODE, amd_driver(NODE, loaded_version="6.16.13"), amd_driver(NODE, loaded_version="7.1.3.31500000")],
        red=[Red(amd_driver(NODE, loaded_version="6.12.12"), "module 6.12.12, release unknown")],
        garbage=gone("loaded_version", None, "", "Linuxver", "6"),
    ),
    "gpu_driver.amdgpu_secure": Cases(
        green=[NODE, amd_driver(NODE, loaded_version="7.1.3")],
        red=[Red(amd_driver(NODE, loaded_version="6.16.13"), "module 6.16.13")],
        garbage=gone("loaded_version", None, "", "Linuxver"),
    ),
    "gpu_driver.kfd": Cases(
        green=[NODE], red=[Red(amd_driver(NODE, kfd_device=False), "/dev/kfd exists: no")], garbage=gone("kfd_device")
    ),
    "gpu_driver.render_nodes": Cases(
        green=[NODE, amd_driver(NODE, render_nodes=tuple(f"renderD{number}" for number in range(128, 144)))],
        red=[
            Red(amd_driver(NODE, render_nodes=("renderD128",)), "1 of 8"),
            Red(amd_driver(NODE, render_nodes=()), "0 of 8"),
            Red(amd_driver(NODE, render_nodes=("renderD128",) * 8), "1 of 8"),
        ],
        garbage=gone("render_nodes"),
    ),
    "gpu_driver.kfd_access": Cases(
        green=[NODE, amd_driver(NODE, kfd_access=DeviceAccess("666", "root"))],
        red=[Red(amd_driver(NODE, kfd_access=DeviceAccess("600", "root")), "mode 600, group root")],
        garbage=gone("kfd_access", DeviceAccess("", "")),
    ),
    "gpu_driver.gpu_users": Cases(
        green=[(NODE, naming("alice", "bob"))],
        red=[
            Red(NODE, "carol: not in render", naming("alice", "carol")),
            Red(amd_driver(NODE, members={"render": ("alice",)}), "alice: not in video", naming("alice")),
            Red(amd_driver(NODE, members={}), "alice: not in render and video", naming("alice")),
        ],
        garbage=gone("members"),
        not_applicable=AMD,
        garbage_baseline=naming("alice"),
    ),
    "container_runtime.amd_toolkit": Cases(
        green=[(NODE, ASKING), (packaged("1:1.3.0-1"), ASKING)],
        red=[
            Red(packaged("1.2.0~24.04"), "amd-container-toolkit: 1.2.0~24.04", ASKING),
            Red(packaged(""), "amd-container-toolkit: not installed", ASKING),
            Red(runtime(NODE, runtimes=("runc",)), "engine: runtimes runc", ASKING),
        ],
        garbage=[host(NODE, packages=GONE), runtime(NODE, runtimes=GONE), runtime(NODE, runtimes=()), packaged("~")],
        not_applicable=AMD,
        garbage_baseline=ASKING,
    ),
    "container_runtime.amd_cdi": Cases(
        green=[(NODE, ASKING)],
        red=[
            Red(runtime(NODE, amd_cdi_specs=()), "no CDI spec of amd.com/gpu", ASKING),
            Red(spec(CDI_NODES[:-1]), "/etc/cdi/amd.json: /dev/kfd in only one of both", ASKING),
            Red(spec((*CDI_NODES, "/dev/dri/renderD136")), "/dev/dri/renderD136 in only one of both", ASKING),
            Red(amd_driver(NODE, render_nodes=()), "in only one of both", ASKING),
        ],
        garbage=[runtime(NODE, amd_cdi_specs=GONE), spec(()), *gone("render_nodes")],
        not_applicable=AMD,
        garbage_baseline=ASKING,
    ),
    "gpu_driver.kernel_arguments": Cases(
        green=[NODE, cmdline("amd_iommu=on", "iommu=pt")],
        red=[Red(cmdline("ro", "quiet"), "iommu=pt: not set"), Red(cmdline("iommu=ptx"), "not set")],
        garbage=[host(NODE, cmdline=GONE), cmdline(), cmdline("")],
    ),
    "gpu_driver.pci_options": Cases(
        green=[NODE, cmdline("pci=bfsort,realloc=off")],
        red=[Red(cmdline("pci=bfsort"), "realloc=off: not set"), Red(cmdline("realloc=off", "bfsort"), "not set")],
        garbage=[host(NODE, cmdline=GONE), cmdline(), cmdline("pci=")],
    ),
    "gpus.amd_listed": Cases(
        green=[NODE, BARE],
        red=[Red(amd(NODE, gpus=()), "0 GPUs")],
        garbage=[NO_AMD, amd(NODE, gpus=GONE)],
        not_applicable=NVIDIA,
    ),
    "gpus.architecture": Cases(
        green=[NODE, BARE],
        red=[Red(kfd(3, architecture="gfx942"), "KFD node 3: gfx942")],
        garbage=[*gone("kfd_nodes", ()), kfd(3, architecture=GONE), kfd(3, architecture="")],
    ),
    "gpus.compute_units": Cases(
        green=[NODE],
        red=[Red(kfd(3, compute_units=128), "KFD node 3: 128")],
        garbage=[*gone("kfd_nodes", ()), kfd(3, compute_units=GONE), kfd(3, compute_units=-256)],
        not_applicable=NO_UNITS,
    ),
    "gpus.partition": Cases(
        green=[NODE, BARE],
        red=[
            Red(amd_gpu(NODE, 1, compute_partition="CPX"), f"{SECOND}: CPX"),
            Red(amd_gpu(NODE, 1, memory_partition="NPS4"), f"{SECOND} memory: NPS4"),
        ],
        garbage=[*lost("compute_partition"), *lost("memory_partition"), amd_gpu(NODE, 1, compute_partition="")],
    ),
    "gpus.bad_pages": Cases(
        green=[NODE, BARE, amd_gpu(NODE, 1, bad_pages_retired=3)],
        red=[
            Red(amd_gpu(NODE, 1, bad_pages_pending=2), f"{SECOND}: 2 reported"),
            Red(amd_gpu(NODE, 1, bad_pages_unreservable=1), f"{SECOND}: 1 reported"),
            Red(ras(BARE, "bad-pages"), f"{SECOND}: 1 reported"),
        ],
        garbage=[
            NO_AMD,
            amd(NODE, gpus=GONE),
            amd(BARE, ras=GONE),
            amd_gpu(NODE, 1, bad_pages_pending=-1),
            amd_gpu(BARE, 1, pci_address=GONE),
        ],
    ),
    "gpus.ras": Cases(
        green=[NODE, BARE, ras(NODE, "reset"), ras(NODE, "correctable")],
        red=[
            *(Red(ras(NODE, kind), f"{ADDRESSES[1]} text: {kind}") for kind in ("uncorrectable", "poison", "fatal")),
            Red(replace(ras(NODE, "bad-pages"), kernel_log=GONE), "bad-pages"),
        ],
        garbage=[NO_AMD, amd(NODE, ras=GONE), *UNREAD_LOG],
    ),
    "gpus.ras_other": Cases(
        green=[NODE, ras(NODE, "poison")],
        red=[Red(ras(NODE, kind), kind) for kind in ("reset", "ring-timeout", "correctable", "aca")],
        garbage=[NO_AMD, amd(NODE, ras=GONE), *UNREAD_LOG],
    ),
    "gpus.mec_firmware": Cases(
        green=[NODE],
        red=[Red(amd_gpu(NODE, 1, firmware={"CP_MEC1": "147"}), f"{SECOND}: 147")],
        garbage=[*lost("firmware"), amd_gpu(NODE, 1, firmware={}), amd_gpu(NODE, 1, firmware={"CP_MEC1": "N/A"})],
    ),
    "nvlink.xgmi": Cases(
        green=[NODE, BARE],
        red=[
            Red(amd_driver(NODE, xgmi=frozenset()), "not joined: KFD nodes 2 to 3"),
            Red(amd_driver(NODE, xgmi=frozenset({(2, 3)})), "3 to 2"),
            Red(amd_driver(NODE, kfd_nodes=NODE.amd.driver.kfd_nodes[:7]), "7 GPUs"),  # type: ignore[union-attr,index]
        ],
        garbage=[*gone("xgmi"), *gone("kfd_nodes", ())],
        not_applicable=NVIDIA,
    ),
    "fleet.amdgpu": Cases(
        green=[(unit_of(NODE), AMD)],
        red=[Red(unit_of(NODE, amd_driver(replace(NODE, node="mi355x-02"), loaded_srcversion="FFFF")), "FFFF: mi355x-02", AMD)],
        garbage=[
            unit_of(NO_AMD),
            unit_of(amd_driver(NODE, loaded_srcversion=GONE)),
            unit_of(amd_driver(NODE, loaded_srcversion="")),
            replace(unit_of(NODE), nodes={}),
        ],
        not_applicable=NVIDIA,
        garbage_baseline=AMD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


Change = Callable[[NodeFacts], NodeFacts]
# Requirements of both makers: AMD's facts that fail, and what is said of them.
BOTH: dict[str, tuple[Change, str]] = {
    "gpus.count": (lambda facts: amd(facts, gpus=facts.amd.gpus[:7]), "amdgpu: 7 GPUs"),  # type: ignore[union-attr,index]
    "gpus.product": (lambda facts: amd_gpu(facts, 1, product="AMD Instinct MI300X"), f"{SECOND}: AMD Instinct MI300X"),
    "gpus.pci_ids": (
        lambda facts: replace(facts, pci=with_gpus(PciFacts((), GONE, GONE), ADDRESSES, "1002:74a1")), "1002:74a1"
    ),
    "gpus.memory": (lambda facts: amd_gpu(facts, 1, memory_bytes=VRAM // 2), f"{SECOND}: 144.0 GiB"),
    "gpus.ecc_errors": (lambda facts: amd_gpu(facts, 1, ecc_uncorrectable_volatile=2), f"{SECOND}: 2 errors"),
    "gpus.idle": (
        lambda facts: amd_gpu(facts, 1, processes=(GpuProcess(42, "python3", GONE),)), f"{SECOND}: process 42 python3"
    ),
    "gpus.memory_idle": (lambda facts: amd_gpu(facts, 1, memory_used_bytes=64 * VRAM // 100), f"{SECOND}: 184.3 GiB"),
    "gpus.identical": (lambda facts: amd_gpu(facts, 1, memory_bytes=VRAM // 2), f"144.0 GiB: {SECOND}"),
    "gpus.firmware": (lambda facts: amd_gpu(facts, 1, vbios="113-OLD"), "113-OLD"),
    "gpus.power_limit": (
        lambda facts: amd_gpu(facts, 1, power_limit_w=1000.0), f"{SECOND}: 1000 W, the board's default is 1400 W"
    ),
    "gpus.slowdown": (lambda facts: amd_gpu(facts, 1, throttled=True), f"{SECOND}: throttled"),
    "gpus.pcie_width": (lambda facts: amd_gpu(facts, 1, pcie_width=8), f"{SECOND}: x8 of x16"),
    "gpus.temperature": (lambda facts: amd_gpu(facts, 1, temperature_c=90.0), f"{SECOND}: +40.5 C"),
    "gpus.inventory": (lambda facts: amd_gpu(facts, None, serial="0"), "listed twice: serial 0"),
}  # fmt: skip


@pytest.mark.parametrize("requirement", BOTH)
def test_requirements_of_both_makers_judge_amd(requirement: str) -> None:
    change, says = BOTH[requirement]
    assert outcome(requirement, NODE).status is Status.PASS
    found = outcome(requirement, change(NODE))
    assert found.status is Status.FAIL and says in found.observed, found
    for unread in (NO_AMD, replace(NODE, amd=GONE, pci=GONE)):
        status = outcome(requirement, unread).status
        assert status in (Status.UNKNOWN, Status.BLOCKED) or requirement == "gpus.pci_ids"


def test_a_host_without_rocm_s_tools_is_accepted() -> None:
    """The driver's own files and the kernel log say what a gate asks; only recorded things stay unknown."""
    outcomes = evaluate_node(BARE, AMD)
    assert verdict_of(outcomes) is Verdict.ACCEPT
    unread = {found.requirement.id for found in outcomes if found.status is Status.UNKNOWN}
    assert unread == {"gpus.power_limit", "gpus.slowdown", "gpus.firmware", "gpus.temperature", "gpus.mec_firmware"}


@pytest.mark.parametrize(
    ("requirement", "change", "says"),
    [
        ("gpus.ecc_errors", lambda: ras(BARE, "uncorrectable"), f"{SECOND}: 1 errors"),
        ("gpus.ecc_errors", lambda: ras(BARE, "uncorrectable", "?"), "GPU 0"),
        ("gpus.idle", lambda: amd_gpu(BARE, 1, memory_used_bytes=40000 * MIB), f"{SECOND}: 39.1 GiB in use by somebody"),
        ("gpus.product", lambda: amd_gpu(BARE, 1, pci_id="1002:74a1"), f"{SECOND}: PCI device 1002:74a1"),
    ],
)
def test_without_tools_a_fault_shows_all_the_same(requirement: str, change: Callable[[], NodeFacts], says: str) -> None:
    found = outcome(requirement, change())
    assert found.status is Status.FAIL and says in found.observed, found


def test_without_tools_and_without_a_log_nothing_is_known_of_memory_errors() -> None:
    for requirement in ("gpus.ecc_errors", "gpus.bad_pages", "gpus.ras"):
        found = outcome(requirement, amd(BARE, ras=GONE))
        assert found.status is Status.UNKNOWN, found
    assert verdict_of(evaluate_node(amd(BARE, ras=GONE), AMD)) is Verdict.UNDETERMINED


def test_a_program_s_word_of_an_ecc_failure_is_no_fault_of_the_host() -> None:
    """A null pointer was reported as "SRAM ECC failure" while every counter was 0: ROCm/aiter#2821."""
    assert outcome("gpus.ecc_errors", NODE).status is Status.PASS
    assert outcome("gpus.ras", amd(NODE, ras=(RasEvent(ADDRESSES[0], "reset", GONE, "GPU reset begin!"),))).status is Status.PASS


def test_the_cuda_image_is_not_the_one_an_amd_node_needs() -> None:
    found = outcome("image.digest", runtime(NODE, images=(official_image("b300"),)))
    assert found.status is Status.FAIL and "vllm-openai-rocm" in found.expected


def test_what_only_nvidia_is_asked_says_so() -> None:
    for requirement in ("gpu_driver.loaded", "gpus.ecc_mode", "nvlink.fabric_state", "gpus.xid"):
        found = outcome(requirement, NODE)
        assert (found.status, found.reason) == (Status.NOT_APPLICABLE, "of GPUs by NVIDIA, and these are by AMD")
    found = outcome("gpus.ras", node())
    assert (found.status, found.reason) == (Status.NOT_APPLICABLE, "of GPUs by AMD, and these are by NVIDIA")


def test_nouveau_beside_amdgpu_is_nobody_s_business() -> None:
    assert verdict_of(evaluate_node(driver(NODE, loaded_modules=frozenset({"nouveau"})), AMD)) is Verdict.ACCEPT
