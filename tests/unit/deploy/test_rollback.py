"""What a rollback goes back to, and when it refuses; the stamp that makes it possible."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_layers import CONSENT, LAYERS, Recorder, fixtures, healthy

from rackproof import site
from rackproof.baseline import resolve
from rackproof.deploy import node as deploy_node
from rackproof.deploy import rollback, stamp
from rackproof.deploy.node import Node
from rackproof.deploy.onhost import Run
from rackproof.deploy.stamp import choices, finish, stamp_of
from rackproof.facts import Missing, NodeFacts
from rackproof.facts_control import ControlFacts

VALUES: dict[str, Any] = {
    "hardware": "gb300", "driver": {"version": fixtures.DRIVER}, "container": {"toolkit_version": "1.19.1"},
    "packages": fixtures.PACKAGES,
}  # fmt: skip
OLDER = {**VALUES, "driver": {"version": "580.95.05"}}


def made(values: dict[str, Any], **over: Any) -> dict[str, Any]:
    """The stamp of a node that was brought to a site's baseline."""
    chosen = site.shipped().overlaid(values, "test")
    baseline = resolve(chosen, domain=fixtures.DOMAIN, domain_source="inventory")
    return {**json.loads(json.dumps(stamp_of(baseline, chosen))), "written": "2026-01-01T00:00:00Z", **over}


def facts(*history: dict[str, Any], present: dict[str, Any] | None = None) -> NodeFacts:
    found = healthy()
    return replace(
        found,
        host=replace(found.host, stamp=present or made(VALUES)),
        control=ControlFacts(None, (), "", tuple(history)),
    )


def back(monkeypatch: pytest.MonkeyPatch, given: NodeFacts) -> tuple[Recorder, Node]:
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "rebooting", recorder)
    monkeypatch.setattr(rollback, "_agrees", recorder.agrees)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": "[tray01] "}))
    chosen = site.shipped().overlaid({**VALUES, **CONSENT}, "test")
    node = Node("tray01", chosen, fixtures.baseline("gb300"), given, Run("run", "me@here", 1, ""))
    rollback.to_previous(node)
    for layer in LAYERS:
        layer.bring_about(node)
    finish(node)
    return recorder, node


def test_it_goes_back_to_the_driver_of_the_stamp_before(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = back(monkeypatch, facts(made(VALUES), made(OLDER)))
    assert not node.stopped and node.baseline.hash == made(OLDER)["baseline"]
    names = recorder.names
    assert names[1].startswith("Driver 580.95.05 and image 61fc8a896b0a are to be had"), "before anything is changed"
    assert "Pin and install driver 580.95.05" in names and "Reboot, 2 at a time" in names
    check = dict(recorder.steps)[names[1]]
    assert "\n580.95.05 nvidia-open-580\n" in check and "\n580.95.05 nvidia-imex nvidia-imex-580\n" in check and "nothing was changed" in check


REFUSED = [
    ((), None, "there is no earlier baseline to go back to"),
    ((made(VALUES),), None, "there is no earlier baseline to go back to"),
    (({key: value for key, value in made(OLDER).items() if key != "site"},), None, "which kept no site values"),
    ((made(OLDER, site={"driver": {"version": "580; rm -rf /"}}),), None, "the earlier baseline cannot be made again"),
    ((made(OLDER, site={"surprise": 1}),), None, "the earlier baseline cannot be made again"),
    ((made(OLDER, image="docker.io/vllm/vllm-openai@sha256:" + "0" * 64),), None, "names another driver or image"),
]


@pytest.mark.parametrize(
    ("history", "present", "says"), REFUSED, ids=[says[:30] + str(n) for n, (_, _, says) in enumerate(REFUSED)]
)
def test_it_refuses_what_it_cannot_make_again(
    monkeypatch: pytest.MonkeyPatch, history: tuple[dict[str, Any], ...], present: Any, says: str
) -> None:
    recorder, node = back(monkeypatch, facts(*history, present=present))
    assert says in node.stopped and [name.startswith("Stop: ") for name in recorder.names] == [True]


def test_without_a_stamp_or_with_unread_history_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    given = facts()
    bare = replace(given, host=replace(given.host, stamp=None))
    assert "nothing to go back from" in back(monkeypatch, bare)[1].stopped
    unread = replace(given, control=Missing("flock is not installed"))
    assert "cannot be read (flock is not installed)" in back(monkeypatch, unread)[1].stopped


def test_a_stamp_holds_what_makes_the_baseline_and_nothing_of_how_a_node_is_reached() -> None:
    kept = choices(site.shipped().overlaid({**VALUES, "ssh": {"user": "secret"}}, "test"))
    assert kept["driver"] == {"version": fixtures.DRIVER} and kept["packages"] == fixtures.PACKAGES
    assert not {"ssh", "reboot", "disrupt", "rolling", "serving"} & set(kept)


def test_earlier_stamps_are_kept_newest_last_by_name_and_not_without_end(tmp_path: Path) -> None:
    script = stamp.KEEP.replace("/etc/rackproof", str(tmp_path))
    for number in range(14):
        (tmp_path / "baseline.json").write_text(f'{{"baseline": "{number}"}}')
        subprocess.run(["sh", "-c", f"set -eu\n{script}"], check=True, timeout=60)
    assert len(list((tmp_path / "history").iterdir())) == stamp.KEPT
