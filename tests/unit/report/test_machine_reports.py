"""JSON against its schema, JUnit read back."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from report_builders import (
    BASELINE,
    BRANCH,
    COUNT,
    IMEX,
    LOCKSTEP,
    POWER,
    SHA,
    B,
    fail,
    node,
    rack,
    unit,
    unknown,
    unread,
)

from rackproof import schemas
from rackproof.verdict.evaluate import Result, combine
from rackproof.verdict.model import Outcome, Status
from rackproof.verdict.report import json_report, junit

HOSTILE = "\x00\x1b[2J\ud800\ufffe\u202e]]>&<b>"
SCHEMA = Draft202012Validator(schemas.load("verdict"))
RESULTS = {
    "rack": rack(),
    "one": combine([node("a")], []),
    "nothing": combine([], []),
    "undetected": combine([node("a", baseline=None, sha="")], []),
    "hostile": combine([node(HOSTILE, fail(BRANCH, HOSTILE, HOSTILE))], [unit(HOSTILE, [HOSTILE])]),
}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schemas.load("verdict"))


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
def test_documents_keep_to_the_schema(result: Result) -> None:
    text = json_report.render(result)
    assert text.isascii()
    SCHEMA.validate(json.loads(text))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(schema=2),
        lambda d: d.update(verdict="ok"),
        lambda d: d.update(exit_code=0),
        lambda d: d.pop("simulated"),
        lambda d: d["nodes"][0]["outcomes"][0].update(status="skipped"),
        lambda d: d["nodes"][0]["outcomes"][0].pop("reason"),
        lambda d: d["fleet"][0].pop("nodes"),
        lambda d: next(o for n in d["nodes"] for o in n["outcomes"] if o["status"] == "blocked").update(
            blocked_by=None
        ),
    ],
)
def test_the_schema_refuses(spoil: object) -> None:
    document = json_report.document(rack())
    spoil(document)  # type: ignore[operator]
    assert not SCHEMA.is_valid(document)


def test_document() -> None:
    document = json_report.document(rack())
    assert (document["verdict"], document["exit_code"], document["simulated"]) == ("reject", 1, False)
    assert document["baseline"] == {
        "hash": BASELINE.hash, "recipe": "kimi_k3", "recipe_commit": "0a1b2c3d4e5f", "layout": "gb300-tp8",
        "tier": "official",
    }  # fmt: skip
    first = document["nodes"][0]
    assert (first["node"], first["hardware"], first["evidence_sha256"]) == ("tray01", "gb300", SHA)
    assert document["nodes"][11]["evidence_sha256"] is None
    blocked = next(o for o in document["nodes"][2]["outcomes"] if o["requirement"] == "gpus.count")
    assert (blocked["status"], blocked["blocked_by"], blocked["reason"]) == (
        "blocked",
        "gpu_driver.branch",
        "no driver",
    )
    assert document["fleet"][1]["unit"] == "u02"
    assert document["fleet"][1]["nodes"] == ["tray03", "tray04"]


def test_values_are_cleaned_and_not_cut() -> None:
    document = json_report.document(combine([node("a", fail(BRANCH, "\x1b[31m" + "x" * 9000))], []))
    observed = next(o for o in document["nodes"][0]["outcomes"] if o["requirement"] == "gpu_driver.branch")["observed"]
    assert observed == "x" * 9000


def _junit(result: Result) -> ElementTree.Element:
    return ElementTree.fromstring(junit.render(result))


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
def test_junit_is_green_exactly_where_the_verdict_is_accept(result: Result) -> None:
    root = _junit(result)
    assert root.get("failures") == str(len(root.findall("testsuite/testcase/failure")))
    assert root.get("tests") == str(len(root.findall("testsuite/testcase")))
    assert (root.get("failures") == "0") == (result.verdict.value == "accept")


def test_junit_of_a_rack() -> None:
    root = _junit(rack())
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [f"tray{n:02d}" for n in range(1, 19)] + [f"unit u{n:02d}" for n in range(1, 10)]
    kinds = {case.get("name"): case.find("failure") for case in suites["tray03"].findall("testcase")}
    assert kinds["gpu_driver.branch"] is not None
    assert kinds["gpu_driver.branch"].get("message") == "FAIL: observed 575.57.08; expected >= 580"
    assert kinds["gpus.count"] is not None
    assert (kinds["gpus.count"].get("type"), kinds["gpus.count"].get("message")) == (
        "blocked", "BLOCKED by gpu_driver.branch: no driver",
    )  # fmt: skip
    unknowns = suites["tray13"].findall("testcase/failure")
    assert [failure.get("message") for failure in unknowns] == ["UNKNOWN: nvidia-smi did not end within 20 s"]
    skipped = suites["tray13"].find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "the site runs no containers"


def test_junit_warnings_do_not_fail_but_are_said() -> None:
    suite = _junit(combine([node("a", fail(POWER, "1200 W", "1400 W"))], []))[0]
    assert suite.get("failures") == "0"
    said = suite.findtext("testcase/system-out") or ""
    assert said.startswith("WARN FAIL: observed 1200 W; expected 1400 W\n")


def test_junit_details_help() -> None:
    text = _junit(combine([node("a", fail(BRANCH))], [])).findtext("testsuite/testcase/failure") or ""
    assert "would break: container-start" in text
    assert "remedy: Mend gpu_driver.branch." in text


@pytest.mark.parametrize("status", [Status.UNKNOWN, Status.BLOCKED])
def test_every_status_has_a_document(status: Status) -> None:
    outcome = Outcome(IMEX, status, reason="r", blocked_by="gpus.count" if status is B else "")
    result = combine([node("a", outcome, unknown(COUNT)), unread("b")], [unit("u", "ab", unknown(LOCKSTEP))])
    SCHEMA.validate(json_report.document(result))
    assert _junit(result).get("failures") != "0"
