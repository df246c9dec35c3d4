"""Bundles from a stranger: an InputError or evidence with a problem, never a file outside, never anything else."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from core_builders import evidence

from rackproof.errors import InputError
from rackproof.evidence import bundle
from rackproof.evidence.bundle import MANIFEST, _files, read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence

GOOD = evidence(uname=b"Linux\n", os_release=b"ID=ubuntu\n")
Member = tuple[tarfile.TarInfo, bytes]


def regular(name: str, data: bytes, **changes: Any) -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for key, value in changes.items():
        setattr(member, key, value)
    return member, data


def good_members() -> list[Member]:
    return [regular(name, data) for name, data in _files(GOOD).items()]


def packed(members: list[Member], format_: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    for member, data in members:
        out.write(member.tobuf(format_))
        out.write(data + b"\0" * (-len(data) % 512))
    return out.getvalue() + b"\0" * 1024


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Callable[[bytes], Evidence]]:
    """Reads an archive's bytes; afterwards the file system is as it was."""
    folder = tmp_path / "given"
    folder.mkdir()

    def read_(data: bytes) -> Evidence:
        (folder / "x.tar.gz").write_bytes(data if data[:2] == b"\x1f\x8b" else gzip.compress(data))
        (found,) = read_bundle(folder / "x.tar.gz")
        return found

    yield read_
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["given", "given/x.tar.gz"]


Read = Callable[[bytes], Evidence]


def test_the_members_as_built_are_good(read: Read) -> None:
    assert read(packed(good_members())) == GOOD


@pytest.mark.parametrize(
    "extra",
    [
        regular("/etc/rackproof-test", b"x"),
        regular("../../escaped", b"x"),
        regular("sections/../../escaped.out", b"x"),
        regular("sections/evil.out", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        regular("sections/evil.out", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        regular("sections/evil.out", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        regular("sections/evil.out", b"", type=tarfile.FIFOTYPE),
        regular("sections/evil.out", b"", type=tarfile.DIRTYPE),
        regular("sections/EVIL.out", b"x"),
        regular("sections/evil.out\n", b"x"),
        regular("sections/unlisted.out", b"x"),
        regular("n" * 3000, b"x"),
    ],
    ids=lambda extra: f"{extra[0].name[:30]!r}-{extra[0].type.decode()}",
)
@pytest.mark.parametrize("front", [True, False])
def test_strange_members_are_passed_over(read: Read, extra: Member, front: bool) -> None:
    members = [extra, *good_members()] if front else [*good_members(), extra]
    assert read(packed(members)) == GOOD


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_link_in_place_of_a_section(read: Read, kind: bytes) -> None:
    members = [item for item in good_members() if item[0].name != "sections/uname.out"]
    link = regular("sections/uname.out", b"", type=kind, linkname="sections/os_release.out")
    found = read(packed([*members, link]))
    assert found.problem == "the bundle was changed after it was written: sections/uname.out"
    assert set(found.sections) == {"os_release"}


def test_duplicate_names(read: Read) -> None:
    found = read(packed([*good_members(), regular("sections/uname.out", b"Darwin\n")]))
    assert found.problem == "the bundle was changed after it was written: sections/uname.out"
    assert set(found.sections) == {"os_release"}


@pytest.mark.parametrize("size", [2**40, 8**11 - 1, -1, -(2**40)])
@pytest.mark.parametrize("name", ["sections/uname.out", "other"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE, b"Z"])
def test_a_size_that_is_a_lie(read: Read, size: int, name: str, kind: bytes) -> None:
    lie = regular(name, b"12 a=b\n", type=kind)
    lie[0].size = size
    with pytest.raises(InputError, match=r"is not a readable archive|is not an evidence bundle"):
        read(packed([lie, *good_members()]))


def test_a_bomb(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_BYTES", 100_000)
    assert read(packed(good_members())) == GOOD
    bomb = packed([*good_members(), regular("sections/uname.out", b"\0" * 10_000_000)])
    with pytest.raises(InputError, match="unpacks to more than 100000 bytes"):
        read(bomb)
    with pytest.raises(InputError, match="unpacks to more than 100000 bytes"):
        read(gzip.compress(bomb))
    with pytest.raises(InputError, match="unpacks to more than 100000 bytes"):
        read(b"".join(gzip.compress(b"\0" * 9_000) for _ in range(50)))


def test_headers_upon_headers(read: Read) -> None:
    chain = [regular("x", b"12 path=abc\n", type=tarfile.XHDTYPE) for _ in range(3000)]
    with pytest.raises(InputError, match="is not a readable archive"):
        read(packed([*chain, *good_members()]))


@pytest.mark.parametrize("field", ["GNU.sparse.map=x", "GNU.sparse.size=x", "size=x", "size=-5", "path=\0", "9"])
def test_bad_extended_headers(read: Read, field: str) -> None:
    text = f" {field}\n"
    record = f"{len(text) + 2}{text}".encode()
    try:
        found = read(packed([regular("x", record, type=tarfile.XHDTYPE), *good_members()]))
    except InputError:
        return
    assert found == GOOD or found.problem is not None


def test_truncated_anywhere(read: Read) -> None:
    whole = gzip.compress(packed(good_members()), mtime=0)
    for end in range(2, len(whole), 7):
        with pytest.raises(InputError, match="is not a readable archive"):
            read(whole[:end])


@pytest.mark.parametrize("data", [b"\x1f\x8b", b"\x1f\x8b" + b"\0" * 50, gzip.compress(b""), gzip.compress(b"hello" * 99)])
def test_not_an_archive(read: Read, data: bytes) -> None:
    with pytest.raises(InputError, match=r"is not a readable archive|is not an evidence bundle"):
        read(data)


@pytest.mark.parametrize("seed", range(3))
def test_random_damage(read: Read, seed: int) -> None:
    """Damaged below the compression, where no checksum helps."""
    source = random.Random(seed)
    whole = packed(good_members())
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(source.choice([1, 3, 30])):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            found = read(bytes(data))
        except InputError:
            continue
        for name, section in found.sections.items():
            assert section.stdout == GOOD.sections[name].stdout


MANIFEST_OF_GOOD = json.loads(_files(GOOD)[MANIFEST])


@pytest.mark.parametrize("value", [None, 1, -1.5, "x", [], {}, [1], {"a": 1}, True, 1e999, float("nan")], ids=repr)
@pytest.mark.parametrize("key", [*MANIFEST_OF_GOOD, "sections.uname", "sections.uname.rc", "sections.uname.seconds",
                                 "sections.uname.status", "sections.uname.deadline_s", "files.sections/uname.out"])  # fmt: skip
def test_a_manifest_of_wrong_types(read: Read, key: str, value: object) -> None:
    manifest = json.loads(json.dumps(MANIFEST_OF_GOOD))
    first, _, rest = key.partition(".")
    target, last = manifest, first
    if rest:
        target = manifest[first]
        last = rest
        if first == "sections" and "." in rest:
            last = rest.partition(".")[2]
            target = target["uname"]
    target[last] = value
    members = [item for item in good_members() if item[0].name != MANIFEST]
    try:
        found = read(packed([regular(MANIFEST, json.dumps(manifest).encode()), *members]))
    except InputError:
        return
    assert isinstance(found.node, str) and isinstance(found.seconds, float)
    assert found.problem is None or isinstance(found.problem, str)
    for section in found.sections.values():
        assert section.rc is None or type(section.rc) is int


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"null", b"{}", b"{", b"\xff", b"[" * 100_000, b'{"schema": 3}', b'{"schema": ' + b"9" * 5000 + b"}"]
)
def test_a_manifest_that_is_none(tmp_path: Path, text: bytes) -> None:
    write_bundle(tmp_path / "b", GOOD)
    (tmp_path / "b" / MANIFEST).write_bytes(text)
    with pytest.raises(InputError, match=r"is not an evidence bundle|has bundle schema 3"):
        read_bundle(tmp_path / "b")
