"""Logs that still grow: read to their end, wait, read on; through rotation, truncation and files that come later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from rackproof.errors import InputError
from rackproof.triage.reader import MAX_LINE, Line, parse

Wait = Callable[[], None]


class Tail:
    """One growing file. `poll` gives the lines that are complete by now; `rest` the last one, complete or not.

    A file that was rotated is read to its end before the new one is begun; one that was truncated is read from its
    start again (a file that grew past the old end meanwhile cannot be told from one that only grew).
    """

    def __init__(self, path: Path) -> None:
        self._path, self._number, self._part = path, 0, b""
        self._skipping = False  # the rest of a line longer than MAX_LINE
        self._stream = self._opened()
        if self._stream is None:
            raise InputError(str(path), "there is no such file", "a log file that exists, or -")

    def poll(self) -> Iterator[Line]:
        """Every line that was completed since the last call."""
        while True:
            yield from self._complete()
            following = self._next()
            if following is None:
                return
            yield from self._complete()  # what was written between the last read and the rename
            yield from self.rest()
            self._close()
            self._stream = following

    def rest(self) -> Iterator[Line]:
        """The line at the end that has no end yet."""
        part, self._part = self._part, b""
        if part and (line := self._line(part)).text:
            yield line

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _complete(self) -> Iterator[Line]:
        assert self._stream is not None
        while part := self._stream.readline(MAX_LINE):
            ended = part.endswith(b"\n")
            if self._skipping:
                self._skipping = not ended
                continue
            self._part += part
            if ended or len(self._part) >= MAX_LINE:
                self._skipping = not ended
                yield from self.rest()

    def _line(self, part: bytes) -> Line:
        self._number += 1
        return parse(self._number, part[:MAX_LINE])

    def _next(self) -> IO[bytes] | None:
        """The file to go on with, where it is another one; a truncated one is rewound in place."""
        assert self._stream is not None
        have = os.fstat(self._stream.fileno())
        try:
            there = self._path.stat()
        except OSError:
            return None  # rotated away, and the new one is not there yet
        if (there.st_dev, there.st_ino) != (have.st_dev, have.st_ino):
            return self._opened()
        if have.st_size < self._stream.tell():
            return self._opened()
        return None

    def _opened(self) -> IO[bytes] | None:
        try:
            if self._path.is_dir():
                raise InputError(str(self._path), "is a directory", "a log file, or - for standard input")
            return self._path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(self._path), f"cannot be read: {error.strerror or error}", "a log file") from None


def follow(tails: Sequence[tuple[str, Tail]], wait: Wait) -> Iterator[tuple[str, Line]]:
    """(log, line) of all of them as they come, without end; `wait` is called when there is nothing new."""
    while True:
        for name, tail in tails:
            yield from ((name, line) for line in tail.poll())
        wait()
