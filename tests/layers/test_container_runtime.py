"""Layer container_runtime."""

from __future__ import annotations

import pytest

from rackproof.facts import CdiSpec, Missing
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .engine_cases import TABLE as ENGINE_TABLE
from .fixtures import DRIVER, GONE, driver, host, node, packages, runtime, strangers, units

GB300 = node()
B300 = node("b300", "b300-01")
PLAIN = strangers("gb300")
DEVICES = ("0", "1", "2", "3", "all")
FRESH = CdiSpec("/var/run/cdi/nvidia.yaml", (DRIVER,), DEVICES)
STALE = CdiSpec("/etc/cdi/nvidia.yaml", ("580.105.08",), DEVICES)
OLD_DOCKER = Missing("docker info lists no discovered devices (none there, or Docker older than 28.2)")

TABLE = {
    "container_runtime.engine": Cases(
        green=[GB300, B300, runtime(GB300, engine_version="26.1.5+dfsg1"), runtime(GB300, engine_version="26.1.0")],
        red=[
            Red(runtime(GB300, engine=None, engine_version=GONE), "engine: none installed"),
            Red(runtime(GB300, engine="podman"), "engine: podman"),
            Red(runtime(GB300, engine_version="24.0.7"), "version: 24.0.7"),
            Red(runtime(units(GB300, docker={"active": "failed"}), engine_version=GONE), "service: failed, enabled"),
        ],
        garbage=[
            runtime(GB300, engine=GONE),
            runtime(GB300, engine=""),
            runtime(GB300, engine_version=GONE),
            runtime(GB300, engine_version=""),
            runtime(GB300, engine_version="garbage"),
            runtime(GB300, engine_version="-99.1.1"),
            host(GB300, units=GONE),
            units(GB300, docker=None),
        ],
    ),
    "container_runtime.toolkit": Cases(
        green=[
            GB300,
            (GB300, PLAIN),
            (runtime(GB300, toolkit_version="1.20.0"), PLAIN),
            (packages(GB300, dict.fromkeys(("nvidia-container-toolkit", "libnvidia-container1"))), PLAIN),
        ],
        red=[
            Red(runtime(GB300, toolkit_version=None), "nvidia-ctk: not installed"),
            Red(runtime(GB300, toolkit_version="1.17.7"), "nvidia-ctk: 1.17.7", PLAIN),
            Red(runtime(GB300, toolkit_version="1.20.0"), "nvidia-ctk: 1.20.0"),
            Red(packages(GB300, {"libnvidia-container1": "1.17.6-1"}), "packages: 1.17.6 and 1.19.1"),
        ],
        garbage=[
            runtime(GB300, toolkit_version=GONE),
            runtime(GB300, toolkit_version=""),
            runtime(GB300, toolkit_version="garbage"),
            host(GB300, packages=GONE),
            host(GB300, packages={}),
            packages(GB300, {"libnvidia-container1": ""}),
        ],
    ),
    "container_runtime.cdi": Cases(
        green=[
            GB300,
            B300,
            runtime(GB300, cdi_specs=(FRESH, CdiSpec("/etc/cdi/mine.yaml", (DRIVER,), ("0",)))),
        ],
        red=[
            Red(runtime(GB300, cdi_specs=()), "no CDI spec"),
            Red(runtime(GB300, cdi_specs=(STALE,)), "/etc/cdi/nvidia.yaml: driver 580.105.08"),
            Red(runtime(GB300, cdi_specs=(STALE, FRESH)), "/etc/cdi/nvidia.yaml: driver 580.105.08"),
            Red(runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", (DRIVER,), ("all",)),)), "devices: no 0, 1, 2, 3"),
            Red(runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", (DRIVER,), DEVICES[:3]),)), "devices: no 3"),
            Red(runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", (DRIVER, "575.57.08"), DEVICES),)), "575.57.08"),
            Red(runtime(driver(GB300, loaded_version=GONE), cdi_specs=()), "no CDI spec"),
        ],
        garbage=[
            runtime(GB300, cdi_specs=GONE),
            driver(GB300, loaded_version=GONE),
            driver(GB300, loaded_version=None),
            runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", (), DEVICES),)),
            runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", ("",), DEVICES),)),
            runtime(GB300, cdi_specs=(CdiSpec("/run/cdi/a", (DRIVER,), ()),)),
        ],
    ),
    "container_runtime.configuration": Cases(
        green=[
            GB300,
            B300,
            runtime(GB300, cdi_devices=OLD_DOCKER, daemon_config={"features": {"cdi": True}}),
            runtime(GB300, daemon_config=GONE),
        ],
        red=[
            Red(runtime(GB300, cdi_devices=()), "0 CDI devices discovered"),
            Red(
                runtime(GB300, cdi_devices=("nvidia.com/imex=0",), daemon_config={"features": {"cdi": False}}), "false"
            ),
        ],
        garbage=[
            runtime(GB300, cdi_devices=GONE, daemon_config=GONE),
            runtime(GB300, cdi_devices=OLD_DOCKER),
            runtime(GB300, cdi_devices=GONE, daemon_config={"features": "cdi"}),
            runtime(GB300, cdi_devices=("",), daemon_config={"features": {"cdi": "true"}}),
            runtime(GB300, cdi_devices=(), daemon_config={}),
        ],
    ),
}


TABLE |= ENGINE_TABLE
SOFT = {
    f"container_runtime.{name}"
    for name in (
        "engine_steady", "containerd", "podman", "cgroup_version", "daemon_config", "privileges", "data_space",
        "data_filesystem", "storage_driver", "memlock", "open_files", "live_restore", "log_size", "cdi_by_hand",
        "cdi_refresh", "reload_safe", "nvidia_runtime", "default_runtime", "obsolete_packages", "amd_runtime",
    )
}  # fmt: skip


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_a_missing_spec_blocks_what_only_the_engine_could_tell() -> None:
    found = outcome("container_runtime.configuration", runtime(GB300, cdi_specs=(), cdi_devices=OLD_DOCKER))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "container_runtime.cdi")
