"""What the weights layer decides: nothing, a fetch from one of three sources, or a stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_layers import Recorder, fixtures, healthy

from rackproof import site
from rackproof.deploy import node as deploy_node
from rackproof.deploy.node import Node
from rackproof.deploy.onhost import Run
from rackproof.facts import Missing
from rackproof.facts_weights import Shard, WeightsFacts
from rackproof.layers.weights import deploy as layer

RECIPES = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
NOTHING = WeightsFacts("/models", exists=False)
UNREAD: Any = Missing("the listing is cut off")
ONE = "model-00001-of-00002.safetensors"


def holding(revision: Any = None, source: Any = UNREAD, **changes: Any) -> WeightsFacts:
    """A whole model directory, and what records its revision, with some things changed."""
    values: dict[str, Any] = {
        "index": True, "indexed": 2, "absent": (), "indexed_bytes": 90, "shard_bytes": 100, "wrong_size": (),
        "shard_sizes": {ONE: 50, "model-00002-of-00002.safetensors": 50}, "incomplete": 0,
    }  # fmt: skip
    return WeightsFacts("/models", revision=revision, revision_source=source, **{**values, **changes})


def recorded(revision: str = RECIPES, **changes: Any) -> WeightsFacts:
    return holding(revision, ".rackproof-revision", **changes)


def decide(monkeypatch: pytest.MonkeyPatch, there: Any, **weights: Any) -> list[tuple[str, str]]:
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": ""}))
    chosen = site.shipped().overlaid({"serving": {"model_directory": "/models"}, "weights": weights}, "test")
    layer.bring_about(Node("tray01", chosen, fixtures.baseline("gb300"), replace(healthy(), weights=there), Run("run", "me@here", 1, "")))
    return [step for step in recorder.steps if step[0] != "Lock the node"]


MIRROR = {"source": "mirror", "url": "https://mirror.example/k3/"}


def test_nothing_without_a_source_and_nothing_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide(monkeypatch, NOTHING) == []
    assert decide(monkeypatch, NOTHING, source="none") == []
    assert decide(monkeypatch, recorded(), **MIRROR) == []
    assert decide(monkeypatch, recorded(wrong_size=UNREAD, indexed_bytes=UNREAD), **MIRROR) == []


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
    [(name, _)] = decide(monkeypatch, recorded("\x1b[31mother"), **MIRROR)
    assert name.startswith("Stop: /models holds revision other, and") and "\x1b" not in name


def test_whole_weights_without_a_revision_are_looked_at_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    [(name, _)] = decide(monkeypatch, holding(), **MIRROR)
    assert "whole, but no revision was recorded" in name


def test_a_revision_that_no_deploy_recorded_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever downloaded it may not have ended: the metadata is written with the first file."""
    [(name, _)] = decide(monkeypatch, holding(RECIPES, "download metadata"), **MIRROR)
    assert "no revision was recorded" in name


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"index": False}, "there is no model.safetensors.index.json"), ({"indexed": UNREAD}, "names no shard"),
        ({"absent": (ONE,)}, f"{ONE} is not there, or empty"), ({"shard_sizes": {ONE: 0}}, f"{ONE} is not there, or empty"),
        ({"indexed_bytes": 101}, "the shards have 100 bytes, and their index says 101"), ({"incomplete": 2}, "2 downloads"),
        ({"wrong_size": (Shard(ONE, 50, 60),)}, f"{ONE} is not as long as its header says"),
    ],
)  # fmt: skip
def test_what_is_not_whole_is_fetched_although_a_revision_is_recorded(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], says: str
) -> None:
    [(name, _)] = decide(monkeypatch, recorded(**changes), **MIRROR)
    assert name.startswith("Fetch weights") and says in name


@pytest.mark.parametrize("there", [UNREAD, holding(UNREAD), recorded(index=UNREAD), recorded(shard_sizes=UNREAD)])
def test_a_directory_that_was_not_read_stops_this_node(monkeypatch: pytest.MonkeyPatch, there: Any) -> None:
    [(name, _)] = decide(monkeypatch, there, **MIRROR)
    assert name == "Stop: cannot tell what /models holds: the listing is cut off"


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
