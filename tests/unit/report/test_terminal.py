from __future__ import annotations

import io
from pathlib import Path

import pytest
from report_builders import BASELINE, BRANCH, COUNT, LOCKSTEP, fail, need, node, rack, unit, unknown, unread

from rackproof.verdict.evaluate import Result, combine
from rackproof.verdict.model import Verdict
from rackproof.verdict.report.page import Options, Page, options_for
from rackproof.verdict.report.terminal import MAX_ROWS, render
from rackproof.verdict.report.words import SIMULATED

GOLDEN = Path(__file__).with_name("golden_plain.txt")
PLAIN = Options(plain=True)
HOSTILE = "\x1b[2J\x1b]0;pwned\x07[bold red]580[/bold red]\u202e\x07\r\nFAKE accept"


def test_golden_plain() -> None:
    """The whole plain report. After a change that is meant: print render(rack(), PLAIN) into the file and read it."""
    assert render(rack(), PLAIN).replace(BASELINE.hash[:12], "0123456789ab") == GOLDEN.read_text(encoding="utf-8")


def test_plain_is_ascii_without_boxes_or_trailing_blanks() -> None:
    text = render(rack(), PLAIN)
    assert text.isascii()
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_fits_its_width_but_for_the_matrix(width: int, plain: bool) -> None:
    lines = render(rack(), Options(plain=plain, width=width)).splitlines()
    limit = width if width >= 100 else 100  # the matrix has its own least width
    assert max(map(len, lines)) <= limit


def test_without_colour_there_is_no_escape_and_with_colour_there_is() -> None:
    assert "\x1b" not in render(rack(), Options())
    assert "\x1b[1;31m" in render(rack(), Options(color=True))


def test_quiet_is_one_line() -> None:
    text = render(rack(), Options(quiet=True, plain=True))
    assert text == "REJECT  18 nodes: gates 132 pass, 4 fail, 3 unknown, 13 blocked, 1 n.a.\n"
    simulated = combine([node("a", simulated=True)], [])
    assert render(simulated, Options(quiet=True)).count("\n") == 1
    assert SIMULATED in render(simulated, Options(quiet=True))


@pytest.mark.parametrize("color", [True, False])
def test_nothing_from_a_host_is_printed_as_it_is(color: bool) -> None:
    result = combine(
        [node(HOSTILE, fail(BRANCH, HOSTILE, HOSTILE), unknown(COUNT, HOSTILE)), unread("tray[1-999999999]", HOSTILE)],
        [unit(HOSTILE, [HOSTILE, "@all"], unknown(LOCKSTEP, HOSTILE))],
    )
    hostile = render(result, Options(color=color))
    for forbidden in ("\x1b[2J", "\x1b]", "\x07", "\u202e", "\r"):
        assert forbidden not in hostile
    assert "[bold red]580[/bold red]" in hostile  # markup is text
    assert not any(line.startswith("FAKE") for line in hostile.splitlines())


def test_long_values_are_cut_and_say_so() -> None:
    text = render(combine([node("a", fail(BRANCH, "y" * 5000))], []), Options())
    assert "[4600 more characters cut]" in " ".join(text.split())
    assert len(text) < 5000


def test_simulated_hardware_is_said_first() -> None:
    assert render(combine([node("a", simulated=True)], []), PLAIN).startswith(SIMULATED)
    assert SIMULATED not in render(rack(), PLAIN)


@pytest.mark.parametrize(
    ("result", "headline"),
    [
        (combine([node("a")], []), "ACCEPT  every gate passes on 1 node  (exit code 0)"),
        (combine([node("a"), unread("b")], []),
         "UNDETERMINED  not everything could be looked at on 1 of 2 nodes  (exit code 2)"),
        (combine([node("a")], [unit("u", "a", fail(LOCKSTEP))]), "REJECT  a gate fails on 1 of 1 unit  (exit code 1)"),
        (combine([], []), "UNDETERMINED  no node was looked at  (exit code 2)"),
        (Result(Verdict.UNSUPPORTED, (), ()), "UNSUPPORTED  no node was looked at  (exit code 4)"),
    ],
)  # fmt: skip
def test_headline(result: Result, headline: str) -> None:
    assert headline in render(result, PLAIN).splitlines()


def test_selfbuild_is_unsupported() -> None:
    mark = need("host.selfbuild", unsupported=True)
    result = combine([node("a", fail(mark), needs=(mark,))], [])
    assert "UNSUPPORTED  self-built, and so not the official baseline, on 1 of 1 node  (exit code 4)" in render(
        result, PLAIN
    )


def test_a_node_without_a_profile_is_never_ok() -> None:
    hardware = need("host.hardware")
    text = render(combine([node("a", unknown(hardware), baseline=None, needs=(hardware,))], []), PLAIN)
    assert "no baseline could be chosen" in text
    assert "anything about a: no hardware profile" in text
    assert "ok" not in text.split()


@pytest.mark.parametrize("count", [1, 4, 72, 1000])
def test_like_nodes_take_one_row_at_any_size(count: int) -> None:
    names = [f"rack{number // 18:02d}-tray{number % 18:02d}" for number in range(count)]
    lines = render(combine([node(name) for name in names], []), Options()).splitlines()
    assert len(lines) < 14
    assert any(line.startswith("✔ rack") for line in lines)


def test_a_thousand_different_nodes_stay_readable() -> None:
    nodes = [node(f"host{number}", fail(BRANCH, f"version {number}")) for number in range(1000)]
    needs = [need(f"host.n{number:02d}") for number in range(60)]
    odd = [node(f"odd{n}", *(fail(item) for item in needs[: n + 1]), needs=needs) for n in range(60)]
    text = render(combine([*nodes, *odd], []), Options())
    assert "and 994 more variants on 994 nodes (all in --json)" in text
    assert f"and {61 - MAX_ROWS} more nodes in {61 - MAX_ROWS} more rows" in text


class _Stream(io.StringIO):
    def __init__(self, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self.tty, self._encoding = tty, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self.tty


def test_colour_only_where_it_is_wanted() -> None:
    tty, pipe = _Stream(True), _Stream(False)
    assert options_for(tty, environ={}).color
    assert not options_for(pipe, environ={}).color
    assert options_for(pipe, environ={"FORCE_COLOR": "1"}).color
    assert not options_for(tty, environ={"NO_COLOR": "1", "FORCE_COLOR": "1"}).color
    assert not options_for(tty, environ={"TERM": "dumb"}).color
    assert not options_for(tty, plain=True, environ={"FORCE_COLOR": "1"}).color
    assert options_for(_Stream(True, "ANSI_X3.4-1968"), environ={}).plain
    assert options_for(tty, environ={"COLUMNS": "200"}).width == 120
    assert options_for(pipe, environ={"COLUMNS": "40"}).width == 100


def test_wrapping_breaks_nodesets_between_names() -> None:
    page = Page(Options())
    assert page.wrapped("a[1,2],b[3,4],c[5,6]", 8) == ["a[1,2],", "b[3,4],", "c[5,6]"]
    assert page.wrapped("a[11,22,33,44]", 8) == ["a[11,22,", "33,44]"]
    assert page.wrapped("x" * 20, 8) == ["x" * 8, "x" * 8, "x" * 4]
    assert page.wrapped("", 8) == [""]
