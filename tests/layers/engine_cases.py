"""Cases of layer container_runtime beyond engine, toolkit and CDI spec themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rackproof.facts import CdiSpec, Missing, NodeFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts
from rackproof.facts_state import DaemonLimits
from rackproof.facts_system import EngineFacts, Limit

from .cases import Cases, Red
from .fixtures import DRIVER, GONE, baseline, host, node, packages, runtime, strangers, units
from .fixtures_podman import podman_baseline
from .fixtures_storage import GIB, ROOT, UNLIMITED, mounts, state, system

GB300 = node()
B300 = node("b300", "b300-01")
PLAIN = strangers("gb300")
AMD = replace(baseline("gb300"), vendor="amd")
DEVICES = ("0", "1", "2", "3", "all")
RUN, ETC = "/var/run/cdi/nvidia.yaml", "/etc/cdi/nvidia.yaml"
PODMAN = podman_baseline()
NO_DOCKER = "the Docker daemon is not running"


def unit(**changes: Any) -> NodeFacts:
    return units(GB300, docker=changes)


def spec(path: str, devices: tuple[str, ...] = DEVICES) -> CdiSpec:
    return CdiSpec(path, (DRIVER,), devices)


def specs(*found: CdiSpec) -> NodeFacts:
    return runtime(GB300, cdi_specs=found)


def config(**said: Any) -> NodeFacts:
    return runtime(GB300, daemon_config=said)


def engines(containerd: Any = "1.7.28", podman: Any = GONE) -> NodeFacts:
    return system(packages(GB300, {"podman": "5.4.2+ds1-1"}), engines=EngineFacts(containerd, podman, None))


def dockerd(memlock: Any = UNLIMITED, open_files: Any = UNLIMITED, facts: NodeFacts = GB300) -> NodeFacts:
    return state(facts, daemons={"dockerd": DaemonLimits(812, memlock, open_files)})


def limits(**found: Mapping[str, int]) -> Mapping[str, Any]:
    return {"default-ulimits": {name: {"Name": name, **values} for name, values in found.items()}}


def amd(render: Any = ("renderD128", "renderD129", "renderD130", "renderD131"), kfd: Any = True) -> NodeFacts:
    empty: Any = dict.fromkeys(
        ("loaded_version", "loaded_srcversion", "disk_srcversion", "disk_path", "parameters"), GONE
    )
    driver = AmdDriverFacts(loaded=True, kfd_device=kfd, render_nodes=render, kfd_nodes=GONE, gpus=(), **empty)
    return replace(GB300, amd=AmdFacts(driver, GONE, GONE))


NO_INFO = [
    runtime(GB300, **dict.fromkeys(("cgroup_version", "runtimes", "cgroup_driver", "default_runtime", "data_root",
                                    "storage_driver", "security_options"), Missing(NO_DOCKER))),
]  # fmt: skip
LIMITED = Limit(8388608, 8388608)
SMALL = dockerd(LIMITED, Limit(1024, 524288), units(GB300, docker={"memlock": "8388608"}))


def both(dockerd: Any = UNLIMITED, containerd: Any = UNLIMITED, facts: NodeFacts = GB300) -> NodeFacts:
    """The engine and containerd as services of their own, each with one limit for memory and files."""
    return state(facts, daemons={"dockerd": DaemonLimits(812, dockerd, dockerd), "containerd": DaemonLimits(700, containerd, containerd)})

TABLE = {
    "container_runtime.engine_at_boot": Cases(
        green=[GB300, B300, unit(active="inactive")],
        red=[
            Red(unit(enabled="disabled"), "docker: active, disabled"),
            Red(unit(enabled=""), "not enabled"),
            Red(unit(load="not-found", enabled=""), "not-found"),
        ],
        garbage=[host(GB300, units=GONE), units(GB300, docker=None), unit(enabled="garbage")],
        not_applicable=PLAIN,
    ),
    "container_runtime.engine_steady": Cases(
        green=[GB300, (B300, strangers("b300"))],
        red=[
            Red(unit(restarts=3), "restarts: 3"),
            Red(unit(result="oom-kill"), "last result: oom-kill"),
            Red(unit(restarts=GONE, result="exit-code"), "exit-code"),
        ],
        garbage=[host(GB300, units=GONE), unit(restarts=GONE), unit(restarts=-1), unit(result="")],
        not_applicable=PODMAN,
    ),
    "container_runtime.containerd": Cases(
        green=[GB300, engines("1.7.16"), engines("2.1.4")],
        red=[
            Red(engines("1.6.20"), "version: 1.6.20"),
            Red(units(GB300, containerd={"active": "failed"}), "service: failed"),
            Red(units(engines(GONE), containerd={"load": "not-found", "active": "inactive"}), "not-found"),
        ],
        garbage=[
            engines(GONE),
            engines(""),
            engines("garbage"),
            system(GB300, engines=GONE),
            replace(GB300, system=GONE),
            units(GB300, containerd=None),
        ],
        not_applicable=PODMAN,
    ),
    "container_runtime.podman": Cases(
        green=[GB300, engines(podman="5.4.2"), engines(podman="5.1.0")],
        red=[Red(engines(podman="4.9.3"), "4.9.3")],
        garbage=[engines(podman=GONE), engines(podman=""), engines(podman="garbage"), host(GB300, packages={})],
        not_applicable=PODMAN,
    ),
    "container_runtime.cgroup_version": Cases(
        green=[GB300],
        red=[Red(runtime(GB300, cgroup_version="1"), "cgroup: 1")],
        garbage=[*NO_INFO, runtime(GB300, cgroup_version=""), runtime(GB300, cgroup_version="-2")],
    ),
    "container_runtime.daemon_config": Cases(
        green=[
            GB300,
            runtime(GB300, daemon_config=None),
            config(hosts=["fd://"]),
            units(config(**{"data-root": "/data"}), docker={"exec_start": "/usr/bin/dockerd -H fd://"}),
        ],
        red=[
            Red(
                units(config(hosts=["fd://"]), docker={"exec_start": "/usr/bin/dockerd -H fd://"}),
                "command line: hosts",
            ),
            Red(units(config(**{"data-root": "/d"}), docker={"exec_start": "dockerd --data-root=/e"}), "data-root"),
        ],
        garbage=[
            runtime(GB300, daemon_config=Missing("/etc/docker/daemon.json is not valid JSON: line 3")),
            host(GB300, units=GONE),
        ],
        not_applicable=PODMAN,
    ),
    "container_runtime.privileges": Cases(
        green=[GB300, runtime(GB300, security_options=())],
        red=[
            Red(runtime(GB300, security_options=("rootless", "seccomp")), "rootless"),
            Red(runtime(GB300, security_options=("userns",)), "userns"),
        ],
        garbage=NO_INFO,
    ),
    "container_runtime.data_space": Cases(
        green=[
            GB300,
            B300,
            runtime(GB300, storage_driver="overlayfs", data_root=GONE),
            runtime(mounts(GB300, "/", available_bytes=0), data_root="/models/docker"),
        ],
        red=[
            Red(mounts(GB300, "/", available_bytes=99 * GIB), "where images lie: 99.0 GiB"),
            Red(
                runtime(mounts(GB300, "/", available_bytes=0), storage_driver="overlayfs", data_root="/models"),
                "0.0 GiB",
            ),
        ],
        garbage=[
            *NO_INFO,
            system(GB300, filesystems=GONE),
            system(GB300, filesystems=()),
            mounts(GB300, "/", available_bytes=GONE),
            mounts(GB300, "/", available_bytes=-1),
            runtime(GB300, data_root=""),
        ],
    ),
    "container_runtime.data_filesystem": Cases(
        green=[GB300, mounts(GB300, "/", kind="xfs")],
        red=[Red(mounts(GB300, "/", kind="nfs4"), "nfs4"), Red(mounts(GB300, "/", kind="tmpfs"), "tmpfs")],
        garbage=[
            *NO_INFO,
            system(GB300, filesystems=GONE),
            mounts(GB300, "/", kind=""),
            system(GB300, filesystems=(replace(ROOT, mount="/boot"),)),
        ],
    ),
    "container_runtime.storage_driver": Cases(
        green=[GB300, runtime(GB300, storage_driver="overlayfs")],
        red=[
            Red(runtime(GB300, storage_driver="vfs"), "vfs"),
            Red(runtime(GB300, storage_driver="devicemapper"), "devicemapper"),
        ],
        garbage=[*NO_INFO, runtime(GB300, storage_driver="")],
    ),
    "container_runtime.memlock": Cases(
        green=[
            GB300,
            both(),
            replace(SMALL, runtime=config(**limits(memlock={"Hard": -1, "Soft": -1})).runtime),
        ],
        red=[
            Red(SMALL, "dockerd, docker.service: no default-ulimits, 8388608"),
            Red(dockerd(LIMITED), "dockerd: no default-ulimits, 8388608"),  # its unit says infinity since it was started
            Red(both(containerd=LIMITED), "containerd: no default-ulimits, 8388608"),
            Red(dockerd(facts=units(GB300, docker={"memlock": "8388608"})), "docker.service: no default-ulimits, 8388608"),
            Red(both(facts=units(GB300, containerd={"memlock": "8388608"})), "containerd.service: no default-ulimits"),
            Red(
                replace(SMALL, runtime=config(**limits(memlock={"Hard": 65536})).runtime),
                "dockerd, docker.service: default-ulimits 65536, 8388608",
            ),
        ],
        garbage=[
            state(unit(memlock=GONE), daemons={}),
            state(GB300, daemons={}),
            dockerd(GONE),
            both(facts=units(GB300, containerd=None)),
            replace(
                state(host(GB300, units=GONE), daemons=GONE), runtime=config(**{"default-ulimits": "memlock"}).runtime
            ),
            dockerd(GONE, facts=unit(memlock="")),
            replace(dockerd(GONE, facts=unit(memlock=GONE)), runtime=config(**limits(memlock={"Hard": True})).runtime),  # type: ignore[dict-item]
        ],
        not_applicable=PODMAN,
    ),
    "container_runtime.open_files": Cases(
        green=[
            GB300,
            dockerd(),
            both(Limit(65536, 65536), Limit(65536, 65536)),
            replace(SMALL, runtime=config(**limits(nofile={"Soft": 1048576, "Hard": 1048576})).runtime),
        ],
        red=[
            Red(dockerd(open_files=Limit(1024, 524288)), "dockerd: no default-ulimits, 1024"),
            Red(both(containerd=Limit(1024, 524288)), "containerd: no default-ulimits, 1024"),
            Red(replace(SMALL, runtime=config(**limits(nofile={"Soft": 1024})).runtime), "default-ulimits 1024, 1024"),
        ],
        garbage=[
            dockerd(open_files=GONE),
            state(GB300, daemons=GONE),
            system(GB300, state=GONE),
            replace(state(GB300, daemons={}), runtime=config(**limits(nofile={"Soft": -5})).runtime),
        ],
        not_applicable=PODMAN,
    ),
    "container_runtime.live_restore": Cases(
        green=[GB300],
        red=[Red(runtime(GB300, daemon_config=None), "off"), Red(config(**{"live-restore": "true"}), "off")],
        garbage=[runtime(GB300, daemon_config=GONE)],
        not_applicable=PODMAN,
    ),
    "container_runtime.log_size": Cases(
        green=[GB300, config(**{"log-driver": "local"}), config(**{"log-driver": "journald"})],
        red=[Red(config(**{"log-driver": "json-file"}), "no"), Red(runtime(GB300, daemon_config=None), "no")],
        garbage=[runtime(GB300, daemon_config=GONE), config(**{"log-opts": ["max-size"]})],
    ),
    "container_runtime.toolkit_escape": Cases(
        green=[GB300, runtime(GB300, toolkit_version="1.17.8"), runtime(GB300, toolkit_version=None)],
        red=[Red(runtime(GB300, toolkit_version="1.17.7"), "nvidia-ctk: 1.17.7", PLAIN)],
        garbage=[
            runtime(GB300, toolkit_version=GONE),
            runtime(GB300, toolkit_version="garbage"),
            runtime(GB300, toolkit_version=""),
        ],
    ),
    "container_runtime.cdi_conflict": Cases(
        green=[GB300, specs(spec(RUN), spec(ETC)), specs(spec(RUN), spec("/run/cdi/imex.json", ("channel0",)))],
        red=[
            Red(specs(spec(RUN), spec("/run/cdi/mine.json", ("0", "9"))), "given twice: 0"),
            Red(specs(spec(ETC), spec("/etc/cdi/b.yaml")), "given twice: 0, 1, 2, 3, all"),
        ],
        garbage=[runtime(GB300, cdi_specs=GONE)],
    ),
    "container_runtime.cdi_all": Cases(
        green=[GB300, specs(spec(RUN, ("0", "1", "2", "3")), spec(ETC, ("all",)))],
        red=[
            Red(specs(spec(RUN, DEVICES[:4])), "no nvidia.com/gpu=all"),
            Red(specs(spec(RUN, ("GPU-1", "GPU-2"))), "no nvidia.com/gpu=all"),
            Red(specs(), "no nvidia.com/gpu=all"),
        ],
        garbage=[runtime(GB300, cdi_specs=GONE), specs(spec(RUN, ("",)))],
    ),
    "container_runtime.cdi_by_hand": Cases(
        green=[GB300, specs()],
        red=[Red(specs(spec(RUN), spec(ETC)), "/etc/cdi/nvidia.yaml")],
        garbage=[runtime(GB300, cdi_specs=GONE)],
    ),
    "container_runtime.cdi_refresh": Cases(
        green=[GB300],
        red=[
            Red(
                units(GB300, nvidia_cdi_refresh__path={"enabled": "disabled"}),
                "nvidia-cdi-refresh.path: active, disabled",
            ),
            Red(units(GB300, nvidia_cdi_refresh__service={"load": "not-found", "enabled": ""}), "not-found"),
        ],
        garbage=[host(GB300, units=GONE), units(GB300, nvidia_cdi_refresh__path=None)],
    ),
    "container_runtime.reload_safe": Cases(
        green=[
            GB300,
            runtime(GB300, toolkit_version="1.17.8", cgroup_driver="cgroupfs"),
            runtime(GB300, toolkit_version="1.18.0", cgroup_driver=GONE),
        ],
        red=[
            Red(runtime(GB300, toolkit_version="1.17.8"), "cgroup driver systemd"),
            Red(runtime(GB300, toolkit_version=None), "cgroup driver systemd"),
        ],
        garbage=[
            runtime(GB300, toolkit_version=GONE),
            runtime(GB300, toolkit_version="garbage", cgroup_driver=GONE),
            runtime(GB300, toolkit_version="1.17.8", cgroup_driver=GONE),
            runtime(GB300, toolkit_version="", cgroup_driver=""),
        ],
    ),
    "container_runtime.nvidia_runtime": Cases(
        green=[GB300],
        red=[Red(runtime(GB300, runtimes=("io.containerd.runc.v2", "runc")), "runc")],
        garbage=[*NO_INFO, runtime(GB300, runtimes=()), runtime(GB300, runtimes=("",))],
        not_applicable=PODMAN,
    ),
    "container_runtime.default_runtime": Cases(
        green=[GB300, runtime(GB300, default_runtime="crun")],
        red=[Red(runtime(GB300, default_runtime="nvidia"), "nvidia")],
        garbage=NO_INFO,
    ),
    "container_runtime.obsolete_packages": Cases(
        green=[GB300],
        red=[Red(packages(GB300, {"nvidia-docker2": "2.13.0-1"}), "nvidia-docker2")],
        garbage=[host(GB300, packages=GONE), host(GB300, packages={})],
    ),
    "container_runtime.amd_devices": Cases(
        green=[(amd(), AMD)],
        red=[
            Red(amd(("renderD128",)), "render nodes: 1", AMD),
            Red(amd(kfd=False), "/dev/kfd: not there", AMD),
            Red(amd(GONE, kfd=False), "/dev/kfd: not there", AMD),
        ],
        garbage=[GB300, amd(GONE), amd(kfd=GONE), amd(())],
        garbage_baseline=AMD,
    ),
    "container_runtime.amd_runtime": Cases(
        green=[(runtime(GB300, runtimes=("amd", "runc")), AMD)],
        red=[Red(GB300, "nvidia, runc", AMD)],
        garbage=[*NO_INFO, runtime(GB300, runtimes=())],
        garbage_baseline=AMD,
        not_applicable=replace(PODMAN, vendor="amd"),
    ),
}
