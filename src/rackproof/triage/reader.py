"""Lines of a log, in bounded memory: capped, without the decoration that engines, containers and journals add.

A log is hostile input: one line may be a gigabyte. Every pattern here is anchored and bounded, so none can backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from rackproof.triage.clock import NEVER, Moment

MAX_LINE = 4096  # bytes of a line that are looked at; no marker stands further in

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}m")
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}(?:Z|[+-]\d\d:?\d\d)?"
_UNIT = r"[\w.-]{1,80} (?:[^\s:\[\]]{1,80}\[\d{1,10}\]|kernel): "  # host and program, as a journal names them
_DECORATION = re.compile(
    rf"(?P<outer>{_ISO}) (?:std(?:out|err) [FP] )?(?P<host>{_UNIT})?"  # docker, kubernetes, journalctl -o short-iso
    r"|(?P<service>[\w.-]{1,80}) {1,20}\| "  # docker compose
    r"|\[pod/(?P<pod>[\w./-]{1,200})\] "  # kubectl logs --prefix
    rf"|(?P<journal>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d) (?P<where>{_UNIT})"
    r"|\[(?P<dmesg>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] "  # dmesg -T
    r"|\[(?P<imex>[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\] "
    r"|\[(?P<torch>(?:rank|default)\d{1,6})\]: ?"  # torch, torchrun
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\]<std(?:out|err)>: ?"  # mpirun --tag-output
    r"|\((?P<replica>ServeReplica:[\w:.-]{1,120}) pid=\d{1,10}\) "  # Ray Serve
    r"|\[Stage-\d{1,4}\] "  # vLLM-omni
)
_PROCESS = re.compile(
    r"\((?P<name>APIServer|ApiServer_\d{1,6}|RustFrontend|EngineCore(?:_DP\d{1,6}|_\d{1,6})?"
    r"|Worker(?:_(?:DP|PP|PCP|TP|DCP|EP)\d{1,6}){0,8}|VllmWorker(?: rank=\d{1,6}| TP\d{1,6})?|VllmWorkerProcess"
    r"|RayWorkerWrapper|RayWorkerProc|DPEngineCoreActor_DP\d{1,6}) pid=(?P<pid>\d{1,10})(?:, ip=[^)]{1,64})?\) ?"
)
_OTHERS = re.compile(  # sglang; TensorRT-LLM
    r"\[(?P<sglang>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<name>(?: (?:DP|PP|TP|EP|ATTN|MOE_EP|CP)\d{1,6}){0,6})\] "
    r"|\[(?P<trt>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[TRT-LLM\] (?:\[(?P<rank>RANK \d{1,6})\] )?\[[A-Z]\] "
)
_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) {1,8}"
    r"(?:(?P<own>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) {1,4})?(?:\[?[\w./-]{1,200}(?::\d{1,7})?\] {0,4})"
)
_SHARED = ("VllmWorkerProcess", "RayWorkerWrapper", "RayWorkerProc", "Worker", "VllmWorker")


@dataclass(frozen=True)
class Line:
    """`text` is the message alone; `rank` the process that wrote it ("" where the line does not say).

    `origin` is the container or host of a log that mixes several, `moment` the time stamps of the line.
    """

    number: int
    rank: str
    text: str
    raw: str
    origin: str = ""
    moment: Moment = NEVER


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
    text, rank, origin, own, outer = _COLOUR.sub("", shown), "", "", "", ""
    while text:
        if text[0] == "(" and (found := _PROCESS.match(text)):
            rank = _name(found)
        elif found := _OTHERS.match(text):
            rank = (found["name"] or "").strip().replace(" ", "_") or found["rank"] or rank
            own = found["sglang"] or found["trt"]
        elif found := _DECORATION.match(text):
            parts = found.groupdict()
            unit = parts["host"] or parts["where"] or ""
            origin = parts["service"] or parts["pod"] or unit.partition(" ")[0] or origin
            outer = parts["outer"] or parts["journal"] or outer
            own = (parts["dmesg"] or "")[4:] or parts["imex"] or own
            tag = parts["torch"] or (parts["mpi"] and f"rank{parts['mpi']}")
            rank = tag or rank
        else:
            break
        text = text[found.end() :]
    if head := _HEAD.match(text):
        text, own = text[head.end() :], head["own"] or own
    return Line(number, rank, text.rstrip(), shown, origin, Moment(own, outer))


def _name(found: re.Match[str]) -> str:
    """Workers before 0.10.1 and of Ray share one name, so that only the process id tells them apart."""
    return f"{found['name']} {found['pid']}" if found["name"] in _SHARED else found["name"]
