"""`drift` and `nightly` from the command line: exit codes, what is kept, and what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rackproof.cli import main
from rackproof.commands import nightly
from rackproof.commands.drift import default_store

SCHEMA = json.loads((Path(main.__code__.co_filename).parent / "schemas/drift.schema.json").read_text())
pytestmark = pytest.mark.usefixtures("small_catalogue")


class Store:
    """A store and the commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def accept(self, *words: object) -> int:
        return main(["drift", "accept", *map(str, words), "--hardware", "b300", "--store", str(self.folder)])

    def drift(self, *words: object, expect: int) -> dict[str, Any]:
        self._capsys.readouterr()
        pairs = [
            part for word in words for part in (("--evidence", str(word)) if isinstance(word, Path) else (str(word),))
        ]
        code = main(["drift", *pairs, "--hardware", "b300", "--store", str(self.folder), "--json", "-"])
        out, self.said = self._capsys.readouterr()
        assert code == expect, self.said
        document: dict[str, Any] = json.loads(out)
        jsonschema.validate(document, SCHEMA)
        assert document["exit_code"] == code
        return document

    def nightly(self, *words: object) -> int:
        pairs = [
            part for word in words for part in (("--evidence", str(word)) if isinstance(word, Path) else (str(word),))
        ]
        code = main(["nightly", *pairs, "--hardware", "b300", "--store", str(self.folder)])
        self.out, self.said = self._capsys.readouterr()
        return code


@pytest.fixture
def store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Store:
    return Store(tmp_path / "store", capsys)


Bundle = Callable[..., Path]


def test_from_no_reference_to_no_drift_to_drift_and_since_when(store: Store, bundle: Bundle) -> None:
    document = store.drift(bundle(), expect=2)
    assert "no evidence of this node was ever accepted" in document["nodes"][0]["problem"]
    assert store.accept(bundle()) == 0
    assert not store.drift(bundle(started="2026-01-02T00:00:00Z"), expect=0)["drifted"]
    first = store.drift(bundle(uuid="GPU-other"), expect=1)
    (finding,) = first["nodes"][0]["findings"]
    assert (finding["subject"], finding["kind"]) == ("GPU 00000000:0f:00.0", "replaced")
    assert finding["since"] == first["started"]
    again = store.drift(bundle(uuid="GPU-other", started="2026-01-03T00:00:00Z"), expect=1)
    assert again["nodes"][0]["findings"][0]["since"] == first["started"]
    assert (
        "GPU 00000000:0f:00.0: replaced" in store.said
        and "GPU-1 " in store.said
        and "VERDICT CHANGED" not in store.said
    )


def test_fail_on_decides_which_drift_alone_is_red(store: Store, bundle: Bundle) -> None:
    assert store.accept(bundle()) == 0
    grown = bundle(ecc=3)
    assert store.drift(grown, expect=1)["nodes"][0]["findings"][0]["class"] == "counter"
    assert store.drift(grown, "--fail-on", "identity,config", expect=0)["drifted"]
    assert store.drift(bundle(uuid="GPU-x"), "--fail-on", "none", expect=0)["drifted"]


def test_what_could_not_be_looked_at_is_never_green(store: Store, bundle: Bundle) -> None:
    assert store.accept(bundle()) == 0
    document = store.drift(bundle(problem="unreachable: timed out"), expect=2)
    assert document["nodes"][0]["problem"] == "unreachable: timed out" and document["nodes"][0]["verdict_changed"]
    unread = bundle(nvidia_smi_xml="garbage")
    document = store.drift(unread, "--fail-on", "none", expect=2)
    (finding,) = document["nodes"][0]["findings"]
    assert (finding["subject"], finding["kind"], finding["drift"]) == ("smi", "unreadable", True)


def test_a_reference_that_was_changed_on_disk_is_none(store: Store, bundle: Bundle) -> None:
    assert store.accept(bundle()) == 0
    (path,) = (store.folder / "accepted").iterdir()
    path.write_bytes(bundle(uuid="GPU-forged").read_bytes())
    assert "is not what was accepted" in store.drift(bundle(), expect=2)["nodes"][0]["problem"]
    path.unlink()
    assert "cannot be read" in store.drift(bundle(), expect=2)["nodes"][0]["problem"]
    assert store.accept(bundle()) == 0
    store.drift(bundle(), expect=0)


def test_what_cannot_be_a_reference_is_refused_whole(
    store: Store, bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = bundle(node="b2", problem="cut off")
    assert store.accept(bundle(), cut) == 3
    assert "b2: its evidence cannot be a reference: cut off" in capsys.readouterr().err
    assert store.accept(bundle(), cut, "--anyway", "whatever") == 3
    assert store.accept(bundle(), "--anyway", " ") == 3
    store.drift(bundle(), expect=2)


def test_evidence_may_be_accepted_with_a_reason_that_is_kept(
    store: Store, bundle: Bundle, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rackproof.verdict import evaluate
    from rackproof.verdict.catalogue import requirements

    monkeypatch.setattr(evaluate, "requirements", requirements)  # the whole catalogue: this node lacks nearly all
    assert store.accept(bundle()) == 3
    assert "b1: its verdict is reject (" in capsys.readouterr().err
    assert store.accept(bundle(), "--anyway", "waiting for \x1b[2Jparts") == 0
    capsys.readouterr()
    assert main(["drift", "history", "b1", "--store", str(store.folder)]) == 0
    out = capsys.readouterr().out
    assert "with verdict reject: waiting for parts" in out and "\x1b" not in out
    assert not store.drift(bundle(), expect=1)["nodes"][0]["verdict_changed"]


def test_history_lists_nodes_and_runs_and_names_what_it_does_not_know(
    store: Store, bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drift", "history", "--store", str(store.folder)]) == 3
    store.accept(bundle())
    store.drift(bundle(uuid="GPU-2"), expect=1)
    capsys.readouterr()
    assert main(["drift", "history", "--store", str(store.folder)]) == 0 and capsys.readouterr().out == "b1\n"
    assert main(["drift", "history", "b1", "--json", "--store", str(store.folder)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [run["findings"][0]["kind"] for run in data["runs"]] == ["replaced"] and len(data["references"]) == 1
    assert (store.folder / data["runs"][0]["bundle"]).is_file()
    for since, count in (("2099-01-01", 0), ("2020-01-01T00:00:00+02:00", 1)):
        assert main(["drift", "history", "b1", "--json", "--since", since, "--store", str(store.folder)]) == 0
        assert len(json.loads(capsys.readouterr().out)["runs"]) == count
    assert main(["drift", "history", "b1", "--since", "yesterday", "--store", str(store.folder)]) == 3
    assert "--since: 'yesterday' is no day" in capsys.readouterr().err
    assert main(["drift", "history", "b9", "--store", str(store.folder)]) == 3
    assert "b9: is not in the history" in capsys.readouterr().err


def test_forgetting_deletes_evidence_of_runs_and_not_what_was_accepted(store: Store, bundle: Bundle) -> None:
    store.accept(bundle())
    for day in range(3):
        store.drift(bundle(started=f"2026-01-0{day + 2}T00:00:00Z"), expect=0)
    assert main(["drift", "forget", "--keep-runs", "1", "--store", str(store.folder)]) == 0
    assert len(list((store.folder / "evidence").iterdir())) == 1
    assert len(list((store.folder / "accepted").iterdir())) == 1
    store.drift(bundle(), expect=0)
    assert main(["drift", "forget", "--store", str(store.folder)]) == 3


def test_no_record_leaves_the_history_as_it_is(store: Store, bundle: Bundle) -> None:
    store.accept(bundle())
    store.drift(bundle(), "--no-record", expect=0)
    assert not (store.folder / "evidence").exists()


def test_one_line_of_markdown(store: Store, bundle: Bundle, tmp_path: Path) -> None:
    store.accept(bundle())
    store.drift(bundle(uuid="GPU-`x`"), "--markdown", tmp_path.joinpath("line.md").as_posix(), expect=1)
    assert (tmp_path / "line.md").read_text() == "**accept**, drift on 1 of 1 node: 1 identity on `b1`\n"


def test_usage(store: Store, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["drift", "compare"], ["drift", "x", "--evidence", "y"], ["drift", "x", "--inventory", "y"]):
        assert main([*words, "--store", str(store.folder)]) == 3
    assert main(["drift", "--evidence", str(bundle()), "--fail-on", "mood", "--store", str(store.folder)]) == 3
    monkeypatch.setenv("RACKPROOF_STORE", "/somewhere")
    assert default_store() == Path("/somewhere")
    monkeypatch.delenv("RACKPROOF_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_store() == Path("/state/rackproof")


class TestNightly:
    def test_reports_history_retention_and_exit_code(self, store: Store, bundle: Bundle) -> None:
        assert store.nightly(bundle()) == 2
        assert store.accept(bundle()) == 0
        assert store.nightly(bundle(started="2026-01-02T00:00:00Z"), "--keep-runs", "1") == 0
        assert {path.name for path in (store.folder / "reports").iterdir()} == {
            "verdict.json", "verdict.xml", "verdict.html", "rackproof.prom", "drift.json", "drift.md"
        }  # fmt: skip
        assert len(list((store.folder / "evidence").iterdir())) == 1
        assert json.loads((store.folder / "reports/drift.json").read_text())["exit_code"] == 0
        assert store.nightly(bundle(uuid="GPU-9")) == 1

    def test_a_run_that_could_not_look_is_red(self, store: Store, bundle: Bundle) -> None:
        store.accept(bundle())
        assert store.nightly(bundle(problem="unreachable")) == 2
        assert store.nightly(Path("/nowhere/at/all")) == 3

    def test_the_command_runs_when_the_verdict_changes_and_without_a_shell(
        self, store: Store, bundle: Bundle, tmp_path: Path
    ) -> None:
        log, settings = tmp_path / "told", tmp_path / "site.yaml"
        hook = tmp_path / "hook"
        hook.write_text(
            f'#!/bin/sh\necho "$1|$RACKPROOF_VERDICT_BEFORE|$RACKPROOF_VERDICT|$RACKPROOF_EXIT_CODE" >> {log}\n'
        )
        hook.chmod(0o755)
        settings.write_text(json.dumps({"nightly": {"on_change": [str(hook), "$(id) ; rm"]}}))
        store.accept(bundle())
        for uuid in ("GPU-1", "GPU-1", "GPU-2", "GPU-2"):
            store.nightly(bundle(uuid=uuid), "--settings", str(settings))
        assert log.read_text().splitlines() == ["$(id) ; rm||accept|0", "$(id) ; rm|accept|accept|1"]

    @pytest.mark.parametrize(("command", "words"), [(["/bin/false"], "exit code 1"), (["/no/such"], "could not be started"),
                                                    (["sleep", "60"], "within 1 s")])  # fmt: skip
    def test_a_command_that_fails_makes_green_red_and_hides_no_verdict(
        self, store: Store, bundle: Bundle, tmp_path: Path, command: list[str], words: str
    ) -> None:
        settings = tmp_path / "site.yaml"
        settings.write_text(json.dumps({"nightly": {"on_change": command, "on_change_timeout_s": 1}}))
        store.accept(bundle())
        assert store.nightly(bundle(), "--settings", str(settings)) == 3 and words in store.said
        assert store.nightly(bundle(uuid="GPU-2"), "--settings", str(settings)) == 1 and words in store.said

    def test_a_second_run_at_the_same_time_ends_at_once(self, store: Store, bundle: Bundle) -> None:
        store.folder.mkdir()
        with nightly._alone(store.folder):
            assert store.nightly(bundle()) == 3 and "another nightly run holds it" in store.said
        assert store.nightly(bundle()) == 2

    def test_a_store_that_cannot_be_written_is_found_before_anything_is_read(
        self, bundle: Bundle, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        store = str(tmp_path / "file" / "below")
        assert main(["nightly", "--evidence", str(bundle()), "--hardware", "b300", "--store", store]) == 3
        assert (tmp_path / "file").read_text() == ""
