"""Annotations for GitHub and GitLab: one a finding, and nothing in one can start another command."""

from __future__ import annotations

import json

from report_builders import BRANCH, COUNT, POWER, fail, node, rack, unknown

from rackproof.verdict.evaluate import combine
from rackproof.verdict.report import annotations


def test_github_levels() -> None:
    lines = annotations.github(combine([node("a", fail(BRANCH, "575", "580"), fail(POWER))], [])).splitlines()
    assert lines[0] == (
        f"::error title={BRANCH.id} ({BRANCH.code})::a: {BRANCH.title}: observed 575, expected 580. {BRANCH.remedy}"
    )
    assert lines[1].startswith("::warning title=gpus.power_limit")
    assert lines[-1] == "::error title=rackproof::REJECT: a gate fails on 1 of 1 node"


def test_github_of_an_accepted_node_is_a_notice() -> None:
    assert annotations.github(combine([node("a")], [])) == (
        "::notice title=rackproof::ACCEPT: every gate passes on 1 node\n"
    )


def test_nothing_looked_at_is_an_error() -> None:
    assert annotations.github(combine([], [])).startswith("::error ")


def test_a_host_cannot_issue_a_workflow_command() -> None:
    hostile = "x\n::set-output name=a::b\r::error::%0A"
    text = annotations.github(combine([node(hostile, fail(COUNT, hostile, hostile), unknown(BRANCH, hostile))], []))
    assert len(text.splitlines()) == 3 and all(line.startswith("::error title=") for line in text.splitlines())
    assert "%250A" in text


def test_gitlab_issues() -> None:
    found = json.loads(annotations.gitlab(rack()))
    assert len({issue["fingerprint"] for issue in found}) == len(found) > 3
    assert {issue["severity"] for issue in found} == {"blocker", "critical", "minor"}
    first = found[0]
    assert first["check_name"] == "gpu_driver.branch" and first["location"]["path"] == "tray[03,07] (2 nodes)"
    assert annotations.gitlab(combine([node("a")], [])) == "[]\n"


def test_gitlab_fingerprints_stay() -> None:
    assert annotations.gitlab(rack()) == annotations.gitlab(rack())
