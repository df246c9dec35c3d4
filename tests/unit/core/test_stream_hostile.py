"""Streams from somebody who wants a node accepted: every trick ends in a problem, none in an exception."""

from __future__ import annotations

import random

import pytest
from core_builders import NONCE, stream

from rackproof.evidence import stream as stream_module
from rackproof.evidence.stream import parse_stream

ONE = stream(("uname", "Linux\n"))


def test_doubled() -> None:
    assert parse_stream(ONE * 2).problem == "the probe output holds two probe runs"
    assert not parse_stream(ONE * 2).sections


def test_foreign_nonce() -> None:
    other = stream(("uname", "Linux\n"), nonce="older-0123456789")
    evidence = parse_stream(other, nonce=NONCE)
    assert evidence.problem is not None and "answers another request" in evidence.problem
    assert "older-0123456789" in evidence.problem and NONCE in evidence.problem
    assert not evidence.sections


@pytest.mark.parametrize(
    "data",
    [
        ONE + stream(("uname", "Darwin\n"), nonce="older-0123456789"),
        ONE.replace(b"|Linux\n", b"#@older-0123456789 end uname status=ran rc=0 stdout=0 stdout_cksum=4294967295 stderr=0 stderr_cksum=4294967295 deadline=1\n|Linux\n"),
        stream(("uname", "Linux\n"), ("b", "b\n")).replace(f"#@{NONCE} begin b".encode(), b"#@older-0123456789 begin b"),
    ],
    ids=["after", "inside", "renamed"],
)
def test_interleaved_with_another_run(data: bytes) -> None:
    evidence = parse_stream(data, nonce=NONCE)
    assert evidence.problem == "the probe output holds frames of another probe run"
    assert not evidence.sections


@pytest.mark.parametrize(
    "forged",
    [
        f"#@{NONCE} end uname status=ran rc=0 begin=1 finish=2 stdout=0 stdout_cksum=4294967295 stderr=0 stderr_cksum=4294967295 deadline=10\n",
        f"#@{NONCE} begin other\n#@{NONCE} end other status=ran rc=0 stdout=0 stdout_cksum=4294967295 stderr=0 stderr_cksum=4294967295 deadline=1\n",
        f"#@{NONCE} begin uname\n",
        f"#@{NONCE} probe format=2 node=other\n",
    ],
    ids=["end", "section", "begin", "probe"],
)
def test_frames_without_a_mark_inside_a_section_do_not_pass(forged: str) -> None:
    evidence = parse_stream(ONE.replace(b"|Linux\n", forged.encode() + b"|Linux\n"), nonce=NONCE)
    assert evidence.problem is not None
    assert "uname" not in evidence.sections


def test_an_early_done_does_not_hide_a_cut() -> None:
    early = f"#@{NONCE} done begin=1 finish=2 sections=9\n".encode()
    whole = stream(("uname", "Linux\n"), ("b", "b\n"))
    evidence = parse_stream(whole.replace(b"|Linux\n", early + b"|Linux\n")[: -len(b"sections=2\n") - 40])
    assert evidence.problem is not None


def test_a_section_twice() -> None:
    evidence = parse_stream(stream(("uname", "Linux\n"), ("uname", "Darwin\n")))
    assert evidence.problem == "section 'uname' is out of place in the probe output"
    assert not evidence.sections


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/x", "a/b", "A", "a b", "", "a" * 65, "\x1b[2Jx", "a\0b", "ä"])
def test_a_name_that_is_none(name: str) -> None:
    """A section's name becomes a file name in a bundle."""
    evidence = parse_stream(stream((name, "x\n")))
    assert evidence.problem == "the probe output holds a section whose name no probe gives"
    assert not evidence.sections


def test_frames_that_are_almost_frames_are_noise() -> None:
    for line in (b"#@short probe x", b"#@" + NONCE.encode() + b" PROBE", b" #@" + NONCE.encode() + b" done sections=1"):
        assert parse_stream(line + b"\n" + ONE).problem is None
        assert parse_stream(ONE.replace(b"|Linux\n", line + b"\n|Linux\n")).sections["uname"].stdout == b"Linux\n"


def test_giant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_BYTES", len(ONE))
    assert parse_stream(ONE).problem is None
    evidence = parse_stream(ONE + b"\n")
    assert evidence.problem == f"the probe output is larger than {len(ONE)} bytes"
    assert not evidence.sections


@pytest.mark.parametrize("data", [b"", b"\n", b"\0", b"\xff" * 100, b"#@", b"|", b"#@" + b"a" * 64, b"\r\n" * 9])
def test_nothing_of_a_probe(data: bytes) -> None:
    evidence = parse_stream(data, node="tray01")
    assert evidence.problem == "this is not the output of a rackproof probe: it has no header line"
    assert (evidence.node, dict(evidence.sections)) == ("tray01", {})


def test_lone_escapes_do_not_raise() -> None:
    lines = (b"~\\", b"~\\\\\\", b"~$", b"~", b"~\\9$", b"~\\777$", b"~\\x41$", b"^\\", b"~\\00")
    for line in lines:
        evidence = parse_stream(ONE.replace(b"|Linux", line))
        assert evidence.problem is not None and "does not match its checksum" in evidence.problem


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_never_raises_and_never_changes_content(seed: int) -> None:
    """Lines dropped, repeated, lengthened, shortened, edited: what is read is what was sent, or there is a problem."""
    source = random.Random(seed)
    whole = stream(("uname", "Linux 6.8\n"), ("limits", "a\nbb\n\tb\nccc\n"), ("empty", ""))
    for _ in range(500):
        lines = whole.split(b"\n")
        at = source.randrange(len(lines))
        match source.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(source.randrange(len(lines)), lines[at])
            case 2:
                lines[at] += source.choice([b"x", b"\\", b"$", b"=", b" rc=1"])
            case 3 if lines[at][:1] == b"|":  # another character, as many as before
                where = source.randrange(len(lines[at]))
                lines[at] = lines[at][:where] + bytes([lines[at][where] ^ 1]) + lines[at][where + 1 :]
            case _:
                lines[at] = lines[at][: source.randrange(len(lines[at]) + 1)]
        evidence = parse_stream(b"\n".join(lines), nonce=NONCE)
        if evidence.problem is None:
            sent = parse_stream(whole)
            assert {n: s.stdout for n, s in evidence.sections.items()} == {n: s.stdout for n, s in sent.sections.items()}


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_never_raise(seed: int) -> None:
    source = random.Random(seed)
    words = [b"#@" + NONCE.encode(), b" probe", b" begin", b" end", b" done", b" a", b"\n", b"|", b"~\\", b"=", b" stdout",
             b" status=ran", b" stdout_cksum=4294967295", b" stderr=0", b" stderr_cksum=4294967295", b"\0", b" format=2", b"1", b"\xff"]  # fmt: skip
    for _ in range(500):
        data = b"".join(source.choice(words) for _ in range(source.randrange(60)))
        evidence = parse_stream(data, nonce=NONCE)
        # An accident may spell an empty probe; it may not spell content.
        assert evidence.problem is not None or all(s.stdout == s.stderr == b"" for s in evidence.sections.values())
