"""POSIX cksum(1), which every node has: the one checksum that a probe can take without installing anything.

It is CRC-32 with the polynomial of zlib.crc32, but most significant bit first, from 0, with the length appended and
the result inverted (POSIX.1-2017, cksum, DESCRIPTION). Reversing the bits of every byte makes the two the same, so
that zlib does the work. It tells accidents and careless edits; against intent there is the signature of a bundle.
"""

from __future__ import annotations

import zlib

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def cksum(data: bytes) -> int:
    """What `cksum` prints first."""
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8, "little")
    crc = zlib.crc32((data + length).translate(_REVERSED), 0xFFFFFFFF)  # cancels zlib's own start value
    return int(f"{crc:032b}"[::-1], 2)
