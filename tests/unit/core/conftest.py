"""Fixtures of the core tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from core_builders import SHELLS, Rack


@pytest.fixture(params=SHELLS, ids=[os.path.basename(shell[0]) for shell in SHELLS], scope="module")
def shell(request: pytest.FixtureRequest) -> Sequence[str]:
    """Each POSIX shell of this machine that a node could have as sh."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def site_folder(tmp_path: Path) -> Rack:
    """A site with groups all, gb300 and b300."""
    return Rack(tmp_path)


@pytest.fixture
def no_contact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to start a process or to open a connection fails the test."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("something was contacted")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("subprocess.Popen.__init__", refuse)
    monkeypatch.setattr("os.system", refuse)
