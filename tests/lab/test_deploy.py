"""From "as leased" to accepted, through both doors, and again without a change."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conftest import NODES, Rack, all_accepted, statuses, unchanged
from rackproof.verdict.catalogue import requirements

pytestmark = pytest.mark.lab


def test_as_leased_is_rejected_for_what_is_wrong_with_it(lab: Rack) -> None:
    document = lab.verify()
    assert document["verdict"] == "reject" and document["simulated"]
    red = {node: statuses(document, node)["fail"] for node in NODES}
    for node in NODES:
        assert {"gpu_driver.branch", "gpu_driver.version", "nvlink.imex_service", "container_runtime.toolkit",
                "image.digest"} <= red[node]  # fmt: skip
    assert [node for node in NODES if "host.automatic_upgrades" in red[node]] == ["tray03"]


def test_without_consent_to_reboot_the_deploy_says_so_and_stops(lab: Rack, tmp_path: Path) -> None:
    inventory = tmp_path / "inventories" / "lab.py"
    inventory.parent.mkdir()
    root = Path(__file__).resolve().parents[2]
    inventory.write_text((root / "inventories/lab.py").read_text())
    (tmp_path / "group_vars").mkdir()
    for name in ("all.yaml", "lab.yaml"):
        text = (root / "group_vars" / name).read_text().replace("allow: true", "allow: false")
        (tmp_path / "group_vars" / name).write_text(text)
    before = lab.ssh("tray04", "cat /proc/sys/kernel/random/boot_id")
    done = lab.run("pyinfra", "-y", "--limit", "tray04", str(inventory), "deploys/k3.py")
    assert done.returncode == 1
    assert "tray04: needs a reboot (driver 575.57.08 is loaded, 580.126.20 is wanted" in done.stderr
    assert lab.ssh("tray04", "cat /proc/sys/kernel/random/boot_id") == before
    red = statuses(lab.verify("--limit", "tray04"), "tray04")["fail"]
    assert {"gpu_driver.lockstep", "gpu_driver.next_boot"} <= red


def test_deployed_is_accepted_and_a_second_deploy_changes_nothing(deployed: Rack) -> None:
    document = deployed.verify()
    assert all_accepted(document), {node: statuses(document, node) for node in NODES}
    code, results, log = deployed.deploy()
    assert code == 0 and unchanged(results)
    for node in NODES:
        for layer in ("host", "gpu_driver", "nvlink", "container_runtime", "image", "stamp"):
            assert f"[{node}] {layer}: in place" in log


def test_the_pytest_door_gives_the_same_outcomes(deployed: Rack, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    done = deployed.run(
        "rackproof-lab", "exec", "pytest", "checks", "-q", "-p", "no:cacheprovider", "--inventory=inventories/lab.py",
        f"--ssh-config={_ssh_config(deployed)}", f"--junit-xml={report}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    document = deployed.verify()
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    passed = [case for case in cases if not list(case.iter("skipped")) and not list(case.iter("failure"))]
    assert len(passed) == sum(
        outcome["status"] == "pass" for node in document["nodes"] for outcome in node["outcomes"]
    ) + len({o["requirement"] for o in document["fleet"] if o["status"] == "pass"})


def test_the_pytest_door_refuses_a_backend_that_checks_no_host_key(lab: Rack) -> None:
    done = lab.run("pytest", "checks", "-q", "--hosts=paramiko://root@10.88.0.1")
    assert done.returncode == 3 and "verifies no host key" in done.stdout + done.stderr


def test_the_pytest_door_without_an_inventory_detects_the_product_and_the_lab(deployed: Rack, tmp_path: Path) -> None:
    address = json.loads(deployed.run("python", "-c", _DESCRIBE).stdout)["nodes"][0]["address"]
    done = deployed.run(
        "rackproof-lab", "exec", "pytest", "checks", "-q", "-rA", "-p", "no:cacheprovider",
        f"--hosts=ssh://root@{address}", f"--ssh-config={_ssh_config(deployed)}",
    )  # fmt: skip
    assert done.returncode == 1
    assert f"FAILED checks/test_node.py::test_requirement[{address}-host.simulation]" in done.stdout
    assert f"PASSED checks/test_node.py::test_requirement[{address}-gpus.memory]" in done.stdout
    assert f"UNKNOWN {requirements()['fleet.members'].title}" in done.stdout
    assert "layout gb300-tp8 takes 2 nodes together; 1 were given" in done.stdout


_DESCRIBE = "import json, rackproof_lab; print(json.dumps(rackproof_lab.describe()))"


def _ssh_config(rack: Rack) -> str:
    return str(json.loads(rack.run("python", "-c", _DESCRIBE).stdout)["ssh"]["config"])
