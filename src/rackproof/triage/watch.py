"""What is said while a log is followed: a line for each stage that is reached, and for each answer that changes."""

from __future__ import annotations

from typing import TextIO

from rackproof.triage.diagnose import Diagnosis, Log
from rackproof.verdict.report.clean import NAME_CHARS, clean


class Watch:
    """Lines on a stream, one each time the answer of a log becomes another. Looks only where something may have changed."""

    def __init__(self, stream: TextIO, quiet: bool = False) -> None:
        self._stream, self._quiet = stream, quiet
        self._said: dict[str, str] = {}
        self._looked: dict[str, tuple[int, ...]] = {}

    def see(self, name: str, log: Log) -> None:
        """Say what changed in a log, if anything did."""
        if self._quiet or self._looked.get(name) == (state := log.progress()):
            return
        self._looked[name] = state
        for origin, answer in log.answers().items():
            where = f"{name} {origin}".strip()
            words = _words(answer)
            if self._said.get(where) != words:
                self._said[where] = words
                self._stream.write(f"{clean(where, NAME_CHARS)}: {words}\n")
                self._stream.flush()


def _words(answer: Diagnosis) -> str:
    reached = answer.timings[-1].stage if answer.timings else "nothing yet"
    if answer.confidence:
        return f"{reached}: {answer.class_} ({answer.confidence}, {answer.rule})"
    failed = answer.class_ == "unknown" and answer.failed
    return f"{reached}: failed, cause not known yet" if failed else reached
