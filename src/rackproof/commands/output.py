"""Writing: to standard output that may close early, and to files that are never half written."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rackproof.commands.options import Outputs
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.verdict.evaluate import Result
    from rackproof.verdict.report.proof import Look


def say(text: str, stream: TextIO | None = None) -> None:
    """Print text as it is. A reader that went away (`| head`) is no error and must not change the exit code."""
    stream = stream or sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        stream.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write(target: str, text: str) -> None:
    """Write to a file, or to standard output for `-`."""
    if target == "-":
        say(text)
        return
    path = Path(os.path.realpath(target))
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # /dev/null, a pipe: renaming onto it would replace it
        else:
            _replace(path, text)
    except OSError as error:
        raise InputError(
            target, f"cannot be written: {error.strerror or error}", "a file that can be written"
        ) from None


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)  # the only way to read it
    os.umask(mask)
    return mask


def check(wanted: Outputs) -> None:
    """Refuse a place that cannot be written before minutes are spent on reading nodes."""
    for target in wanted.files.values():
        if target == "-":
            continue
        path = Path(os.path.realpath(target))
        if path.is_dir():
            raise InputError(target, "is a directory", "a file name, or - for standard output")
        if not path.parent.is_dir():
            raise InputError(target, f"there is no directory {path.parent}", "a file in a directory that exists")


def emit(result: Result, wanted: Outputs, look: Look) -> None:
    """Write every report that was asked for. The files come first: they are what somebody else waits for.

    `look` gives the evidence of a node by its name, for reports that quote it.
    """
    from rackproof.verdict.report import annotations, html, json_report, junit, letter, prometheus, terminal
    from rackproof.verdict.report.page import options_for

    renderers: dict[str, Callable[[], str]] = {
        "json": lambda: json_report.render(result),
        "html": lambda: html.render(result, look),
        "letter": lambda: letter.render(result, look),
        "junit": lambda: junit.render(result),
        "prometheus": lambda: prometheus.render(result, look),
        "gitlab": lambda: annotations.gitlab(result),
    }
    stream = sys.stderr if "-" in wanted.files.values() else sys.stdout
    try:
        for name, target in wanted.files.items():
            write(target, renderers[name]())
    finally:  # a full disk must not cost the reader what was found out
        options = options_for(stream, quiet=wanted.quiet, plain=wanted.plain)
        say(terminal.render(result, options), stream)
    if wanted.github:
        say(annotations.github(result))
