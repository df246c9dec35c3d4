"""What a log says of itself that a person wants to see beside the answer: versions, arguments, times, memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rackproof.triage.reader import Line

_N = r"(-?[\d.]{1,12})"
# Group; literal; label; pattern of the value; which of several counts: the last (of times: the slowest rank ends last),
# the first, the largest or the smallest (of memory: the rank that is worst off). Every number of digits is bounded, so
# that no line can make a search slow.
_NOTES: tuple[tuple[str, str, str, re.Pattern[str], str], ...] = tuple(
    (group, literal, label, re.compile(pattern), keep)
    for group, literal, label, pattern, keep in (
        ("versions", "vLLM API server version", "version", r"version ([\w.+-]{1,60})", "last"),
        ("versions", "LLM engine (v", "version", r"LLM engine \(v([\w.+-]{1,60})\)", "last"),
        ("versions", "TensorRT-LLM version:", "version", r"version: ([\w.+-]{1,60})", "last"),
        ("versions", "TensorRT LLM version:", "version", r"version: ([\w.+-]{1,60})", "last"),
        ("versions", "using nccl==", "NCCL", r"nccl==([\d.]{1,20})", "last"),
        ("versions", "NCCL version ", "NCCL", r"NCCL version ([\d.]{1,20}(?:\+cuda[\d.]{1,10})?)", "last"),
        ("versions", "PyTorch version", "torch", r"PyTorch version {0,30}: ?([\w.+]{1,40})", "last"),
        ("versions", "CUDA Version", "CUDA", r"CUDA Version:? ([\d.]{1,12})", "last"),
        ("versions", "Driver Version: ", "driver", r"Driver Version: ([\d.]{1,20})", "last"),
        ("versions", "NVRM: loading NVIDIA", "driver", r"Kernel Module {1,4}(?:for \S{1,20} {1,4})?([\d.]{3,20})", "last"),
        ("versions", "cudaDriverVersion ", "CUDA of the driver", r"cudaDriverVersion (\d{4,6})", "last"),
        ("versions", "(found version ", "CUDA of the driver", r"found version (\d{4,6})", "last"),
        ("versions", "device_name=", "GPU", r"device_name=([\w-]{3,60}?)(?:\.json|,|$)", "last"),
        ("versions", "GPU 0: ", "GPU", r"GPU 0: ((?:NVIDIA|AMD) [\w -]{2,60}?)(?: \(|$)", "last"),
        ("arguments", "non-default args:", "arguments", r"non-default args: (.{1,2000})", "last"),
        ("times", "Time spent downloading weights", "downloading", r": ([\d.]{1,12} seconds)", "last"),
        ("times", "page cache finished in ", "prefetching", r"finished in ([\d.]{1,12} ?s)", "last"),
        ("times", " Completed | ", "shards", r"Completed \| (\d{1,6}/\d{1,6} \[[\d:]{1,9}<[\d:?]{1,9})", "last"),
        ("times", "Loading weights took", "reading weights", r"took ([\d.]{1,12} seconds)", "last"),
        ("times", "Model loading took", "loading model", r"took ([\d.]{1,12} GiB(?: memory)? and [\d.]{1,12} seconds)", "last"),
        ("times", "torch.compile t", "compiling", r"t(?:akes|ook) ([\d.]{1,12} s)", "last"),
        ("times", "Memory profiling takes", "profiling", r"takes ([\d.]{1,12} seconds)", "last"),
        ("times", "Graph capturing finished", "graph capture", r"in ([\d.]{1,12} secs?, took -?[\d.]{1,12} GiB)", "last"),
        ("times", "Capture cuda graph end", "graph capture", r"elapsed: ([\d.]{1,12} s)", "last"),
        ("times", "init engine (profile", "engine init", r"took ([\d.]{1,12} s)", "last"),
        ("memory", "Model loading took", "weights", rf"took {_N} GiB", "largest"),
        ("memory", "Loading model weights took", "weights", rf"took {_N} GB", "largest"),
        ("memory", "model weights take", "weights", rf"model weights take {_N} ?GiB", "largest"),
        ("memory", "PyTorch activation peak memory", "peak activation", rf"peak memory takes {_N} ?GiB", "largest"),
        ("memory", "Peak memory during memory usage", "peak while profiling", rf"\): {_N} GiB", "largest"),
        ("memory", "Available KV cache memory", "KV cache memory", rf"memory: {_N} GiB", "smallest"),
        ("memory", "available KV cache memory when", "KV cache memory", rf"tokens: {_N} GiB", "smallest"),
        ("memory", "Graph capturing finished", "graphs", rf"took {_N} GiB", "largest"),
        ("memory", "on startup", "free at start", rf"device[^(]{{0,12}} \({_N}/[\d.]{{1,12}} GiB\)", "smallest"),
        ("memory", "Tried to allocate ", "asked for", r"allocate ([\d.]{1,12} (?:[KMG]iB|bytes))", "first"),
        ("memory", "Tried to allocate ", "GPU memory", rf"total capacity of {_N} GiB", "first"),
        ("memory", "Tried to allocate ", "free then", r"of which ([\d.]{1,12} (?:[KMG]iB|bytes)) is free", "first"),
        ("memory", "KV cache is needed", "KV cache needed", rf"{_N} GiB KV cache is needed", "largest"),
        ("memory", "is larger than the available KV", "KV cache memory", rf"memory \({_N} GiB\)", "smallest"),
        ("tokens", "GPU KV cache size", "KV cache size", r"size: ([\d,]{1,20}) tokens", "smallest"),
        ("tokens", "estimated maximum model length", "longest context that fits", r"length is ([\d,]{1,12})", "smallest"),
    )
)  # fmt: skip
LITERALS = tuple(dict.fromkeys(literal for _, literal, *_ in _NOTES))
GROUPS = {label: group for group, _, label, *_ in _NOTES}
_SURVIVED = ("asked for", "free then")
_ENGINES = (
    ("sglang", "sglang"), ("TRT-LLM", "TensorRT-LLM"), ("TensorRT-LLM version", "TensorRT-LLM"),
    ("tensorrt_llm", "TensorRT-LLM"), ("ServerArgs(", "sglang"), ("vllm", "vLLM"), ("vLLM", "vLLM"), ("EngineCore", "vLLM"), ("VllmWorker", "vLLM"),
)  # fmt: skip
ENGINE_WORDS = ("sglang/srt", "[TRT-LLM]", "tensorrt_llm")
# Lines that repeat the command line or what was made of it: vLLM, vLLM's engine, sglang, TensorRT-LLM, a shell's -x.
_ECHO_OF_ARGUMENTS = ("non-default args:", "LLM engine (v", "server_args=ServerArgs(", "LLM Args:", "vllm serve ")
_ARGUMENTS = {
    "tensor_parallel_size": "tp", "tp_size": "tp", "pipeline_parallel_size": "pp", "pp_size": "pp",
    "data_parallel_size": "dp", "dp_size": "dp", "enable_expert_parallel": "ep", "max_model_len": "max-model-len",
    "max_seq_len": "max-model-len", "context_length": "max-model-len",
    "gpu_memory_utilization": "gpu-memory-utilization", "mem_fraction_static": "mem-fraction-static",
    "max_num_seqs": "max-num-seqs", "max_num_batched_tokens": "max-num-batched-tokens", "load_format": "load-format",
    "kv_cache_dtype": "kv-cache-dtype", "model_path": "model", "model": "model",
}  # fmt: skip
_ARGUMENT = re.compile(
    r"(?<![\w-])(?:--)?(?P<key>" + "|".join(key.replace("_", "[_-]") for key in _ARGUMENTS) + r")['\"]?(?: ?[:=] ?| )"
    r"(?P<value>'[^']{1,200}'|\"[^\"]{1,200}\"|[\w./+][\w./+-]{0,199})"
)
_SERVED = re.compile(r"vllm serve (?P<model>[\w./+][\w./+-]{0,199})")


@dataclass
class Notes:
    """Values by label, as the log prints them but for memory, which is GiB of one GPU; arguments by name."""

    engine: str = ""
    values: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)

    def see(self, line: Line) -> None:
        """Take in one line."""
        if not self.engine:
            self.engine = next((name for word, name in _ENGINES if word in line.raw), "")
        for group, literal, label, pattern, keep in _NOTES:
            if literal in line.text and (found := pattern.search(line.text)):
                bare = group == "memory" and found[1][-1].isdigit()
                value = _worded(label, found[1])
                self._keep(label, f"{value} GiB" if bare else value, keep)
        if any(echo in line.text for echo in _ECHO_OF_ARGUMENTS):
            self._arguments(line.text)

    @staticmethod
    def of(line: Line) -> dict[str, str]:
        """What one line says of memory."""
        notes = Notes()
        notes.see(line)
        return {label: value for label, value in notes.values.items() if GROUPS[label] == "memory"}

    def survived(self) -> None:
        """Requests are served: an allocation that failed before was caught."""
        for label in _SURVIVED:
            self.values.pop(label, None)

    def _keep(self, label: str, value: str, keep: str) -> None:
        before = self.values.get(label)
        if before is None or keep == "last":
            self.values[label] = value
        elif keep != "first":
            choose = max if keep == "largest" else min
            self.values[label] = choose(before, value, key=number)

    def _arguments(self, text: str) -> None:
        for found in _ARGUMENT.finditer(text):
            value = found["value"].strip("'\"")
            if value not in ("None", "auto"):
                self.arguments[_ARGUMENTS[found["key"].replace("-", "_")]] = value
        if "--enable-expert-parallel" in text:
            self.arguments["ep"] = "True"
        if served := _SERVED.search(text):
            self.arguments.setdefault("model", served["model"])


def _worded(label: str, value: str) -> str:
    """The value as a person would write it: a product's name, a progress bar."""
    if label == "shards":
        done, _, times = value.partition(" [")
        spent, _, left = times.partition("<")
        return f"{done} after {spent}, {left} to go"
    return value.replace("_", " ") if label == "GPU" else value


def number(text: str) -> float:
    """The number with which a value begins; 0 where it is none."""
    found = re.match(r"-?\d[\d,]{0,20}(?:\.\d{0,9})?", text)
    return float(found[0].replace(",", "")) if found else 0.0
