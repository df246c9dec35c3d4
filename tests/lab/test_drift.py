"""Drift in the simulated rack: what changed is found and named, and what says nothing is not drift.

Several things are broken at once, each on a node of its own, because reading the rack is what takes time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import NODES, Rack

pytestmark = [pytest.mark.lab, pytest.mark.long]

INVENTORY = "inventories/lab.py"
TAG = "docker.io/vllm/vllm-openai:v0.28.0"
BROKEN = {  # node -> faults; tray03 has two that have nothing to do with each other
    "tray01": ["gpu-swapped"],
    "tray02": ["driver-mismatch"],
    "tray03": ["nvlink-half-rate", "ecc-uncorrectable"],
    "tray04": ["image-digest-changed"],
}


@dataclass(frozen=True)
class Referenced:
    """A rack whose evidence was accepted, and where its history is."""

    rack: Rack
    store: Path

    def drift(self, *words: str) -> tuple[int, dict[str, Any]]:
        done = self.rack.run("rackproof", "drift", *words, "--store", str(self.store), "--json", "-")
        assert done.returncode in (0, 1, 2), done.stderr[-3000:]
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["exit_code"] == done.returncode
        return done.returncode, document

    def history(self, node: str) -> dict[str, Any]:
        done = self.rack.run("rackproof", "drift", "history", node, "--store", str(self.store), "--json")
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def referenced(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referenced]:
    """Accepted as deployed. On tray04 somebody has tagged the pinned image, so that the tag can be moved."""
    store = tmp_path_factory.mktemp("store")
    image = deployed.ssh(
        "tray04", "docker images --digests --format '{{.Repository}}@{{.Digest}}' | grep vllm-openai"
    ).split()[0]
    deployed.ssh("tray04", f"docker tag {image} {TAG}")
    done = deployed.run("rackproof", "drift", "accept", INVENTORY, "--store", str(store))
    assert done.returncode == 0, done.stderr
    yield Referenced(deployed, store)
    deployed.ssh("tray04", f"docker rmi {TAG}")  # the tag alone: the image has its digest as well


def found(document: dict[str, Any], node: str) -> dict[str, dict[str, Any]]:
    """Findings that are drift, by subject."""
    findings = next(one for one in document["nodes"] if one["node"] == node)["findings"]
    return {finding["subject"]: finding for finding in findings if finding["drift"]}


def test_each_change_is_found_and_named_and_all_of_it_is_forgotten_when_healed(referenced: Referenced) -> None:
    rack = referenced.rack
    for node, faults in BROKEN.items():
        for fault in faults:
            rack.lab("break", node, fault)
    try:
        code, document = referenced.drift(INVENTORY)
    finally:
        for node in BROKEN:
            rack.lab("heal", node)
    assert code == 1 and document["verdict"] == "reject"
    _swapped(document)
    _moved(document)
    _half_rate_and_ecc(document)
    _retagged(document)
    _after(referenced)


def _swapped(document: dict[str, Any]) -> None:
    """One finding, not sixty; and the verdict does not see it."""
    swapped = found(document, "tray01")
    assert list(swapped) == ["GPU 00000009:06:00.0"]
    finding = swapped["GPU 00000009:06:00.0"]
    assert (finding["kind"], finding["class"], finding["requirements"]) == ("replaced", "identity", [])
    assert {change["fact"].rpartition(".")[2] for change in finding["changes"]} == {"uuid", "serial"}
    node = document["nodes"][0]
    assert node["verdict"] == "accept" and not node["verdict_changed"]


def _moved(document: dict[str, Any]) -> None:
    """The library and its packages, and that nvidia-smi answers no more; the loaded module is as it was."""
    moved = found(document, "tray02")
    library = moved["driver.library_version"]["changes"][0]
    assert (library["from"], library["to"]) == ("580.126.20", "580.178.04")
    assert {"host.packages{libnvidia-compute-580}", "host.packages{nvidia-utils-580}"} <= {
        change["fact"] for change in moved["host.packages"]["changes"]
    }
    assert moved["smi"]["kind"] == "unreadable" and "mismatch" in moved["smi"]["changes"][0]["to"]
    assert "driver.loaded_version" not in moved
    because = {name for finding in moved.values() for name in finding["requirements"]}
    assert "gpu_driver.packages" in because and document["nodes"][1]["verdict_changed"]


def _half_rate_and_ecc(document: dict[str, Any]) -> None:
    both = found(document, "tray03")
    assert set(both) == {"NVLink 0 of GPU 2", "GPU 00000008:06:00.0"}
    links = both["NVLink 0 of GPU 2"]
    assert links["more"] == 17 and (links["changes"][0]["from"], links["changes"][0]["to"]) == ("53.125", "26.562")
    assert links["requirements"] == ["nvlink.links"] and links["class"] == "health"
    ecc = both["GPU 00000008:06:00.0"]
    assert (ecc["kind"], ecc["class"], ecc["requirements"]) == ("grew", "counter", ["gpus.ecc_errors"])
    assert {(change["from"], change["to"]) for change in ecc["changes"]} == {("0", "4")}


def _retagged(document: dict[str, Any]) -> None:
    retagged = found(document, "tray04")
    subject = f"image {TAG.removeprefix('docker.io/')}"
    assert subject in retagged, list(retagged)
    assert {change["fact"].rpartition(".")[2] for change in retagged[subject]["changes"]} >= {"id", "digests"}
    assert "image.digest" in retagged[subject]["requirements"]


def _after(referenced: Referenced) -> None:
    """A reboot and new kernel log lines say nothing. What was broken is well again, and the history still knows."""
    rack = referenced.rack
    rack.ssh("tray04", f"docker tag $(docker images -q --no-trunc vllm/vllm-openai | head -n 1) {TAG}")
    boot = rack.ssh("tray01", "cat /proc/sys/kernel/random/boot_id")
    rack.run("rackproof-lab", "ssh", "tray01", "systemd-run --quiet --on-active=0.2 systemctl reboot")
    rack.lab("break", "tray03", "kernel-log-noise")
    try:
        _wait_for_another_boot(rack, "tray01", boot)
        code, document = referenced.drift(INVENTORY)
    finally:
        rack.lab("heal", "tray03")
    assert {node: found(document, node) for node in NODES} == {node: {} for node in NODES}
    assert code == 0 and document["verdict"] == "accept"
    runs = referenced.history("tray03")["runs"]
    assert [len([f for f in run["findings"] if f["drift"]]) for run in runs] == [2, 0]


def _wait_for_another_boot(rack: Rack, node: str, boot: str) -> None:
    """As many tries as a machine under load may need; each ends by itself when the node does not answer."""
    for _ in range(120):
        done = rack.run(
            "rackproof-lab", "ssh", node, "cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait"
        )
        if done.stdout and done.stdout.splitlines()[0] != boot.strip() and "running" in done.stdout:
            return
    pytest.fail(f"{node} did not come back")


def test_evidence_that_is_not_accepted_is_no_reference_unless_somebody_says_why(
    referenced: Referenced, tmp_path: Path
) -> None:
    rack, folder = referenced.rack, tmp_path / "evidence"
    rack.lab("break", "tray03", "ecc-uncorrectable")
    try:
        assert rack.run("rackproof", "collect", INVENTORY, "--to", str(folder), "--limit", "tray03").returncode == 0
    finally:
        rack.lab("heal", "tray03")
    words = ["rackproof", "drift", "accept", str(folder), "--inventory", INVENTORY, "--store", str(tmp_path / "store")]
    refused = rack.run(*words, "--limit", "tray03")
    assert refused.returncode == 3 and "tray03: its verdict is reject (gpus.ecc_errors)" in refused.stderr
    done = rack.run(*words, "--limit", "tray03", "--anyway", "board is on order")
    assert done.returncode == 0, done.stderr
    shown = rack.run("rackproof", "drift", "history", "tray03", "--store", str(tmp_path / "store"))
    assert "with verdict reject: board is on order" in shown.stdout
