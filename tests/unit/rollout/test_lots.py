"""Which nodes go together, in which order, and how a plan reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import resolve
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.rollout import pyinfra, runner
from rackproof.rollout.lots import Lot, lots
from rackproof.rollout.report import NodeReport, RunReport, Step
from rackproof.rollout.words import as_json, blocks, summary

VALUES = {"hardware": "gb300", "driver": {"version": "580.126.20"}}
FILE = Step("host", "Keep automatic upgrades off", detail="/etc/x")
DRIVER = Step("gpu_driver", "Pin and install driver", marks="[needs idle GPUs]", disrupts=True, domain=True)
REBOOT = Step("gpu_driver", "Reboot", marks="[reboot]", disrupts=True, reboots=True)


def plan(count: int = 6, domain: bool = True, spares: int = 0) -> Plan:
    """Trays in one NVLink domain, units of two."""
    chosen = site.shipped().overlaid(VALUES, "test")
    names = [f"tray{number:02d}" for number in range(1, count + spares + 1)]
    baseline = resolve(chosen, domain=tuple(names) if domain else None)
    units = tuple(Unit(f"r-u{n:02d}", (names[2 * n - 2], names[2 * n - 1])) for n in range(1, count // 2 + 1))
    return Plan(tuple(PlannedNode(name, chosen, baseline) for name in names), units)


def reports(of: Plan, **steps: tuple[Step, ...]) -> dict[str, NodeReport]:
    return {
        node.name: NodeReport(node.name, True, layers=("host", "gpu_driver"), steps=steps.get(node.name, ()))
        for node in of.nodes
    }


def all_with(of: Plan, *steps: Step) -> dict[str, NodeReport]:
    return reports(of, **{node.name: steps for node in of.nodes})


def units(found: list[Lot]) -> list[tuple[str, ...]]:
    return [lot.units for lot in found]


def test_units_follow_one_another_in_the_order_of_the_inventory() -> None:
    of = plan()
    assert units(lots(of, all_with(of, FILE), 1)) == [("r-u01",), ("r-u02",), ("r-u03",)]
    assert next(lot.nodes for lot in lots(of, all_with(of, FILE), 1)) == ("tray01", "tray02")


def test_a_batch_holds_so_many_units() -> None:
    of = plan()
    assert units(lots(of, all_with(of, FILE), 2)) == [("r-u01", "r-u02"), ("r-u03",)]


def test_a_change_of_the_whole_domain_keeps_its_units_together() -> None:
    of = plan()
    found = lots(of, reports(of, tray05=(DRIVER,), tray01=(FILE,)), 1)
    assert units(found) == [("r-u01", "r-u02", "r-u03")] and "NVLink domain" in found[0].why


def test_without_a_domain_a_driver_change_goes_unit_by_unit() -> None:
    of = plan(domain=False)
    assert units(lots(of, all_with(of, DRIVER, REBOOT), 1)) == [("r-u01",), ("r-u02",), ("r-u03",)]


def test_what_is_in_place_comes_last_in_one_lot_and_is_still_judged() -> None:
    of = plan()
    assert units(lots(of, reports(of, tray03=(FILE,)), 1)) == [("r-u02",), ("r-u01", "r-u03")]


def test_spares_are_lots_of_their_own_and_a_limit_leaves_nodes_out() -> None:
    of = plan(count=4, spares=1)
    assert units(lots(of, all_with(of, FILE), 1)) == [("r-u01",), ("r-u02",), ("spare tray05",)]
    limited = of.limited(("tray02",))
    assert [lot.nodes for lot in lots(limited, all_with(of, FILE), 1)] == [("tray02",)]


# --- rolling ---


def _work(of: Plan) -> runner.Work:
    return runner.Work(Path("inventory.py"), Path("k3.py"), of, 1)


def _run(verdicts: dict[str, str], ran: list[tuple[str, ...]]) -> Any:
    def run(inventory: Path, deploy: Path, nodes: tuple[str, ...], **_: Any) -> RunReport:
        ran.append(tuple(nodes))
        return RunReport({name: NodeReport(name, True, verdict=verdicts.get(name, "accept")) for name in nodes})

    return run


def test_a_unit_that_is_not_accepted_stops_the_roll_and_the_rest_is_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    of, ran = plan(), []  # type: ignore[var-annotated]
    monkeypatch.setattr(pyinfra, "run", _run({"tray04": "reject"}, ran))
    order = lots(of, all_with(of, FILE), 1)
    done = runner.roll(_work(of), order, lambda number, lot: lambda event: None, lambda lot, report: None)
    assert ran == [("tray01", "tray02"), ("tray03", "tray04")]
    assert not done.accepted and done.stopped_at == order[1] and done.untouched == (order[2],)


@pytest.mark.parametrize("verdict", ["", "undetermined", "unsupported", "reject"])
def test_only_accept_goes_on(monkeypatch: pytest.MonkeyPatch, verdict: str) -> None:
    of, ran = plan(), []  # type: ignore[var-annotated]
    monkeypatch.setattr(pyinfra, "run", _run({"tray01": verdict}, ran))
    done = runner.roll(_work(of), lots(of, all_with(of, FILE), 1), lambda n, lot: lambda e: None, lambda lot, r: None)
    assert not done.accepted and len(ran) == 1


def test_a_node_that_was_accepted_and_then_failed_is_not_accepted() -> None:
    assert not NodeReport("a", True, verdict="accept", failed_step="Unlock the node").accepted


def test_the_smallest_batch_of_any_site_holds_and_the_command_line_goes_before() -> None:
    of = plan()
    assert runner.units_at_once(of, None) == 1 and runner.units_at_once(of, 3) == 3
    wide = of.nodes[0].site.overlaid({"rolling": {"units": 4}}, "test")
    assert runner.units_at_once(replace(of, nodes=tuple(replace(n, site=wide) for n in of.nodes)), None) == 4


# --- words ---


def test_like_nodes_are_folded_and_marks_shown() -> None:
    of = plan()
    text = blocks(all_with(of, FILE, DRIVER).values())
    assert text.startswith("tray[01-06] (6 nodes)\n")
    assert "  host        Keep automatic upgrades off: /etc/x\n" in text
    assert "  gpu_driver  Pin and install driver [needs idle GPUs]\n" in text


def test_a_node_that_would_be_refused_says_why_and_never_reads_as_in_place() -> None:
    found = blocks([NodeReport("tray01", True, stopped="its GPUs are in use by vllm (1)", layers=("host",))])
    assert "stops: its GPUs are in use by vllm (1)" in found and "in place" not in found
    unread = blocks([NodeReport("tray02", why="Could not connect\x1b[2J")])
    assert "cannot be read: Could not connect" in unread and "\x1b" not in unread and "in place" not in unread


def test_the_summary_names_reboots_idle_gpus_and_the_order() -> None:
    of = plan(domain=False)
    found = all_with(of, DRIVER, REBOOT)
    text = summary(list(found.values()), lots(of, found, 1), 2)
    assert "Needs idle GPUs: tray[01-06] (6 nodes)." in text and "at most 2 at a time" in text
    assert "  1. r-u01 (tray[01-02])\n  2. r-u02 (tray[03-04])\n  3. r-u03 (tray[05-06])\n" in text
    assert summary(list(reports(of).values()), lots(of, reports(of), 1), 2) == "Nothing to change.\n"


def test_the_plan_as_data() -> None:
    of = plan(count=2)
    found = reports(of, tray01=(FILE,))
    data = json.loads(json.dumps(as_json(list(found.values()), lots(of, found, 1))))
    assert data["schema"] == 1 and data["nodes"][0]["steps"][0]["name"] == FILE.name
    assert data["nodes"][0]["in_place"] == ["gpu_driver"] and data["nodes"][1]["steps"] == []
    assert data["order"][0]["nodes"] == ["tray01", "tray02"]


# --- the run as a process ---


def test_events_become_a_report_and_rubbish_is_left_out() -> None:
    report = RunReport({"tray01": NodeReport("tray01")})
    report.note({"event": "planned", "node": "tray01", "stopped": "", "layers": ["host"], "notes": ["n"],
                 "steps": [{**vars(FILE), "idle": False}]})  # fmt: skip
    report.note({"event": "dropped", "node": "tray01", "step": "X"})
    report.note({"event": "failed", "node": "tray01", "step": "X", "why": "disk full"})
    report.note({"event": "verdict", "node": "stranger", "verdict": "accept", "lacks": []})
    report.note({"event": "verdict"})
    node = report.nodes["tray01"]
    assert node.planned and node.steps == (FILE,) and (node.failed_step, node.why) == ("X", "disk full")
    assert not node.accepted


def test_a_run_that_dies_says_so_for_every_node_and_accepts_none(tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "deploy.py").write_text("")
    report = pyinfra.run(tmp_path / "inventory.py", tmp_path / "deploy.py", ("a", "b"), dry=True)
    assert report.exit_code != 0
    assert all(not node.planned and not node.accepted and node.why for node in report.nodes.values())
