"""What a log says of itself that a person wants to see beside the answer: versions, times, memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rackproof.triage.reader import Line

# literal, label, pattern of the value. A number of digits is bounded, so that no line can make a search slow.
_NOTES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (literal, label, re.compile(pattern))
    for literal, label, pattern in (
        ("vLLM API server version", "version", r"version ([\w.+-]{1,60})"),
        ("LLM engine (v", "version", r"LLM engine \(v([\w.+-]{1,60})\)"),
        ("non-default args:", "arguments", r"non-default args: (.{1,2000})"),
        ("Loading weights took", "reading weights", r"took ([\d.]{1,12} seconds)"),
        ("Model loading took", "loading model", r"took ([\d.]{1,12} GiB(?: memory)? and [\d.]{1,12} seconds)"),
        ("torch.compile t", "compiling", r"t(?:akes|ook) ([\d.]{1,12} s)"),
        ("Graph capturing finished", "graph capture", r"in ([\d.]{1,12} secs, took -?[\d.]{1,12} GiB)"),
        ("init engine (profile", "engine init", r"took ([\d.]{1,12} s)"),
        ("Available KV cache memory", "KV cache memory", r"memory: (-?[\d.]{1,12} GiB)"),
        ("GPU KV cache size", "KV cache size", r"size: ([\d,]{1,20} tokens)"),
    )
)
LITERALS = tuple(literal for literal, _, _ in _NOTES)
_ENGINES = (
    ("sglang", "sglang"), ("TRT-LLM", "TensorRT-LLM"), ("tensorrt_llm", "TensorRT-LLM"), ("vllm", "vLLM"),
    ("vLLM", "vLLM"),
)  # fmt: skip
ENGINE_WORDS = ("sglang/srt", "[TRT-LLM]", "tensorrt_llm")


@dataclass
class Notes:
    """The last value of each kind: of several ranks the slowest comes last, and decides how long a stage took."""

    engine: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def see(self, line: Line) -> None:
        if not self.engine:
            self.engine = next((name for word, name in _ENGINES if word in line.raw), "")
        for literal, label, pattern in _NOTES:
            if literal in line.text and (found := pattern.search(line.text)):
                self.values[label] = found[1]
                return
