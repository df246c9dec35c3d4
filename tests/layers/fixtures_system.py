"""What the system under healthy GPUs shows: kernel, memory, limits, time, log; and ways to change one thing about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rackproof.facts import Missing, NodeFacts
from rackproof.facts_state import DaemonLimits, Listener, NodeState
from rackproof.facts_system import (
    AptFacts,
    Filesystem,
    GpuDirectFacts,
    KernelEvents,
    KernelFacts,
    KernelState,
    Limit,
    NumaNode,
    NvmeController,
    SystemFacts,
    TimeFacts,
)

GIB = 1024**3
KERNEL = "6.8.0-1028-nvidia-64k"
NO_LIMIT = Limit(None, None)
GRACE_CMDLINE = ("BOOT_IMAGE=/boot/vmlinuz", "ro", "init_on_alloc=0", "iommu.passthrough=1")
X86_CMDLINE = ("BOOT_IMAGE=/boot/vmlinuz", "ro", "intel_iommu=on", "iommu=pt")


def system(hardware: str) -> SystemFacts:
    tray = hardware == "gb300"
    return SystemFacts(
        kernel=_kernel(tray),
        gpudirect=GpuDirectFacts(False, True, True, False),
        filesystems=(
            Filesystem("/dev/nvme0n1p2", "/", "ext4", ("rw",), 900 * GIB, 700 * GIB),
            Filesystem("tmpfs", "/dev/shm", "tmpfs", ("rw",), 480 * GIB, 480 * GIB),
        ),
        clock=TimeFacts(True, -0.000021, "time.example", 2),
        kernels=KernelFacts({KERNEL: "580.126.20"}, KERNEL, ()),
        kernel_events=KernelEvents((), (), (), (), "0.000000", 1),
        apt=AptFacts({"Update-Package-Lists": "1", "Unattended-Upgrade": "1"}, (), True),
        state=NodeState(
            failed_units=("some-vendor-agent.service",),
            serving_units=(),
            blocked=(),
            daemons={"dockerd": DaemonLimits(812, NO_LIMIT, Limit(1048576, 1048576))},
            listening=(Listener("0.0.0.0", 22),),
        ),
        own_addresses=("10.1.0.1",),
    )


def _kernel(tray: bool) -> KernelState:
    return KernelState(
        sysctl={
            "kernel.numa_balancing": "0", "net.ipv4.conf.all.arp_announce": "2", "net.ipv4.conf.all.arp_ignore": "1",
        },
        memory_bytes=(956 if tray else 2015) * GIB,
        memory_available_bytes=(930 if tray else 1980) * GIB,
        hugepages=0,
        hugepage_bytes=2 * 1024**2,
        transparent_hugepages="madvise",
        swap_bytes=0,
        swap_used_bytes=0,
        memlock=NO_LIMIT,
        open_files=Limit(1048576, 1048576),
        cpus_possible="0-143",
        cpus_online="0-143",
        governor="performance",
        numa=(NumaNode(0, "0-71", 478 * GIB), NumaNode(1, "72-143", 478 * GIB)),
        secure_boot=False,
        lockdown="none",
        nvme=(NvmeController("nvme0", "SOLIDIGM", "1.0", "live"), NvmeController("nvme1", "SOLIDIGM", "1.0", "live")),
    )  # fmt: skip


def dmi(name: str) -> Mapping[str, str]:
    return {
        "sys_vendor": "NVIDIA", "product_name": "a server", "product_serial": f"serial-of-{name}", "bios_version": "01.05",
    }  # fmt: skip


# --- one thing changed ---


def system_of(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert not isinstance(facts.system, Missing)
    return replace(facts, system=replace(facts.system, **changes))


def part(facts: NodeFacts, section: str, **changes: Any) -> NodeFacts:
    """Fields of one section of the system changed: kernel, state, clock, kernels, gpudirect, kernel_events."""
    assert not isinstance(facts.system, Missing)
    return system_of(facts, **{section: replace(getattr(facts.system, section), **changes)})


def kernel(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return part(facts, "kernel", **changes)


def state(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return part(facts, "state", **changes)


def events(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return part(facts, "kernel_events", **changes)


def shm(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """Size and free space of /dev/shm."""
    assert not isinstance(facts.system, Missing) and not isinstance(facts.system.filesystems, Missing)
    root, shared = facts.system.filesystems
    return system_of(facts, filesystems=(root, replace(shared, **changes)))
