"""A value of the wrong kind is missing; a value of the right kind is left as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from core_builders import evidence

from rackproof.evidence.read import read_facts
from rackproof.facts import Missing, Unit
from rackproof.facts_nvlink import NvlinkPort
from rackproof.soundness import sound

NODE = read_facts(evidence(cmdline=b"ro quiet\n"))


def host(**changes: Any) -> Any:
    return sound(replace(NODE, host=replace(NODE.host, **changes))).host


def test_sound_facts_are_left_alone() -> None:
    assert sound(NODE) is NODE


@pytest.mark.parametrize("value", [None, 1, True, (), {}, object(), ("a", 1), ["ro"]])
def test_another_kind_is_missing_and_says_so(value: Any) -> None:
    found = host(cmdline=value).cmdline
    if value == ():
        assert found == ()
    else:
        assert isinstance(found, Missing) and found.reason.startswith("rackproof misread it: ")


def test_none_is_only_where_it_means_something() -> None:
    assert host(selfbuild=None).selfbuild is None
    assert isinstance(host(hostname=None).hostname, Missing)


def test_a_flag_is_no_number_and_a_number_no_flag() -> None:
    assert isinstance(host(page_size_bytes=True).page_size_bytes, Missing)
    assert isinstance(host(is_root=1).is_root, Missing)


def test_what_cannot_be_missing_takes_what_holds_it_along() -> None:
    ports: Any = (NvlinkPort(0, 1, 53.125, "yes"),)  # type: ignore[arg-type]
    found = sound(replace(NODE, nvlink=replace(NODE.nvlink, ports=ports))).nvlink.ports
    assert isinstance(found, Missing) and "a str where bool belongs" in found.reason


def test_a_fact_inside_an_item_is_missing_alone() -> None:
    unit = Unit("docker", "loaded", "active", "running", "enabled", "three", "success", "infinity", "")  # type: ignore[arg-type]
    found = host(units={"docker": unit}).units
    assert isinstance(found["docker"].restarts, Missing) and found["docker"].active == "active"


def test_a_whole_part_of_another_kind_is_left_for_the_checks_to_stumble_over() -> None:
    broken = replace(NODE, host=None)  # type: ignore[arg-type]
    assert sound(broken) is broken
