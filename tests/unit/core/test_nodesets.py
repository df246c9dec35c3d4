"""Nodesets: order as written, no name lost, no name twice. And the plan, which rests on them."""

from __future__ import annotations

import pytest

from rackproof import site as sites
from rackproof.errors import InputError
from rackproof.nodesets import expand, fold
from rackproof.plan import Plan, PlannedNode, Unit


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tray01", ["tray01"]),
        ("tray[01-03]", ["tray01", "tray02", "tray03"]),
        ("tray[08-11]", ["tray08", "tray09", "tray10", "tray11"]),
        ("tray[9-10]", ["tray9", "tray10"]),
        ("b,a", ["b", "a"]),
        ("tray[03,01-02]", ["tray03", "tray01", "tray02"]),
        ("10.0.0.[12,11]", ["10.0.0.12", "10.0.0.11"]),
        ("r[2,1]-t[2,1]", ["r2-t2", "r2-t1", "r1-t2", "r1-t1"]),
        ("r[1-2]n[1-2].example", ["r1n1.example", "r1n2.example", "r2n1.example", "r2n2.example"]),
        (" a , b ,", ["a", "b"]),
        ("a[1-5/2]", ["a1", "a3", "a5"]),
        ("tray1,tray01", ["tray1", "tray01"]),
        ("127.0.0.9", ["127.0.0.9"]),
    ],
)
def test_expand_keeps_the_order_written(text: str, names: list[str]) -> None:
    assert list(expand(text, "here")) == names


@pytest.mark.parametrize("text", ["a,a", "tray[01-03],tray02", "tray[01-03,02]", "tray[1,1]", "r[1-2]t[1,1]", "a,b,a,b"])
def test_a_name_twice_is_a_mistake(text: str) -> None:
    with pytest.raises(InputError, match=r"here: host .* is named twice\n  accepted: each host once"):
        expand(text, "here")


@pytest.mark.parametrize(
    "text",
    ["", ",", " ", "tray[", "tray]", "tray[]", "tray[1-]", "tray[2-1]", "tray[a-b]", "tray[01-2]", "tray[1,]", "tray[[1]]",
     "a b", "a\nb", "a[1-2] b", "@nowhere", "tray*", "a!a"],
)  # fmt: skip
def test_what_is_no_nodeset(text: str) -> None:
    with pytest.raises(InputError) as caught:
        expand(text, "here")
    assert caught.value.where == "here"
    assert caught.value.accepted == "rack1-tray[01-18] or a,b,c"
    assert repr(text)[1:-1].strip()[:1] in caught.value.problem


@pytest.mark.parametrize(
    ("names", "text"),
    [(["tray01", "tray02", "tray03", "tray07"], "tray[01-03,07]"), (["a"], "a"), ([], ""), (["tray2", "tray1"], "tray[1-2]")],
)
def test_fold(names: list[str], text: str) -> None:
    assert fold(names) == text
    assert sorted(expand(text, "here")) == sorted(names) if names else text == ""


def test_fold_never_raises() -> None:
    assert fold(["a[", "b"]) == "a[,b"


def plan() -> Plan:
    site = sites.shipped()
    return Plan(tuple(PlannedNode(name, site) for name in ("tray01", "tray02", "tray03")), (Unit("u", ("tray01", "tray02")),))


def test_a_plan_holds_each_node_once() -> None:
    site = sites.shipped()
    with pytest.raises(InputError, match="inventory: host a is named twice"):
        Plan((PlannedNode("a", site), PlannedNode("a", site)))


def test_a_node_by_name() -> None:
    assert plan().node("tray02").name == "tray02"
    with pytest.raises(InputError, match=r"tray09: is not in the inventory\n  accepted: tray\[01-03\]"):
        plan().node("tray09")


def test_limit_reads_less_and_forgets_nobody() -> None:
    limited = plan().limited(("tray03", "tray01"))
    assert [node.name for node in limited.nodes] == ["tray01", "tray02", "tray03"]
    assert [node.name for node in limited.to_read] == ["tray01", "tray03"]
    assert [node.left_out for node in limited.nodes] == [False, True, False]
    assert limited.units == plan().units
    with pytest.raises(InputError, match=r"--limit: tray\[08-09\] is not in the inventory\n  accepted: tray\[01-03\]"):
        plan().limited(("tray01", "tray08", "tray09"))
