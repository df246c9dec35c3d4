"""Layer fleet: driver, GPUs and fabric of two GB300 trays in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rackproof.facts import NodeFacts, UnitFacts
from rackproof.verdict.evaluate import evaluate_unit
from rackproof.verdict.model import Verdict, verdict_of

from .cases import Cases, Red, verify
from .fixtures import GONE, MIB, baseline, driver, every_gpu, gpu, host, node, nvlink, packages, smi, unit_of
from .fixtures_gpus import details
from .test_fleet import UNIT, second, three, unreadable

HGX, AMD = baseline("b300"), baseline("mi355x")
B300 = unit_of(node("b300", "b300-01"), node("b300", "b300-02"))


def hgx(change: Callable[[NodeFacts], NodeFacts]) -> UnitFacts:
    return unit_of(node("b300", "b300-01"), change(node("b300", "b300-02")))


TABLE = {
    "fleet.gpus": Cases(
        green=[UNIT, (B300, HGX), (unit_of(node("mi355x", "mi355x-01")), AMD)],
        red=[
            Red(second(lambda facts: every_gpu(facts, memory_bytes=189471 * MIB)), "185.0 GiB: tray02"),
            Red(three(lambda facts: every_gpu(facts, product="NVIDIA GB200")), "NVIDIA GB200 with 277.5 GiB: tray02"),
        ],
        garbage=[
            *unreadable(lambda facts: gpu(facts, 2, memory_bytes=GONE)),
            *unreadable(lambda facts: smi(facts, gpus=())),
        ],
    ),
    "fleet.gpu_count": Cases(
        green=[UNIT, (B300, HGX), (unit_of(node("mi355x", "mi355x-01")), AMD)],
        red=[Red(three(lambda facts: smi(facts, gpus=facts.smi.gpus[:3])), "tray02: 3 GPUs")],  # type: ignore[union-attr]
        garbage=[
            *unreadable(lambda facts: replace(facts, smi=GONE)),
            *unreadable(lambda facts: smi(facts, gpus=())),
        ],
    ),
    "fleet.cuda": Cases(
        green=[UNIT],
        red=[Red(three(lambda facts: smi(facts, cuda_version="13.2")), "13.2: tray02")],
        garbage=[
            *unreadable(lambda facts: smi(facts, cuda_version=GONE)),
            *unreadable(lambda facts: smi(facts, cuda_version="")),
        ],
        not_applicable=AMD,
    ),
    "fleet.firmware": Cases(
        green=[UNIT, (B300, HGX), (unit_of(node("mi355x", "mi355x-01")), AMD)],
        red=[Red(three(lambda facts: every_gpu(facts, vbios="97.10.4A.00.01")), "97.10.4A.00.01, GSP 580.126.20: tray02")],
        garbage=[
            *unreadable(lambda facts: gpu(facts, 1, vbios=GONE)),
            *unreadable(lambda facts: details(facts, gsp_firmware=GONE)),
        ],
    ),
    "fleet.addressing_mode": Cases(
        green=[UNIT],
        red=[Red(three(lambda facts: details(facts, addressing_mode="HMM")), "HMM: tray02")],
        garbage=[
            *unreadable(lambda facts: details(facts, addressing_mode=GONE)),
            *unreadable(lambda facts: details(facts, addressing_mode="")),
        ],
        not_applicable=HGX,
    ),
    "fleet.chassis": Cases(
        green=[UNIT],
        red=[Red(three(lambda facts: details(facts, chassis_serial="1820225000002")), "1820225000002: tray02")],
        garbage=[
            *unreadable(lambda facts: details(facts, 1, chassis_serial=GONE)),
            *unreadable(lambda facts: details(facts, chassis_serial="")),
        ],
        not_applicable=HGX,
    ),
    "fleet.power_limit": Cases(
        green=[UNIT, (B300, HGX), (unit_of(node("mi355x", "mi355x-01")), AMD)],
        red=[
            Red(three(lambda facts: every_gpu(facts, power_limit_w=1200.0)), "1200 W: tray02"),
            Red(second(lambda facts: gpu(facts, 1, power_limit_w=1200.0)), "1200 W; 1400 W: tray02"),
        ],
        garbage=unreadable(lambda facts: gpu(facts, 1, power_limit_w=GONE)),
    ),
    "fleet.imex_config": Cases(
        green=[UNIT],
        red=[Red(three(lambda facts: nvlink(facts, imex_config={"SERVER_PORT": "50001"})), "SERVER_PORT=50001: tray02")],
        garbage=[
            *unreadable(lambda facts: nvlink(facts, imex_config=GONE)),
            *unreadable(lambda facts: nvlink(facts, imex_config=None)),
            *unreadable(lambda facts: nvlink(facts, imex_config={})),
        ],
        not_applicable=HGX,
    ),
    "fleet.fabric_manager": Cases(
        green=[(B300, HGX)],
        red=[
            Red(hgx(lambda facts: packages(facts, {"nvidia-fabricmanager": "590.48.01-1"})), "590.48.01: b300-02", HGX),
            Red(hgx(lambda facts: packages(facts, {"nvidia-fabricmanager": None})), "not installed: b300-02", HGX),
        ],
        garbage=[hgx(lambda facts: host(facts, packages=GONE)), hgx(lambda facts: host(facts, packages={}))],
        not_applicable=baseline("gb300"),
        garbage_baseline=HGX,
    ),
    "fleet.driver_parameters": Cases(
        green=[UNIT],
        red=[
            Red(
                three(lambda facts: driver(facts, parameters={"CreateImexChannel0": "0", "ModifyDeviceFiles": "1"})),
                "CreateImexChannel0 0: tray02",
            ),
            Red(second(lambda facts: driver(facts, parameters={"CreateImexChannel0": "1"})), "ModifyDeviceFiles not listed"),
        ],
        garbage=unreadable(lambda facts: driver(facts, parameters=GONE)),
        not_applicable=AMD,
    ),
}


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_a_healthy_unit_of_one_amd_node_is_accepted() -> None:
    assert verdict_of(evaluate_unit(unit_of(node("mi355x", "mi355x-01")), AMD)) is Verdict.ACCEPT
