"""Layer host: kernel settings, CPUs, memory, limits, services, disks, time, and what the kernel logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.facts import KernelLogFacts, NodeFacts
from rackproof.facts_state import BlockedProcess
from rackproof.facts_system import NumaNode, NvmeController
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, driver, host, node, strangers
from .fixtures_system import GIB, KERNEL, events, kernel, part, shm, state, system_of

TRAY = node()
HGX = node("b300", "b300-01")
ONE_NODE = baseline("b300")
AMD = replace(
    baseline("b300"),
    vendor="amd",
    system=replace(baseline("b300").system, cmdline_required=("pci=realloc=off", "pci=bfsort"), numa_balancing="0"),
)
LAB = resolve(site.shipped().overlaid({"hardware": "gb300", "simulation": {"architecture": "x86_64"}}, "test"))
BUSY = resolve(site.shipped().overlaid({"hardware": "gb300", "gpus": {"expect_idle": False}}, "test"))
NO_LOG = KernelLogFacts(0, "dmesg", ())


def cmdline(*tokens: str) -> NodeFacts:
    return host(TRAY, cmdline=tokens)


def unread(change: Callable[[Any], NodeFacts]) -> list[NodeFacts]:
    """The fact missing, and everything of the system missing."""
    return [change(GONE), replace(TRAY, system=GONE)]


def log_case(kind: str, line: str) -> Cases:
    """Of one kind of message in the kernel log."""
    return Cases(
        green=[TRAY, HGX],
        red=[
            Red(events(TRAY, **{kind: (line,)}), line),
            Red(events(TRAY, **{kind: (line, line, "b", "c", "d")}), f"{line} (2 times); b; c and 1 more"),
        ],
        garbage=[
            system_of(TRAY, kernel_events=GONE),
            replace(TRAY, system=GONE),
            replace(TRAY, kernel_log=GONE),
            replace(TRAY, kernel_log=NO_LOG),
            events(TRAY, **{kind: GONE}),
        ],
    )


TABLE = {
    "host.reboot_pending": Cases(
        green=[TRAY],
        red=[Red(host(TRAY, reboot_required=True), "/run/reboot-required: set")],
        garbage=[host(TRAY, reboot_required=GONE)],
    ),
    "host.kernel_next_boot": Cases(
        green=[TRAY],
        red=[Red(part(TRAY, "kernels", next="6.8.0-1040"), f"runs {KERNEL}, next is 6.8.0-1040")],
        garbage=[
            *unread(lambda gone: part(TRAY, "kernels", next=gone)),
            host(TRAY, kernel=GONE),
            part(host(TRAY, kernel=""), "kernels", next=""),
        ],
    ),
    "host.cmdline_required": Cases(
        green=[TRAY, (host(HGX, cmdline=("pci=bfsort", "pci=realloc=off")), AMD), (host(HGX, cmdline=("pci=realloc=off,bfsort",)), AMD)],
        red=[
            Red(cmdline("ro"), "without init_on_alloc=0"),
            Red(cmdline("init_on_alloc=1"), "without init_on_alloc=0"),
            Red(host(HGX, cmdline=("pci=bfsort",)), "without pci=realloc=off", AMD),
        ],
        garbage=[host(TRAY, cmdline=GONE), cmdline()],
        not_applicable=baseline("b300"),
    ),
    "host.cmdline_banned": Cases(
        green=[TRAY, HGX, cmdline("memmap=1G", "pci=realloc=off")],
        red=[
            Red(cmdline("ro", "maxcpus=4"), "/proc/cmdline: maxcpus"),
            Red(cmdline("nomodeset", "mem=64G"), "mem nomodeset"),
            Red(cmdline("pci=realloc=off,nommconf"), "pci=nommconf"),
        ],
        garbage=[host(TRAY, cmdline=GONE), cmdline()],
    ),
    "host.iommu": Cases(
        green=[TRAY, HGX, cmdline("amd_iommu=off"), cmdline("iommu=pt")],
        red=[
            Red(cmdline("ro", "intel_iommu=on"), "no parameter says passthrough"),
            Red(cmdline("iommu.passthrough=0"), "no parameter says passthrough"),
        ],
        garbage=[host(TRAY, cmdline=GONE), cmdline()],
    ),
    "host.secure_boot": Cases(
        green=[
            TRAY,
            kernel(TRAY, secure_boot=True),
            driver(TRAY, loaded_modules=frozenset()),
            driver(TRAY, loaded_modules=GONE),
            kernel(TRAY, secure_boot=GONE),
            (kernel(driver(HGX, loaded_modules=frozenset({"amdgpu"})), secure_boot=True), AMD),
        ],
        red=[
            Red(driver(kernel(TRAY, secure_boot=True), loaded_modules=frozenset()), "Secure Boot on, nvidia loaded: False"),
            Red(kernel(HGX, secure_boot=True), "amdgpu loaded: False", AMD),
        ],
        garbage=[
            driver(kernel(TRAY, secure_boot=GONE), loaded_modules=GONE),
            driver(kernel(TRAY, secure_boot=GONE), loaded_modules=frozenset()),
            driver(kernel(TRAY, secure_boot=True), loaded_modules=GONE),
        ],
    ),
    "host.lockdown": Cases(
        green=[TRAY],
        red=[Red(kernel(TRAY, lockdown="integrity"), "kernel lockdown: integrity")],
        garbage=[*unread(lambda gone: kernel(TRAY, lockdown=gone)), kernel(TRAY, lockdown="")],
    ),
    "host.page_size": Cases(
        green=[TRAY],
        red=[Red(host(TRAY, page_size_bytes=4096), "page size: 4096")],
        garbage=[host(TRAY, page_size_bytes=GONE), host(TRAY, page_size_bytes=0)],
        not_applicable=ONE_NODE,
    ),
    "host.cpus_online": Cases(
        green=[TRAY],
        red=[Red(kernel(TRAY, cpus_online="0-71"), "0-71 of 0-143")],
        garbage=[
            *unread(lambda gone: kernel(TRAY, cpus_online=gone)),
            kernel(TRAY, cpus_possible=GONE),
            kernel(TRAY, cpus_possible="", cpus_online=""),
        ],
    ),
    "host.governor": Cases(
        green=[TRAY],
        red=[Red(kernel(TRAY, governor="schedutil"), "governor: schedutil")],
        garbage=[*unread(lambda gone: kernel(TRAY, governor=gone)), kernel(TRAY, governor="")],
    ),
    "host.numa_balancing": Cases(
        green=[TRAY, (HGX, AMD)],
        red=[Red(kernel(TRAY, sysctl={"kernel.numa_balancing": "1"}), "kernel.numa_balancing: 1")],
        garbage=[*unread(lambda gone: kernel(TRAY, sysctl=gone)), kernel(TRAY, sysctl={}), kernel(TRAY, sysctl={"kernel.numa_balancing": ""})],
        not_applicable=ONE_NODE,
    ),
    "host.numa_nodes": Cases(
        green=[TRAY, kernel(TRAY, numa=(NumaNode(0, "0-143", GIB), NumaNode(1, "", 0)))],
        red=[Red(kernel(TRAY, numa=(NumaNode(0, "0-71", GIB), NumaNode(1, "72-143", 0))), "node 1: 0.0 GiB")],
        garbage=[
            *unread(lambda gone: kernel(TRAY, numa=gone)),
            kernel(TRAY, numa=()),
            kernel(TRAY, numa=(NumaNode(0, "", GIB),)),
            kernel(TRAY, numa=(NumaNode(0, "0-71", GONE),)),
        ],
    ),
    "host.memory": Cases(
        green=[TRAY, HGX, kernel(TRAY, memory_bytes=760 * GIB)],
        red=[
            Red(kernel(TRAY, memory_bytes=759 * GIB), "MemTotal: 759.0 GiB | >= 760.0 GiB"),
            Red(kernel(HGX, memory_bytes=956 * GIB), ">= 1520.0 GiB"),
        ],
        garbage=[*unread(lambda gone: kernel(TRAY, memory_bytes=gone)), kernel(TRAY, memory_bytes=0), kernel(TRAY, memory_bytes=-1)],
        not_applicable=LAB,
    ),
    "host.hugepages": Cases(
        green=[TRAY, kernel(TRAY, hugepages=8192)],
        red=[Red(kernel(TRAY, hugepages=65536), "set aside: 128.0 GiB")],
        garbage=[
            *unread(lambda gone: kernel(TRAY, hugepages=gone)),
            kernel(TRAY, hugepage_bytes=GONE),
            kernel(TRAY, hugepages=-1),
        ],
    ),
    "host.transparent_hugepages": Cases(
        green=[TRAY, kernel(TRAY, transparent_hugepages="never")],
        red=[Red(kernel(TRAY, transparent_hugepages="always"), "transparent hugepages: always")],
        garbage=[*unread(lambda gone: kernel(TRAY, transparent_hugepages=gone)), kernel(TRAY, transparent_hugepages="")],
        not_applicable=ONE_NODE,
    ),
    "host.swap": Cases(
        green=[TRAY, kernel(TRAY, swap_bytes=8 * GIB)],
        red=[Red(kernel(TRAY, swap_used_bytes=GIB), "swap: 1.0 GiB")],
        garbage=[*unread(lambda gone: kernel(TRAY, swap_used_bytes=gone)), kernel(TRAY, swap_used_bytes=-1)],
    ),
    "host.shared_memory": Cases(
        green=[TRAY, shm(TRAY, size_bytes=8 * GIB)],
        red=[
            Red(shm(TRAY, size_bytes=64 * 1024**2), "/dev/shm: 0.1 GiB"),
            Red(shm(TRAY, size_bytes=8 * GIB - 1), ">= 8.0 GiB"),
        ],
        garbage=[
            *unread(lambda gone: shm(TRAY, size_bytes=gone)),
            system_of(TRAY, filesystems=GONE),
            system_of(TRAY, filesystems=()),
            shm(TRAY, mount="/dev/shm2"),
            shm(TRAY, size_bytes=-1),
        ],
    ),
    "host.shared_memory_roomy": Cases(
        green=[TRAY, shm(TRAY, size_bytes=64 * GIB, available_bytes=60 * GIB)],
        red=[
            Red(shm(TRAY, size_bytes=16 * GIB, available_bytes=16 * GIB), "/dev/shm: 16.0 GiB"),
        ],
        garbage=[
            *unread(lambda gone: shm(TRAY, size_bytes=gone)),
            system_of(TRAY, filesystems=()),
        ],
    ),
    "host.failed_units": Cases(
        green=[TRAY, state(TRAY, failed_units=())],
        red=[Red(state(TRAY, failed_units=("a.service", "openibd.service")), "failed: openibd.service")],
        garbage=[*unread(lambda gone: state(TRAY, failed_units=gone)), system_of(TRAY, state=GONE)],
    ),
    "host.blocked_processes": Cases(
        green=[TRAY, state(TRAY, blocked=(BlockedProcess(7, "kworker/u8", True),))],
        red=[Red(state(TRAY, blocked=(BlockedProcess(812, "python3", False),)), "python3 (812)")],
        garbage=[*unread(lambda gone: state(TRAY, blocked=gone)), system_of(TRAY, state=GONE)],
    ),
    "host.time_synchronised": Cases(
        green=[TRAY],
        red=[Red(part(TRAY, "clock", synchronized=False), "NTPSynchronized: no")],
        garbage=[*unread(lambda gone: part(TRAY, "clock", synchronized=gone)), system_of(TRAY, clock=GONE), part(TRAY, "clock", synchronized="")],
    ),
    "host.clock_offset": Cases(
        green=[TRAY, part(TRAY, "clock", offset_s=-0.9)],
        red=[Red(part(TRAY, "clock", offset_s=-30.5), "chrony: -30.500000 s"), Red(part(TRAY, "clock", offset_s=1.01), "+1.01")],
        garbage=[*unread(lambda gone: part(TRAY, "clock", offset_s=gone)), part(TRAY, "clock", offset_s=float("nan"))],
    ),
    "host.own_name": Cases(
        green=[TRAY, system_of(TRAY, own_addresses=("fd00::1", "10.1.0.1"))],
        red=[
            Red(system_of(TRAY, own_addresses=("127.0.1.1",)), "own host name: 127.0.1.1"),
            Red(system_of(TRAY, own_addresses=("10.1.0.1", "::1")), "::1"),
            Red(system_of(TRAY, own_addresses=()), "does not resolve"),
        ],
        garbage=unread(lambda gone: system_of(TRAY, own_addresses=gone)),
        not_applicable=ONE_NODE,
    ),
    "host.nvme_state": Cases(
        green=[TRAY],
        red=[
            Red(kernel(TRAY, nvme=(NvmeController("nvme0", "a", "1", "live"), NvmeController("nvme1", "a", "1", "dead"))), "nvme1: dead"),
            Red(kernel(TRAY, nvme=(NvmeController("nvme0", "a", "1", "resetting"), NvmeController("nvme1", "a", "1", GONE))), "nvme0: resetting"),
        ],
        garbage=[
            *unread(lambda gone: kernel(TRAY, nvme=gone)),
            kernel(TRAY, nvme=()),
            kernel(TRAY, nvme=(NvmeController("nvme0", "a", "1", GONE),)),
        ],
    ),
    "host.machine_checks": log_case("machine_checks", "[Hardware Error]: Machine check"),
    "host.oom_kills": log_case("oom_kills", "VLLM::Worker_TP3"),
    "host.nvme_errors": log_case("nvme_errors", "nvme nvme0: I/O 12 QID 3 timeout"),
    "host.hung_tasks": log_case("hung_tasks", "python3"),
    "host.pcie_fatal": log_case("pcie_fatal", "AER: Uncorrected (Fatal) error received: 0000:1b:00.0"),
    "host.boot": Cases(
        green=[TRAY],
        red=[Red(host(TRAY, uptime_s=-1.0), "uptime: up -1 s")],
        garbage=[host(TRAY, boot_id=GONE), host(TRAY, uptime_s=GONE), host(TRAY, boot_id="")],
    ),
    "host.machine": Cases(
        green=[TRAY],
        red=[Red(host(TRAY, dmi={**dict.fromkeys(("sys_vendor", "product_name", "bios_version"), "x"), "product_serial": ""}), "product_serial")],
        garbage=[
            host(TRAY, dmi=GONE),
            host(TRAY, dmi={}),
            host(TRAY, dmi={"sys_vendor": "x", "product_name": "x", "bios_version": "x", "product_serial": GONE}),
        ],
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("iommu=pt", True), ("iommu", True), ("iommu=off", False), ("pci=bfsort", True), ("pci=realloc=off", True),
        ("pci=realloc", False), ("iomm", False), ("quiet", True), ("mem", False),
    ],
)  # fmt: skip
def test_kernel_parameters_are_told_apart(wanted: str, given: bool) -> None:
    from rackproof.layers.words_system import has_parameter

    assert has_parameter(("quiet", "iommu=pt", "pci=realloc=off,bfsort", "memmap=1G"), wanted) is given


def test_a_simulated_x86_tray_is_not_asked_what_grace_is() -> None:
    def asks(wanted: Baseline) -> tuple[object, ...]:
        found = wanted.system
        return (found.page_size_bytes, found.numa_balancing, found.cmdline_required, found.host_memory_bytes)

    assert asks(LAB) == (None, None, (), None)
    assert asks(strangers("gb300")) == (65536, "0", ("init_on_alloc=0",), 760 * GIB)


def test_no_log_line_of_a_host_is_repeated_at_length() -> None:
    found = outcome("host.hung_tasks", events(TRAY, hung_tasks=("x" * 10_000,)))
    assert found.status is Status.FAIL and len(found.observed) < 200


