from __future__ import annotations

import random
from itertools import pairwise

from ClusterShell.NodeSet import NodeSet

from rackproof.verdict.report.fold import counted, fold, outer_commas, shortened


def test_folds() -> None:
    assert fold(["tray01", "tray02", "tray03", "tray07"]) == "tray[01-03,07]"
    assert fold([f"rack{r}-tray{t:02d}" for r in (1, 2) for t in range(1, 19)]) == "rack[1-2]-tray[01-18]"
    assert fold(["root@tray01", "root@tray02"]) == "root@tray[01-02]"
    assert fold([]) == ""


def test_names_that_are_no_host_names_are_never_parsed() -> None:
    assert fold(["tray[1-99999999]", "@all", "tray1,tray2", "a!b"]) == "tray[1-99999999],@all,tray1,tray2,a!b"
    assert fold(["\x1b[2Jtray", "the nodes given"]) == "tray,the nodes given"
    assert len(fold(["x[" + "y" * 500])) < 120


def test_a_fleet_without_a_pattern_is_folded_in_one_dimension() -> None:
    rng = random.Random(7)
    names = {f"10.{rng.randrange(250)}.{rng.randrange(250)}.{rng.randrange(250)}" for _ in range(1000)}
    folded = fold(sorted(names))
    parts = [folded[start:end].strip(",") for start, end in pairwise([0, *outer_commas(folded), len(folded)])]
    assert {name for part in parts for name in NodeSet(part)} == names


def test_counted() -> None:
    assert counted(["n1"]) == "n1"
    assert counted(["n1", "n2", "n2"]) == "n[1-2] (2 nodes)"
    assert counted(["u1", "u2"], word="unit") == "u[1-2] (2 units)"


def test_shortened_ends_at_a_name_or_closes_its_bracket() -> None:
    assert shortened("a[1,3],b[2,4],c[1-9]", 16) == "a[1,3],b[2,4],..."
    assert shortened("a[1,3,5,7,9,11]", 10) == "a[1,3,5,7,...]"
    assert shortened("a[1,3]", 10) == "a[1,3]"
