"""What the weights layer decides: nothing, a fetch from one of three sources, or a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_layers import Recorder, fixtures, healthy

from rackproof import site
from rackproof.deploy import node as deploy_node
from rackproof.deploy.node import Node
from rackproof.deploy.onhost import Run
from rackproof.deploy.weights_fact import WeightsState
from rackproof.layers.weights import deploy as layer

RECIPES = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
NOTHING = WeightsState("", "there is no /models")


def decide(monkeypatch: pytest.MonkeyPatch, there: WeightsState, **weights: Any) -> list[tuple[str, str]]:
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": ""}))
    monkeypatch.setattr(layer, "read", lambda _: there)
    chosen = site.shipped().overlaid({"serving": {"model_directory": "/models"}, "weights": weights}, "test")
    layer.bring_about(Node("tray01", chosen, fixtures.baseline("gb300"), healthy(), Run("run", "me@here", 1, "")))
    return [step for step in recorder.steps if step[0] != "Lock the node"]


MIRROR = {"source": "mirror", "url": "https://mirror.example/k3/"}


def test_nothing_without_a_source_and_nothing_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide(monkeypatch, NOTHING) == []
    assert decide(monkeypatch, NOTHING, source="none") == []
    assert decide(monkeypatch, WeightsState(RECIPES, ""), **MIRROR) == []


def test_a_mirror_by_https_stays_on_https(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, script)] = decide(monkeypatch, NOTHING, **MIRROR, files=["config.json", "tokenizer.json"])
    assert name == f"Fetch weights, revision {RECIPES[:12]} (there is no /models)"
    for line in (
        "protocols=https\n",
        "url=https://mirror.example/k3\n",
        "files='config.json tokenizer.json'\n",
        f"revision={RECIPES}\n",
    ):
        assert line in script
    [(_, script)] = decide(monkeypatch, NOTHING, source="mirror", url="http://mirror.example/k3")
    assert "protocols=http,https\n" in script


def test_rsync_is_installed_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = decide(monkeypatch, NOTHING, source="mirror", url="rsync://mirror.example/k3")
    assert steps[0][0] == "Install rsync" and "url=rsync://mirror.example/k3\n" in steps[1][1]


def test_hugging_face_by_the_recipes_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    [(_, script)] = decide(monkeypatch, NOTHING, source="huggingface")
    assert (
        "repository=moonshotai/Kimi-K3\n" in script and "with_token=1\n" in script and "bytes=1560998998830\n" in script
    )
    assert "hf_s3cret" not in script
    monkeypatch.delenv("HF_TOKEN")
    [(_, script)] = decide(monkeypatch, NOTHING, source="huggingface", revision="a" * 40)
    assert "with_token=0\n" in script and f"revision={'a' * 40}\n" in script
    (tmp_path / "token").write_text("hf_file\n")
    [(_, script)] = decide(monkeypatch, NOTHING, source="huggingface", token_file=str(tmp_path / "token"))
    assert "with_token=1\n" in script and "hf_file" not in script


def test_another_revision_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, _)] = decide(monkeypatch, WeightsState("\x1b[31mother", ""), **MIRROR)
    assert name.startswith("Stop: /models holds revision other, and") and "\x1b" not in name


def test_whole_weights_without_a_revision_are_looked_at_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, _)] = decide(monkeypatch, WeightsState("", ""), **MIRROR)
    assert "whole, but no revision was recorded" in name


@pytest.mark.parametrize(
    "weights",
    [{"source": "mirror"}, {"source": "huggingface", "token_file": "/nonexistent/token"}],
)
def test_wrong_input_ends_the_run_with_3(monkeypatch: pytest.MonkeyPatch, weights: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as caught:
        decide(monkeypatch, NOTHING, **weights)
    assert caught.value.code == 3


@pytest.mark.parametrize(
    "weights",
    [{"source": "ftp"}, {"url": "https://user:password@mirror.example/k3"}, {"url": "file:///etc"}, {"revision": "main"},
     {"files": ["../evil"]}, {"repository": "a/b/c"}],
)  # fmt: skip
def test_what_a_site_cannot_say(monkeypatch: pytest.MonkeyPatch, weights: dict[str, Any]) -> None:
    from rackproof.errors import InputError

    with pytest.raises(InputError):
        decide(monkeypatch, NOTHING, **weights)
