"""The decision, on logs written for it: stages, causes over echoes, and never more certainty than a log gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from triage_logs import API, CORE, ENGINE, ERROR, FAILED, HEALTHY, INFO, OOM, START, TP0, WEIGHTS, judged, traceback

from rackproof.triage.diagnose import LOAD_FIRST, reconcile

ORDER = ["none", "unknown", "provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving"]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name: str) -> None:
    answer = judged(HEALTHY[name])
    assert (answer.stage, answer.class_, answer.confidence) == ("none", "none", "")


@pytest.mark.parametrize("name", FAILED)
def test_failed(name: str) -> None:
    log, stage, class_ = FAILED[name]
    answer = judged(log)
    assert (answer.stage, answer.class_, answer.confidence) == (stage, class_, "certain")
    assert answer.lines and answer.advice


@pytest.mark.parametrize("name", [*FAILED, *HEALTHY])
def test_a_log_cut_after_any_line_is_never_wrong(name: str) -> None:
    log, stage, class_ = FAILED.get(name) or (HEALTHY[name], "serving", "none")
    allowed = {class_, "unknown", "none"}
    if name == "kernel":
        allowed.add("bug-upstream")  # until the Xid is in the log, the echo is all there is
    if name == "caught out of memory while tuning":
        allowed.add("tuning")  # it looks like the end until the engine goes on
    for end in range(len(log) + 1):
        answer = judged(log[:end])
        assert ORDER.index(answer.stage) <= ORDER.index(stage), end
        assert answer.class_ in allowed, end
        assert answer.confidence == "" or answer.class_ not in ("none", "unknown")


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(FAILED)), st.lists(st.integers(0, 30), max_size=12))
def test_lost_lines_never_give_a_certain_wrong_class(name: str, lost: list[int]) -> None:
    log, _, class_ = FAILED[name]
    answer = judged([line for number, line in enumerate(log) if number not in lost])
    if answer.confidence == "certain" and name != "kernel":
        # without its traceback and markers an allocation that failed says less, but never something else for certain
        assert answer.class_ == class_ or "Tried to allocate" in answer.lines[-1].raw or "Timed out" in "".join(log)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text_gets_an_answer(texts: list[str]) -> None:
    assert judged(texts).stage in ORDER


def test_load_time_failures_never_advise_lower_concurrency() -> None:
    for log, *_ in [*FAILED.values(), *((one, "", "") for one in HEALTHY.values())]:
        for end in range(len(log)):
            answer = judged(log[:end])
            if answer.stage in LOAD_FIRST:
                assert "concurrency" not in answer.advice
                assert answer.requirements


@pytest.mark.parametrize(
    ("log", "stage"), [(START, "container-start"), ([*START, *WEIGHTS[:3]], "weights-load"),
                       ([*START, *WEIGHTS, *ENGINE[:2]], "engine-init")],
)  # fmt: skip
def test_a_log_that_just_ends_says_so(log: list[str], stage: str) -> None:
    answer = judged(log)
    assert (answer.stage, answer.class_) == (stage, "unknown")
    assert "without an error" in answer.advice and "kernel log" in answer.advice
    assert answer.lines[-1].number == len(log)


def test_a_vanished_worker_points_at_the_kernel_log() -> None:
    answer = judged(
        [*START, *WEIGHTS[:3], f"{ERROR}Worker proc VllmWorker-6 died unexpectedly, shutting down executor."]
    )
    assert (answer.stage, answer.class_) == ("weights-load", "unknown")
    assert "kernel log" in answer.advice


def test_the_last_run_of_a_restarted_container_is_judged() -> None:
    assert judged([*FAILED["graphs"][0], *HEALTHY["uvicorn"]]).class_ == "none"
    assert judged([*HEALTHY["uvicorn"], *FAILED["driver"][0]]).class_ == "environment"


def test_the_rank_that_failed_says_where_though_another_is_further() -> None:
    log = [*START, *WEIGHTS, *ENGINE[:2], *traceback("(Worker_TP1 pid=91) ", "load_model", OOM)]
    answer = judged(log)
    assert (answer.stage, answer.class_, answer.ranks) == ("weights-load", "capacity", ("Worker_TP1",))


def test_an_allocation_that_failed_nobody_knows_where_is_unknown() -> None:
    assert (judged([OOM]).stage, judged([OOM]).class_) == ("unknown", "unknown")


def test_what_users_and_arguments_say_is_not_the_engine() -> None:
    log = [
        *START,
        *WEIGHTS,
        *ENGINE[:1],
        f"{API}{INFO}Received request c: 'system not yet initialized' vLLM API server version",
    ]
    assert judged(log).class_ == "unknown"
    assert judged(log).stage == "engine-init"
    said = (
        "Received request c: 'Available KV cache memory: 1.00 GiB, vLLM is using nccl==6.6.6, --tensor-parallel-size 9'"
    )
    before = judged(log)
    assert (judged([*log, f"{API}{INFO}{said}"]).notes, before.arguments) == (before.notes, before.arguments)


@pytest.mark.parametrize("word", ["EngineDeadError", "CUDA_ERROR_NOT_PERMITTED", "HSA_STATUS_ERROR_EXCEPTION"])
def test_a_client_cannot_write_a_diagnosis_into_its_path(word: str) -> None:
    line = f'{API}INFO:     192.0.2.7:5678 - "GET /{word} HTTP/1.1" 404 Not Found'
    assert judged([*HEALTHY["uvicorn"], line]).class_ == "none"


def test_a_traceback_of_one_request_is_no_failure() -> None:
    assert judged([*HEALTHY["uvicorn"], f"{API}{ERROR}Traceback (most recent call last):"]).class_ == "none"


def test_notes() -> None:
    notes = judged(HEALTHY["uvicorn"]).notes
    assert notes["version"] == "0.26.0"
    assert notes["reading weights"] == "502.10 seconds"
    assert notes["engine init"] == "61.20 s"


def test_other_engines_are_recognised() -> None:
    assert (
        judged(["[2026-07-30 01:58:54 TP6] Load weight begin. avail mem=1", "/sgl/sglang/srt/x.py"]).engine == "sglang"
    )
    answer = judged(["[07/30/2026-01:58:54] [TRT-LLM] [I] something"])
    assert (answer.engine, answer.stage, answer.class_) == ("TensorRT-LLM", "unknown", "unknown")


def test_several_logs() -> None:
    echo = judged([*START, f"{CORE}{ERROR}EngineCore failed to start."])
    kernel = judged(["kernel: NVRM: Xid (PCI:0000:dc:00): 94, pid=90, name=python3, Contained"])
    answers = [judged(HEALTHY["uvicorn"]), echo, judged(FAILED["requests"][0]), kernel]
    assert reconcile(answers) == 3
    assert reconcile(answers[:3]) == 2
    assert reconcile(answers[:2]) == 1
    assert reconcile(answers[:1]) == 0


def test_ranks_are_told_apart() -> None:
    log = [
        *START,
        *WEIGHTS[:1],
        *traceback(TP0, "load_model", OOM),
        *traceback("(Worker_TP1 pid=91) ", "load_model", OOM),
    ]
    assert judged(log).ranks == ("Worker_TP0", "Worker_TP1")
