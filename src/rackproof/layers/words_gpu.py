"""One way to read a GPU of either maker: what checks ask of a GPU, from nvidia-smi or from amdgpu and AMD's tools.

ROCm's tools are not part of a host that only carries the driver. Where a number is theirs alone, what amdgpu's own
files or the kernel log say of the same thing is read in its place; where neither can be read, it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

from rackproof.baseline import Baseline
from rackproof.errors import MissingFact
from rackproof.facts import Fact, Gpu, Missing, NodeFacts, gpus, known, known_each
from rackproof.facts_amd import AmdDriverFacts, AmdGpu
from rackproof.facts_gpu import GpuDetail
from rackproof.facts_pci import PciDevice
from rackproof.layers.readings import Reading, of, seen
from rackproof.layers.words import distinct, gib
from rackproof.verdict.parts import part_name

A = TypeVar("A")
AnyGpu = Gpu | AmdGpu

_AMD = "1002:"
_CARDS = "0300"  # class of graphics cards: a server may have one beside its accelerators


# --- the GPUs of a node ---


def any_gpus(facts: NodeFacts, baseline: Baseline) -> Sequence[AnyGpu]:
    """The GPUs that were listed; raises MissingFact when none was."""
    if baseline.vendor == "nvidia":
        return gpus(facts)
    listed = known(known(facts.amd).gpus)
    if not listed:
        raise MissingFact("amdgpu shows no GPU")
    return listed


def each_gpu(
    facts: NodeFacts,
    baseline: Baseline,
    read: Callable[[AnyGpu], Fact[A]],
    ok: Callable[[A], bool],
    show: Callable[[A], object] = str,
    what: str = "",
) -> dict[str, Fact[Reading]]:
    """One reading a GPU; `what` tells two readings of one GPU apart."""
    listed = any_gpus(facts, baseline)
    return {f"{part_name(gpu)} {what}".strip(): seen(read(gpu), ok, show) for gpu in listed}


def by_gpu(facts: NodeFacts, baseline: Baseline, read: Callable[[AnyGpu], Fact[A]]) -> dict[str, Fact[A]]:
    """One value a GPU, by its name."""
    return {part_name(gpu): read(gpu) for gpu in any_gpus(facts, baseline)}


def each_amd(
    facts: NodeFacts,
    read: Callable[[AmdGpu], Fact[A]],
    ok: Callable[[A], bool],
    show: Callable[[A], object] = str,
    what: str = "",
) -> dict[str, Fact[Reading]]:
    """One reading an AMD GPU."""
    listed = known(known(facts.amd).gpus)
    return {f"{part_name(gpu)} {what}".strip(): seen(read(gpu), ok, show) for gpu in listed}


def own(gpu: AnyGpu) -> Gpu:
    """A GPU that nvidia-smi listed, for requirements that only NVIDIA's are asked."""
    if isinstance(gpu, Gpu):
        return gpu
    raise MissingFact("nvidia-smi did not list this GPU")


def detail(name: str) -> Callable[[Gpu], Fact[Any]]:
    """Reads one field of Gpu.detail."""

    def field(found: GpuDetail) -> Fact[Any]:
        value: Fact[Any] = getattr(found, name)
        return value

    return lambda gpu: of(gpu.detail, field)


def distinct_of(facts: NodeFacts, baseline: Baseline, read: Callable[[AnyGpu], Fact[str]]) -> str:
    """The values that the GPUs of a node have, each once: one of them where all agree. Raises where one is missing."""
    return "; ".join(sorted(set(map(known, by_gpu(facts, baseline, read).values()))))


def amd_driver(facts: NodeFacts) -> Fact[AmdDriverFacts]:
    return of(facts.amd, lambda amd: amd.driver)


def amd_devices(facts: NodeFacts) -> Fact[tuple[PciDevice, ...]]:
    """AMD's accelerators that PCI shows, with or without a driver."""
    devices = of(facts.pci, lambda pci: pci.devices)
    return of(devices, lambda listed: tuple(device for device in listed if _is_amd_accelerator(device)))


def _is_amd_accelerator(device: PciDevice) -> bool:
    return known(device.id).startswith(_AMD) and known(device.class_code) != _CARDS


def gpu_counts(facts: NodeFacts, baseline: Baseline) -> dict[str, Fact[int]]:
    """How many GPUs each source shows, by its name. One that is listed twice counts once."""
    if baseline.vendor == "nvidia":
        return {
            "PCI": of(facts.driver.pci_gpus, distinct),
            "/proc/driver/nvidia/gpus": of(facts.driver.proc_gpus, distinct),
            "nvidia-smi": of(facts.smi, lambda smi: distinct(gpu.pci_address for gpu in smi.gpus)),
            "nvidia-smi attached_gpus": of(facts.smi, lambda smi: smi.attached),
        }
    nodes = of(amd_driver(facts), lambda driver: driver.kfd_nodes)
    return {
        "PCI": of(amd_devices(facts), lambda found: distinct(device.address for device in found)),
        "amdgpu": of(of(facts.amd, lambda amd: amd.gpus), lambda found: distinct(map(part_name, found))),
        "KFD": of(nodes, lambda found: distinct(str(node.node) for node in found)),
    }


def gpu_ids(facts: NodeFacts, baseline: Baseline) -> dict[str, Fact[str]]:
    """Vendor and device id of each GPU that PCI shows: "10de:31c2", "1002:75a3"."""
    if baseline.vendor == "nvidia":
        ids = known(facts.driver.pci_ids)
        return {f"PCI {place}": found for place, found in zip(known(facts.driver.pci_gpus), ids, strict=True)}
    return {f"PCI {device.address}": device.id for device in known(amd_devices(facts))}


def pci_device(facts: NodeFacts, gpu: AnyGpu) -> Fact[PciDevice]:
    """What sysfs says of a GPU as a PCI device."""
    devices = of(facts.pci, lambda pci: pci.devices)
    unlisted = Missing(f"PCI shows no device at {gpu.pci_address}")
    found = of(devices, lambda listed: {device.address: device for device in listed})
    return of(gpu.pci_address, lambda address: of(found, lambda table: table.get(address, unlisted)))


# --- one GPU ---


def product(gpu: AnyGpu, baseline: Baseline) -> Fact[str]:
    """Its market name; where no tool of ROCm is there to print one, the product that its PCI id stands for."""
    if isinstance(gpu, Gpu) or not isinstance(gpu.product, Missing):
        return gpu.product
    listed = baseline.gpus.pci_device_ids or ()
    return of(gpu.pci_id, lambda found: baseline.gpus.product if found in listed else f"PCI device {found}")


def uncorrectable(facts: NodeFacts, gpu: AnyGpu) -> Fact[int]:
    """Uncorrectable memory errors since the driver was loaded: its counter, or else what the kernel log tells."""
    if isinstance(gpu, Gpu) or not isinstance(gpu.ecc_uncorrectable_volatile, Missing):
        return gpu.ecc_uncorrectable_volatile
    return logged(facts, gpu, ("uncorrectable",))


def bad_pages(facts: NodeFacts, gpu: AmdGpu) -> Fact[int]:
    """Pages that wait for retirement or cannot be retired, or else lines of the kernel log that tell of too many."""
    waiting = of(gpu.bad_pages_pending, lambda pending: of(gpu.bad_pages_unreservable, lambda stuck: pending + stuck))
    return logged(facts, gpu, ("bad-pages",)) if isinstance(waiting, Missing) else waiting


def logged(facts: NodeFacts, gpu: AmdGpu, kinds: Sequence[str]) -> Fact[int]:
    """Lines of these kinds in the kernel log about this GPU; one that names no GPU counts for each."""
    events = of(facts.amd, lambda amd: amd.ras)
    places = of(gpu.pci_address, lambda address: (address, "?"))
    return of(
        events,
        lambda listed: of(
            places, lambda here: sum(event.kind in kinds and event.pci_address in here for event in listed)
        ),
    )


def users(gpu: AnyGpu, baseline: Baseline) -> Fact[str]:
    """Who uses the GPU, "" for nobody. Without a list of processes, memory in use above that of an idle GPU is a user."""
    if not isinstance(gpu, AmdGpu) or not isinstance(gpu.processes, Missing):
        return of(
            gpu.processes, lambda found: ", ".join(f"process {process.pid} {process.name}" for process in found)
        )
    most = baseline.gpus.idle_memory_max_bytes
    return of(gpu.memory_used_bytes, lambda used: "" if 0 <= used <= most else f"{gib(used)} in use by somebody")


def memory_used(gpu: AnyGpu) -> Fact[int]:
    if isinstance(gpu, AmdGpu):
        return gpu.memory_used_bytes
    return of(gpu.detail, lambda detail: detail.memory_used_bytes)


def temperature(gpu: AnyGpu) -> Fact[float]:
    if isinstance(gpu, AmdGpu):
        return gpu.temperature_c
    return of(gpu.detail, lambda detail: detail.temperature_c)


def above_median(facts: NodeFacts, baseline: Baseline) -> dict[str, Fact[float]]:
    """How much hotter each GPU is than the median of the node, in degrees; a GPU that is not read leaves no median."""
    read = by_gpu(facts, baseline, temperature)
    middle = median(known_each(read.values(), "temperature"))
    return {name: of(found, lambda one: one - middle) for name, found in read.items()}


def lanes(facts: NodeFacts, gpu: AnyGpu) -> Fact[tuple[int, int]]:
    """PCIe lanes in use, and as many as GPU and slot have."""
    own = of(gpu.pcie_width, lambda width: of(gpu.pcie_width_max, lambda most: (width, most)))
    if isinstance(gpu, Gpu) or not isinstance(own, Missing):
        return own
    device = pci_device(facts, gpu)
    return of(device, lambda found: of(found.link_width, lambda width: of(found.link_width_max, lambda most: (width, most))))


def default_power(gpu: AnyGpu) -> Fact[float]:
    """The limit a board has by itself, in watts; of an AMD board the highest that may be set."""
    return gpu.power_max_w if isinstance(gpu, AmdGpu) else gpu.power_default_w


def slowdowns(gpu: AnyGpu) -> Fact[tuple[str, ...]]:
    if isinstance(gpu, AmdGpu):
        return of(gpu.throttled, lambda throttled: ("throttled",) if throttled else ())
    return gpu.slowdown_reasons


def build(gpu: AnyGpu, baseline: Baseline) -> Fact[str]:
    """What two GPUs of one node must have in common: product, memory, and lanes."""
    return of(
        product(gpu, baseline),
        lambda name: of(gpu.memory_bytes, lambda size: f"{name} with {gib(size)}"),
    )


def firmware(gpu: AnyGpu) -> Fact[str]:
    """VBIOS and firmware in one line."""
    if isinstance(gpu, AmdGpu):
        return of(gpu.vbios, lambda vbios: of(gpu.firmware, lambda listed: f"{vbios}, {_listed(listed)}"))
    gsp = of(gpu.detail, lambda detail: detail.gsp_firmware)
    return of(gpu.vbios, lambda vbios: of(gsp, lambda found: f"VBIOS {vbios}, GSP {found}"))


def _listed(firmware: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {found}" for name, found in sorted(firmware.items()))


def identities(gpu: AnyGpu) -> Fact[tuple[str, str]]:
    """(UUID, serial number); an AMD board without ROCm's tools shows its serial number alone."""
    if isinstance(gpu, AmdGpu) and isinstance(gpu.uuid, Missing):
        return of(gpu.serial, lambda serial: (f"serial {serial}", f"GPU {serial}"))
    return of(gpu.uuid, lambda uuid: of(gpu.serial, lambda serial: (uuid, f"serial {serial}")))


def position(found: GpuDetail) -> Fact[str]:
    return of(
        found.chassis_serial,
        lambda chassis: of(
            found.slot, lambda slot: of(found.tray, lambda tray: f"chassis {chassis}, slot {slot}, tray {tray}")
        ),
    )


def memory_nodes(facts: NodeFacts) -> Fact[tuple[int, ...]]:
    """NUMA nodes without CPUs: GPU memory that the kernel manages."""
    kernel = of(facts.system, lambda system: system.kernel)
    return of(
        of(kernel, lambda found: found.numa), lambda nodes: tuple(node.number for node in nodes if not node.cpus)
    )


def mec(gpu: AmdGpu, name: str) -> Fact[int]:
    """Version of one firmware, a number."""
    unlisted = Missing(f"{name} is not among the firmware that amd-smi prints")
    version: Fact[str] = of(gpu.firmware, lambda listed: listed.get(name, unlisted))
    return of(version, lambda text: int(text) if text.isdecimal() else Missing(f"{name} is {text!r}, which is no number"))
