"""The checksum is the one that cksum(1) prints."""

from __future__ import annotations

import random
import subprocess

import pytest
from core_builders import EMPTY, stream

from rackproof.evidence.cksum import cksum
from rackproof.evidence.stream import parse_stream


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 65_535, 65_536, 300_000])
def test_as_the_tool_prints_it(size: int) -> None:
    data = random.Random(size).randbytes(size)
    printed = subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout
    assert int(printed.split()[0]) == cksum(data)


def test_known_values() -> None:
    assert cksum(b"") == EMPTY
    assert cksum(b"123456789") == 930766865  # POSIX check value of CRC-32/CKSUM with the length appended


def test_every_edit_of_one_character_shows() -> None:
    whole = stream(("uname", "Linux 6.8.0\n"), ("limits", "1024\n4096\n"))
    for at, byte in enumerate(whole):
        line = whole[whole.rfind(b"\n", 0, at) + 1 : at]
        if line[:1] == b"|" and byte != ord("\n"):
            edited = whole[:at] + bytes([byte ^ 1]) + whole[at + 1 :]
            problem = parse_stream(edited).problem
            assert problem is not None and "does not match its checksum" in problem
