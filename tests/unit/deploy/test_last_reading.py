"""The reading that a changed node is judged by sees what the first one saw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rackproof import site
from rackproof.deploy import verify
from rackproof.evidence.evidence import Evidence


@pytest.mark.parametrize("directory", ["", "/models"])
def test_the_weights_are_read_again_too(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    """Without them every weights requirement would be unknown after a deploy that changed something."""
    asked: list[str] = []

    def read(host: Any, model_directory: str = "") -> Evidence:
        asked.append(model_directory)
        return Evidence("tray01")

    chosen = site.shipped().overlaid({"serving": {"model_directory": directory}} if directory else {}, "test")
    run = SimpleNamespace(nodes={"tray01": SimpleNamespace(site=chosen)}, evidence={}, changes=True)
    monkeypatch.setattr(verify, "current_host", SimpleNamespace(name="tray01"))
    monkeypatch.setattr(verify, "session", lambda: run)
    monkeypatch.setattr(verify, "read", read)
    verify._read("tray01")
    assert asked == [directory] and list(run.evidence) == ["tray01"]
