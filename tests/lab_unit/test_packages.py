"""The stand-in packages: names and relations that decide how an upgrade goes."""

from __future__ import annotations

import pytest

packages = pytest.importorskip("rackproof_lab.packages")
DEBS = list(packages.everything())


def versions(name: str) -> set[str]:
    return {deb.version for deb in DEBS if deb.name == name}


def test_every_file_name_is_used_once() -> None:
    names = [deb.filename for deb in DEBS]
    assert len(names) == len(set(names))


def test_imex_and_fabricmanager_are_not_suffixed_from_580_on() -> None:
    for name in ("nvidia-imex", "nvidia-fabricmanager"):
        assert versions(name) == {v for v in packages.DRIVERS if not v.startswith("575.")}
        assert versions(f"{name}-575") == {"575.57.08-1"}
        assert not versions(f"{name}-580")


def test_an_unpinned_imex_would_be_newer_than_the_driver() -> None:
    assert "610.43.02-1ubuntu1" in versions("nvidia-imex")


def test_a_dependency_on_a_stand_in_exists() -> None:
    known = {deb.name for deb in DEBS}
    for deb in DEBS:
        for part in filter(None, deb.relations.get("Depends", "").split(",")):
            assert part.split("(")[0].strip() in known, deb.name


def test_the_exact_pin_pins_only_the_driver_stack() -> None:
    (pin,) = [deb for deb in DEBS if deb.name == "nvidia-driver-pinning-580.126.20"]
    ((path, text),) = pin.files.items()
    assert path.endswith(".pref"), "apt ignores preference files with another ending"
    assert "Pin: version 580.126.20-*" in text and "Pin-Priority: 1000" in text
    assert "container" not in text and "nvlsm" not in text


def test_the_old_driver_is_complete_without_imex_or_toolkit() -> None:
    names = packages.driver_closure(("nvidia-open-575", "nvidia-persistenced"), "575.57.08-1")
    assert (
        "nvidia-dkms-575-open_575.57.08-1_amd64.deb" in names and "libnvidia-compute-575_575.57.08-1_amd64.deb" in names
    )
    assert not [n for n in names if "imex" in n or "container" in n]
