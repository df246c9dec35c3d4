"""The rules as data: what each matches, that it names things that exist, and what it may not advise."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rackproof
from rackproof import yamlfile
from rackproof.triage.notes import GROUPS
from rackproof.triage.reader import MAX_LINE
from rackproof.triage.rules import PLACE, RULES, SCHEMA, Rule, rules
from rackproof.verdict.catalogue import requirements

each = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)


def test_the_file_is_as_the_schema_says() -> None:
    yamlfile.check(yamlfile.load(RULES), SCHEMA)


@each
def test_examples(rule: Rule) -> None:
    assert [text for text in rule.examples if not rule.matches(text)] == []
    assert [text for text in rule.counterexamples if rule.matches(text)] == []


@each
def test_requirements_are_in_the_catalogue(rule: Rule) -> None:
    assert set(rule.requirements) <= set(requirements())


@each
def test_load_time_advice_never_lowers_concurrency_and_names_what_to_verify(rule: Rule) -> None:
    if {rule.stage, rule.default_stage} == {"serving", None} and rule.when == {"serving"}:
        return
    assert not re.search(r"concurren|max-num-seqs", rule.advice + rule.adds, re.I)
    assert rule.requirements


def test_serving_advice_is_in_order() -> None:
    (rule,) = [rule for rule in rules() if rule.id == "oom_serving"]
    places = [rule.advice.index(word) for word in ("one variable", "concurrency", "context", "caching")]
    assert places == sorted(places)


@each
def test_what_an_advice_adds_is_a_note_that_is_a_number(rule: Rule) -> None:
    labels = PLACE.findall(rule.adds)
    assert {GROUPS[label] for label in labels} <= {"memory", "tokens", "times"}
    assert rule.advise({}) == rule.advice
    if labels:
        said = rule.advise({label: f"<{number}>" for number, label in enumerate(labels)})
        assert all(f"<{number}>" in said for number in range(len(labels))) and "{" not in said


@each
def test_patterns_are_linear(rule: Rule) -> None:
    hostile = (rule.literal * MAX_LINE)[:MAX_LINE]
    start = time.process_time()
    for text in (hostile, rule.literal + " " * MAX_LINE, rule.literal + "9" * MAX_LINE):
        rule.matches(text)
    assert time.process_time() - start < 0.5


def test_an_xid_means_the_same_here_and_in_the_checks() -> None:
    rule = next(rule for rule in rules() if rule.id == "xid_gpu")
    recipe = yamlfile.load(Path(rackproof.__file__).with_name("recipes") / "kimi_k3.yaml").data
    kinds = {key: found["value"] for key, found in _named(recipe, ("fatal_xids", "application_xids"))}
    text = "NVRM: Xid (PCI:0000:dc:00): {}, pid=90, name=python3"
    assert [code for code in kinds["fatal_xids"] if not rule.matches(text.format(code))] == []
    assert [code for code in kinds["application_xids"] if rule.matches(text.format(code))] == []


def _named(data: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items() if isinstance(data, dict) else ():
        if key in names:
            yield key, value
        yield from _named(value, names)
