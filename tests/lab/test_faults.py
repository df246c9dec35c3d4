"""The fault matrix: every fault turns exactly the requirements red (or unknown) that its file says, and none leaves the
verdict at accept. After healing, the rack is accepted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import NODES, Rack, all_accepted, statuses

pytestmark = pytest.mark.lab

FOLDER = Path(__file__).resolve().parents[2] / "lab" / "faults"
# Faults that no requirement sees are for test_drift.py.
FAULTS = {
    name: fault
    for name, fault in ((path.stem, yaml.safe_load(path.read_text())) for path in sorted(FOLDER.glob("*.yaml")))
    if set(fault["expect"]) - {"drift"}
}
FAULTY = "tray02"
UNIT_PEER, DOMAIN_PEERS = "tray01", ("tray01", "tray03", "tray04")


def test_the_matrix_is_as_wide_as_promised() -> None:
    assert len(FAULTS) >= 16
    for name, fault in FAULTS.items():
        asked = [who for key, who in fault["expect"].items() if key != "drift"]
        assert any(names for who in asked for names in who.values()), name


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_fault(deployed: Rack, name: str) -> None:
    expect = FAULTS[name]["expect"]
    deployed.lab("break", FAULTY, name)
    try:
        document = deployed.verify()
    finally:
        deployed.lab("heal", FAULTY)
    assert document["verdict"] != "accept" and document["exit_code"] in (1, 2)
    found: dict[str, Any] = {"node": _seen(document, FAULTY), "fleet": _fleet(document)}
    peers = {node: _seen(document, node) for node in NODES if node != FAULTY}
    assert found["node"] == _wanted(expect.get("node", {}))
    assert peers == dict.fromkeys(DOMAIN_PEERS, _wanted(expect.get("peers", {})))
    assert found["fleet"] == _wanted(expect.get("fleet", {}))
    healed = deployed.verify()
    assert all_accepted(healed), {node: _seen(healed, node) for node in NODES}


def _seen(document: dict[str, Any], node: str) -> dict[str, list[str]]:
    found = statuses(document, node)
    return {status: sorted(found.get(status, ())) for status in ("fail", "unknown")}


def _fleet(document: dict[str, Any]) -> dict[str, list[str]]:
    """Gates of the unit that the faulty node is in; the other unit must be well."""
    found: dict[str, set[str]] = {"fail": set(), "unknown": set()}
    for outcome in document["fleet"]:
        if outcome["severity"] == "gate" and outcome["status"] in found:
            assert FAULTY in outcome["nodes"], outcome
            found[outcome["status"]].add(outcome["requirement"])
    return {status: sorted(names) for status, names in found.items()}


def _wanted(expect: dict[str, list[str]]) -> dict[str, list[str]]:
    return {status: sorted(expect.get(status, [])) for status in ("fail", "unknown")}
