"""The settings file: its schema, its sources, and errors that say file and line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rackproof.errors import InputError
from rackproof.launch import rules
from rackproof.recipes import FOLDER, settings

TEXT = (FOLDER / "kimi_k3_settings.yaml").read_text()


def changed(tmp_path: Path, old: str, new: str) -> Path:
    assert old in TEXT
    shutil.copy(FOLDER / "kimi_k3.yaml", tmp_path)
    (tmp_path / "kimi_k3_settings.yaml").write_text(TEXT.replace(old, new, 1))
    return tmp_path


def test_shipped_settings_load_and_cite_sources() -> None:
    loaded = settings.load()
    assert all("(" in item.source for item in (*loaded.settings, *loaded.rules, *loaded.warnings, *loaded.conflicts))
    assert loaded.container["privileged"].value is False
    assert loaded.selfbuild["can_satisfy_baseline"].value is False
    assert set(loaded.fabric_rules) == {"node", "mnnvl", "rdma"}


def test_all_own_sources_are_cited() -> None:
    own = TEXT[TEXT.index("\nsources:") : TEXT.index("\nsettings:")].count(": {kind:")
    cited = [name for name in settings.load().sources if TEXT.count(name) > 1]
    assert own <= len(cited)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("src: [rcp, mm]", "src: [rcp, nobody]", "unknown source nobody"),
        ("src: [rcp, mm]", "src: []", "src"),
        ("scope: {ep: true}", "scope: {weather: fine}", "weather"),
        ("{from: interface}", "{from: moon}", "moon"),
        ("{set: true}", "{feels: good}", "feels"),
        ("- id: port", "- id: base", "stands there twice"),
        ("privileged: {value: false", "privileged: {value: true", "True"),
        ("follow: neither", "follow: both", "both"),
        ("stage: weights-load", "stage: lunch", "lunch"),
        ("  mnnvl: {all2all", "  wifi: {all2all", "wifi"),
        ("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS: \"1800\"", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS: 1800", "1800"),
    ],
)
def test_a_wrong_value_says_file_line_and_what(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        settings.load(folder=changed(tmp_path, old, new))
    assert "kimi_k3_settings.yaml:" in str(caught.value) and said in str(caught.value)


def test_a_source_id_of_the_recipe_cannot_mean_something_else(tmp_path: Path) -> None:
    folder = changed(tmp_path, "sources:\n", 'sources:\n  rcp: {kind: note, at: "another"}\n')
    with pytest.raises(InputError, match=r"stands in kimi_k3\.yaml too"):
        settings.load(folder=folder)


@pytest.mark.parametrize(
    ("operator", "wanted", "yes", "no"),
    [
        ("is", ["a"], "a", None),
        ("not", ["a"], None, "a"),
        ("set", True, "", None),
        ("contains", "dspark", '{"method":"dspark"}', None),
        ("starts", ["=", "^="], "^=x", None),
        ("not_starts", ["fe80"], None, "fe80::1"),
        ("at_least", 3600, "3600", "soon"),
        ("at_least", 3600, "7200.5", None),
        ("divides", 96, 32, 12.5),
        ("divides", 96, 12, 0),
        ("divides", 163840, 8, 12),
        ("multiple_of", 3145728, "0", "1"),
        ("multiple_of", 8, 16, None),
    ],
)
def test_operators(operator: str, wanted: object, yes: object, no: object) -> None:
    assert rules.OPERATORS[operator](yes, wanted) and not rules.OPERATORS[operator](no, wanted)
