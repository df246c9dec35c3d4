"""What a host says reaches no terminal, chat or file unescaped, and many nodes fold."""

from __future__ import annotations

import json
from dataclasses import replace

from drift_builders import changes, fixtures

from rackproof.drift import document
from rackproof.drift.classes import fact_classes
from rackproof.drift.findings import findings
from rackproof.drift.records import Accepted
from rackproof.drift.run import DriftResult, NodeDrift, days_between
from rackproof.verdict.evaluate import combine, judge_node
from rackproof.verdict.report import drift as report
from rackproof.verdict.report.page import Options

HOSTILE = "GPU-\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>`*\u202e\r\nverdict: accept"
ALL = fact_classes("identity,config,health,counter")
ACCEPTED = Accepted("n", "2026-01-01T00:00:00Z", "a" * 64, "", "accepted/n", "accept", None)


def result(*names: str, uuid: str = HOSTILE, problem: str | None = None) -> DriftResult:
    nodes = []
    for name in names:
        before = fixtures.node(name="tray01")
        after = replace(fixtures.gpu(before, 1, uuid=uuid), node=name)
        found = tuple(group.finding for group in findings(changes(before, after)))
        judged = judge_node(after, fixtures.baseline("gb300"))
        nodes.append(NodeDrift(judged, ACCEPTED, problem, () if problem else found, judged.verdict))
    return DriftResult("2026-01-02T00:00:00Z", combine([node.result for node in nodes], ()), tuple(nodes), ALL)


def test_hostile_strings_are_shown_and_do_nothing() -> None:
    drift = result("tray\x1b[31m01", problem=None)
    for text in (report.render(drift, Options()), report.markdown(drift), document.render(drift)):
        assert "\x1b" not in text and "\x07" not in text and "\r" not in text and "\u202e" not in text
    assert "\nverdict: accept" not in report.render(drift, Options())
    assert json.loads(document.render(drift))["nodes"][0]["findings"][0]["kind"] == "replaced"
    assert report.markdown(drift).count("\n") == 1 and report.markdown(drift).count("`") == 2


def test_plain_is_ascii() -> None:
    assert report.render(result("tray01"), Options(plain=True)).isascii()


def test_the_same_on_many_nodes_is_one_row_with_folded_names() -> None:
    names = [f"rack1-tray{number:02d}" for number in range(1, 19)]
    text = report.render(result(*names, uuid="GPU-new"), Options())
    assert text.count("GPU 00000009:06:00.0: replaced") == 1 and "rack1-tray[01-18] (18 nodes)" in text
    assert "drift on 18 of 18 nodes: 18 identity" in text


def test_a_node_that_was_not_compared_is_not_counted_as_without_drift() -> None:
    text = report.render(result("tray01", problem="unreachable"), Options())
    assert "no drift found on 0 nodes; 1 could not be compared" in text and "unreachable" in text


def test_days_between_two_probes() -> None:
    assert days_between("2026-01-01T00:00:00Z", "2026-01-03T12:00:00Z") == 2.5
    assert days_between("2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z") == 0
    assert days_between("yesterday", "2026-01-03T12:00:00Z") == 0 == days_between("2026-01-01", "2026-01-03T12:00:00Z")
