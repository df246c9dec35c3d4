"""Metrics: parse with the client library's own parser, stable labels, nothing that breaks a label."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from report_builders import COUNT, fail, node, rack, unit

from rackproof.evidence.evidence import Evidence
from rackproof.verdict.evaluate import Result, combine
from rackproof.verdict.model import Verdict
from rackproof.verdict.report import prometheus


def read(name: str) -> Evidence | None:
    return None if name == "tray12" else Evidence(name, started="2026-01-02T03:04:05Z", seconds=1.5)


def samples(result: Result) -> dict[tuple[str, tuple[str, ...]], float]:
    text = prometheus.render(result, read)
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_verdicts() -> None:
    found = samples(rack())
    assert found["rackproof_verdict", ("reject",)] == 1 and found["rackproof_verdict", ("accept",)] == 0
    assert found["rackproof_node_verdict", ("reject", "tray03")] == 1
    assert found["rackproof_node_verdict", ("tray12", "undetermined")] == 1
    assert found["rackproof_unit_verdict", ("accept", "u01")] == 1


def test_a_node_has_the_same_series_whatever_its_verdict() -> None:
    names = set(samples(combine([node("a")], [unit("u", ["a"])])))
    assert names == set(samples(combine([node("a", fail(COUNT))], [unit("u", ["a"])])))
    verdicts = {labels for name, labels in names if name == "rackproof_node_verdict"}
    assert len(verdicts) == len(Verdict)


def test_status_values_are_as_documented() -> None:
    found = samples(rack())
    assert found["rackproof_requirement_status", ("gate", "gpu_driver.branch", "tray03")] == 1
    assert found["rackproof_requirement_status", ("gate", "gpus.count", "tray03")] == 3
    assert found["rackproof_requirement_status", ("gate", "gpus.count", "tray01")] == 0
    assert found["rackproof_requirement_status", ("gate", "host.evidence", "tray12")] == 2
    assert found["rackproof_requirement_status", ("container_runtime.toolkit", "gate", "tray13")] == 4


def test_evidence_that_is_not_there_is_older_than_any_alert_allows() -> None:
    found = samples(rack())
    assert found["rackproof_evidence_timestamp_seconds", ("tray12",)] == 0
    assert found["rackproof_evidence_timestamp_seconds", ("tray01",)] == 1767323045
    assert found["rackproof_evidence_duration_seconds", ("tray01",)] == 1.5


def test_names_cannot_break_a_label() -> None:
    hostile = 'n"} 1\nrackproof_verdict{verdict="accept"} 1\n#\\'
    found = samples(combine([node(hostile, fail(COUNT), unit=hostile)], []))
    assert found["rackproof_verdict", ("accept",)] == 0
    assert len([name for name, _ in found if name == "rackproof_verdict"]) == len(Verdict)
