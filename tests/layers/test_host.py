"""Layer host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackproof import site
from rackproof.baseline import resolve
from rackproof.managed import UPGRADES
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, apt, baseline, files, host, node, packages, strangers, units

GB300 = node()
CONTROL = GB300.control
B300 = node("b300", "b300-01")
OFF = {"enabled": "disabled", "active": "inactive"}
LAB = resolve(
    site.shipped().overlaid({"hardware": "gb300", "simulation": {"architecture": "x86_64"}}, "test"),
)
BARE = files(GB300, UPGRADES, None)  # without the file that would make upgrades harmless
PLAIN = strangers("gb300")  # nobody deploys it, so no managed file counts

TABLE = {
    "host.evidence": Cases(
        green=[GB300, B300],
        red=[],
        garbage=[replace(GB300, evidence=GONE), replace(GB300, evidence="")],
    ),
    "host.selfbuild": Cases(
        green=[GB300],
        red=[
            Red(host(GB300, selfbuild="vLLM 658f2f56 for CUDA 12.9"), "658f2f56"),
            Red(host(GB300, stamp={"tier": "unsupported-selfbuild"}), "stamp: tier unsupported-selfbuild"),
            Red(replace(GB300, control=replace(CONTROL, selfbuild="built 658f2f56")), "record: built 658f2f56"),
        ],
        garbage=[
            host(GB300, selfbuild=GONE), host(GB300, selfbuild=""), host(GB300, stamp=GONE), replace(GB300, control=GONE),
            *(replace(GB300, control=replace(CONTROL, **{name: GONE})) for name in ("journal", "history", "selfbuild")),
        ],
    ),
    "host.simulation": Cases(
        green=[GB300, (host(GB300, simulated="rackproof lab"), LAB)],
        red=[
            Red(host(GB300, simulated="rackproof lab"), "rackproof lab"),
            Red(GB300, "real hardware", LAB),
        ],
        garbage=[host(GB300, simulated=GONE), host(GB300, simulated="")],
    ),
    "host.os": Cases(
        green=[
            GB300,
            host(GB300, os_id="rhel", os_version="9.4"),
            host(GB300, os_id="rocky", os_version="10"),
            host(B300, os_id="debian", os_version="13"),
        ],
        red=[
            Red(host(GB300, os_version="24.10"), "ubuntu 24.10"),
            Red(host(GB300, os_version="24"), "ubuntu 24"),
            Red(host(GB300, os_id="debian", os_version="13"), "debian 13"),
            Red(host(GB300, os_id="rhel", os_version="90"), "rhel 90"),
        ],
        garbage=[
            host(GB300, os_id=GONE),
            host(GB300, os_version=GONE),
            host(GB300, os_id=""),
            host(GB300, os_version=""),
            host(GB300, os_version="."),
        ],
    ),
    "host.architecture": Cases(
        green=[GB300, B300],
        red=[Red(host(GB300, architecture="x86_64"), "x86_64"), Red(host(B300, architecture="aarch64"), "aarch64")],
        garbage=[host(GB300, architecture=GONE), host(GB300, architecture="")],
    ),
    "host.automatic_upgrades": Cases(
        green=[
            GB300,
            packages(BARE, {"unattended-upgrades": None}),
            units(BARE, apt_daily_upgrade__timer=OFF),
            apt(BARE, False),
            apt(packages(units(BARE, apt_daily_upgrade__timer=None), {}), False),
            units(BARE, apt_daily_upgrade__timer={"load": "masked", "active": "inactive"}),
            packages(files(host(GB300, units=GONE), UPGRADES, None), {"unattended-upgrades": None}),
            packages(
                units(BARE, dnf_automatic__timer={**OFF, "load": "loaded"}),
                {"unattended-upgrades": None, "dnf-automatic": "4.7"},
            ),
        ],
        red=[
            Red(BARE, "timer active, enabled"),
            Red(BARE, "APT::Periodic switches it on"),
            Red(units(BARE, apt_daily_upgrade__timer={"enabled": "disabled"}), "timer active"),
            Red(files(GB300, UPGRADES, "0" * 64), "changed"),
            Red(files(GB300, UPGRADES, None), "does not exist"),
            Red(
                packages(
                    units(GB300, dnf_automatic__timer={"load": "loaded", "enabled": "enabled", "active": "active"}),
                    {"dnf-automatic": "4.7"},
                ),
                "dnf-automatic: 4.7",
            ),
        ],
        garbage=[
            host(GB300, packages=GONE, units=GONE, files=GONE),
            host(GB300, packages={}, files={}),
            apt(BARE, GONE),
            replace(BARE, system=GONE),
            host(files(GB300, UPGRADES, ""), units={}),
            files(units(GB300, apt_daily_upgrade__timer=None), UPGRADES, None),
        ],
        not_applicable=PLAIN,
    ),
    "host.baseline_stamp": Cases(
        green=[GB300],
        red=[
            Red(host(GB300, stamp=None), "stamped baseline: none"),
            Red(host(GB300, stamp={"baseline": "0" * 64}), "0" * 64),
        ],
        garbage=[host(GB300, stamp=GONE), host(GB300, stamp={}), host(GB300, stamp={"baseline": None})],
        not_applicable=PLAIN,
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_everything_of_an_unread_node_is_blocked_by_the_evidence() -> None:
    found = outcome("host.os", host(replace(GB300, evidence=GONE), os_id=GONE))
    assert (found.status, found.blocked_by) == (Status.BLOCKED, "host.evidence")


def test_a_self_build_mark_is_unsupported_and_not_a_reject() -> None:
    assert outcome("host.selfbuild", GB300, baseline("gb300")).requirement.unsupported
