"""Inventories that are right: nodes, addresses, units, spares, and what pyinfra is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_builders import Rack

from rackproof import inventory
from rackproof.inventory import load_targets, run_inventory
from rackproof.plan import Plan

pytestmark = pytest.mark.usefixtures("no_contact")


def units(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {unit.name: unit.nodes for unit in plan.units}


def test_units_are_cut_in_slot_order(site_folder: Rack) -> None:
    path = site_folder.inventory(
        'g = rack("tray[01-04]", group="gb300", addresses="10.0.0.[14,13,12,11]", nvlink_domain="rack1")'
    )
    plan = load_targets([path])
    assert units(plan) == {"rack1-u01": ("tray01", "tray02"), "rack1-u02": ("tray03", "tray04")}
    assert [node.unit for node in plan.nodes] == ["rack1-u01", "rack1-u01", "rack1-u02", "rack1-u02"]
    addresses = ["10.0.0.14", "10.0.0.13", "10.0.0.12", "10.0.0.11"]
    assert [node.connection["ssh_hostname"] for node in plan.nodes] == addresses
    for node in plan.nodes:
        assert node.baseline is not None and node.baseline.nvlink.domain == tuple(addresses)
        assert node.baseline == plan.nodes[0].baseline and node.baseline.hash == plan.nodes[0].baseline.hash
        assert node.baseline.source("nvlink.domain") == f"{path} (NVLink domain rack1)"


def test_declared_units_and_spares(site_folder: Rack) -> None:
    path = site_folder.inventory(
        'g = rack("tray[01-06]", group="gb300", units=["tray[05,02]", "tray01,tray06"], spares="tray[03-04]")'
    )
    plan = load_targets([path])
    assert units(plan) == {"gb300-u01": ("tray05", "tray02"), "gb300-u02": ("tray01", "tray06")}
    assert {node.name: node.unit for node in plan.nodes if not node.unit} == {"tray03": "", "tray04": ""}
    assert [node.name for node in plan.nodes] == [f"tray0{number}" for number in range(1, 7)]
    assert plan.nodes[0].baseline is not None and plan.nodes[0].baseline.nvlink.domain is None


def test_spares_leave_the_cut_whole(site_folder: Rack) -> None:
    path = site_folder.inventory('g = rack("tray[01-05]", group="gb300", spares="tray02", nvlink_domain="r")')
    assert units(load_targets([path])) == {"r-u01": ("tray01", "tray03"), "r-u02": ("tray04", "tray05")}


def test_a_layout_of_one_node_makes_each_node_a_unit(site_folder: Rack) -> None:
    path = site_folder.inventory('g = rack("hgx[1-3]", group="b300")')
    assert units(load_targets([path])) == {"b300-u01": ("hgx1",), "b300-u02": ("hgx2",), "b300-u03": ("hgx3",)}


def test_two_racks_of_one_file(site_folder: Rack) -> None:
    path = site_folder.inventory(
        """
        one = rack("tray[01-02]", group="gb300", nvlink_domain="rack1")
        two = rack("hgx[1-2]", group="b300")
        three = rack("hgx[3-4]", group="b300")
        """
    )
    plan = load_targets([path])
    assert units(plan) == {
        "rack1-u01": ("tray01", "tray02"), "b300-u01": ("hgx1",), "b300-u02": ("hgx2",), "b300-u03": ("hgx3",),
        "b300-u04": ("hgx4",),
    }  # fmt: skip
    assert [node.baseline.hardware for node in plan.nodes if node.baseline] == ["gb300"] * 2 + ["b300"] * 4


def test_two_files(site_folder: Rack) -> None:
    one = site_folder.inventory('g = rack("tray[01-02]", group="gb300", nvlink_domain="rack1")', "one.py")
    two = site_folder.inventory('g = rack("hgx1", group="b300")', "two.py")
    assert [node.name for node in load_targets([one, two]).nodes] == ["tray01", "tray02", "hgx1"]
    assert [node.name for node in load_targets([two]).nodes] == ["hgx1"]  # nothing is left over from the run before


def test_what_pyinfra_is_given(site_folder: Rack, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    site_folder.group("b300", f"hardware: b300\nssh: {{user: ops, port: 2222, sudo: true, key_file: {key}}}\n")
    path = site_folder.inventory('g = rack("hgx[1-2]", group="b300", addresses="10.0.0.[1-2]")')
    run_inventory(Path(path))
    plan = inventory.current_plan()
    expected = {
        "ssh_user": "ops", "ssh_port": 2222, "ssh_strict_host_key_checking": "yes", "_sudo": True, "ssh_key": str(key),
    }  # fmt: skip
    assert dict(plan.nodes[0].connection) == {**expected, "ssh_hostname": "10.0.0.1"}
    group = site_folder.inventory('g = rack("hgx[1-2]", group="b300")\nassert g == (' + repr([
        (name, {**expected, "ssh_hostname": name, "rackproof_unit": unit})
        for name, unit in (("hgx1", "b300-u01"), ("hgx2", "b300-u02"))
    ]) + ", {})", "group.py")  # fmt: skip
    assert len(run_inventory(Path(group)).nodes) == 2


def test_an_overlay_is_on_top_of_the_site(site_folder: Rack) -> None:
    path = site_folder.inventory(
        'g = rack("hgx1", group="b300", overlay={"driver": {"version": "580.95.05"}}, overlay_source="the lab")'
    )
    (node,) = load_targets([path]).nodes
    assert node.baseline is not None and node.baseline.driver.version == "580.95.05"
    assert node.baseline.source("driver.version") == "the lab"


def test_limit(site_folder: Rack) -> None:
    path = site_folder.inventory('g = rack("tray[01-04]", group="gb300", nvlink_domain="r")')
    plan = load_targets([path], limit="tray[03,01]")
    assert [node.name for node in plan.to_read] == ["tray01", "tray03"]
    assert len(plan.nodes) == 4 and len(plan.units) == 2


def test_nodes_by_name() -> None:
    plan = load_targets(["root@tray[01-02]", "hgx1", "@local"])
    assert [node.name for node in plan.nodes] == ["tray01", "tray02", "hgx1", "@local"]
    assert [node.connection.get("ssh_user") for node in plan.nodes] == ["root", "root", "root", None]
    assert plan.nodes[1].connection["ssh_hostname"] == "tray02"
    assert {node.baseline for node in plan.nodes} == {None}  # detected later
    assert plan.units == ()


def test_nodes_by_name_with_choices(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("hardware: gb300\nssh: {user: ops}\ndriver: {version: '580.126.20'}\n")
    (node,) = load_targets(["tray01"], layout="gb300-dep16", site_file=site).nodes
    assert node.baseline is not None
    assert (node.baseline.layout.id, node.baseline.driver.version) == ("gb300-dep16", "580.126.20")
    assert node.connection["ssh_user"] == "ops"
    (other,) = load_targets(["me@tray01"], hardware="b300").nodes
    assert other.baseline is not None and other.baseline.hardware == "b300"
    assert (other.connection["ssh_user"], other.layout) == ("me", None)


def test_the_repository_s_own_gb300_inventory() -> None:
    plan = load_targets([str(Path(__file__).parents[3] / "inventories" / "gb300.py")])
    assert len(plan.nodes) == 18 and len(plan.units) == 9
    assert all(len(unit.nodes) == 2 for unit in plan.units)
