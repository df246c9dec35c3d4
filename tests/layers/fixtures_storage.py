"""Healthy facts of engines, weights, disks and serving units, and ways to change one thing about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from rackproof import recipes, site
from rackproof.baseline import Baseline, resolve
from rackproof.baseline_launch import Member, with_launch
from rackproof.evidence.tools.serving import parse_unit
from rackproof.facts import ImageFacts, ManagedFile, Missing, NodeFacts
from rackproof.facts_control import ControlFacts
from rackproof.facts_rdma import Hca, Port, RdmaFacts
from rackproof.facts_serving import DockerRun, ServingFacts, ServingUnitFile
from rackproof.facts_state import DaemonLimits, NodeState
from rackproof.facts_system import (
    CpuFacts,
    Disk,
    EngineFacts,
    Filesystem,
    KernelEvents,
    KernelState,
    Limit,
    NumaNode,
    NvmeController,
    NvmeHealth,
    SystemFacts,
)
from rackproof.facts_weights import ModelConfig, WeightsFacts
from rackproof.launch import plan_launch
from rackproof.launch.render import render
from rackproof.managed import managed_files

GONE = Missing("this was taken away by the test")
GIB = 1024**3
MODEL = "/models/Kimi-K3"
BYTES = 1_560_998_998_830
REVISION = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
MODELS = Filesystem("/dev/nvme1n1", "/models", "xfs", ("rw", "noatime"), 7_600_000_000_000, 5_900_000_000_000)
ROOT = Filesystem("/dev/nvme0n1p2", "/", "ext4", ("rw", "relatime"), 940 * GIB, 700 * GIB)
SHM = Filesystem("tmpfs", "/dev/shm", "tmpfs", ("rw", "nosuid"), 470 * GIB, 470 * GIB)
WEIGHTS = WeightsFacts(
    path=MODEL,
    resolved=MODEL,
    files=112,
    bytes=BYTES + 40_000_000,
    shards=96,
    shard_bytes=BYTES,
    index=True,
    indexed=96,
    absent=(),
    indexed_bytes=BYTES - 20_000_000,
    empty=(),
    wrong_size=(),
    incomplete=0,
    filesystem=MODELS,
    revision=REVISION,
    revision_source="download metadata",
    config=ModelConfig(("KimiForConditionalGeneration",), "kimi", None),
)
SERVING = ServingFacts(
    units=(), env_file=None, secrets=(), nccl_conf=None, preload=(), segments={"nccl-": 0, "psm_": 0, "sem.mp-": 0}
)
UNIT = "rackproof-serving.service"
UNLIMITED = Limit(None, None)
DOCKERD = DaemonLimits(812, UNLIMITED, Limit(1048576, 1048576))
NICS = tuple(
    Hca(f"mlx5_{n}", (_p,)) for n in range(4) for _p in (Port(1, "ACTIVE", "LinkUp", 400_000_000_000, "InfiniBand"),)
)


def _disk(name: str, mount: str) -> Disk:
    return Disk(name, "disk", 3_840_755_982_336, False, "a disk", "nvme", (mount,))


DISKS = (_disk("nvme0n1", "/"), _disk("nvme1n1", "/models"), Disk("sda", "disk", 10**12, True, "a disk", "sata", ()))
NVME = tuple(NvmeHealth(name, 0, 3, 100, 0) for name in ("nvme0", "nvme1"))
_NOTHING: Any = {field.name: GONE for field in fields(KernelState)}
_SYSTEM: dict[str, Any] = {
    "cpu": CpuFacts("aarch64", "Neoverse-V2", 144, 2, 72, 1, ("0-71", "72-143", "")),
    "filesystems": (ROOT, MODELS, SHM),
    "disks": DISKS,
    "engines": EngineFacts("1.7.28", Missing("podman is not installed"), None),
    "nvme_health": NVME,
    "kernel_events": KernelEvents((), (), (), (), "Nov 30 08:00:00", 1),
    "state": NodeState((), (), (), {"dockerd": DOCKERD}, ()),
    "kernel": KernelState(**_NOTHING),
}
_KERNEL: dict[str, Any] = {
    "nvme": tuple(NvmeController(name, "a disk", "1.0", "live") for name in ("nvme0", "nvme1")),
    "numa": (NumaNode(0, "0-71", 480 * GIB), NumaNode(1, "72-143", 478 * GIB), NumaNode(2, "", 280 * GIB)),
}


def with_storage(facts: NodeFacts) -> NodeFacts:
    """A healthy node with all that these layers read. Facts that are there already stay."""
    own = facts.system if isinstance(facts.system, SystemFacts) else SystemFacts()
    system = replace(own, **{k: v for k, v in _SYSTEM.items() if isinstance(getattr(own, k), Missing)})
    assert isinstance(system.kernel, KernelState) and isinstance(facts.runtime.images, tuple)
    lacking = {k: v for k, v in _KERNEL.items() if isinstance(getattr(system.kernel, k), Missing)}
    runtime = replace(
        facts.runtime,
        cgroup_driver="systemd",
        default_runtime="runc",
        data_root="/var/lib/docker",
        storage_driver="overlay2",
        security_options=("apparmor", "cgroupns", "seccomp"),
        daemon_config={"live-restore": True, "log-opts": {"max-size": "100m"}},
        running=(),
        images=(*facts.runtime.images, previous_image(facts.runtime.images[0])),
    )
    return replace(
        facts,
        runtime=runtime,
        driver=replace(facts.driver, holders=()),
        system=replace(system, kernel=replace(system.kernel, **lacking)),
        weights=WEIGHTS,
        serving=SERVING,
        virtual_machine="none",
        control=ControlFacts(lock=None, journal=(), generation="", history=()),
        rdma=facts.rdma
        if not isinstance(facts.rdma, Missing)
        else RdmaFacts(NICS, "sysfs", (), frozenset(), None, None),
    )


def previous_image(now: ImageFacts) -> ImageFacts:
    digest = recipes.load().images["v0271"].index
    return replace(now, id="sha256:0271", tags=("vllm/vllm-openai:v0.27.1",), digests=(f"vllm/vllm-openai@{digest}",))


# --- baselines ---

_DEPLOYED: dict[str, Any] = {
    "driver": {"version": "580.126.20"},
    "packages": {
        "repository": "https://example.test/cuda/",
        "key_url": "https://example.test/cuda/key.pub",
        "key_fingerprint": "A" * 40,
    },
}
_ADDRESSES = tuple(f"10.1.0.{number}" for number in range(1, 19))


@cache
def keeps(hardware: str = "gb300", storage: str = "local") -> Baseline:
    """A site that says where the weights lie."""
    return _resolved(hardware, {"serving": {"model_directory": MODEL, "storage": storage}})


@cache
def serves(hardware: str = "gb300", layout: str = "", cache: bool = True, **serving: Any) -> Baseline:
    """A site that installs a serving unit."""
    wanted = {
        "install": True,
        "start": True,
        "model_directory": MODEL,
        **({"cache_directory": "/models/cache"} if cache else {}),
        **serving,
    }
    values = {
        **_DEPLOYED,
        "gpus": {"expect_idle": not wanted.get("start")},
        "serving": {"interface": "eth0", **wanted},
        **({"layout": layout} if layout else {}),
    }
    found = _resolved(hardware, values)
    members = tuple((f"tray{n + 1:02d}", _ADDRESSES[n]) for n in range(found.layout.nodes))
    said = site.shipped().overlaid({"hardware": hardware, **values}, "test")
    return with_launch(found, said, Member("tray01", members, "a test"))


def offers(hardware: str = "gb300", **offer: Any) -> Baseline:
    """A site that says what was sold, and nothing else."""
    return _resolved(hardware, {"offer": offer})


def _resolved(hardware: str, values: Mapping[str, Any]) -> Baseline:
    domain: Any = {"domain": _ADDRESSES[:2], "domain_source": "inventory"} if hardware == "gb300" else {}
    return resolve(site.shipped().overlaid({"hardware": hardware, **values}, "test"), **domain)


@cache
def rendered(layout: str, **serving: Any) -> DockerRun:
    """`docker run` of the unit that the launch renders for the first node of a layout."""
    nodes = recipes.load().layouts[layout].nodes
    said = {"model_directory": MODEL, "cache_directory": "/models/cache", "interface": "eth0", **serving}
    if nodes > 1:
        said["addresses"] = list(_ADDRESSES[:nodes])
    launch = plan_launch(layout, site.shipped().overlaid({"serving": said}, "test"))
    found = parse_unit(render(launch, "systemd", launch.processes[:1]))
    assert isinstance(found, DockerRun)
    return found


# --- one thing changed ---


def with_unit(facts: NodeFacts, layout: str, **changes: Any) -> NodeFacts:
    """The node with its serving unit; `changes` are fields of what docker runs."""
    return serving(facts, units=(ServingUnitFile(UNIT, True, replace(rendered(layout), **changes)),))


def with_files(facts: NodeFacts, wanted: Baseline) -> NodeFacts:
    """The node with the files of the serving unit that this baseline renders."""
    assert not isinstance(facts.host.files, Missing)
    files = {file.path: ManagedFile(file.path, file.sha256) for file in managed_files(wanted) if file.layer == "serving"}
    return replace(facts, host=replace(facts.host, files={**facts.host.files, **files}))


def serving(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.serving, ServingFacts)
    return replace(facts, serving=replace(facts.serving, **changes))


def weights(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.weights, WeightsFacts)
    return replace(facts, weights=replace(facts.weights, **changes))


def on_filesystem(facts: NodeFacts, **changes: Any) -> NodeFacts:
    """The model directory on another file system."""
    return weights(facts, filesystem=replace(MODELS, **changes))


def system(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts)
    return replace(facts, system=replace(facts.system, **changes))


def kernel(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts) and isinstance(facts.system.kernel, KernelState)
    return system(facts, kernel=replace(facts.system.kernel, **changes))


def state(facts: NodeFacts, **changes: Any) -> NodeFacts:
    assert isinstance(facts.system, SystemFacts) and isinstance(facts.system.state, NodeState)
    return system(facts, state=replace(facts.system.state, **changes))


def mounts(facts: NodeFacts, mount: str, **changes: Any) -> NodeFacts:
    """One mounted file system changed."""
    return system(
        facts, filesystems=tuple(replace(one, **changes) if one.mount == mount else one for one in (ROOT, MODELS, SHM))
    )
