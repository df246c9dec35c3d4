from __future__ import annotations

from report_builders import (
    BRANCH,
    COUNT,
    FABRIC,
    IMEX,
    LOCKSTEP,
    NOTE,
    OS,
    POWER,
    B,
    N,
    fail,
    node,
    rack,
    unit,
    unknown,
    unread,
)

from rackproof.verdict.evaluate import combine
from rackproof.verdict.model import Outcome
from rackproof.verdict.report.findings import findings, not_asked, not_proven


def test_order_fails_before_unknowns_and_gates_before_warnings() -> None:
    result = combine([node("a", unknown(OS), fail(POWER), fail(COUNT), unknown(NOTE)), node("b", fail(BRANCH))], [])
    ids = [finding.requirement.id for finding in findings(result)]
    assert ids == ["gpus.count", "gpu_driver.branch", "gpus.power_limit", "host.os", "gpus.vbios"]


def test_one_finding_a_requirement_with_the_nodes_of_each_variant() -> None:
    branch = findings(rack())[0]
    assert [(variant.observed, variant.nodes) for variant in branch.variants] == [
        ("575.57.08", ("tray03", "tray07")),
        ("570.124.06", ("tray11",)),
    ]


def test_blocked_requirements_stand_under_their_root_only() -> None:
    found = {finding.requirement.id: finding for finding in findings(rack())}
    assert found["gpu_driver.branch"].blocks == ("gpus.count", "nvlink.fabric", "nvlink.imex")
    assert "nvlink.imex" not in found


def test_a_blocked_requirement_without_a_root_does_not_vanish() -> None:
    result = combine([node("a", Outcome(IMEX, B, reason="no root", blocked_by="gpus.gone"))], [])
    assert [finding.requirement.id for finding in findings(result)] == ["nvlink.imex"]


def test_fleet_findings_name_units_and_nodes() -> None:
    found = {finding.requirement.id: finding for finding in findings(rack())}
    failed, unknown_ = found["fleet.driver"].variants
    assert (failed.units, failed.nodes) == (("u02",), ("tray03", "tray04"))
    assert unknown_.units == ("u06",)


def test_not_proven() -> None:
    said = not_proven(combine([unread("a"), node("b", baseline=None)], []))
    assert said[0] == "anything about a: no complete evidence"
    assert said[1] == "anything about b: no hardware profile, so no baseline"
    assert said[2] == "that nodes work together: no deployment unit was declared"
    said = not_proven(combine([node("a"), node("b")], [unit("u", ["a"])]))
    assert said[0] == "that b works with other nodes: in no deployment unit"


def test_not_asked_folds_reasons() -> None:
    result = combine(
        [node("a", Outcome(FABRIC, N, reason="why"), Outcome(IMEX, N, reason="why"))] * 2, [unit("u", "a")]
    )
    assert not_asked(result) == [("why", ("nvlink.fabric", "nvlink.imex"))]
    assert not not_asked(combine([], [unit("u", "a", fail(LOCKSTEP))]))
