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
    """The lines of a file that can matter, with their numbers. Raises InputError where it cannot be read."""
    try:
        if path.is_dir():
            raise InputError(str(path), "is a directory", "a log file, or - for standard input")
        if path.is_file() and path.stat().st_size > max(small, 2 * edge) and (found := _grepped(path)) is not None:
            yield from _selected(path, found, edge)
            return
        with path.open("rb") as stream:
            yield from lines(stream)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}", "a log file, or -") from None


def _grepped(path: Path) -> list[Line] | None:
    """The lines with a keyword; None where grep is missing, fails, or finds so many that it saves nothing."""
    grep = shutil.which("grep")
    if grep is None:
        return None
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as patterns:
        patterns.write("\n".join(keywords()) + "\n")
        patterns.flush()
        command = [grep, "-a", "-n", "-F", "-f", patterns.name, "--", str(path.resolve())]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}
        ) as process:
            assert process.stdout is not None
            found = [_numbered(line) for line in islice(capped(process.stdout), MOST + 1)]
            if len(found) > MOST:
                process.kill()
                return None
        return found if process.returncode in (0, 1) else None


def _numbered(line: bytes) -> Line:
    number, _, text = line.partition(b":")
    return parse(int(number), text)


def _selected(path: Path, found: list[Line], edge: int) -> Iterator[Line]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = 0
        for line in lines(stream):
            first = line.number
            yield line
            if stream.tell() >= edge:
                break
        before = _newlines(path, size - edge)
        yield from (line for line in found if first < line.number <= before + 1)
        stream.seek(size - edge)
        stream.readline()  # the rest of a line that was cut in two: grep has looked at it
        for line in lines(stream):
            if (number := line.number + before + 1) > first:
                yield Line(number, line.rank, line.text, line.raw)


def _newlines(path: Path, end: int) -> int:
    """Line ends before a place in the file."""
    count = 0
    with path.open("rb") as stream:
        while end > 0 and (block := stream.read(min(_BLOCK, end))):
            count += block.count(b"\n")
            end -= len(block)
    return count
