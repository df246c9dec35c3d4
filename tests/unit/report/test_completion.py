"""Completion offers what the data holds."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from rackproof.cli import cli, main


def offered(*words: str) -> set[str]:
    complete = ShellComplete(cli, {}, "rackproof", "_RACKPROOF_COMPLETE")
    return {item.value for item in complete.get_completions(list(words[:-1]), words[-1])}


def test_ids_are_completed() -> None:
    assert offered("verify", "--hardware", "b") == {"b200", "b300"}
    assert "b300-tp8" in offered("verify", "--hardware", "b300", "--layout", "")
    assert not {name for name in offered("verify", "--hardware", "b300", "--layout", "") if not name.startswith("b300")}
    assert "b200-tp8" not in offered("verify", "--layout", "b200")  # rejected
    assert {"gpus", "gpus.count"} <= offered("explain", "gpus")
    assert "verify" in offered("ve")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_RACKPROOF_COMPLETE" in capsys.readouterr().out


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 3
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
