"""Fault files: well formed, healable, and expecting requirements that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

faults = pytest.importorskip("rackproof_lab.faults")
LAYERS = Path(__file__).parents[2] / "src/rackproof/layers"
ALL = faults.everything()


def known_requirements() -> set[str]:
    """Ids in the requirement files of all layers."""
    found: set[str] = set()
    for path in LAYERS.glob("*/requirements.yaml"):
        data = yaml.safe_load(path.read_text())
        entries = data if isinstance(data, list) else data.get("requirements", data)
        if isinstance(entries, dict):
            found |= {f"{path.parent.name}.{key}" if "." not in key else key for key in entries}
        else:
            found |= {str(entry["id"]) for entry in entries}
    return found


@pytest.mark.parametrize("fault", ALL, ids=lambda f: str(f["id"]))
def test_a_fault_says_what_it_simulates_and_what_to_expect(fault: dict[str, object]) -> None:
    assert fault["title"] and fault["simulates"] and fault["apply"]
    expect = fault["expect"]
    assert isinstance(expect, dict) and set(expect) <= {"node", "peers", "fleet", "drift"} and expect
    for who in (expect[name] for name in expect if name != "drift"):
        assert who and set(who) <= {"fail", "unknown"} and all(who.values())


@pytest.mark.parametrize("fault", ALL, ids=lambda f: str(f["id"]))
def test_what_runs_a_script_can_be_healed(fault: dict[str, dict[str, object]]) -> None:
    if "run" in fault["apply"]:
        assert "run" in fault["heal"]
    assert bool(fault["apply"].get("reboot")) == bool(fault.get("heal", {}).get("reboot"))


@pytest.mark.parametrize("fault", ALL, ids=lambda f: str(f["id"]))
def test_expected_requirements_exist(fault: dict[str, dict[str, dict[str, list[str]]]]) -> None:
    known = known_requirements()
    if not known:
        pytest.skip("no requirement files in this checkout yet")
    for who in (asked for name, asked in fault["expect"].items() if name != "drift"):
        assert {requirement for listed in who.values() for requirement in listed} <= known
