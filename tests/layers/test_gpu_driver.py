"""Layer gpu_driver."""

from __future__ import annotations

import pytest

from rackproof.managed import MODPROBE, PERSISTENCED
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import DRIVER, GONE, baseline, driver, files, host, node, packages, strangers

GB300 = node()
B300 = node("b300", "b300-01")
OLD = "575.57.08"
NOT_A_VERSION = [driver(GB300, loaded_version=text) for text in ("", "garbage", "-580.1", "580")]
UNREAD = [driver(GB300, loaded_version=GONE), driver(GB300, loaded_version=None), *NOT_A_VERSION]

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
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_what_needs_a_driver_is_blocked_by_its_absence() -> None:
    found = outcome("gpu_driver.lockstep", driver(GB300, loaded_version=None), baseline("gb300"))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "gpu_driver.loaded")
