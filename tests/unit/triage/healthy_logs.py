"""Healthy starts, written for these tests in the grammar of each version and engine. None is anybody's."""

from __future__ import annotations


def _uvicorn(prefix: str) -> list[str]:
    return [
        f"{prefix}INFO:     Started server process [1]",
        f"{prefix}INFO:     Waiting for application startup.",
        f"{prefix}INFO:     Application startup complete.",
        f'{prefix}INFO:     192.0.2.7:5678 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    ]


def _old(version: str, core: str, worker: str) -> list[str]:
    """0.10.0 and 0.10.1: before and after the API server had a prefix of its own."""
    api = "" if version == "0.10.0" else "(APIServer pid=1) "
    return [
        f"{api}INFO 07-28 10:00:00 [api_server.py:1] vLLM API server version {version}",
        f"{core}INFO 07-28 10:00:05 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='m', tensor_parallel_size=8",
        f"{worker}INFO 07-28 10:00:09 [parallel_state.py:1] rank 0 in world size 8 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0",
        f"{worker}INFO 07-28 10:00:10 [gpu_model_runner.py:1] Starting to load model m...",
        f"{worker}INFO 07-28 10:03:00 [default_loader.py:1] Loading weights took 168.20 seconds",
        f"{worker}INFO 07-28 10:03:01 [gpu_model_runner.py:1] Model loading took 97.2000 GiB and 170.000000 seconds",
        f"{worker}INFO 07-28 10:03:30 [monitor.py:1] torch.compile takes 20.10 s in total",
        f"{worker}INFO 07-28 10:03:40 [gpu_worker.py:1] Available KV cache memory: 20.10 GiB",
        f"{core}INFO 07-28 10:03:41 [kv_cache_utils.py:1] GPU KV cache size: 250,100 tokens",
        f"{core}INFO 07-28 10:03:41 [kv_cache_utils.py:1] Maximum concurrency for 131,072 tokens per request: 1.91x",
        f"{worker}INFO 07-28 10:04:10 [gpu_model_runner.py:1] Graph capturing finished in 25 secs, took 1.20 GiB",
        f"{core}INFO 07-28 10:04:11 [core.py:1] init engine (profile, create kv cache, warmup model) took 70.00 seconds",
        *_uvicorn(api),
    ]


def _new(
    version: str, workers: list[str], core: str = "EngineCore", took: str = "61.20 s (compilation: 30.10 s)"
) -> list[str]:
    """0.16 to 0.28: workers are named by their place, and have no place before they know it."""
    api = "(APIServer pid=1) "
    lines = [
        f"{api}INFO 08-12 10:00:00 [utils.py:1] vLLM API server version {version}",
        f"{api}INFO 08-12 10:00:00 [utils.py:1] non-default args: {{'model': 'm', 'tensor_parallel_size': 4}}",
        f"({core} pid=68) INFO 08-12 10:00:05 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='m'",
    ]
    for number, _ in enumerate(workers):
        lines.append(
            f"(Worker pid={90 + number}) INFO 08-12 10:00:09 [parallel_state.py:1] world_size={len(workers)} rank={number} "
            f"local_rank={number} distributed_init_method=tcp://127.0.0.1:5 backend=nccl"
        )
    for number, name in enumerate(workers):
        head = f"({name} pid={90 + number}) "
        lines += [
            f"{head}INFO 08-12 10:00:20 [gpu_model_runner.py:1] Loading model from scratch...",
            head,
            "Loading safetensors using Fastsafetensor loader:   2% Completed | 1/42 [00:01<00:41,  1.00s/it]\r"
            "Loading safetensors using Fastsafetensor loader: 100% Completed | 42/42 [00:42<00:00,  1.00s/it]",
            f"{head}INFO 08-12 10:09:00 [default_loader.py:1] Loading weights took 502.30 seconds",
            f"{head}INFO 08-12 10:09:01 [gpu_model_runner.py:1] Model loading took 180.80 GiB memory and 510.000000 seconds",
        ]
    head = f"({workers[0]} pid=90) "
    return [
        *lines,
        f"{head}INFO 08-12 10:09:30 [monitor.py:1] torch.compile took 20.10 s in total",
        f"{head}INFO 08-12 10:09:40 [gpu_worker.py:1] Available KV cache memory: 42.23 GiB",
        f"({core} pid=68) INFO 08-12 10:09:41 [kv_cache_utils.py:1] GPU KV cache size: 3,249,215 tokens, "
        "Maximum concurrency for 1,048,576 tokens per request: 3.10x",
        f"{head}Capturing CUDA graphs (decode, FULL):  82%|########  | 55/67\r",
        f"{head}INFO 08-12 10:09:59 [gpu_model_runner.py:1] Free memory on device (270.1/277.5 GiB) on startup. Desired GPU "
        "memory utilization is (0.95, 263.7 GiB). Actual usage is 180.8 GiB for weight",
        f"{head}INFO 08-12 10:10:00 [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds.",
        f"{head}INFO 08-12 10:10:20 [gpu_model_runner.py:1] Graph capturing finished in 25 secs, took 1.20 GiB",
        f"({core} pid=68) INFO 08-12 10:10:21 [core.py:1] init engine (profile, create kv cache, warmup model) took {took}",
        f"{api}INFO 08-12 10:10:25 [api_server.py:1] Starting vLLM server on http://0.0.0.0:8000",
    ]  # fmt: skip


_RUST = [
    "(RustFrontend pid=9) INFO 08-12 10:10:26 [main.rs:1] engines connected engine_count=1",
    "(RustFrontend pid=9) INFO 08-12 10:10:26 [main.rs:1] starting OpenAI server bind_address=0.0.0.0:8000 model=m",
    "(RustFrontend pid=9) INFO 08-12 10:20:26 [stats.rs:1] Avg prompt tput: 10.0 toks/s, Avg generation tput: 9.0 toks/s, "
    "Reqs Running: 1, Waiting: 0, GPU KV cache used: 1.0%, Prefix cache hit rate: 0.0%",
]
_SGLANG = [
    "[2026-08-12 10:00:00] server_args=ServerArgs(model_path='m', tp_size=2, dp_size=1, mem_fraction_static=0.88)",
    *(f"[2026-08-12 10:00:09 TP{rank}] Init torch distributed begin." for rank in (0, 1)),
    *(f"[2026-08-12 10:00:12 TP{rank}] Init torch distributed ends. mem usage=1.77 GB" for rank in (0, 1)),
    *(f"[2026-08-12 10:00:13 TP{rank}] Load weight begin. avail mem=137.29 GB" for rank in (0, 1)),
    "Loading safetensors checkpoint shards: 100% Completed | 30/30 [00:30<00:00,  1.00it/s]",
    *(
        f"[2026-08-12 10:01:00 TP{rank}] Load weight end. type=M, dtype=torch.bfloat16, avail mem=31.08 GB, mem usage=99.13 GB."
        for rank in (0, 1)
    ),
    *(f"[2026-08-12 10:01:01 TP{rank}] KV Cache is allocated. #tokens: 834615, K size: 14.12 GB, V size: 14.12 GB" for rank in (0, 1)),
    "[2026-08-12 10:01:02 TP0] Memory pool end. avail mem=14.61 GB",
    "[2026-08-12 10:01:02 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=13.95 GB",
    "[2026-08-12 10:01:12 TP0] Capture cuda graph end. Time elapsed: 10.12 s. avail mem=12.00 GB",
    "[2026-08-12 10:01:13 TP0] max_total_num_tokens=834615, chunked_prefill_size=8192, max_running_requests=2049",
    "[2026-08-12 10:01:14] INFO:     Application startup complete.",
    "[2026-08-12 10:01:14] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
]  # fmt: skip
SGLANG_READY = "[2026-08-12 10:01:20] The server is fired up and ready to roll!"
_TRT = [
    "[TensorRT-LLM] TensorRT-LLM version: 1.2.0",
    "[08/12/2026-10:00:02] [TRT-LLM] [I] Rank 0 uses 97.46 GB for model weights.",
    "[08/12/2026-10:02:02] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available "
    "KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.89, kv size is 73728. device total memory 139.81 GiB",
    "[08/12/2026-10:02:03] [TRT-LLM] [RANK 1] [I] Estimated max memory in KV cache : 5.95 GiB",
    *_uvicorn(""),
]

HEALTHY_STARTS: dict[str, list[str]] = {
    "vLLM 0.10.0, no prefixes": _old("0.10.0", "", "(VllmWorker rank=0 pid=90) "),
    "vLLM 0.10.1": _old("0.10.1", "(EngineCore_0 pid=68) ", "(VllmWorker TP0 pid=90) "),
    "vLLM 0.13, DP": [
        *_new("0.13.0", [f"Worker_DP{rank}_EP{rank}" for rank in range(2)], "EngineCore_DP0", "61.20 seconds"),
        *_uvicorn("(ApiServer_0 pid=1) "),
    ],
    "vLLM 0.18, TP": [*_new("0.18.0", [f"Worker_TP{rank}" for rank in range(4)]), *_uvicorn("(APIServer pid=1) ")],
    "vLLM 0.22, PP and TP": [
        *_new("0.22.0", ["Worker_PP0_TP0", "Worker_PP0_TP1", "Worker_PP1_TP0", "Worker_PP1_TP1"]),
        *_uvicorn("(APIServer pid=1) "),
    ],
    "vLLM 0.28, Rust front end": [*_new("0.28.0", ["Worker_TP0_EP0", "Worker_TP1_EP1"]), *_RUST],
    "sglang": [*_SGLANG, SGLANG_READY],
    "TensorRT-LLM": _TRT,
}
ENGINES = {"sglang": "sglang", "TensorRT-LLM": "TensorRT-LLM"}
DECORATIONS = {
    "docker": "2026-08-12T10:11:12.123456789Z ",
    "kubernetes": "2026-08-12T10:11:12.123456789Z stderr F ",
    "kubectl --prefix": "[pod/k3-0/vllm] ",
    "compose": "k3-server-1  | ",
    "journal": "Aug 12 10:11:12 tray01 vllm[4711]: ",
    "journal, short-iso": "2026-08-12T10:11:12+0000 tray01 vllm[4711]: ",
    "mpirun": "[1,0]<stdout>:",
}
