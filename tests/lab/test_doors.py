"""Other ways to the same verdict: a sudo user, evidence in files, and baselines that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import NODES, ROOT, Rack, all_accepted, unchanged

pytestmark = pytest.mark.lab


@pytest.fixture
def sudo_inventory(tmp_path: Path) -> str:
    """The lab's inventory, with the user that must use sudo."""
    folder = tmp_path / "inventories"
    folder.mkdir()
    (tmp_path / "group_vars").symlink_to(ROOT / "group_vars")
    text = (ROOT / "inventories/lab.py").read_text()
    changed = text.replace('"user": _lab["ssh"]["user"],', '"user": _lab["ssh"]["sudo_user"], "sudo": True,')
    assert changed != text
    (folder / "lab.py").write_text(changed)
    return str(folder / "lab.py")


def test_a_sudo_user_reads_everything_and_deploys(deployed: Rack, sudo_inventory: str) -> None:
    done = deployed.run("rackproof", "verify", sudo_inventory, "--json", "-")
    assert done.returncode == 0, done.stderr
    assert all_accepted(json.loads(done.stdout))
    done = deployed.run("pyinfra", "-y", "--json", sudo_inventory, "deploys/k3.py")
    assert done.returncode == 0 and unchanged(json.loads(done.stdout)["results"]), done.stderr[-2000:]


def test_without_root_what_needs_root_is_unknown_and_nothing_is_accepted(deployed: Rack, sudo_inventory: str) -> None:
    path = Path(sudo_inventory)
    path.write_text(path.read_text().replace('"sudo": True,', ""))
    done = deployed.run("rackproof", "verify", sudo_inventory, "--json", "-", "--limit", "tray01")
    assert done.returncode == 2, done.stderr
    outcomes = json.loads(done.stdout)["nodes"][0]["outcomes"]
    unread = {o["requirement"]: o["reason"] for o in outcomes if o["status"] in ("unknown", "blocked")}
    assert "gpus.xid" in unread and not [o for o in outcomes if o["status"] == "fail" and o["severity"] == "gate"]


def test_evidence_in_files_is_judged_like_the_nodes_themselves(deployed: Rack, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    assert deployed.run("rackproof", "collect", "inventories/lab.py", "--to", str(folder)).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"{node}.tar.gz" for node in NODES]
    done = deployed.run("rackproof", "judge", str(folder), "--inventory", "inventories/lab.py", "--json", "-")
    assert done.returncode == 0 and all_accepted(json.loads(done.stdout)), done.stderr


def test_a_declared_node_without_evidence_is_not_passed_over(deployed: Rack, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    deployed.run("rackproof", "collect", "inventories/lab.py", "--to", str(folder))
    (folder / "tray04.tar.gz").unlink()
    done = deployed.run("rackproof", "judge", str(folder), "--inventory", "inventories/lab.py", "--json", "-")
    assert done.returncode == 2
    verdicts = {node["node"]: node["verdict"] for node in json.loads(done.stdout)["nodes"]}
    assert verdicts == {"tray01": "accept", "tray02": "accept", "tray03": "accept", "tray04": "undetermined"}


def test_a_simulated_host_cannot_meet_a_real_baseline(deployed: Rack, tmp_path: Path) -> None:
    """The provider's way: the probe sent as a file, its output judged without a site. The lab is found out."""
    probe, answer = tmp_path / "probe.sh", tmp_path / "tray01.txt"
    probe.write_text(deployed.run("rackproof", "probe", "--nonce", "asked-on-monday").stdout)
    answer.write_text(deployed.run("rackproof-lab", "ssh", "tray01", "sh -s", input=probe.read_text()).stdout)
    done = deployed.run("rackproof", "judge", "--nonce", "asked-on-monday", str(answer), "--json", "-")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    red = {o["requirement"] for o in document["nodes"][0]["outcomes"] if o["status"] == "fail"}
    assert document["simulated"] and "host.simulation" in red
    other = deployed.run("rackproof", "judge", "--nonce", "asked-on-friday", str(answer), "--json", "-")
    assert other.returncode == 2 and "asked-on-friday" in other.stdout


def test_a_host_key_nobody_vouched_for_is_not_talked_to(deployed: Rack, sudo_inventory: str, tmp_path: Path) -> None:
    path, empty = Path(sudo_inventory), tmp_path / "known_hosts"
    empty.write_text("")
    text = path.read_text().replace('_lab["ssh"]["known_hosts"]', repr(str(empty)))
    path.write_text(text)
    done = deployed.run("rackproof", "verify", sudo_inventory, "--json", "-")
    assert done.returncode == 2, done.stderr
    for node in json.loads(done.stdout)["nodes"]:
        unread = [o["reason"] for o in node["outcomes"] if o["status"] == "unknown"]
        assert node["verdict"] == "undetermined" and len(unread) == 1 and "host key" in unread[0].lower(), unread
