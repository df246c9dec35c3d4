"""The catalogue as shipped: whole, one check a requirement, and every reference leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from core_builders import Rack, baseline

from rackproof import site as sites
from rackproof.baseline import resolve
from rackproof.errors import InputError
from rackproof.verdict import catalogue
from rackproof.verdict.catalogue import LAYERS, check, check_of, requirements
from rackproof.verdict.evaluate import applies
from rackproof.verdict.model import Severity


def test_order_and_completeness() -> None:
    found = requirements()
    layers = [requirement.layer for requirement in found.values()]
    assert list(dict.fromkeys(layers)) == list(LAYERS)
    assert layers == sorted(layers, key=LAYERS.index)
    assert next(iter(found)) == catalogue.EVIDENCE and found[catalogue.EVIDENCE].severity is Severity.GATE
    for name, requirement in found.items():
        assert name == requirement.id and name.startswith(f"{requirement.layer}.")
        assert (requirement.scope == "fleet") == (requirement.layer == "fleet")
        assert requirement.title and requirement.why and requirement.remedy and all(requirement.sources)
        assert callable(check_of(name))


def test_needs_stand_before() -> None:
    names = list(requirements())
    for requirement in requirements().values():
        for need in requirement.needs:
            assert names.index(need) < names.index(requirement.id)
            assert requirements()[need].scope == requirement.scope


def test_applies_leads_to_the_baseline(site_folder: Rack) -> None:
    """A key that no baseline has would raise."""
    for resolved in (baseline("gb300"), baseline("b300"), resolve(site_folder.site("gb300"))):
        answers = {name: applies(requirement, resolved) for name, requirement in requirements().items()}
        assert answers[catalogue.EVIDENCE] and answers["fleet.members"]
    for requirement in requirements().values():
        assert bool(requirement.applies) == bool(requirement.otherwise)


def test_a_gate_applies_to_every_stranger_s_node() -> None:
    for hardware in ("gb300", "b300"):
        resolved = resolve(sites.shipped(), hardware_id=hardware)
        gates = [r for r in requirements().values() if r.severity is Severity.GATE and applies(r, resolved)]
        assert len([gate for gate in gates if gate.scope == "node"]) > 15
        assert [gate.id for gate in gates if gate.unsupported] == ["host.selfbuild", "image.selfbuild"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A catalogue of one layer that the test writes."""
    requirements()  # the shipped checks register when they are first imported: that must not happen below
    (tmp_path / "layers" / "host").mkdir(parents=True)
    (tmp_path / "verdict").mkdir()
    monkeypatch.setattr(catalogue, "__file__", str(tmp_path / "verdict" / "catalogue.py"))
    monkeypatch.setattr(catalogue, "LAYERS", ("host",))
    monkeypatch.setattr(catalogue, "_checks", {})
    requirements.cache_clear()
    yield tmp_path / "layers" / "host" / "requirements.yaml"
    requirements.cache_clear()


ONE = "{code: ABC-01, title: t, why: w, stage: serving, severity: gate, sources: [s], remedy: r}"


def test_a_requirement_without_a_check_and_the_other_way_round(own: Path) -> None:
    own.write_text(f"one: {ONE}\n")
    with pytest.raises(InputError, match=r"requirement and check do not match: host\.one"):
        requirements()
    check("host.one")(lambda facts, baseline: None)  # type: ignore[arg-type, return-value]
    assert list(requirements()) == ["host.one"]
    with pytest.raises(ValueError, match=r"host\.one has two checks"):
        check("host.one")(lambda facts, baseline: None)  # type: ignore[arg-type, return-value]
    requirements.cache_clear()
    check("host.two")(lambda facts, baseline: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match=r"do not match: host\.two"):
        requirements()


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (f"one: {ONE}\ntwo: {ONE.replace('remedy: r', 'needs: [host.zero], remedy: r').replace('-01', '-02')}\n", 2, "needs host.zero"),
        (f"one: {ONE}\ntwo: {ONE}\n", 2, "host.one has code ABC-01 already"),
        (f"one: {ONE.replace('ABC-01', 'abc')}\n", 1, "one.code is 'abc'"),
        (f"one: {ONE.replace('serving', 'boot')}\n", 1, "one.stage is 'boot'"),
        (f"one: {ONE.replace('gate', 'error')}\n", 1, "one.severity is 'error'"),
        (f"one: {ONE.replace('[s]', '[]')}\n", 1, "one.sources"),
        (f"one: {ONE.replace(', remedy: r', '')}\n", 1, "one lacks remedy"),
        (f"one: {ONE.replace('remedy: r', 'remedy: r, hint: h')}\n", 1, "unknown key 'hint' in one"),
        (f"one: {ONE.replace('remedy: r', 'remedy: r, applies: {a: b}')}\n", 1, "one: 'otherwise' is a dependency of 'applies'"),
        (f"one: {ONE}\none: {ONE}\n", 2, "key 'one' is written twice"),
    ],
)
def test_mistakes_in_the_data(own: Path, text: str, line: int, problem: str) -> None:
    own.write_text(text)
    with pytest.raises(InputError, match=re.escape(f"{own}:{line}: {problem}")):
        requirements()
