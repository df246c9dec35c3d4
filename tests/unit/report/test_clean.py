"""Nothing from a host reaches a terminal as it is."""

from __future__ import annotations

import pytest

from rackproof.verdict.report.clean import clean, clean_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("580.126.20", "580.126.20"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;never ended", r"\x1b]52;c;never ended"),
        ("\x9b2Jcleared", "cleared"),
        ("a\x1bc", r"a\x1bc"),
        ("a\x00\x08b\x7f", r"a\x00\x08b\x7f"),
        ("one\r\ntwo\tthree", "one two three"),
        ("evil\u202etxt\u2066", r"evil\u202etxt\u2066"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("lone\ud800surrogate", r"lone\ud800surrogate"),
        ("line\u2028break", "line break"),
        ("grüße 机器", "grüße 机器"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown
    assert clean(text).isprintable()


def test_length_is_capped_and_said() -> None:
    assert clean("x" * 1000, 100) == "x" * 100 + " [900 more characters cut]"


def test_ascii() -> None:
    assert clean("grüße ≥", ascii_only=True) == r"gr\xfc\xdfe \u2265"


def test_hostile_sizes_stay_linear() -> None:
    assert len(clean("\x1b]" * 200_000)) < 500
    assert len(clean("\x1b[" + "1;" * 200_000)) < 500


def test_lines_are_kept() -> None:
    assert clean_lines("first\n  second\x1b[2J\n\x07") == "first\n  second\n\\x07"
    assert clean_lines("x" * 5000).endswith("[1000 more characters cut]")
