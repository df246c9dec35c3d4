"""Time stamps: every form is read, and only stamps of one kind are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackproof.triage.clock import DAY, Moment, distance
from rackproof.triage.reader import parse


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("08-12 10:11:12", "08-12 10:19:34", 502),
        ("08-12 10:11:12", "08-12 10:11:11", -1),
        ("12-31 23:59:50", "01-01 00:00:10", 20),
        ("01-01 00:00:10", "12-31 23:59:50", -20),
        ("02-28 23:59:59", "03-01 00:00:01", 2),  # no year says whether it is a leap year: the shorter way counts
        ("02-28 23:59:59", "02-29 00:00:01", 2),
        ("2024-02-28T23:59:59Z", "2024-03-01T00:00:01Z", DAY + 2),
        ("2026-03-11T17:57:09.855212259Z", "2026-03-11T17:57:10.355212259Z", 0.5),
        ("2026-03-11T17:57:09+01:00", "2026-03-11T16:57:19Z", 10),
        ("2026-03-11 17:57:09", "2026-03-11 17:57:10", 1),
        ("07/24/2025-08:13:02", "07/24/2025-08:14:02", 60),
        ("Apr  9 01:21:38 2024", "Apr  9 01:21:40 2024", 2),
        ("Jul  1 10:00:00", "Jul  1 10:00:05", 5),
        ("Mar 21 2025 20:45:38", "Mar 21 2025 20:45:39", 1),
        ("2026-08-12T10:11:12Z", "08-12 10:11:22", 10),
    ],
)
def test_distance(earlier: str, later: str, seconds: float) -> None:
    assert distance(earlier, later) == pytest.approx(seconds)


@pytest.mark.parametrize("stamp", ["", "hello", "13-40 99:99:99", "Foo  9 01:21:38 2024", "02-30 10:00:00"])
def test_what_is_no_stamp_has_no_distance(stamp: str) -> None:
    assert distance(stamp, "08-12 10:11:12") is None
    assert distance("08-12 10:11:12", stamp) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_read_or_refused(one: str, two: str) -> None:
    distance(one, two)


def test_only_stamps_of_one_kind_are_compared() -> None:
    engine, container = Moment(own="08-12 10:11:12"), Moment(outer="2026-08-12T10:11:12Z")
    assert engine.after(container) is None
    both = Moment("08-12 10:11:20", "2026-08-12T12:11:20Z")
    assert both.after(engine) == 8
    assert both.after(container) == 7208


@pytest.mark.parametrize(
    ("raw", "own", "outer"),
    [
        ("(Worker_TP0 pid=9) INFO 08-12 10:11:12 [a.py:1] x", "08-12 10:11:12", ""),
        ("2026-03-11T17:57:09.85Z (APIServer pid=1) INFO 03-11 17:57:09 [a.py:1] x", "03-11 17:57:09",
         "2026-03-11T17:57:09.85Z"),
        ("Jul 01 10:00:00 tray01 vllm[4711]: x", "", "Jul 01 10:00:00"),
        ("[2026-07-30 01:58:54 DP0 TP6] x", "2026-07-30 01:58:54", ""),
        ("[07/24/2025-08:13:02] [TRT-LLM] [I] x", "07/24/2025-08:13:02", ""),
        ("[Tue Apr  9 01:21:38 2024] NVRM: x", "Apr  9 01:21:38 2024", ""),
        ("[Mar 21 2025 20:45:38] [INFO] x", "Mar 21 2025 20:45:38", ""),
        ("x", "", ""),
    ],
)  # fmt: skip
def test_stamps_of_a_line(raw: str, own: str, outer: str) -> None:
    assert parse(1, raw.encode()).moment == Moment(own, outer)
