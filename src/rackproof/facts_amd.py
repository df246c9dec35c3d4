"""AMD Instinct GPUs and their driver. Fields that mean the same as an NVIDIA GPU's have the same names (facts.Gpu)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from rackproof.facts import Fact, GpuProcess, Missing

_NOT_PRINTED: Missing = Missing("not printed")


@dataclass(frozen=True)
class AmdGpu:
    """One GPU as amd-smi, rocm-smi, rocminfo, or amdgpu's sysfs files describe it."""

    index: int  # of the tool that listed it; tools disagree, so join on pci_address
    pci_address: Fact[str] = _NOT_PRINTED
    product: Fact[str] = _NOT_PRINTED  # market name: "AMD Instinct MI355X"
    pci_id: Fact[str] = _NOT_PRINTED  # "1002:75a3"
    architecture: Fact[str] = _NOT_PRINTED  # gfx950
    compute_units: Fact[int] = _NOT_PRINTED
    uuid: Fact[str] = _NOT_PRINTED
    serial: Fact[str] = _NOT_PRINTED
    vbios: Fact[str] = _NOT_PRINTED
    memory_bytes: Fact[int] = _NOT_PRINTED
    memory_used_bytes: Fact[int] = _NOT_PRINTED
    memory_used_percent: Fact[float] = _NOT_PRINTED  # all that rocm-smi's table says of it
    compute_partition: Fact[str] = _NOT_PRINTED  # SPX
    memory_partition: Fact[str] = _NOT_PRINTED  # NPS1
    ecc_uncorrectable_volatile: Fact[int] = _NOT_PRINTED  # since the driver was loaded
    ecc_correctable_volatile: Fact[int] = _NOT_PRINTED
    ecc_deferred_volatile: Fact[int] = _NOT_PRINTED
    poison_enabled: Fact[bool] = _NOT_PRINTED
    bad_pages_retired: Fact[int] = _NOT_PRINTED
    bad_pages_pending: Fact[int] = _NOT_PRINTED
    bad_pages_unreservable: Fact[int] = _NOT_PRINTED
    power_w: Fact[float] = _NOT_PRINTED  # drawn now
    power_limit_w: Fact[float] = _NOT_PRINTED  # socket power cap in force
    power_max_w: Fact[float] = _NOT_PRINTED  # the highest cap that may be set
    throttled: Fact[bool] = _NOT_PRINTED
    temperature_c: Fact[float] = _NOT_PRINTED  # hotspot (junction)
    utilization_percent: Fact[float] = _NOT_PRINTED
    pcie_speed: Fact[float] = _NOT_PRINTED  # transfers per second a lane, now
    pcie_speed_max: Fact[float] = _NOT_PRINTED
    pcie_width: Fact[int] = _NOT_PRINTED
    pcie_width_max: Fact[int] = _NOT_PRINTED
    firmware: Fact[Mapping[str, str]] = _NOT_PRINTED  # CP_MEC1 -> 147
    driver_version: Fact[str] = _NOT_PRINTED  # the amdgpu module's, as the tool prints it
    processes: Fact[tuple[GpuProcess, ...]] = _NOT_PRINTED


@dataclass(frozen=True)
class KfdNode:
    """One GPU node of /sys/class/kfd/kfd/topology/nodes (CPU nodes are left out)."""

    node: int
    architecture: Fact[str]  # gfx950, from gfx_target_version 90500
    compute_units: Fact[int]
    pci_address: Fact[str]
    pci_id: Fact[str]


@dataclass(frozen=True)
class RocmInfo:
    """`rocminfo`: what ROCm's runtime can open, which needs /dev/kfd to be readable."""

    complete: bool  # it came to its "*** Done ***"; without, GPUs may be missing from the list
    module_loaded: Fact[bool]
    dmabuf: Fact[bool]
    gpus: tuple[AmdGpu, ...]


@dataclass(frozen=True)
class RasEvent:
    """A line in which the kernel reports an error of an AMD GPU."""

    pci_address: str
    kind: str  # uncorrectable | correctable | poison | bad-pages | reset | ring-timeout | fatal | aca
    count: Fact[int]
    text: str


@dataclass(frozen=True)
class DeviceAccess:
    """Who may open a device, as stat prints it."""

    mode: str  # octal: "660"
    group: str  # by name, or its number where no group has it: "render"

    @property
    def for_all(self) -> bool:
        """Every user may read and write it."""
        return self.mode.endswith("6") or self.mode.endswith("7")

    @property
    def words(self) -> str:
        return f"mode {self.mode}, group {self.group}"


@dataclass(frozen=True)
class AmdDriverFacts:
    """amdgpu, without any tool of ROCm: modules, devices, topology."""

    loaded: bool  # amdgpu is in the kernel
    loaded_version: Fact[str | None]  # None: not loaded, or the kernel's own module, which has no version
    loaded_srcversion: Fact[str]
    disk_srcversion: Fact[str]  # of the module that the next boot loads
    disk_path: Fact[str]  # .../updates/dkms/amdgpu.ko.zst, or .../kernel/drivers/gpu/drm/...
    parameters: Fact[Mapping[str, str]]
    kfd_device: Fact[bool]  # /dev/kfd
    render_nodes: Fact[tuple[str, ...]]  # renderD128 ... under /dev/dri
    kfd_nodes: Fact[tuple[KfdNode, ...]]
    gpus: tuple[AmdGpu, ...]  # devices of amdgpu under /sys/class/drm, in the order of their addresses
    kfd_access: Fact[DeviceAccess] = _NOT_PRINTED  # who may open /dev/kfd
    # Pairs of KFD nodes that the driver joined by XGMI, each direction by itself: topology, not errors on the links.
    xgmi: Fact[frozenset[tuple[int, int]]] = _NOT_PRINTED
    members: Fact[Mapping[str, tuple[str, ...]]] = _NOT_PRINTED  # of the groups render and video, by group


@dataclass(frozen=True)
class AmdFacts:
    driver: Fact[AmdDriverFacts]
    gpus: Fact[tuple[AmdGpu, ...]]  # what every source says, joined
    ras: Fact[tuple[RasEvent, ...]]  # from the kernel log
    blacklisted: Fact[bool] = _NOT_PRINTED  # modprobe.d or the kernel command line keep amdgpu out at boot


def join(*parts: Fact[tuple[AmdGpu, ...]]) -> Fact[tuple[AmdGpu, ...]]:
    """One list from several of one tool, joined by index. Each field is the first that was read."""
    return _joined(parts, lambda gpu: gpu.index)


def join_by_address(*parts: Fact[tuple[AmdGpu, ...]]) -> Fact[tuple[AmdGpu, ...]]:
    """One list from lists of different tools. A GPU without an address can only stay as its own tool shows it."""
    joined = _joined(parts, lambda gpu: gpu.index if isinstance(gpu.pci_address, Missing) else gpu.pci_address)
    return joined if isinstance(joined, Missing) else _numbered(joined)


def _numbered(gpus: tuple[AmdGpu, ...]) -> tuple[AmdGpu, ...]:
    """Each with an index of its own: a tool that misses a GPU gives its number to the next one."""
    taken: set[int] = set()
    found = []
    for gpu in gpus:
        index = gpu.index if gpu.index not in taken else max(taken) + 1
        taken.add(index)
        found.append(replace(gpu, index=index))
    return tuple(found)


def _joined(parts: tuple[Fact[tuple[AmdGpu, ...]], ...], key: Callable[[AmdGpu], object]) -> Fact[tuple[AmdGpu, ...]]:
    lists = [part for part in parts if not isinstance(part, Missing)]
    failed = [part for part in parts if isinstance(part, Missing)]
    if not lists:
        return failed[0] if failed else Missing("no tool listed AMD GPUs")
    found: dict[object, list[AmdGpu]] = {}
    for gpus in lists:
        for gpu in gpus:
            found.setdefault(key(gpu), []).append(gpu)
    return tuple(_one(gpus, failed) for gpus in found.values())


def _one(gpus: list[AmdGpu], failed: list[Missing]) -> AmdGpu:
    """Field by field; a field nobody printed takes the reason of the tool that failed, if one did."""
    changes: dict[str, object] = {}
    for field in fields(AmdGpu)[1:]:  # the first is the index
        values = [getattr(gpu, field.name) for gpu in gpus]
        known = [value for value in values if not isinstance(value, Missing)]
        reasons = [value for value in values if isinstance(value, Missing) and not value.reason.endswith("not printed")]
        changes[field.name] = (known or reasons or failed or values)[0]
    return replace(gpus[0], **changes)  # type: ignore[arg-type]
