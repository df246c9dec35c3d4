"""Lines of a log, in bounded memory: capped, without the decoration that engines, containers and journals add.

A log is hostile input: one line may be a gigabyte. Every pattern here is anchored and bounded, so none can backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

MAX_LINE = 4096  # bytes of a line that are looked at; no marker stands further in

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}m")
_DECORATION = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?"  # docker, kubernetes
    r"|[\w.-]{1,80} {1,20}\| "  # docker compose
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [^\s:\[\]]{1,80}\[\d{1,10}\]: "  # journalctl
    r"|\[Stage-\d{1,4}\] "  # vLLM-omni
)
_PROCESS = re.compile(
    r"\((?P<name>APIServer|ApiServer_\d{1,6}|RustFrontend|EngineCore(?:_DP\d{1,6}|_\d{1,6})?"
    r"|Worker(?:_(?:DP|PP|PCP|TP|DCP|EP)\d{1,6}){0,8}|VllmWorker(?: rank=\d{1,6}| TP\d{1,6})?|VllmWorkerProcess"
    r"|RayWorkerWrapper|RayWorkerProc|DPEngineCoreActor_DP\d{1,6}) pid=(?P<pid>\d{1,10})(?:, ip=[^)]{1,64})?\) ?"
)
_SGLANG = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?P<name>(?: (?:DP|PP|TP|EP|ATTN)\d{1,6}){0,5})\] ")
_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) {1,8}"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? {1,4})?(?:\[?[\w./-]{1,200}(?::\d{1,7})?\] {0,4})"
)


@dataclass(frozen=True)
class Line:
    """`text` is the message alone; `rank` the process that wrote it ("" where the line does not say)."""

    number: int
    rank: str
    text: str
    raw: str


def lines(stream: IO[bytes]) -> Iterator[Line]:
    """Every line that says something, numbered from 1."""
    for number, part in enumerate(capped(stream), 1):
        line = parse(number, part)
        if line.text:
            yield line


def capped(stream: IO[bytes]) -> Iterator[bytes]:
    """The start of every line. Holds one at a time; the rest of a longer one is passed over."""
    while part := stream.readline(MAX_LINE):
        rest = part
        while not rest.endswith(b"\n") and len(rest) == MAX_LINE:
            rest = stream.readline(MAX_LINE)
        yield part


def parse(number: int, raw: bytes) -> Line:
    """One line without prefixes and colours. A progress bar is redrawn with carriage returns: its last state counts."""
    shown = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
    text, rank = _COLOUR.sub("", shown), ""
    while True:
        if found := _DECORATION.match(text):
            text = text[found.end() :]
        elif found := _PROCESS.match(text):
            rank = _name(found)
            text = text[found.end() :]
        elif found := _SGLANG.match(text):
            rank = found["name"].strip().replace(" ", "_") or rank
            text = text[found.end() :]
        else:
            break
    if head := _HEAD.match(text):
        text = text[head.end() :]
    return Line(number, rank, text.rstrip(), shown)


def _name(found: re.Match[str]) -> str:
    """Workers before 0.10.1 and of Ray share one name, so that only the process id tells them apart."""
    name = found["name"]
    shared = name in ("VllmWorkerProcess", "RayWorkerWrapper", "RayWorkerProc", "Worker", "VllmWorker")
    return f"{name} {found['pid']}" if shared else name
