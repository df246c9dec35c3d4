"""Layer gpu_driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof.facts import KernelLogFacts, NodeFacts
from rackproof.facts_system import AptFacts, Candidate, DkmsModule, KernelFacts, SystemFacts
from rackproof.managed import MODPROBE, PERSISTENCED
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import DRIVER, GONE, baseline, driver, files, host, node, packages, smi, strangers
from .fixtures_gpus import kernel_events, library, systems

GB300 = node()
B300 = node("b300", "b300-01")
OLD = "575.57.08"
NOT_A_VERSION = [driver(GB300, loaded_version=text) for text in ("", "garbage", "-580.1", "580")]
KERNEL = "6.8.0-1028-nvidia-64k"
NODES = ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm")
CUDA, ML = library("libcuda.so.1"), library("libnvidia-ml.so.1")
UNPINNED = packages(GB300, {f"nvidia-driver-pinning-{DRIVER}": None})
UNREAD = [driver(GB300, loaded_version=GONE), driver(GB300, loaded_version=None), *NOT_A_VERSION]


def kernels(**changes: Any) -> NodeFacts:
    assert isinstance(GB300.system, SystemFacts) and isinstance(GB300.system.kernels, KernelFacts)
    return systems(GB300, kernels=replace(GB300.system.kernels, **changes))


def dkms(state: str, kernel: str = KERNEL) -> DkmsModule:
    return DkmsModule("nvidia", DRIVER, kernel, state)


def apt_facts(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts) and isinstance(facts.system.apt, AptFacts)
    return systems(facts, apt=replace(facts.system.apt, **changes))


TABLE = {
    "gpu_driver.loaded": Cases(
        green=[GB300, B300, driver(GB300, loaded_version=OLD)],
        red=[Red(driver(GB300, loaded_version=None), "no NVIDIA kernel module")],
        garbage=[driver(GB300, loaded_version=GONE), *NOT_A_VERSION],
    ),
    "gpu_driver.nouveau": Cases(
        green=[GB300],
        red=[Red(driver(GB300, loaded_modules=frozenset({"nouveau", "mlx5_core"})), "loaded")],
        garbage=[driver(GB300, loaded_modules=GONE), driver(GB300, loaded_modules=frozenset())],
    ),
    "gpu_driver.nouveau_blacklisted": Cases(
        green=[GB300],
        red=[Red(driver(GB300, nouveau_blacklisted=False), "no")],
        garbage=[driver(GB300, nouveau_blacklisted=GONE)],
    ),
    "gpu_driver.branch": Cases(
        green=[GB300, driver(GB300, loaded_version="620.10.01")],
        red=[Red(driver(GB300, loaded_version=OLD), OLD)],
        garbage=UNREAD,
    ),
    "gpu_driver.hardware_floor": Cases(
        not_applicable=strangers("h200"),
        green=[GB300, driver(GB300, loaded_version="580.82.07"), driver(GB300, loaded_version="580.105.08")],
        red=[Red(driver(GB300, loaded_version="580.65.06"), "580.65.06")],
        garbage=UNREAD,
    ),
    "gpu_driver.version": Cases(
        green=[GB300],
        red=[
            Red(driver(GB300, loaded_version="580.126.09"), "580.126.09"),
            Red(driver(GB300, loaded_version="580.126.2"), "580.126.2"),
            Red(driver(GB300, loaded_version="580.126.201"), "580.126.201"),
        ],
        garbage=UNREAD,
        not_applicable=strangers("gb300"),
    ),
    "gpu_driver.module_flavour": Cases(
        green=[GB300, B300],
        red=[Red(driver(GB300, flavour="proprietary"), "proprietary")],
        garbage=[driver(GB300, flavour=GONE), driver(GB300, flavour="")],
    ),
    "gpu_driver.lockstep": Cases(
        green=[GB300, driver(GB300, loaded_version=OLD, library_version=OLD)],
        red=[Red(driver(GB300, library_version="580.159.04"), "580.159.04: user-space library")],
        garbage=[
            *UNREAD,
            driver(GB300, library_version=GONE),
            driver(GB300, library_version=""),
            driver(GB300, loaded_version="garbage", library_version="garbage"),
        ],
    ),
    "gpu_driver.next_boot": Cases(
        green=[GB300],
        red=[Red(driver(GB300, disk_version="595.71.05"), "595.71.05: module on disk")],
        garbage=[*UNREAD, driver(GB300, disk_version=GONE), driver(GB300, disk_version="")],
    ),
    "gpu_driver.packages": Cases(
        green=[GB300, B300, packages(GB300, {"nvidia-open-580": f"3:{DRIVER}-1.el9"})],
        red=[
            Red(packages(GB300, {"nvidia-open-580": None}), "nvidia-open-580: not installed"),
            Red(packages(GB300, {"libnvidia-compute-580": "580.159.04-1"}), "libnvidia-compute-580: 580.159.04-1"),
            Red(packages(GB300, {"nvidia-utils-580": f"{DRIVER}1-1"}), "nvidia-utils-580"),
            Red(packages(GB300, {f"nvidia-driver-pinning-{DRIVER}": None}), "pinning"),
            Red(host(GB300, broken_packages=("nvidia-dkms-580-open",)), "broken packages: nvidia-dkms-580-open"),
            Red(packages(host(GB300, broken_packages=GONE), {"nvidia-open-580": None}), "not installed"),
        ],
        garbage=[
            host(GB300, packages=GONE),
            host(GB300, packages={}),
            host(GB300, broken_packages=GONE),
            packages(GB300, {"nvidia-open-580": ""}),
            packages(GB300, {"nvidia-open-580": "garbage"}),
            packages(GB300, {f"nvidia-driver-pinning-{DRIVER}": ""}),
        ],
        not_applicable=strangers("gb300"),
    ),
    "gpu_driver.configuration": Cases(
        green=[GB300, B300],
        red=[
            Red(files(GB300, MODPROBE, None), f"{MODPROBE}: does not exist"),
            Red(files(GB300, PERSISTENCED, "0" * 64), f"{PERSISTENCED}: changed"),
        ],
        garbage=[host(GB300, files=GONE), host(GB300, files={}), files(GB300, MODPROBE, "")],
        not_applicable=strangers("gb300"),
    ),
    "gpu_driver.parameters": Cases(
        green=[GB300, B300],
        red=[
            Red(driver(GB300, parameters={"CreateImexChannel0": "0"}), "CreateImexChannel0: 0"),
            Red(driver(GB300, parameters={"ModifyDeviceFiles": "1"}), "CreateImexChannel0: not listed"),
        ],
        garbage=[
            driver(GB300, parameters=GONE),
            driver(GB300, parameters={}),
            driver(GB300, parameters={"CreateImexChannel0": ""}),
            driver(B300, parameters=GONE),
            driver(B300, parameters={}),
        ],
    ),
    "gpu_driver.cuda": Cases(
        green=[GB300, B300, smi(GB300, cuda_version="13.1"), smi(GB300, cuda_version="14.0")],
        red=[Red(smi(GB300, cuda_version="12.9"), "12.9"), Red(smi(GB300, cuda_version="9.9"), "CUDA 13 or newer")],
        garbage=[
            replace(GB300, smi=GONE),
            *(smi(GB300, cuda_version=text) for text in (GONE, "", "N/A", "13", "garbage")),
        ],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.libraries": Cases(
        green=[GB300, B300],
        red=[
            Red(driver(GB300, libraries=(CUDA,)), "libnvidia-ml.so.1: not installed"),
            Red(driver(GB300, libraries=(ML,)), "libcuda.so.1: not installed"),
            Red(driver(GB300, libraries=(library("libcuda.so.1", size=0), ML)), "libcuda.so.1: 0 bytes"),
            Red(driver(GB300, libraries=(library("libcuda.so.1", "575.57.08"), ML)), "575.57.08"),
            Red(driver(GB300, libraries=(), loaded_version=GONE), "not installed"),
            Red(driver(GB300, libraries=(CUDA, ML, library("libcuda.so.1", "570.1.2"))), "570.1.2"),
        ],
        garbage=[
            driver(GB300, libraries=GONE),
            *UNREAD,
            driver(GB300, libraries=(replace(CUDA, version=GONE), ML)),
            driver(GB300, libraries=(replace(CUDA, size_bytes=GONE), ML)),
            driver(GB300, libraries=(replace(CUDA, size_bytes=-1), ML)),
            driver(GB300, libraries=(replace(CUDA, version=""), ML)),
        ],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.device_nodes": Cases(
        green=[GB300, B300, driver(GB300, device_nodes=(*NODES, "nvidia7", "nvidia-caps"))],
        red=[
            Red(driver(GB300, device_nodes=NODES[1:]), "missing: nvidia0"),
            Red(driver(GB300, device_nodes=tuple(name for name in NODES if name != "nvidia-uvm")), "missing: nvidia-uvm"),
            Red(driver(B300, device_nodes=NODES), "missing: nvidia4, nvidia5, nvidia6, nvidia7"),
        ],
        garbage=[driver(GB300, device_nodes=text) for text in (GONE, (), ("",), ("nvidia",))],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.kernels": Cases(
        green=[GB300, kernels(nvidia={KERNEL: DRIVER, "6.8.0-1030-nvidia": "580.126.20"})],
        red=[Red(kernels(nvidia={KERNEL: DRIVER, "6.17.9": None}), "6.17.9: no NVIDIA module")],
        garbage=[kernels(nvidia=GONE), kernels(nvidia={}), kernels(nvidia={"": ""}), systems(GB300, kernels=GONE)],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.next_kernel": Cases(
        green=[GB300],
        red=[
            Red(kernels(next="6.17.9"), "6.17.9: no NVIDIA module"),
            Red(kernels(nvidia={KERNEL: "580.178.04"}), f"{KERNEL}: 580.178.04"),
            Red(kernels(nvidia={KERNEL: None}), "no NVIDIA module"),
        ],
        garbage=[kernels(next=GONE), kernels(next=""), kernels(nvidia=GONE), systems(GB300, kernels=GONE), *UNREAD],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.dkms": Cases(
        green=[GB300, kernels(dkms=()), kernels(dkms=(dkms("installed"), dkms("built", kernel="6.17.9")))],
        red=[
            Red(kernels(dkms=(dkms("built"),)), f"{DRIVER} for {KERNEL}: built"),
            Red(kernels(dkms=(dkms("added", kernel=""),)), f"{DRIVER}: added"),
            Red(kernels(dkms=(dkms("installed", kernel="6.17.9"),)), f"nothing for {KERNEL}"),
        ],
        garbage=[
            kernels(dkms=GONE),
            systems(GB300, kernels=GONE),
            host(GB300, kernel=GONE),
            host(GB300, kernel=""),
            kernels(dkms=(dkms(""),)),
        ],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.protected": Cases(
        green=[
            GB300,
            systems(UNPINNED, held=("nvidia-open-580",)),
            systems(UNPINNED, versionlocks=("nvidia-driver-3:580.126.20-1.el9.*",)),
            apt_facts(UNPINNED, blacklist=("nvidia-",)),
            apt_facts(UNPINNED, upgrades_itself=False),
            systems(GB300, apt=GONE, held=GONE, versionlocks=GONE),
        ],
        red=[Red(UNPINNED, "no pinning package"), Red(systems(UNPINNED, held=("docker-ce",)), "no driver package on hold")],
        garbage=[
            systems(UNPINNED, apt=GONE),
            systems(UNPINNED, held=GONE),
            host(GB300, packages=GONE),
            replace(UNPINNED, system=GONE),
            systems(UNPINNED, held=("",)),
        ],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.origin": Cases(
        green=[GB300, B300, packages(GB300, {"nvidia-container-toolkit": "1.19.1-0ubuntu0.24.04.1"})],
        red=[
            Red(packages(GB300, {"nvidia-imex": f"{DRIVER}-0ubuntu0.24.04.1"}), "Canonical's archive: nvidia-imex"),
        ],
        garbage=[host(GB300, packages=GONE), host(GB300, packages={}), host(GB300, packages={"nvidia-open": ""})],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.upgrade": Cases(
        green=[GB300, systems(GB300, candidates={})],
        red=[
            Red(
                systems(GB300, candidates={"nvidia-open-580": Candidate(f"{DRIVER}-1ubuntu1", "580.178.04-1ubuntu1")}),
                "nvidia-open-580 from 580.126.20-1ubuntu1 to 580.178.04-1ubuntu1",
            )
        ],
        garbage=[systems(GB300, candidates=GONE), replace(GB300, system=GONE)],
        not_applicable=baseline("mi355x"),
    ),
    "gpu_driver.complaints": Cases(
        green=[GB300],
        red=[Red(kernel_events(GB300, nvidia=("API mismatch: the client has the version 580.159.04",)), "API mismatch")],
        garbage=[
            systems(GB300, kernel_events=GONE),
            replace(GB300, kernel_log=GONE),
            replace(GB300, kernel_log=KernelLogFacts(0, "dmesg", ())),
            replace(GB300, kernel_log=KernelLogFacts(-1, "dmesg", ())),
        ],
        not_applicable=baseline("mi355x"),
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_what_needs_a_driver_is_blocked_by_its_absence() -> None:
    found = outcome("gpu_driver.lockstep", driver(GB300, loaded_version=None), baseline("gb300"))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "gpu_driver.loaded")
