"""A page of aligned text: the few things of rich that the reports use, with every line break under our control.

rich's tables pad each line with blanks and its markup would be interpreted in text from a host; `Text` does neither.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rackproof.verdict.report.clean import VALUE_CHARS, clean
from rackproof.verdict.report.fold import outer_commas

WIDTH = 100
LABEL = 12


@dataclass(frozen=True)
class Options:
    """How a report is to look. `plain`: ASCII only and never a colour. `quiet`: one line."""

    quiet: bool = False
    plain: bool = False
    color: bool = False
    width: int = WIDTH


def options_for(
    stream: TextIO, *, quiet: bool = False, plain: bool = False, environ: Mapping[str, str] = os.environ
) -> Options:
    """What suits a stream: colour only on a terminal without NO_COLOR, ASCII where the encoding has nothing else."""
    ascii_only = plain or not (stream.encoding or "ascii").lower().replace("-", "").startswith("utf")
    tty = stream.isatty()
    muted = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    color = not ascii_only and not muted and (tty or bool(environ.get("FORCE_COLOR")))
    width = _columns(stream, environ) if tty else WIDTH
    return Options(quiet, ascii_only, color, width)


def _columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Never wider than reads well, never so narrow that labels leave no room for values."""
    try:
        columns = int(environ["COLUMNS"]) if "COLUMNS" in environ else os.get_terminal_size(stream.fileno()).columns
    except (ValueError, OSError):
        columns = WIDTH
    return max(60, min(columns or WIDTH, 120))


class Page:
    """Lines of styled text; `str(page)` is the page with or without colour codes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ascii = options.plain
        self._out = io.StringIO()
        self._console = Console(
            file=self._out,
            width=options.width,
            force_terminal=options.color,
            color_system="standard" if options.color else None,
            highlight=False,
            legacy_windows=False,
            _environ={},  # the decision is made; rich is not to look at NO_COLOR or COLUMNS a second time
        )

    def __str__(self) -> str:
        return self._out.getvalue()

    def clean(self, text: str, limit: int = VALUE_CHARS) -> str:
        return clean(text, limit, self.ascii)

    def mark(self, unicode: str, ascii_only: str) -> str:
        """A sign, or the word that stands for it where only ASCII is wanted."""
        return ascii_only if self.ascii else unicode

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line of (text, style) parts, never wrapped."""
        text = Text.assemble(*parts)
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def field(self, label: str, value: str, style: str = "", indent: int = 4, label_width: int = LABEL) -> None:
        """`label  value`, wrapped under the value."""
        margin = indent + label_width + 1
        for number, part in enumerate(self.wrapped(value, self.options.width - margin)):
            start = " " * indent + f"{label if number == 0 else '':<{label_width}} "
            self.line((start, "dim"), (part, style))

    def paragraph(self, value: str, style: str = "", indent: int = 2) -> None:
        for part in self.wrapped(value, self.options.width - indent):
            self.line(" " * indent, (part, style))

    def wrapped(self, value: str, width: int) -> list[str]:
        """Lines of at most `width` cells; long words without blanks (nodesets) break after a comma where they can."""
        words = (piece for word in value.split(" ") for piece in _pieces(word, width))
        joined = " ".join(words)
        return [part.plain.rstrip() for part in Text(joined).wrap(self._console, width, overflow="fold")] or [""]


def _pieces(word: str, width: int) -> list[str]:
    """A word cut into pieces that fit: between names of a nodeset first, inside brackets where one is still too long."""
    if cell_len(word) <= width or "," not in word:
        return [word]
    ends = [0, *(end + 1 for end in outer_commas(word)), len(word)]
    pieces: list[str] = []
    for start, end in pairwise(ends):
        item = word[start:end]
        pieces += [item] if cell_len(item) <= width else _filled(re.findall(r"[^,]*,|[^,]+", item), width)
    return _filled(pieces, width)


def _filled(items: list[str], width: int) -> list[str]:
    pieces = [""]
    for item in items:
        if pieces[-1] and cell_len(pieces[-1]) + cell_len(item) > width:
            pieces.append("")
        pieces[-1] += item
    return pieces


def pad(text: str, width: int) -> str:
    """Text filled up to `width` terminal cells; wide characters count as two."""
    return text + " " * max(0, width - cell_len(text))
