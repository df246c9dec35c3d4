"""An HGX B300 node by itself: fabric manager instead of IMEX, and a layout of one node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import Rack, all_accepted, rack_of, statuses, unchanged

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def hgx() -> Iterator[Rack]:
    """One node with the B300 profile, as leased, in a lab beside the rack's."""
    with rack_of("test-hgx", 1, "--profile", "b300") as rack:
        yield rack


def test_from_leased_to_accepted_and_no_change_after(hgx: Rack) -> None:
    before = hgx.verify()
    assert before["verdict"] == "reject"
    assert "nvlink.fabric_manager" in statuses(before, "tray01")["fail"]
    code, results, log = hgx.deploy()
    assert code == 0 and not results["failed_hosts"], log[-3000:]
    after = hgx.verify()
    assert all_accepted(after), statuses(after, "tray01")
    assert after["nodes"][0]["hardware"] == "b300"
    skipped = statuses(after, "tray01")["not_applicable"]
    assert {"nvlink.imex_service", "nvlink.clique"} <= skipped
    code, results, _ = hgx.deploy()
    assert code == 0 and unchanged(results)


def test_a_fabric_manager_that_died_is_not_hidden_by_a_fabric_that_completed(hgx: Rack) -> None:
    """GPUs keep saying Completed long after the daemon is gone (NVSentinel ADR-050)."""
    hgx.ssh("tray01", "systemctl stop nvidia-fabricmanager")
    try:
        document = hgx.verify()
    finally:
        hgx.ssh("tray01", "systemctl start nvidia-fabricmanager")
    assert document["verdict"] == "reject"
    assert statuses(document, "tray01")["fail"] == {"nvlink.fabric_manager"}
