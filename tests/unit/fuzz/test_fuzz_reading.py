"""Property tests of what reads evidence: streams, bundles, and redaction."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from pathlib import Path

from core_builders import NONCE, evidence, stream
from hypothesis import given
from hypothesis import strategies as st
from texts import anything

from rackproof.errors import InputError
from rackproof.evidence.bundle import MANIFEST, _files, read_bundle
from rackproof.evidence.cksum import cksum
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.redact import Redaction
from rackproof.evidence.stream import parse_stream

WHOLE = stream(("uname", "Linux 6.8\n"), ("limits", "a\nbb\n\tb\nccc\n"), ("empty", ""), ("log", "x" * 300))
SENT = parse_stream(WHOLE)
GOOD = evidence(uname=b"Linux\n", os_release=b"ID=ubuntu\n", binary=bytes(range(256)))
FRAMES = (
    *(line.encode() + b"\n" for line in WHOLE.decode().splitlines()),
    b"|",
    b"~\\",
    b"\r\n",
    b"#@",
    b"\xff",
    b" rc=1",
)
EDITS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 40), st.binary(max_size=8)), min_size=1, max_size=6)


def _edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, new in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + length :]
    return data


@given(data=st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(FRAMES), max_size=30).map(b"".join)))
def test_any_stream(data: bytes) -> None:
    found = parse_stream(data, nonce=NONCE)
    assert found.problem != ""
    for name, section in found.sections.items():
        assert section.stdout == SENT.sections[name].stdout  # no other content has its checksums in the pieces


@given(edits=EDITS)
def test_an_edited_stream(edits: list[tuple[int, int, bytes]]) -> None:
    """What is read is what was sent, or there is a problem."""
    found = parse_stream(_edited(WHOLE, edits), nonce=NONCE)
    for name, section in found.sections.items():
        assert section.stdout == SENT.sections[name].stdout
    if found.problem is None:
        assert set(found.sections) == set(SENT.sections)


@given(data=st.binary(max_size=300), other=st.binary(max_size=300))
def test_checksums_tell_contents_apart(data: bytes, other: bytes) -> None:
    assert (cksum(data) == cksum(other)) == (data == other)


def _archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


ARCHIVE = _archive(_files(GOOD))
MANIFEST_OF_GOOD = _files(GOOD)[MANIFEST]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12,
)  # fmt: skip


def _read(data: bytes) -> list[Evidence]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given"
        path.write_bytes(data)
        try:
            return read_bundle(path)
        except InputError:
            return []
        finally:
            assert [item.name for item in Path(folder).iterdir()] == ["given"]


@given(edits=EDITS, packed=st.booleans())
def test_an_edited_archive(edits: list[tuple[int, int, bytes]], packed: bool) -> None:
    """Damaged above or below the compression: InputError, or evidence in which no section differs."""
    data = gzip.compress(_edited(ARCHIVE, edits), 1) if packed else _edited(gzip.compress(ARCHIVE, 1), edits)
    for item in _read(data):
        for name, section in item.sections.items():
            assert (section.stdout, section.stderr) == (GOOD.sections[name].stdout, GOOD.sections[name].stderr)


@given(data=st.binary(max_size=400))
def test_any_file(data: bytes) -> None:
    for given_ in (data, b"\x1f\x8b" + data, gzip.compress(data, 1)):
        assert all(item.problem for item in _read(given_))


@given(key=st.sampled_from(sorted(json.loads(MANIFEST_OF_GOOD))), value=JSON)
def test_a_manifest_of_any_types(key: str, value: object) -> None:
    manifest = {**json.loads(MANIFEST_OF_GOOD), key: value}
    for item in _read(gzip.compress(_archive({**_files(GOOD), MANIFEST: json.dumps(manifest).encode()}), 1)):
        assert isinstance(item.node, str) and (item.problem is None or isinstance(item.problem, str))
        for name, section in item.sections.items():
            assert section.stdout == GOOD.sections[name].stdout


REDACTION = Redaction(b"a key for property tests", [evidence("tray01")])


@given(text=anything)
def test_redaction_of_any_text(text: str) -> None:
    """It never raises, it is the same every time, and it leaves no name."""
    found = REDACTION.text(text + " tray01 ")
    assert found == REDACTION.text(text + " tray01 ")
    assert not found.endswith(" tray01 ")
    data = text.encode("utf-8", "replace")
    assert REDACTION._bytes(data).count(b"\n") == data.count(b"\n")
