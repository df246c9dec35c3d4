"""The letter to the provider: grouped, each statement with code and command, and nothing in it can become markup."""

from __future__ import annotations

from dataclasses import replace

from report_builders import BASELINE, BRANCH, COUNT, NOTE, POWER, fail, need, node, rack, unknown, unread

from rackproof.evidence.evidence import Evidence
from rackproof.verdict.evaluate import combine
from rackproof.verdict.model import Severity
from rackproof.verdict.report import letter

SOLD = replace(need("host.ram"), advertised=True, code="HST-61", title="The node has the memory that was offered")
SOFT = need("container_runtime.log_size", Severity.WARN)
SHA = "5e" * 32


def nothing(name: str) -> None:
    return None


def read(name: str) -> Evidence:
    return Evidence(name, started="2026-01-02T03:04:05Z")


def sections(text: str) -> dict[str, str]:
    parts = text.split("\n## ")
    return {part.partition("\n")[0]: part for part in parts[1:]}


def test_findings_stand_where_they_matter() -> None:
    result = combine(
        [
            node("a", fail(BRANCH), fail(POWER), fail(SOLD), fail(SOFT), needs=[BRANCH, POWER, SOLD, SOFT]),
            node("b", unknown(COUNT), fail(NOTE)),
        ],
        [],
    )
    found = sections(letter.render(result, nothing))
    assert list(found) == [
        "What was asked for", "Fix before handover", "Affects the price", "Could not be determined", "For information",
        "Evidence",
    ]  # fmt: skip
    assert f"### {BRANCH.code} {BRANCH.title}" in found["Fix before handover"]
    assert "HST-61" in found["Affects the price"] and POWER.code in found["Affects the price"]
    assert SOFT.code in found["For information"] and SOFT.code not in found["Affects the price"]
    assert COUNT.code in found["Could not be determined"] and NOTE.code in found["For information"]


def test_it_says_what_was_asked_for() -> None:
    asked = sections(letter.render(rack(), nothing))["What was asked for"]
    assert "`4 x NVIDIA GB300 a node`" in asked and "`kimi_k3, layout gb300-tp8 (official)`" in asked


def test_nodes_are_folded_and_evidence_is_named() -> None:
    text = letter.render(rack(), read)
    assert "`tray[03,07] (2 nodes)`" in text
    assert f"| `tray01` | `2026-01-02T03:04:05Z` | `{SHA}` |" in text


def test_a_node_that_was_not_read_is_not_blamed_for_anything() -> None:
    found = sections(letter.render(combine([unread("a")], []), nothing))
    assert "Fix before handover" not in found and "connection refused" in found["Could not be determined"]
    assert "| `a` | `not read` | `none` |" in found["Evidence"]


def test_nothing_wrong_is_said_in_one_sentence() -> None:
    text = letter.render(combine([node("a")], []), nothing)
    assert "Nothing was found that differs from what was asked." in text and "Fix before" not in text


def test_without_a_profile_nothing_was_expected() -> None:
    text = letter.render(combine([node("a", unknown(COUNT), baseline=None)], []), nothing)
    assert "No hardware profile could be chosen" in text


def test_text_from_hosts_cannot_become_markup() -> None:
    hostile = "`x` ![i](http://evil) | <b> ``` [link](http://evil)\n# heading"
    text = letter.render(combine([node("a`|b", fail(COUNT, hostile, hostile))], []), nothing)
    line = next(line for line in text.splitlines() if line.startswith("- found: "))
    assert line == "- found: ```` `x` ![i](http://evil) \\| <b> ``` [link](http://evil) # heading ````"
    assert "\n# heading" not in text
    row = next(line for line in text.splitlines() if line.startswith("| ``"))
    assert row.startswith("| `` a`\\|b `` |")


def test_the_baseline_is_the_one_judged_against() -> None:
    other = replace(BASELINE, gpus=replace(BASELINE.gpus, count=8))
    assert "8 x NVIDIA GB300" in letter.render(combine([node("a", baseline=other)], []), nothing)
