"""Podman on a node: the system's own, whose storage belongs to root. What users have in their homes is not looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rackproof.facts import Fact, ImageFacts, Missing, NodeFacts, RuntimeFacts
from rackproof.facts_serving import RunningContainer

NAME = "podman"
CDI_KIND = "nvidia.com/gpu"
DEFAULT_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


@dataclass(frozen=True)
class PodmanFacts:
    """Where no podman ever ran on a node it has no storage: no images and no containers, and nothing else is known."""

    version: Fact[str | None]  # None where it is not installed
    cgroup_version: Fact[str]  # "2"
    cgroup_driver: Fact[str]  # systemd | cgroupfs
    oci_runtime: Fact[str]  # crun | runc
    data_root: Fact[str]  # graphRoot
    storage_driver: Fact[str]  # overlay | vfs | ...
    log_driver: Fact[str]  # journald | k8s-file | ...
    security_options: Fact[tuple[str, ...]]  # names, as Docker calls them: rootless, userns, seccomp, apparmor, selinux
    images: Fact[tuple[ImageFacts, ...]]
    running: Fact[tuple[RunningContainer, ...]]
    cdi_folders: Fact[tuple[str, ...]]  # where it looks for CDI specs
    hooks: Fact[tuple[str, ...]]  # files that put NVIDIA's legacy hook into every container


def of_engine(facts: NodeFacts, engine: str) -> NodeFacts:
    """The facts with `runtime` being that of the engine which a baseline names; Docker's is what was read as such."""
    return facts if engine != NAME else replace(facts, runtime=_runtime(facts))


def _runtime(facts: NodeFacts) -> RuntimeFacts:
    """What is not of an engine (the toolkit, CDI specs, what proves an image) stays as it was read."""
    found, shared = facts.podman, facts.runtime
    if isinstance(found, Missing):
        return _unread(shared, found)
    version = found.version
    installed = version if isinstance(version, Missing) else None if version is None else NAME
    return replace(
        shared,
        engine=installed,
        engine_version=Missing("podman is not installed") if version is None else version,
        cgroup_version=found.cgroup_version,
        runtimes=found.oci_runtime if isinstance(found.oci_runtime, Missing) else (found.oci_runtime,),
        cdi_devices=_devices(facts, found),
        daemon_config=None,
        images=found.images,
        cgroup_driver=found.cgroup_driver,
        default_runtime=found.oci_runtime,
        data_root=found.data_root,
        storage_driver=found.storage_driver,
        security_options=found.security_options,
        running=_running(shared, found),
        log_driver=found.log_driver,
    )


def _unread(shared: RuntimeFacts, why: Missing) -> RuntimeFacts:
    return replace(
        shared, engine=why, engine_version=why, cgroup_version=why, runtimes=why, cdi_devices=why, daemon_config=None,
        images=why, cgroup_driver=why, default_runtime=why, data_root=why, storage_driver=why, security_options=why,
        running=why, log_driver=why,
    )  # fmt: skip


def _devices(facts: NodeFacts, found: PodmanFacts) -> Fact[tuple[str, ...]]:
    """Podman reads the specs of its folders anew for each container, so that what lies there is what it knows."""
    specs, folders = facts.runtime.cdi_specs, found.cdi_folders
    if isinstance(specs, Missing) or isinstance(folders, Missing):
        return specs if isinstance(specs, Missing) else folders
    looked_at = {_plain(folder) for folder in folders}
    here = [spec for spec in specs if _plain(spec.path.rpartition("/")[0]) in looked_at]
    return tuple(dict.fromkeys(f"{CDI_KIND}={name}" for spec in here for name in spec.devices))


def _plain(folder: str) -> str:
    """/var/run is /run."""
    return folder.rstrip("/").removeprefix("/var") if folder.startswith("/var/run/") else folder.rstrip("/")


def _running(shared: RuntimeFacts, found: PodmanFacts) -> Fact[tuple[RunningContainer, ...]]:
    """Containers of both engines: an engine that Docker still runs is in the way, whatever the baseline names."""
    if isinstance(found.running, Missing) or shared.engine is None:
        return found.running
    if isinstance(shared.running, Missing):
        return Missing(f"Docker is installed too, and what it runs is not known: {shared.running.reason}")
    return (*found.running, *shared.running)

