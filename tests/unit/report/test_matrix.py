from __future__ import annotations

import pytest
from report_builders import BRANCH, COUNT, NOTE, OS, POWER, B, F, N, P, U, rack

from rackproof.verdict.model import Outcome, Status, Verdict
from rackproof.verdict.report.matrix import cell, node_rows, unit_rows


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        ([], "-"),  # nothing was looked at: never ok
        ([(OS, P)], "ok"),
        ([(OS, P), (COUNT, N)], "ok"),
        ([(OS, N), (COUNT, N)], "n.a."),
        ([(OS, F), (COUNT, F), (BRANCH, U)], "2 fail"),
        ([(OS, P), (BRANCH, U), (COUNT, B)], "1 unkn"),
        ([(OS, P), (COUNT, B)], "blocked"),
        ([(OS, P), (POWER, F)], "1 warn"),
        ([(OS, P), (POWER, U)], "1 warn"),
        ([(OS, P), (NOTE, F)], "ok"),
        ([(NOTE, U)], "-"),
    ],
)
def test_cell(statuses: list[tuple[object, Status]], text: str) -> None:
    assert cell([Outcome(requirement, status) for requirement, status in statuses]).text == text  # type: ignore[arg-type]


def test_rows_fold_and_the_worst_come_first() -> None:
    rows = node_rows(rack())
    assert [row.verdict for row in rows] == [Verdict.REJECT] * 2 + [Verdict.UNDETERMINED] * 2 + [Verdict.ACCEPT]
    assert rows[0].names == ("tray03", "tray07")
    assert len(rows[-1].names) == 13
    assert sum(len(row.names) for row in rows) == 18


def test_units_carry_their_nodes() -> None:
    first = unit_rows(rack())[0]
    assert (first.names, first.nodes, first.cells[0].text) == (("u02",), ("tray03", "tray04"), "1 fail")
