"""Several ranks: in one log, in several, with stamps and without; the first cause wins, and no order of lines lies."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from triage_logs import API, CORE, ECHO, ENGINE, HEALTHY, OOM, START, WEIGHTS, interleaved, judged, traceback, worker

from rackproof.cli import main
from rackproof.triage.diagnose import reconcile

ORDER = ["none", "unknown", "provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving"]
CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
E802 = "RuntimeError: Error 802: system not yet initialized"


def at(clock: str, lines: list[str]) -> list[str]:
    return [line.replace("07-01 10:09:00", f"07-01 {clock}") for line in lines]


def failing(rank: int, frame: str, error: str, clock: str) -> list[str]:
    return at(clock, worker(rank, traceback("(Worker_TP0 pid=90) ", frame, error)))


def test_of_two_causes_the_earlier_by_time_wins_whatever_the_order_of_lines() -> None:
    late = failing(0, "load_model", OOM, "10:09:02")
    early = failing(3, "load_model", E802, "10:09:01")
    answer = judged([*START, *WEIGHTS[:1], *late, *early, *ECHO])
    assert (answer.class_, answer.ranks[0]) == ("environment", "Worker_TP3")
    assert answer.moment.own == "07-01 10:09:01"


def test_without_stamps_the_first_line_wins() -> None:
    log = [
        *START,
        *WEIGHTS[:1],
        *failing(0, "load_model", OOM, "10:09:02"),
        *failing(3, "load_model", E802, "10:09:01"),
    ]
    bare = [line.replace("07-01 10:09:0", "") for line in log]
    assert judged([line for line in bare if "07-01" not in line]).ranks[0] == "Worker_TP0"


def test_the_rank_that_failed_first_is_named_first() -> None:
    log = [*START, *WEIGHTS[:1], *failing(2, "load_model", OOM, "10:09:05"), *failing(1, "load_model", OOM, "10:09:04")]
    assert judged(log).ranks == ("Worker_TP1", "Worker_TP2")


def test_several_logs_are_merged_by_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = [*START, *WEIGHTS[:1], *failing(0, "load_model", OOM, "10:09:07")]
    other = [*START[:1], *failing(8, "init_device", E802, "10:09:03")]
    for name, log in (("node0.log", first), ("node1.log", other)):
        (tmp_path / name).write_text("\n".join(log))
    names = [str(tmp_path / name) for name in ("node0.log", "node1.log")]
    for order in (names, names[::-1]):
        assert main(["triage", "--json", "-", *order]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["log"], found["class"], found["ranks"]) == (names[1][:80], "environment", ["Worker_TP8"])
        assert found["at"] == "07-01 10:09:03"
        assert len(found["logs"]) == 2


def test_a_cause_without_time_is_not_put_before_or_after_one() -> None:
    guess = judged(["NCCL INFO NVLS tuning: nChannels 24"])
    cause = judged([*START, *WEIGHTS[:1], *failing(0, "load_model", OOM, "10:09:07")])
    bare = judged(["NotImplementedError: No MXFP4 MoE backend supports the deployment configuration."])
    assert reconcile([guess, cause]) == 1
    assert reconcile([cause, bare]) == 0  # weights-load both and both certain: the first given


def test_containers_in_one_log_are_judged_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sick = [f"k3-2  | {line}" for line in [*START, *WEIGHTS[:1], *failing(0, "load_model", OOM, "10:09:07")]]
    well = [f"k3-1  | {line}" for line in [*HEALTHY["uvicorn"]]]
    path = tmp_path / "compose.log"
    path.write_text("\n".join(interleaved([well, sick], [0, 1, 1, 0] * 20)))
    assert main(["triage", "--json", "-", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["stage"], found["class"]) == ("weights-load", "capacity")
    assert found["log"].endswith("compose.log k3-2") or len(str(path)) > 70
    assert sorted(each["class"] for each in found["logs"]) == ["capacity", "none"]


def test_one_container_that_starts_again_does_not_restart_another() -> None:
    sick = [f"k3-2  | {line}" for line in [*START, *WEIGHTS[:1], *failing(0, "load_model", OOM, "10:09:07")]]
    again = [f"k3-1  | {line}" for line in [*START, *WEIGHTS, *START]]
    assert judged([*sick, *again]).class_ == "capacity"


def test_a_journal_holds_kernel_and_engine_of_one_host() -> None:
    engine = [f"Jul 01 10:00:00 tray01 docker[9]: {line}" for line in HEALTHY["uvicorn"]]
    kernel = "Jul 01 11:00:00 tray01 kernel: NVRM: Xid (PCI:0000:dc:00): 94, pid=90, name=python3, Contained"
    answer = judged([*engine, kernel])
    assert (answer.stage, answer.class_, answer.moment.shown) == ("serving", "environment", "Jul 01 11:00:00")


@pytest.mark.parametrize(
    ("line", "rank"),
    [("[rank6]:[E1113 23:24:11.476 ProcessGroupNCCL.cpp:2068] ", "rank6"), ("[default3]:", "default3"),
     ("[1,3]<stderr>:", "rank3")],
)  # fmt: skip
def test_ranks_of_launchers(line: str, rank: str) -> None:
    assert judged([line + E802]).ranks == (rank,)


def test_ten_thousand_made_up_ranks_cost_bounded_memory() -> None:
    log = [
        f"(Worker_TP{number} pid={number}) INFO 07-01 10:00:00 [a.py:1] Starting to load model m..."
        for number in range(10_000)
    ]
    assert judged(log).stage == "weights-load"
    assert judged([f"svc{number}  | {START[0]}" for number in range(2_000)]).stage == "container-start"


LOADING = [*START, *WEIGHTS[:1]]
SCENARIOS = {
    "weights": (LOADING, failing(1, "load_weights", OOM, "10:09:01"), "weights-load", "capacity"),
    "fabric": (START, failing(1, "init_device", E802, "10:09:01"), "engine-init", "environment"),
    "graphs": ([*START, *WEIGHTS, *ENGINE[:3]], failing(1, "capture_model", OOM, "10:09:01"), "engine-init", "tuning"),
    "requests": (HEALTHY["uvicorn"], failing(1, "execute_model", OOM, "10:09:01"), "serving", "tuning"),
}
ECHOES = [
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:133, remote process exited or there was a network error"
]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SCENARIOS)), st.lists(st.integers(0, 3), max_size=60), st.integers(0, 100))
def test_interleaved_ranks_never_give_a_wrong_certain_answer(name: str, order: list[int], cut: int) -> None:
    before, failed, stage, class_ = SCENARIOS[name]
    tail = [
        *traceback("(Worker_TP2 pid=92) ", "all_reduce", ECHOES[0]),
        f"{CORE}ERROR 07-01 10:09:09 [c.py:1] EngineCore failed to start.",
    ]
    streams = [
        failed,
        worker(3, WEIGHTS[:1]) if name != "fabric" else [],
        tail,
        [*ECHO, f"{API}INFO 07-01 10:09:10 [a.py:1] bye"],
    ]
    log = [*before, *interleaved(streams, order)]
    for end in {len(log), len(log) * cut // 100}:
        answer = judged(log[:end])
        assert ORDER.index(answer.stage) <= ORDER.index(stage), end
        assert answer.class_ in (class_, "unknown", "none"), end
    assert (judged(log).stage, judged(log).class_) == (stage, class_)


@cache
def _labelled() -> list[dict[str, Any]]:
    cases = (yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml")))
    return [{"id": case["id"], **case["log"]} for case in cases if "log" in case]


@pytest.mark.skipif(not CASES.is_dir(), reason=f"the collection of cases is not at {CASES}")
@settings(deadline=None, max_examples=80)
@given(st.data())
def test_labelled_logs_with_other_ranks_between_them(data: st.DataObject) -> None:
    """Real failures, with the lines of ranks that are at most as far: never certain of another class."""
    case = data.draw(st.sampled_from(_labelled()))
    order = data.draw(st.lists(st.integers(0, 1), max_size=40))
    lines = (CASES / case["file"]).read_text(errors="replace").splitlines()
    if case["expected_stage"] == "serving":
        merged = [*HEALTHY["uvicorn"], *lines]
    elif case["expected_stage"] in ("weights-load", "engine-init"):
        merged = [*START, *interleaved([lines, worker(9, WEIGHTS[:1])], order)]
    else:
        merged = lines
    for end in (len(merged), data.draw(st.integers(0, len(merged)))):
        answer = judged(merged[:end])
        if answer.confidence == "certain":
            assert answer.class_ == case["expected_advice_class"], (case["id"], end)
        assert ORDER.index(answer.stage) <= max(3, ORDER.index(case["expected_stage"])), (case["id"], end)
