"""Streams that arrive as they were sent, and small damage that transports and editors do."""

from __future__ import annotations

import hashlib

import pytest
from core_builders import NONCE, stream

from rackproof.evidence.sections import Status
from rackproof.evidence.stream import parse_stream

WHOLE = stream(("uname", "Linux\n"), ("empty", ""), ("os_release", "ID=ubuntu\nVERSION_ID=24.04\n"))


def test_a_whole_stream() -> None:
    evidence = parse_stream(WHOLE, nonce=NONCE)
    assert evidence.problem is None
    assert {name: section.stdout for name, section in evidence.sections.items()} == {
        "uname": b"Linux\n", "empty": b"", "os_release": b"ID=ubuntu\nVERSION_ID=24.04\n",
    }  # fmt: skip
    assert (evidence.node, evidence.probe_version, evidence.nonce) == ("tray01", "0.1", NONCE)
    assert (evidence.started, evidence.seconds) == ("2026-01-01T00:00:00Z", 1.25)
    assert evidence.sha256 == hashlib.sha256(WHOLE).hexdigest()
    uname = evidence.sections["uname"]
    assert (uname.status, uname.rc, uname.seconds, uname.deadline_s) == (Status.RAN, 0, 0.5, 10)


def test_the_asker_knows_the_name_better_than_the_node() -> None:
    assert parse_stream(WHOLE, node="rack1-tray07").node == "rack1-tray07"


def test_truncated_at_every_byte() -> None:
    """Only the newline after the last frame may be missing: then nothing is."""
    assert parse_stream(WHOLE[:-1]).problem is None
    for end in range(len(WHOLE) - 1):
        evidence = parse_stream(WHOLE[:end])
        assert evidence.problem, end
        for name, section in evidence.sections.items():
            assert section.stdout == parse_stream(WHOLE).sections[name].stdout


def test_cut_off_keeps_what_arrived_whole() -> None:
    cut = parse_stream(WHOLE[: WHOLE.index(b"|VERSION_ID")])
    assert cut.problem == "the probe output is cut off after 2 sections"
    assert set(cut.sections) == {"uname", "empty"}


@pytest.mark.parametrize("position", [i for i, byte in enumerate(WHOLE) if byte in b"|"])
def test_one_character_more_or_less_is_caught(position: int) -> None:
    for changed in (WHOLE[: position + 1] + b"x" + WHOLE[position + 1 :], WHOLE[:position] + WHOLE[position + 1 :]):
        evidence = parse_stream(changed)
        assert evidence.problem is not None and "does not match its checksum" in evidence.problem
        assert not evidence.sections


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"stdout=6", b"stdout=7", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=5", "'uname' does not match its checksum"),
        (b"stdout_cksum=", b"stdout_cksum=1", "'uname' does not match its checksum"),
        (b"stdout_cksum=", b"cksum=", "'uname' does not match its checksum"),
        (b"stderr_cksum=4294967295", b"stderr_cksum=4294967294", "'uname' does not match its checksum"),
        (b"|Linux\n", b"|Linus\n", "'uname' does not match its checksum"),
        (b"|VERSION_ID=24.04\n", b"|VERSION_ID=22.04\n", "'os_release' does not match its checksum"),
        (b"|ID=ubuntu\n|VERSION_ID=24.04\n", b"|VERSION_ID=24.04\n|ID=ubuntu\n", "'os_release' does not match"),
        (b"|Linux\n", b"|Linuxx\n", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=4", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=six", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=-6", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=inf", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=nan", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=1e400", "'uname' does not match its checksum"),
        (b"stdout=6", b"stdout=" + b"9" * 5000, "'uname' does not match its checksum"),
        (b"stderr=0", b"stderr=1", "'uname' does not match its checksum"),
        (b"stderr=0", b"", "'uname' does not match its checksum"),
        (b"status=ran", b"status=fine", "'uname' does not match its checksum"),
        (b"status=ran", b"", "'uname' does not match its checksum"),
        (b"|Linux\n", b"", "'uname' does not match its checksum"),
        (b"|Linux\n", b"Linux\n", "'uname' does not match its checksum"),
        (b"end uname", b"end uname2", "'uname2' is out of place"),
        (b"begin empty", b"begin uname", "'empty' is out of place"),
        (b"sections=3", b"sections=2", "says 2 sections and holds 3"),
        (b"sections=3", b"sections=03", "says 03 sections and holds 3"),
        (b"sections=3", b"", "says None sections and holds 3"),
        (b"format=2", b"format=1", "has format 1, of an older rackproof; this version reads 2: make a new probe"),
        (b"format=2", b"format=3", "has format '3'; this version reads 2"),
        (b"format=2", b"", "has format None"),
        (NONCE.encode() + b" done", b"nonce-9999999999 done", "frames of another probe run"),
        (b"#@" + NONCE.encode() + b" probe", b"# probe", "no header line"),
    ],
)
def test_edited(old: bytes, new: bytes, problem: str) -> None:
    assert old in WHOLE
    evidence = parse_stream(WHOLE.replace(old, new, 1))
    assert evidence.problem is not None and problem in evidence.problem
    assert not evidence.sections


@pytest.mark.parametrize("value", [b"inf", b"nan", b"-1", b"1e999", b"x", b"", b"9" * 5000])
def test_hostile_numbers_of_no_consequence(value: bytes) -> None:
    changed = WHOLE
    for field in (b"rc=0", b"deadline=10", b"begin=10.00", b"finish=10.50", b"finish=11.25"):
        changed = changed.replace(field, field.partition(b"=")[0] + b"=" + value)
    evidence = parse_stream(changed)
    section = evidence.sections["uname"]
    assert evidence.problem is None
    assert (section.rc, section.stdout) == (None, b"Linux\n")
    for seconds in (section.seconds, evidence.seconds):
        assert seconds == seconds and abs(seconds) < float("inf")
    assert section.deadline_s == 0


def test_crlf_is_undone() -> None:
    evidence = parse_stream(WHOLE.replace(b"\n", b"\r\n"))
    assert evidence.problem is None
    assert evidence.sections["uname"].stdout == b"Linux\n"


def test_text_around_the_stream_is_ignored() -> None:
    evidence = parse_stream(b"Welcome to tray01!\n" + WHOLE + b"logout\n")
    assert evidence.problem is None
    assert len(evidence.sections) == 3


def test_noise_inside_a_section_does_not_enter_it() -> None:
    evidence = parse_stream(WHOLE.replace(b"|Linux\n", b"channel 3: warning\n|Linux\n"))
    assert (evidence.problem, evidence.sections["uname"].stdout) == (None, b"Linux\n")
