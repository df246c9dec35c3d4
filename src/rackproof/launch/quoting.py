"""Words of a command, written so that each reader (shell, systemd, compose, docker's CSV) gives back the same words."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence

from rackproof.errors import InputError
from rackproof.verdict.report.clean import printable

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@,+-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def shell(word: str) -> str:
    """A word for a POSIX shell."""
    return shlex.quote(one_line(word))


def systemd(word: str) -> str:
    """A word of ExecStart=: specifiers (%) and variables ($) doubled, quotes and backslashes escaped.

    https://www.freedesktop.org/software/systemd/man/systemd.service.html#Command%20lines
    """
    if _PLAIN.fullmatch(one_line(word)):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def systemd_text(text: str) -> str:
    """Text of a setting that is no command, such as Description=."""
    return one_line(text).replace("%", "%%").rstrip("\\")


def systemd_path(path: str) -> str:
    """A path in a setting that takes a list of paths, such as RequiresMountsFor=."""
    escaped = one_line(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN.fullmatch(path) else f'"{escaped}"'


def compose(text: str) -> str:
    """A string for a compose file, where $ starts a variable."""
    return one_line(text).replace("$", "$$")


def csv_fields(fields: Sequence[str]) -> str:
    """Fields as docker's --mount reads them: CSV, so that a path may hold a comma or a quote."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([one_line(field) for field in fields])
    return out.getvalue()


def comment(text: str) -> str:
    """Text that cannot leave its comment line."""
    return printable(text)


def one_line(word: str) -> str:
    """The same text; raises InputError where it would begin another line."""
    if _CONTROL.search(word):
        raise InputError("launch", f"{word!r} holds a control character", "one line of text")
    return word
