"""Text from a host, made safe to show.

What a host says is hostile until proven otherwise: a product name may hold terminal escapes, a path may hold a
right-to-left override. Nothing else stands between evidence and a person's terminal, so every renderer cleans every
string it did not write itself.
"""

from __future__ import annotations

import re

VALUE_CHARS = 400  # observed, expected, reason: five lines of a report
NAME_CHARS = 80

# Complete escape sequences carry no information for a reader. Lengths are bounded, so that a hostile text cannot make
# the search quadratic; what does not match is shown as a visible escape instead.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS: titles, links
)


def printable(text: str) -> str:
    r"""Every character that is not printable as a visible escape (`\x1b`, `\u202e`); blanks are kept, lines are not."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def clean(text: str, limit: int = VALUE_CHARS, ascii_only: bool = False) -> str:
    """One line, printable, without terminal escapes, at most `limit` characters and then how many were cut."""
    line = printable(" ".join(_ANSI.sub("", text).split()))
    if ascii_only:
        line = line.encode("ascii", "backslashreplace").decode("ascii")
    if len(line) <= limit:
        return line
    return f"{line[:limit].rstrip()} [{len(line) - limit} more characters cut]"


def clean_lines(text: str, limit: int = 4000) -> str:
    """Several lines, each printable; for messages that are laid out on purpose."""
    lines = [printable(_ANSI.sub("", line)) for line in text[:limit].splitlines()]
    cut = [f"[{len(text) - limit} more characters cut]"] if len(text) > limit else []
    return "\n".join([*lines, *cut])


def _visible(char: str) -> str:
    if char.isspace():
        return " "  # a no-break space or a line separator: a blank that only looks different
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
