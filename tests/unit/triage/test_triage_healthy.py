"""Healthy logs of every version and engine, bare and as containers and journals decorate them: no failure in any."""

from __future__ import annotations

import pytest
from healthy_logs import DECORATIONS, ENGINES, HEALTHY_STARTS, SGLANG_READY
from triage_logs import judged

ORDER = ["start", "distributed-init", "weights-load", "engine-init", "serving"]


@pytest.mark.parametrize("name", HEALTHY_STARTS)
def test_healthy(name: str) -> None:
    answer = judged(HEALTHY_STARTS[name])
    assert (answer.stage, answer.class_, answer.confidence) == ("none", "none", "")
    assert answer.engine == ENGINES.get(name, "vLLM")
    assert [timing.stage for timing in answer.timings][-1] == "serving"


@pytest.mark.parametrize("name", HEALTHY_STARTS)
def test_a_healthy_log_cut_anywhere_claims_nothing(name: str) -> None:
    log = HEALTHY_STARTS[name]
    for end in range(len(log) + 1):
        answer = judged(log[:end])
        assert (answer.class_ in ("none", "unknown"), answer.confidence, answer.failed) == (True, "", False), end


@pytest.mark.parametrize("name", HEALTHY_STARTS)
@pytest.mark.parametrize("decoration", DECORATIONS)
def test_decoration_changes_nothing(name: str, decoration: str) -> None:
    answer = judged([DECORATIONS[decoration] + line for line in HEALTHY_STARTS[name]])
    assert (answer.stage, answer.class_) == ("none", "none")
    assert answer.notes == judged(HEALTHY_STARTS[name]).notes


def test_sglang_is_not_ready_when_its_port_is_open() -> None:
    log = HEALTHY_STARTS["sglang"]
    before = judged(log[: log.index(SGLANG_READY)])
    assert (before.stage, before.class_) == ("engine-init", "unknown")
    assert "without an error" in before.advice


@pytest.mark.parametrize("name", ["sglang", "TensorRT-LLM"])
def test_of_other_engines_the_stage_is_given_where_sure(name: str) -> None:
    log = HEALTHY_STARTS[name]
    stages = [judged(log[: end + 1]).stage for end in range(len(log))]
    assert {"weights-load", "engine-init"} <= set(stages)
    assert judged(["[07/30/2026-01:58:54] [TRT-LLM] [E] something of its own"]).stage == "unknown"


def test_times_memory_versions_and_arguments() -> None:
    answer = judged(HEALTHY_STARTS["vLLM 0.18, TP"])
    assert {timing.stage: timing.seconds for timing in answer.timings} == {
        "start": 9, "distributed-init": 11, "weights-load": 521, "engine-init": 84, "serving": 0,
    }  # fmt: skip
    assert [timing.left for timing in answer.timings] == [True, True, True, True, False]
    assert answer.group("memory") == {
        "weights": "180.80 GiB", "KV cache memory": "42.23 GiB", "graphs": "1.20 GiB", "free at start": "270.1 GiB",
    }  # fmt: skip
    assert answer.group("tokens") == {"KV cache size": "3,249,215"}
    assert answer.group("versions") == {"version": "0.18.0"}
    assert answer.arguments == {"model": "m", "tp": "4"}
    assert answer.notes["reading weights"] == "502.30 seconds"
    assert answer.notes["graph capture"] == "25 secs, took 1.20 GiB"


def test_times_of_the_container_serve_where_the_engine_prints_none() -> None:
    texts = [
        "vLLM API server version 0.26.0",
        "Starting to load model m...",
        "Model loading took 97.2 GiB and 5.0 seconds",
    ]
    for stamps in (
        ["2026-08-12T10:11:12.5Z ", "2026-08-12T10:11:14Z ", "2026-08-12T10:19:36Z "],
        ["Aug 12 10:11:12 tray01 vllm[9]: ", "Aug 12 10:11:14 tray01 vllm[9]: ", "Aug 12 10:19:36 tray01 vllm[9]: "],
    ):
        timings = judged([stamp + text for stamp, text in zip(stamps, texts, strict=True)]).timings
        assert [timing.stage for timing in timings] == ["start", "weights-load", "engine-init"]
        assert [timing.seconds for timing in timings] in ([1.5, 502, 0], [2, 502, 0])
    assert [timing.seconds for timing in judged(texts).timings] == [None, None, None]


def test_of_several_ranks_the_one_that_is_worst_off_counts() -> None:
    log = HEALTHY_STARTS["vLLM 0.18, TP"]
    more = [
        "(Worker_TP2 pid=92) INFO 08-12 10:09:40 [gpu_worker.py:1] Available KV cache memory: -1.20 GiB",
        "(Worker_TP3 pid=93) INFO 08-12 10:09:01 [r.py:1] Model loading took 190.10 GiB memory and 410.000000 seconds",
    ]
    memory = judged([*log[:-1], *more]).group("memory")
    assert (memory["KV cache memory"], memory["weights"]) == ("-1.20 GiB", "190.10 GiB")


@pytest.mark.parametrize(
    ("line", "label", "value"),
    [
        ("host:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0", "NCCL", "2.28.9+cuda13.0"),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17", "driver", "535.161.07"),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release", "driver", "580.95.05"),
        ("| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0 |", "driver", "580.95.05"),
        ("host:1:1 [0] NCCL INFO cudaDriverVersion 13000", "CUDA of the driver", "13000"),
        ("PyTorch version                : 2.9.0+cu128", "torch", "2.9.0+cu128"),
        ("Config file not found at /x/E=8,N=9,device_name=NVIDIA_B300_SXM6_AC.json", "GPU", "NVIDIA B300 SXM6 AC"),
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)", "GPU", "NVIDIA H200"),
        ("model weights take 14.99GiB; non_torch_memory takes 0.09GiB; PyTorch activation peak memory takes 1.23GiB; x",
         "peak activation", "1.23 GiB"),
        ("Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free.",
         "free then", "120.88 MiB"),
        ("22.5 GiB KV cache is needed, which is larger than the available KV cache memory (17.39 GiB).",
         "KV cache needed", "22.5 GiB"),
        ("Based on the available memory, the estimated maximum model length is 810208.", "longest context that fits", "810208"),
    ],
)  # fmt: skip
def test_what_one_line_tells(line: str, label: str, value: str) -> None:
    assert judged([line]).notes[label] == value


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("INFO 08-12 10:00:00 [u.py:1] non-default args: {'model': 'a/b', 'tensor_parallel_size': 8, 'max_model_len': 131072}",
         {"model": "a/b", "tp": "8", "max-model-len": "131072"}),
        ("INFO 08-12 10:00:00 [c.py:1] Initializing a V1 LLM engine (v1) with config: model='a/b', max_seq_len=5, "
         "tensor_parallel_size=2, pipeline_parallel_size=3, data_parallel_size=4", {
             "model": "a/b", "max-model-len": "5", "tp": "2", "pp": "3", "dp": "4"}),
        ("+ vllm serve a/b --tensor-parallel-size 8 --gpu-memory-utilization=0.95 --enable-expert-parallel --port 1",
         {"model": "a/b", "tp": "8", "gpu-memory-utilization": "0.95", "ep": "True"}),
        ("[2026-08-12 10:00:00] server_args=ServerArgs(model_path='a/b', tp_size=8, context_length=None)",
         {"model": "a/b", "tp": "8"}),
        ("a user said tensor_parallel_size=8", {}),
    ],
)  # fmt: skip
def test_arguments(line: str, arguments: dict[str, str]) -> None:
    assert judged([line]).arguments == arguments
