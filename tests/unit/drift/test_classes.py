"""Every fact is classified, and a classification that says nonsense is refused."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from pathlib import Path

import pytest

from rackproof import site, yamlfile
from rackproof.drift import classes as module
from rackproof.drift.classes import FILE, POLICY, allowances, classes, complaints, fact_classes, load
from rackproof.drift.fields import leaves, lists
from rackproof.errors import InputError
from rackproof.facts import Fact, NodeFacts
from rackproof.site_schema import SCHEMA


def test_every_field_of_the_facts_is_classified() -> None:
    """The message says which line to add to drift/classes.yaml."""
    assert complaints(classes()) == []


def test_leaves_are_found_in_every_part_of_the_facts() -> None:
    found = leaves()
    assert {"smi.gpus[].uuid", "host.packages{}", "rdma.hcas[].ports[].errors{}", "system.cpu.model"} <= set(found)
    tops = {path.split(".")[0].split("[")[0].split("{")[0] for path in found}
    assert tops == set(NodeFacts.__dataclass_fields__)


def test_a_new_field_or_list_is_named_with_the_line_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "leaves", lambda: (*leaves(), "smi.gpus[].colour"))
    monkeypatch.setattr(module, "lists", lambda: {**lists(), "smi.fans": frozenset({"slot"})})
    said = complaints(classes())
    assert len(said) == 2 and "  smi.gpus[].colour: identity|config|health|volatile" in said[0]
    assert '  smi.fans: {key: [FIELD], name: "WORD {FIELD}"}' in said[1] and "fields: slot" in said[1]


def test_a_line_for_a_field_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "leaves", lambda: tuple(path for path in leaves() if path != "host.kernel"))
    assert complaints(classes()) == ["facts: host.kernel is no field of NodeFacts (any more): take the line out"]


def test_fields_of_types_given_by_name_are_followed() -> None:
    @dataclass(frozen=True)
    class Inner:
        value: int

    outer = make_dataclass(
        "Outer", [("one", Fact[Inner]), ("many", Fact[tuple[Inner, ...]]), ("words", tuple[str, ...])]
    )
    assert leaves(outer) == ("one.value", "many[].value", "words")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("host.kernel: counter", "host.kernel"),
        ("host.kernel: {class: config, good: [1]}", "config"),
        ("host.kernel: {class: health, policy: x}", "health"),
        ("host.kernel: mild", "mild"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_its_line(tmp_path: Path, line: str, word: str) -> None:
    path = tmp_path / "classes.yaml"
    path.write_text(f"schema: 1\nitems: {{}}\nfacts:\n  {line}\n")
    with pytest.raises(InputError, match=rf"classes.yaml:4.*{word}|classes.yaml:4"):
        load(path)


def test_every_policy_has_an_allowance_and_every_allowance_a_user_and_a_reason() -> None:
    used = {rule.policy for rule in classes().rules.values() if rule.policy}
    described = yamlfile.load(POLICY).data["allowances"]
    assert used == set(described) and all(values["why"] for values in described.values())
    counters = [name for name, rule in classes().rules.items() if rule.fact_class is module.FactClass.COUNTER]
    assert all(classes().rules[name].policy for name in counters)
    assert set(SCHEMA["properties"]["drift"]["properties"]) == set(described), "the site may say each of them"


def test_the_baseline_keys_that_explain_a_change_exist() -> None:
    from drift_builders import fixtures

    from rackproof.drift.asked import explained

    for rule in classes().rules.values():
        assert explained(rule.asked, "a name", object(), fixtures.baseline("gb300")) is False


def test_a_site_changes_single_values_and_unknown_policies_are_refused() -> None:
    assert set(module.SCHEMA["properties"]) == {"schema", "items", "facts"} and FILE.is_file()
    changed = allowances(site.shipped().overlaid({"drift": {"rdma_errors": {"per_day": 5}}}, "test"))
    assert changed["rdma_errors"].over(2) == allowances(site.shipped())["rdma_errors"].grow + 10
    with pytest.raises(InputError, match="unknown key 'sunspots'"):
        site.shipped().overlaid({"drift": {"sunspots": {"grow": 1}}}, "test")


def test_fail_on_takes_classes_and_none() -> None:
    assert {one.value for one in fact_classes("identity, config")} == {"identity", "config"}
    assert fact_classes("none") == frozenset()
    for wrong in ("volatile", "", "identity,nonsense"):
        with pytest.raises(InputError, match="--fail-on"):
            fact_classes(wrong)
