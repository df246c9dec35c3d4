"""Where the lines come from: a stream is read whole, a large file only where it says something.

Of a gigabyte nearly all lines are requests and statistics. Python would take a minute to look at each; grep finds the
lines that hold any text of the rules at the speed of the disk, and only those are looked at. Start and end of the file
are read in full, so that where a run began and where it stopped never depends on a keyword.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rackproof.errors import InputError
from rackproof.triage.diagnose import keywords
from rackproof.triage.reader import Line, capped, lines, parse

SMALL = 8 * 1024 * 1024  # bytes up to which nothing is gained
EDGE = 256 * 1024  # bytes at the start and the end that are read in full
MOST = 100_000  # lines with a keyword; a log with more is read whole
_BLOCK = 4 * 1024 * 1024


def read(path: Path, small: int = SMALL, edge: int = EDGE) -> Iterator[Line]:
    """The lines of a file that can matter, with their numbers. Raises InputError where it cannot be read.

    The search of a large file begins with the call, before the first line is asked for, so that it runs meanwhile.
    """
    try:
        if path.is_dir():
            raise InputError(str(path), "is a directory", "a log file, or - for standard input")
        large = path.is_file() and path.stat().st_size > max(small, 2 * edge)
        search = _Search(path) if large and shutil.which("grep") else None
        return _lines(path, search, edge)
    except OSError as error:
        raise _unreadable(path, error) from None


def _lines(path: Path, search: _Search | None, edge: int) -> Iterator[Line]:
    try:
        if search is not None:
            size = path.stat().st_size
            before = _newlines(path, size - edge)  # while grep is at work
            if (found := search.found()) is not None:
                yield from _selected(path, found, edge, size, before)
                return
        with path.open("rb") as stream:
            yield from lines(stream)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(str(path), f"cannot be read: {error.strerror or error}", "a log file, or -")


class _Search:
    """A grep for every keyword, started at once."""

    def __init__(self, path: Path) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8") as patterns:
            patterns.write("\n".join(keywords()) + "\n")
            patterns.seek(0)
            command = [shutil.which("grep") or "grep", "-a", "-n", "-F", "-f", "-", "--", str(path.resolve())]
            self._process = subprocess.Popen(
                command, stdin=patterns, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip

    def found(self) -> list[Line] | None:
        """The lines with a keyword; None where grep fails, or finds so many that it saves nothing."""
        with self._process as process:
            assert process.stdout is not None
            lines = [_numbered(line) for line in islice(capped(process.stdout), MOST + 1)]
            if len(lines) > MOST:
                process.kill()
                return None
        return lines if process.returncode in (0, 1) else None


def _numbered(line: bytes) -> Line:
    number, _, text = line.partition(b":")
    return parse(int(number), text)


def _selected(path: Path, found: list[Line], edge: int, size: int, before: int) -> Iterator[Line]:
    """Start and end in full, and between them what was found; `before`: line ends before the part at the end."""
    with path.open("rb") as stream:
        first = 0
        for line in lines(stream):
            first = line.number
            yield line
            if stream.tell() >= edge:
                break
        yield from (line for line in found if first < line.number <= before + 1)
        stream.seek(size - edge)
        stream.readline()  # the rest of a line that was cut in two: grep has looked at it
        for line in lines(stream):
            if (number := line.number + before + 1) > first:
                yield replace(line, number=number)


def _newlines(path: Path, end: int) -> int:
    """Line ends before a place in the file."""
    count = 0
    with path.open("rb") as stream:
        while end > 0 and (block := stream.read(min(_BLOCK, end))):
            count += block.count(b"\n")
            end -= len(block)
    return count
