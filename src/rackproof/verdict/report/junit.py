"""JUnit XML, for CI systems: a test suite a node and a unit, a test case a requirement.

A suite is green only where the verdict is accept. Gates that were not read are failures, since CI counts a skip as
success; what is not a gate never fails a suite, since it does not change the exit code either.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status, Verdict, verdict_of
from rackproof.verdict.report import words
from rackproof.verdict.report.clean import clean

_BAD = (Status.FAIL, Status.UNKNOWN, Status.BLOCKED)


def render(result: Result) -> str:
    """The report as an XML document. `clean` leaves nothing that XML 1.0 forbids."""
    root = Element("testsuites", name="rackproof")
    for node in result.nodes:
        _suite(root, node.node, node.verdict, node.outcomes, result.simulated)
    for unit, outcomes in words.outcomes_by_unit(result).items():
        _suite(root, f"unit {unit}", verdict_of(outcomes), outcomes, result.simulated)
    if not result.nodes:
        _suite(root, "rackproof", result.verdict, (), result.simulated)
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, name: str, verdict: Verdict, outcomes: Sequence[Outcome], simulated: bool) -> None:
    suite = SubElement(root, "testsuite", name=clean(name))
    properties = SubElement(suite, "properties")
    SubElement(properties, "property", name="verdict", value=verdict.value)
    if simulated:
        SubElement(properties, "property", name="simulated", value=words.SIMULATED)
    for outcome in outcomes:
        _case(suite, name, outcome)
    if verdict is not Verdict.ACCEPT and not suite.findall("testcase/failure"):
        case = SubElement(suite, "testcase", classname=clean(name), name="verdict")
        _failure(case, verdict.value, f"{verdict.value.upper()}: no gate passed, so nothing is proven", "")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))


def _case(suite: Element, name: str, outcome: Outcome) -> None:
    case = SubElement(suite, "testcase", classname=clean(name), name=outcome.requirement.id)
    if outcome.status is Status.NOT_APPLICABLE:
        SubElement(case, "skipped", message=clean(outcome.reason))
    elif outcome.status in _BAD and outcome.decides:
        _failure(case, outcome.status.value, _message(outcome), _details(outcome))
    elif outcome.status in _BAD:
        word = outcome.requirement.severity.value.upper()
        SubElement(case, "system-out").text = f"{word} {_message(outcome)}\n{_details(outcome)}"


def _failure(case: Element, kind: str, message: str, details: str) -> None:
    SubElement(case, "failure", type=kind, message=message).text = details


def _message(outcome: Outcome) -> str:
    if outcome.status is Status.FAIL:
        return f"FAIL: observed {clean(outcome.observed)}; expected {clean(outcome.expected)}"
    if outcome.status is Status.BLOCKED:
        return f"BLOCKED by {clean(outcome.blocked_by)}: {clean(outcome.reason)}"
    return f"UNKNOWN: {clean(outcome.reason)}"


def _details(outcome: Outcome) -> str:
    requirement = outcome.requirement
    lines = {
        "title": requirement.title,
        "severity": requirement.severity.value,
        "would break": requirement.stage.value,
        "why": requirement.why,
        "remedy": requirement.remedy,
        "source": "; ".join(requirement.sources),
        "nodes": ", ".join(outcome.nodes),
    }
    return "\n".join(f"{label}: {clean(text, 4000)}" for label, text in lines.items() if text)
