"""Where a run was: a stage machine over the lines that every version prints, and over the frames of a traceback.

Markers are plain text, because they are looked for in every line. A stage is never left backwards, except by the line
with which a new run begins: a container that was restarted is judged by its last run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from rackproof.triage.clock import NEVER, Moment
from rackproof.triage.reader import Line


class Stage(IntEnum):
    """Where a run is, in order. `distributed`: processes find each other, before any weight is read."""

    START = 1
    DISTRIBUTED = 2
    WEIGHTS = 3
    ENGINE = 4
    SERVING = 5


NEW_RUN = "vLLM API server version"
STATS, STATS_RUST = "Avg prompt throughput:", "Avg prompt tput:"
# A fault while processes find each other is a fault of the engine's start. A log that merely stops there has failed at
# nothing yet, so it is given the earlier name: a stage is never reported later than it was.
FAILED_IN = {
    Stage.START: "container-start", Stage.DISTRIBUTED: "engine-init", Stage.WEIGHTS: "weights-load",
    Stage.ENGINE: "engine-init", Stage.SERVING: "serving",
}  # fmt: skip
NAMES = {
    Stage.START: "start", Stage.DISTRIBUTED: "distributed-init", Stage.WEIGHTS: "weights-load",
    Stage.ENGINE: "engine-init", Stage.SERVING: "serving",
}  # fmt: skip
ENDED_IN = {**FAILED_IN, Stage.DISTRIBUTED: "container-start"}

MARKERS: tuple[tuple[str, Stage], ...] = (
    (NEW_RUN, Stage.START),
    ("LLM engine (v", Stage.START),
    ("distributed_init_method=", Stage.DISTRIBUTED),
    ("vLLM is using nccl==", Stage.DISTRIBUTED),
    ("is assigned as DP rank", Stage.DISTRIBUTED),
    ("Starting to load model ", Stage.WEIGHTS),
    ("Loading model from scratch", Stage.WEIGHTS),
    ("checkpoint shards:", Stage.WEIGHTS),
    ("Loading safetensors using ", Stage.WEIGHTS),
    ("Prefetching checkpoint files", Stage.WEIGHTS),
    ("Model loading took ", Stage.ENGINE),
    ("Loading model weights took ", Stage.ENGINE),
    ("Encoder cache will be initialized", Stage.ENGINE),
    ("Available KV cache memory:", Stage.ENGINE),
    ("GPU KV cache size:", Stage.ENGINE),
    ("Capturing CUDA graph", Stage.ENGINE),
    ("init engine (profile, create kv cache", Stage.ENGINE),
    ("Application startup complete.", Stage.SERVING),
    ("starting OpenAI server", Stage.SERVING),
    ("Uvicorn running on", Stage.SERVING),
    ("Load weight begin", Stage.WEIGHTS),  # sglang, up to where TensorRT-LLM begins
    ("Load weight end", Stage.ENGINE),
    ("Capture cuda graph begin", Stage.ENGINE),
    ("The server is fired up and ready to roll", Stage.SERVING),
    ("server_args=ServerArgs(", Stage.START),
    ("Init torch distributed begin", Stage.DISTRIBUTED),
    ("KV Cache is allocated", Stage.ENGINE),
    ("Memory pool end", Stage.ENGINE),
    ("TensorRT-LLM version:", Stage.START),  # TensorRT-LLM, to the end of these
    ("TensorRT LLM version:", Stage.START),
    (" for model weights.", Stage.WEIGHTS),
    ("Memory used after loading model weights", Stage.ENGINE),
    ("Peak memory during memory usage profiling", Stage.ENGINE),
    ("Estimated max memory in KV cache", Stage.ENGINE),
    (STATS, Stage.SERVING),
    (STATS_RUST, Stage.SERVING),
)

# sglang opens its port first and warms up with a request of its own; ready is another line of it.
_UVICORN = ("Application startup complete.", "Uvicorn running on")
_OF_SGLANG = ("server_args=ServerArgs(", "Init torch distributed", "Load weight begin", "Capture cuda graph begin")
_MOST_RANKS = 4096  # names come from the log; a hostile one could make them up

# What an exception or its traceback says about where it was raised. `execute_model` is missing on purpose: profiling,
# warm-up and requests all go through it.
FRAMES: tuple[tuple[str, Stage], ...] = (
    ("in init_device", Stage.DISTRIBUTED),
    ("in request_memory", Stage.DISTRIBUTED),
    ("request_memory(", Stage.DISTRIBUTED),
    ("in load_model", Stage.WEIGHTS),
    ("processing method load_model", Stage.WEIGHTS),
    ("in load_weights", Stage.WEIGHTS),
    ("in create_weights", Stage.WEIGHTS),
    ("in process_weights_after_loading", Stage.WEIGHTS),
    ("AttentionWrapper(", Stage.WEIGHTS),  # layers are built while the model is loaded
    ("in determine_available_memory", Stage.ENGINE),
    ("in profile_run", Stage.ENGINE),
    ("in initialize_kv_cache", Stage.ENGINE),
    ("in initialize_from_config", Stage.ENGINE),
    ("in compile_or_warm_up_model", Stage.ENGINE),
    ("in capture_model", Stage.ENGINE),
    ("in get_kv_cache_configs", Stage.ENGINE),
    ("in check_enough_kv_cache_memory", Stage.ENGINE),
    ("in _process_engine_step", Stage.SERVING),
    ("in run_busy_loop", Stage.SERVING),
    ("_process_engine_step()", Stage.SERVING),
    ("EngineCore encountered a fatal error", Stage.SERVING),
    ("EngineDeadError", Stage.SERVING),
    ("Dumping input data for V1 LLM engine", Stage.SERVING),
    ("input of failed execution", Stage.SERVING),
    ("Error in model execution", Stage.SERVING),
    ("in run_event_loop", Stage.SERVING),  # sglang
    ("in forward_batch_generation", Stage.SERVING),
)
MODEL_CODE = ", in forward"  # says only that the model ran: profiling, unless the log knows better

# Lines that say that something ended, and nothing about why.
WRAPPERS: tuple[str, ...] = (
    "WorkerProc failed to start", "WorkerProc hit an exception", "EngineCore failed to start",
    "EngineCore encountered a fatal error", "EngineDeadError", "Engine core initialization failed",
    "WorkerProc initialization failed", "died unexpectedly", "Traceback (most recent call last)",
    "Fatal Python error", "Scheduler hit an exception", "DistBackendError", "RPC call to ", "input of failed execution",
)  # fmt: skip


_TRACEBACK = "Traceback (most recent call last)"


@dataclass
class Run:
    """What the lines so far say about one run."""

    furthest: Stage | None = None  # that any rank reached: since 0.12 only the first rank reports most of them
    frames: dict[str, Stage] = field(default_factory=dict)  # in the order of the log: the first cause comes first
    model_code: set[str] = field(default_factory=set)  # ranks that ran the model
    wrapper: Line | None = None
    marker: Line | None = None  # the line with which the furthest stage began
    began: dict[Stage, Moment] = field(default_factory=dict)  # when the first rank reached a stage
    sglang: bool = False

    def stage(self) -> Stage | None:
        """The furthest stage any rank reached."""
        return self.furthest

    def at(self, rank: str, reached: Stage | None) -> Stage | None:
        """Where a rank failed: `reached` when it did, by its own traceback, by the first traceback, by the markers."""
        if reached is Stage.SERVING:
            return reached
        own = self.frames.get(rank)
        if own is None and self._ran_model(rank):
            return Stage.ENGINE  # a rank runs the model only once it has the weights, however far the others are
        return own or next(iter(self.frames.values()), None) or reached

    def _ran_model(self, rank: str) -> bool:
        """A line without a rank may be anybody's."""
        return rank in self.model_code or "" in self.model_code or (not rank and bool(self.model_code))

    def see(self, line: Line, now: Moment = NEVER) -> None:
        """Take in one line; `now` is its time, or that of the last line that had one."""
        for text, stage in FRAMES:
            if text in line.text and (line.rank in self.frames or len(self.frames) < _MOST_RANKS):
                self.frames[line.rank] = max(stage, self.frames.get(line.rank, stage))
        self.sglang = self.sglang or any(text in line.text for text in _OF_SGLANG)
        if MODEL_CODE in line.text and len(self.model_code) < _MOST_RANKS:
            self.model_code.add(line.rank)
        if self.wrapper is None and self._ends_something(line.text):
            self.wrapper = line
        for text, stage in MARKERS:
            if text in line.text:
                early = self.sglang and text in _UVICORN
                self._reach(Stage.ENGINE if early else stage, line, now)
                return

    def _ends_something(self, text: str) -> bool:
        """A traceback alone ends nothing once requests run: one bad request leaves one."""
        found = [wrapper for wrapper in WRAPPERS if wrapper in text]
        return found != [_TRACEBACK] if self.stage() is Stage.SERVING and found else bool(found)

    def _reach(self, stage: Stage, line: Line, now: Moment) -> None:
        before = self.furthest
        if before is not None and stage <= before:
            return
        self.furthest, self.marker = stage, line
        self.began[stage] = now
        if stage is Stage.SERVING:  # it outlived what was printed: caught tracebacks
            self.wrapper = None
            self.model_code.clear()
            self.frames.clear()
