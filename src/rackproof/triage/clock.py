"""Time stamps as engines, containers, journals and kernels print them; compared, never trusted to be complete.

Most carry no year, and two processes may live in different time zones: only stamps of one kind are compared, and only
their distance counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

DAY = 86_400.0
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[T ]{_TIME}(?P<zone>Z|[+-]\d\d:?\d\d)?",
        rf"(?P<month>\d\d)-(?P<day>\d\d) {_TIME}",  # vLLM
        rf"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}})-{_TIME}",  # TensorRT-LLM
        rf"(?P<name>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) (?P<year>\d{{4}}) {_TIME}",  # nvidia-imex
        rf"(?P<name>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_TIME}(?: (?P<year>\d{{4}}))?",  # journal; dmesg -T
    )
)
_NO_YEAR = 2000  # one that has every day, for stamps without a year


@dataclass(frozen=True)
class Moment:
    """The stamps of one line, as printed: the engine's own, and that of the container or journal around it."""

    own: str = ""
    outer: str = ""

    def after(self, earlier: Moment) -> float | None:
        """Seconds since another moment, below 0 if it was later; None where they share no kind of stamp."""
        for kind in ("own", "outer"):
            one, two = getattr(earlier, kind), getattr(self, kind)
            if one and two and (found := distance(one, two)) is not None:
                return found
        return None

    @property
    def shown(self) -> str:
        return self.own or self.outer


NEVER = Moment()


def distance(earlier: str, later: str) -> float | None:
    """Seconds from one stamp to another; None where either is none. Without a year the shorter way round counts."""
    one, two = _read(earlier), _read(later)
    if one is None or two is None:
        return None
    if one[0] and two[0]:
        return two[1] - one[1]
    start, end = _in_no_year(one), _in_no_year(two)
    seconds = end - start
    if abs(seconds) > 183 * DAY:  # over New Year
        return seconds - (366 * DAY if seconds > 0 else -366 * DAY)
    march = datetime(_NO_YEAR, 3, 1, tzinfo=UTC).timestamp()
    if start < march - DAY and end >= march and seconds >= DAY:
        return seconds - DAY  # three years in four have no 29 February
    return seconds


def _in_no_year(stamp: tuple[bool, float]) -> float:
    known, seconds = stamp
    return datetime.fromtimestamp(seconds, UTC).replace(year=_NO_YEAR).timestamp() if known else seconds


def _read(stamp: str) -> tuple[bool, float] | None:
    """(whether the year is known, seconds)."""
    found = next((match for form in _FORMS if (match := form.match(stamp))), None)
    if found is None:
        return None
    parts = found.groupdict()
    name = parts.get("name")
    if name is not None and name not in _MONTHS:
        return None
    month = _MONTHS.index(name) + 1 if name else int(parts["month"])
    year = parts.get("year")
    hours, minutes, seconds = (int(part) for part in parts["clock"].split(":"))
    try:
        at = datetime(int(year or _NO_YEAR), month, int(parts["day"]), hours, minutes, seconds, tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return year is not None, at + float(f"0.{parts['fraction'] or 0}") - _offset(parts.get("zone") or "Z")


def _offset(zone: str) -> float:
    """Seconds east of UTC."""
    if zone == "Z":
        return 0.0
    digits = zone[1:].replace(":", "")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
