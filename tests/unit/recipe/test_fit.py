"""Fit: bytes and published figures, the traps of the recipe's own arithmetic, and that more memory never hurts."""

from __future__ import annotations

import random

import pytest

from rackproof import hardware, recipes
from rackproof.recipes.fit import Answer, Fit, fit, worst
from rackproof.recipes.footprint import GIB

RECIPE = recipes.load()
MIB = 1024 * 1024
ORDER = {Answer.NO: 0, Answer.UNKNOWN: 1, Answer.YES: 2}


def fitted(layout_id: str, mib: int | None = None) -> Fit:
    layout = RECIPE.layouts[layout_id]
    profile = hardware.load(layout.hardware)
    return fit(RECIPE, layout, profile, profile.memory_bytes if mib is None else mib * MIB)


def slack_gib(found: Fit) -> float:
    assert found.slack_bytes is not None
    return found.slack_bytes / GIB


def test_weights_are_what_was_measured_not_the_estimate() -> None:
    assert RECIPE.model["bytes"].value == 1_560_998_998_830
    assert RECIPE.model["shards"].value == 96
    assert RECIPE.footprint.upstream_gate_gb.value == 1680  # kept to say where upstream differs; computed from nowhere


@pytest.mark.parametrize(
    ("layout", "answer", "slack"),
    [
        ("gb300-tp8", Answer.YES, 72.86),
        ("gb300-dep16", Answer.YES, 168.26),
        ("b300-tp8", Answer.YES, 64.35),
        ("b200-tp16", Answer.YES, 49.61),
        ("b200-tp8pp2", Answer.YES, 65.75),
        ("gb200-tp16", Answer.YES, 55.28),
        ("h200-tp16", Answer.YES, 6.44),
        ("h200-tp8dp2", Answer.YES, 0.5),
        ("mi355x-tp8", Answer.YES, 82.78),
        ("gb200-tp8", Answer.NO, -15.03),  # strategy_min_gpus of upstream says eight are enough
        ("b200-tp8", Answer.NO, -20.7),  # rendered by upstream all the same
        ("h200-tp8", Answer.NO, -54.62),
        ("h100-tp32", Answer.NO, -43.24),  # the sum over 32 GPUs fits; the floor of one GPU does not
        ("mi300x-tp8", Answer.NO, -8.43),
    ],
)
def test_known_cases(layout: str, answer: Answer, slack: float) -> None:
    found = fitted(layout)
    assert found.answer is answer
    assert slack_gib(found) == pytest.approx(slack, abs=0.01)


def test_gb200_on_two_trays_fails_however_its_gb_are_read() -> None:
    for size in (192 * 10**9, 192 * GIB, 189471 * MIB):
        assert fitted("gb200-tp8", size // MIB).answer is Answer.NO


@pytest.mark.parametrize(("tp", "divides"), [(1, True), (8, True), (16, True), (32, True), (12, False), (64, False), (3, False)])
def test_tp_divides_heads_and_vocabulary(tp: int, divides: bool) -> None:
    layout = recipes.Layout("x", "b300", "multi_node_tp", tp, "rdma", "vendor", "here", tp=tp)
    found = fit(RECIPE, layout, hardware.load("b300"), 10**13)
    assert (found.answer is Answer.YES) == divides
    assert divides or found.slack_bytes is None


def test_tp12_of_the_generator_is_refused_by_the_vocabulary() -> None:
    found = fitted("gb200-tp12")
    assert found.pools[0].memory.words == "TP12 does not divide vocabulary of 163840"


def test_published_residents_are_used_where_they_are_larger_than_the_share() -> None:
    assert 1_560_998_998_830 / 16 / GIB < 91  # by N alone
    residents = {
        name: next(line.bytes for line in fitted(name).pools[0].lines if line.label == "weights, as published")
        for name in ("h200-tp16", "h200-tp8dp2", "h200-tp8pp2", "b200-tp16")
    }
    gib = {name: round((size or 0) / GIB, 2) for name, size in residents.items()}
    assert gib == {"h200-tp16": 129.75, "h200-tp8dp2": 135.69, "h200-tp8pp2": 98, "b200-tp16": 120.5}


@pytest.mark.parametrize(
    ("layout", "share"),
    [("b300-tp8", 0.95), ("b200-tp8pp2", 0.90), ("h200-tp16", 0.97), ("h200-tp8pp2", 0.97), ("mi355x-tp8", 0.95),
     ("mi355x-tp8pp2", 0.95), ("gb200-tp8pp2", 0.90)],
)  # fmt: skip
def test_utilisation_composes_as_the_site_renders_it(layout: str, share: float) -> None:
    """Strategy before hardware: Hopper and AMD keep their own with TP+PP, Blackwell takes the strategy's."""
    lines = fitted(layout).pools[0].lines
    usable = next(line.bytes for line in lines if line.label == "the engine's share")
    assert usable == int(round(share * 100) * lines[0].bytes // 100)  # type: ignore[operator]


def test_memory_then_context_then_concurrency() -> None:
    (pool,) = fitted("b300-tp8").pools
    assert (pool.context.value, pool.context.answer) == (3_249_215, Answer.YES)
    assert pool.kv_bytes == round(42.23 * GIB)
    assert pool.concurrency.value == 3
    (tight,) = fitted("h200-tp16").pools
    assert (tight.context.value, tight.concurrency.value) == (55_000, 1)
    (none,) = fitted("h200-tp8").pools
    assert none.context.words == "not asked: the weights do not fit" and none.kv_bytes is None


def test_context_that_does_not_fit_is_a_no() -> None:
    """A GPU with 1.4 GiB less: the weights still fit, the recipe's 32768 tokens of context do not."""
    found = fitted("h200-tp16", 143771 - 1400)
    assert (found.memory, found.answer) == (Answer.YES, Answer.NO)
    assert found.pools[0].context.answer is Answer.NO


@pytest.mark.parametrize(
    ("layout", "missing"),
    [
        ("gb300-tp8", "KV cache of TP8 on gb300, and what the engine takes for itself"),
        ("gb300-dep16", "weights resident per GPU with DP16 EP on gb300, padding included"),
        ("b300-tp8pp2", "weights resident per GPU with TP8 PP2 on b300, padding included"),
    ],
)
def test_a_missing_number_has_a_name(layout: str, missing: str) -> None:
    assert missing in fitted(layout).missing


def test_a_layout_that_nobody_ran_is_not_a_yes_without_a_figure() -> None:
    assert fitted("b300-tp8pp2").answer is Answer.UNKNOWN
    assert fitted("gb300-dep16").answer is Answer.YES  # official: somebody ran it, and the sum fits


def test_each_role_holds_the_weights_once() -> None:
    found = fitted("gb300-pd")
    assert [pool.pool.name for pool in found.pools] == ["prefill", "decode"]
    assert found.slack_bytes == fitted("gb300-tep8").slack_bytes  # the tighter of the two
    # Prefill and decode as TP8 on one H200 node each cannot load; as TP16 on two nodes each they can.
    one = recipes.Pool("prefill", 1, tp=8)
    layout = recipes.Layout("x", "h200", "pd_cluster", 2, "rdma", "vendor", "here", roles=(one, one))
    assert fit(RECIPE, layout, hardware.load("h200"), hardware.load("h200").memory_bytes).answer is Answer.NO
    assert fitted("h200-pd").answer is Answer.YES


def test_the_arithmetic_adds_up() -> None:
    lines = {line.label: line.bytes for line in fitted("gb300-tp8").pools[0].lines}
    assert lines["memory of one GPU"] == 284208 * MIB
    weights = max(lines["weights, at least"] or 0, lines["weights, as published"] or 0)
    assert (lines["the engine's share"] or 0) - weights == lines["slack"]


def test_more_memory_never_turns_a_yes_into_a_no() -> None:
    """Over every layout, at random sizes: answer and slack only ever rise."""
    draw = random.Random(20260821)
    for layout in RECIPE.layouts.values():
        profile = hardware.load(layout.hardware)
        sizes = sorted(draw.randrange(1, 700 * GIB) for _ in range(60))
        near = [profile.memory_bytes + draw.randrange(-5 * GIB, 5 * GIB) for _ in range(20)]
        found = [fit(RECIPE, layout, profile, size) for size in sorted([*sizes, *near])]
        answers = [ORDER[one.answer] for one in found]
        assert answers == sorted(answers), layout.id
        slack = [one.slack_bytes for one in found if one.slack_bytes is not None]
        assert slack == sorted(slack), layout.id


def test_fit_is_deterministic_and_loads_once() -> None:
    assert recipes.load() is RECIPE
    for layout in RECIPE.layouts:
        assert fitted(layout) == fitted(layout)


def test_worst() -> None:
    yes, no, unknown = Answer.YES, Answer.NO, Answer.UNKNOWN
    assert [worst(x) for x in ([yes], [yes, unknown], [yes, unknown, no], [])] == [yes, unknown, no, unknown]
