"""Logs written for these tests, in the formats of vLLM 0.10 to 0.28. None is anybody's."""

from __future__ import annotations

import io

from rackproof.triage.diagnose import Diagnosis, diagnose
from rackproof.triage.reader import lines

API, CORE, TP0, TP1 = "(APIServer pid=1) ", "(EngineCore pid=68) ", "(Worker_TP0 pid=90) ", "(Worker_TP1 pid=91) "
INFO, ERROR = "INFO 07-01 10:00:00 [a.py:1] ", "ERROR 07-01 10:09:00 [a.py:2] "
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 1 has a total capacity of 139.80 GiB of which 1.00 GiB is free."
)

START = [
    f"{API}{INFO}vLLM API server version 0.26.0",
    f"{API}{INFO}non-default args: {{'model': 'm', 'api_key': ['s3cret'], 'note': 'Tried to allocate'}}",
    f"{CORE}{INFO}Initializing a V1 LLM engine (v0.26.0) with config: model='m'",
    f"(Worker pid=90) {INFO}world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:5 backend=nccl",
    f"(Worker pid=90) {INFO}vLLM is using nccl==2.28.9",
]
WEIGHTS = [
    f"{TP0}{INFO}Starting to load model m...",
    TP0,
    "Loading safetensors checkpoint shards:   0% Completed | 0/62 [00:00<?, ?it/s]\r"
    "Loading safetensors checkpoint shards:  50% Completed | 31/62 [00:05<00:05,  5.15it/s]",
    f"{TP0}{INFO}Loading weights took 502.10 seconds",
]
ENGINE = [
    f"{TP0}{INFO}Model loading took 97.20 GiB memory and 510.000000 seconds",
    f"{TP0}{INFO}Available KV cache memory: 20.10 GiB",
    f"{TP0}{INFO}Free memory on device (139.1/139.8 GiB) on startup. Desired GPU memory utilization is (0.9, 125 GiB).",
    f"{TP0}INFO 07-01 10:08:00 [shm.py:1] No available shared memory broadcast block found in 60 seconds. Typically",
    f"{CORE}{INFO}init engine (profile, create kv cache, warmup model) took 61.20 s (compilation: 30 s)",
]
READY = [
    f"{API}{INFO}Starting vLLM server on http://0.0.0.0:8000",
    f"{API}INFO:     Application startup complete.",
]
REQUESTS = [
    f'{API}INFO:     192.0.2.7:5678 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    f"{API}{INFO}Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 9 tokens/s, Running: 1 reqs",
    f"{API}{INFO}Received request chatcmpl-1: prompt: 'CUDA out of memory. Tried to allocate 2 GiB EngineDeadError'",
    f'{API}INFO:     192.0.2.7:5678 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
]
ECHO = [f"{API}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}"]


def traceback(rank: str, frame: str, error: str) -> list[str]:
    head = f"{rank}{ERROR}"
    return [
        f"{head}WorkerProc hit an exception.",
        f"{head}Traceback (most recent call last):",
        f'{head}  File "/x/worker.py", line 1, in {frame}',
        f"{head}    self.work()",
        f"{head}{error}",
    ]


HEALTHY = {
    "uvicorn": [*START, *WEIGHTS, *ENGINE, *READY, *REQUESTS],
    "rust": [
        *START, *WEIGHTS, *ENGINE,
        "(RustFrontend pid=9) INFO 07-01 10:10:00 [main.rs:1] starting OpenAI server bind_address=0.0.0.0:8000 model=m",
    ],
    "caught out of memory while tuning": [
        *START, *WEIGHTS, *ENGINE, *traceback(TP0, "profile_run", OOM), *READY, *REQUESTS,
    ],
    "shut down": [*START, *WEIGHTS, *ENGINE, *READY, *REQUESTS, f"{API}{INFO}Shutting down FastAPI HTTP server."],
}  # fmt: skip

FAILED: dict[str, tuple[list[str], str, str]] = {
    "driver": (
        [*START, *traceback(TP0, "init_device", "RuntimeError: Error 802: system not yet initialized"), *ECHO],
        "engine-init", "environment",
    ),
    "not clean": (
        [*START, *traceback(TP0, "request_memory", (
            "ValueError: Free memory on device cuda:0 (111.99/139.8 GiB) on startup is less than desired GPU memory "
            "utilization (0.95, 132.81 GiB).")), *ECHO],
        "engine-init", "environment",
    ),
    "weights do not fit": ([*START, *WEIGHTS[:1], *traceback(TP1, "load_model", OOM), *ECHO], "weights-load", "capacity"),
    "slow storage": (
        [*START, *WEIGHTS[:3], f"{API}TimeoutError: Timed out waiting for engine core processes to start. Waited 600s"],
        "weights-load", "environment",
    ),
    "slow warm-up": (
        [*START, *WEIGHTS, *ENGINE[:2],
         f"{API}TimeoutError: Timed out waiting for engine core processes to start. Waited 600s"],
        "engine-init", "tuning",
    ),
    "graphs": ([*START, *WEIGHTS, *ENGINE[:3], *traceback(TP0, "capture_model", OOM), *ECHO], "engine-init", "tuning"),
    "no room for the cache": (
        [*START, *WEIGHTS, ENGINE[0], *traceback(CORE, "get_kv_cache_configs", (
            "ValueError: No available memory for the cache blocks.")), *ECHO],
        "engine-init", "capacity",
    ),
    "requests": (
        [*HEALTHY["uvicorn"], *traceback(TP1, "execute_model", OOM), f"{API}EngineDeadError: EngineCore encountered"],
        "serving", "tuning",
    ),
    "kernel": (
        [*HEALTHY["uvicorn"], *traceback(TP1, "execute_model", "CUDA error: an illegal memory access was encountered"),
         "kernel: NVRM: Xid (PCI:0000:dc:00): 94, pid=90, name=python3, Contained"],
        "serving", "environment",
    ),
}  # fmt: skip


def judged(log: list[str]) -> Diagnosis:
    return diagnose(lines(io.BytesIO("\n".join(log).encode())))


def worker(rank: int, lines: list[str]) -> list[str]:
    """Lines of the first worker as another one would write them."""
    return [line.replace("Worker_TP0 pid=90", f"Worker_TP{rank} pid={90 + rank}") for line in lines]


def interleaved(logs: list[list[str]], order: list[int]) -> list[str]:
    """Several logs merged: each keeps its own order; `order` says which goes on, and the rest follows in turn."""
    left = [list(log) for log in logs]
    merged = []
    for number in order:
        if left[number % len(left)]:
            merged.append(left[number % len(left)].pop(0))
    return merged + [line for log in left for line in log]


# The log of the example in docs/triage.md.
EXAMPLE = """\
(APIServer pid=1) INFO 08-12 10:11:02 [api_server.py:1] vLLM API server version 0.27.1
(APIServer pid=1) INFO 08-12 10:11:02 [utils.py:1] non-default args: {'model_tag': 'moonshotai/Kimi-K3', 'model': 'moonshotai/Kimi-K3', 'tensor_parallel_size': 8, 'gpu_memory_utilization': 0.95, 'max_model_len': 131072, 'api_key': ['s3cret']}
(EngineCore pid=68) INFO 08-12 10:11:12 [core.py:1] Initializing a V1 LLM engine (v0.27.1) with config: model='moonshotai/Kimi-K3', max_seq_len=131072, tensor_parallel_size=8, pipeline_parallel_size=1, data_parallel_size=1,
(Worker pid=90) INFO 08-12 10:11:20 [parallel_state.py:1] world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:5 backend=nccl
(Worker pid=90) INFO 08-12 10:11:22 [pynccl.py:1] vLLM is using nccl==2.28.9
(Worker_TP0 pid=90) INFO 08-12 10:11:31 [gpu_model_runner.py:1] Starting to load model moonshotai/Kimi-K3...
(Worker_TP0 pid=90) WARNING 08-12 10:11:40 [fused_moe.py:1] Using default MoE config. Performance might be sub-optimal! Config file not found at /x/configs/E=896,N=384,device_name=NVIDIA_H200.json
(Worker_TP0 pid=90) 
Loading safetensors checkpoint shards:  40% Completed | 39/96 [03:05<05:05,  5.15s/it]
(Worker_TP3 pid=93) ERROR 08-12 10:15:02 [multiproc_executor.py:1] WorkerProc failed to start.
(Worker_TP3 pid=93) ERROR 08-12 10:15:02 [multiproc_executor.py:1] Traceback (most recent call last):
(Worker_TP3 pid=93) ERROR 08-12 10:15:02 [multiproc_executor.py:1]   File "/x/model_loader.py", line 1, in load_weights
(Worker_TP3 pid=93) ERROR 08-12 10:15:02 [multiproc_executor.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 264.00 MiB. GPU 3 has a total capacity of 139.80 GiB of which 120.88 MiB is free.
(Worker_TP1 pid=91) ERROR 08-12 10:15:01 [multiproc_executor.py:1]   File "/x/model_loader.py", line 1, in load_weights
(Worker_TP1 pid=91) ERROR 08-12 10:15:01 [multiproc_executor.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 264.00 MiB. GPU 1 has a total capacity of 139.80 GiB of which 60.88 MiB is free.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
