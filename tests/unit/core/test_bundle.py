"""Bundles: what is written is what is read, a change shows, and nothing half-written is left."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from core_builders import NONCE, SHA, evidence, section, stream

from rackproof.errors import InputError
from rackproof.evidence import bundle
from rackproof.evidence.bundle import MANIFEST, read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status

FULL = Evidence(
    node="tray01",
    sections={
        "uname": section("uname", b"Linux\n"),
        "binary": section("binary", bytes(range(256)) * 50, b"\xff\0", rc=3),
        "empty": section("empty"),
        "absent": Section("absent", Status.ABSENT, None, 0.0, b"", b"", 20),
        "late": Section("late", Status.DEADLINE, None, 20.5, b"begun", b"", 20),
    },
    probe_version="0.1",
    nonce=NONCE,
    started="2026-01-01T00:00:00Z",
    seconds=1.25,
    problem=None,
    sha256=SHA,
)


@pytest.fixture(params=["tray01", "tray01.tar.gz"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "out" / str(request.param)


@pytest.mark.parametrize(
    "given",
    [FULL, evidence(problem="the probe output is cut off after 1 sections", a=b"x"), Evidence("t", problem="unreachable")],
    ids=["full", "cut", "unreachable"],
)
def test_round_trip(path: Path, given: Evidence) -> None:
    write_bundle(path, given)
    assert read_bundle(path) == [given]
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_place_that_is_taken(path: Path) -> None:
    write_bundle(path, FULL)
    with pytest.raises(InputError, match="is already there"):
        write_bundle(path, evidence("other"))
    assert read_bundle(path) == [FULL]


@pytest.mark.parametrize(
    ("name", "owner", "call"),
    [
        ("tray01", os, "replace"),
        ("tray01", Path, "write_bytes"),
        ("tray01.tar.gz", os, "replace"),
        ("tray01.tar.gz", tarfile.TarFile, "addfile"),
    ],
)
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, name: str, owner: object, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / name

    def cut(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, call, cut)
        write_bundle(path, FULL)
    assert list(path.parent.iterdir()) == []
    write_bundle(path, FULL)
    assert read_bundle(path) == [FULL]


def test_a_changed_file_shows(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", FULL)
    (tmp_path / "b" / "sections" / "uname.out").write_bytes(b"Linux!\n")
    (found,) = read_bundle(tmp_path / "b")
    assert found.problem == "the bundle was changed after it was written: sections/uname.out"
    assert set(found.sections) == set(FULL.sections) - {"uname"}


@pytest.mark.parametrize("how", ["removed", "link", "directory", "fifo"])
def test_a_file_that_is_not_there_as_a_file_shows(tmp_path: Path, how: str) -> None:
    write_bundle(tmp_path / "b", FULL)
    file = tmp_path / "b" / "sections" / "uname.out"
    same = tmp_path / "same"
    file.rename(same)
    if how == "link":
        file.symlink_to(same)
    elif how == "directory":
        file.mkdir()
    elif how == "fifo":
        os.mkfifo(file)
    (found,) = read_bundle(tmp_path / "b")
    assert found.problem == "the bundle was changed after it was written: sections/uname.out"
    assert "uname" not in found.sections


def test_a_folder_of_links_is_not_followed(tmp_path: Path) -> None:
    write_bundle(tmp_path / "real" / "b", FULL)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / MANIFEST).write_bytes((tmp_path / "real" / "b" / MANIFEST).read_bytes())
    (tmp_path / "linked" / "sections").symlink_to(tmp_path / "real" / "b" / "sections")
    (found,) = read_bundle(tmp_path / "linked")
    assert found.problem is not None and not found.sections
    (tmp_path / "linked" / MANIFEST).unlink()
    (tmp_path / "linked" / MANIFEST).symlink_to(tmp_path / "real" / "b" / MANIFEST)
    with pytest.raises(InputError, match="is not an evidence bundle"):
        read_bundle(tmp_path / "linked")


def test_a_section_nobody_vouches_for(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", FULL)
    manifest = json.loads((tmp_path / "b" / MANIFEST).read_bytes())
    del manifest["files"]["sections/uname.out"]
    (tmp_path / "b" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"is not an evidence bundle.*sections/uname\.out"):
        read_bundle(tmp_path / "b")


def test_the_manifest_holds_the_hash_of_each_file(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", FULL)
    manifest = json.loads((tmp_path / "b" / MANIFEST).read_bytes())
    assert len(manifest["files"]) == 2 * len(FULL.sections)
    for name, value in manifest["files"].items():
        assert hashlib.sha256((tmp_path / "b" / name).read_bytes()).hexdigest() == value
    assert (manifest["node"], manifest["nonce"], manifest["stream_sha256"]) == ("tray01", NONCE, SHA)


def test_a_folder_of_bundles_in_order(tmp_path: Path) -> None:
    for name in ("tray02", "tray03.tar.gz", "tray01.tar.gz"):
        write_bundle(tmp_path / "all" / name, evidence(name.partition(".")[0], uname=b"Linux\n"))
    (tmp_path / "all" / "around").symlink_to(tmp_path / "all")
    assert [item.node for item in read_bundle(tmp_path / "all")] == ["tray01", "tray02", "tray03"]


def test_raw_probe_output(tmp_path: Path) -> None:
    raw = tmp_path / "answer.txt"
    raw.write_bytes(stream(("uname", "Linux\n")))
    (found,) = read_bundle(raw)
    assert (found.node, found.problem, found.sections["uname"].stdout) == ("tray01", None, b"Linux\n")


def test_nothing_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no evidence"):
        read_bundle(tmp_path / "none")
    with pytest.raises(InputError, match="there is no such file"):
        read_bundle(tmp_path / "missing.tar.gz")
    with pytest.raises(InputError, match=r"cannot be read: .*name too long"):
        read_bundle(tmp_path / ("x" * 5000))
    (tmp_path / "big").write_bytes(b"x" * 11)
    monkeypatch.setattr(bundle, "MAX_BYTES", 10)
    with pytest.raises(InputError, match=r"is 11 bytes\n  accepted: at most 10"):
        read_bundle(tmp_path / "big")


def test_schema_1_is_read(tmp_path: Path) -> None:
    """Bundles of rackproof before signatures and redaction."""
    write_bundle(tmp_path / "b", FULL)
    manifest = json.loads((tmp_path / "b" / MANIFEST).read_bytes())
    assert manifest["schema"] == 2
    del manifest["redacted"]
    (tmp_path / "b" / MANIFEST).write_text(json.dumps({**manifest, "schema": 1}))
    assert read_bundle(tmp_path / "b") == [FULL]
    (tmp_path / "b" / MANIFEST).write_text(json.dumps({**manifest, "schema": 3}))
    with pytest.raises(InputError, match="has bundle schema 3\n  accepted: 1 to 2; a newer rackproof wrote it"):
        read_bundle(tmp_path / "b")


def test_redacted_is_kept(path: Path) -> None:
    write_bundle(path, replace(FULL, redacted=True))
    assert read_bundle(path) == [replace(FULL, redacted=True)]
