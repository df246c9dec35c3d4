"""Does a layout fit into the memory that was measured? Weights first, then context, then concurrency.

Everything is bytes of one GPU unless it says otherwise, computed from what the driver printed and what others
published; no nominal "GB" enters. A figure that nobody published is named in `missing` and never guessed at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from rackproof.hardware import Hardware
from rackproof.recipes import Layout, Pool, Recipe
from rackproof.recipes.footprint import GIB, Row


class Answer(StrEnum):
    """Whether something can be. `unknown` always comes with the name of what is missing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def worst(answers: Iterable[Answer]) -> Answer:
    """One no is a no; one unknown keeps a yes from being one; nothing at all is unknown."""
    given = set(answers)
    for answer in (Answer.NO, Answer.UNKNOWN):
        if answer in given:
            return answer
    return Answer.YES if given else Answer.UNKNOWN


@dataclass(frozen=True)
class Line:
    """One line of the arithmetic: what, how it is reached, the result in bytes (None: not a size), who says so."""

    label: str
    how: str
    bytes: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Step:
    """One of memory, context, concurrency. `value` is what it came to: bytes, tokens, sequences."""

    answer: Answer
    words: str
    value: int | None = None


@dataclass(frozen=True)
class PoolFit:
    """How one copy of the weights fits into its GPUs."""

    pool: Pool
    memory: Step  # value: slack of one GPU in bytes, below 0 where it does not fit
    context: Step  # value: tokens of KV cache
    concurrency: Step  # value: requests of full length at once
    kv_bytes: int | None  # of one GPU, left for KV cache and state
    lines: tuple[Line, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """How a layout fits. It is the fit of its tightest pool."""

    layout: str
    pools: tuple[PoolFit, ...]

    @property
    def memory(self) -> Answer:
        return worst(pool.memory.answer for pool in self.pools)

    @property
    def answer(self) -> Answer:
        """Memory, and context where a figure says that the recipe's own context does not fit."""
        short = any(pool.context.answer is Answer.NO for pool in self.pools)
        return Answer.NO if short else self.memory

    @property
    def slack_bytes(self) -> int | None:
        """Of one GPU in the tightest pool. None: TP cannot divide the model, so there is no amount to speak of."""
        found = [pool.memory.value for pool in self.pools]
        known = [value for value in found if value is not None]
        return min(known) if len(known) == len(found) else None

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pool in self.pools for name in pool.missing))


def fit(recipe: Recipe, layout: Layout, hardware: Hardware, memory_bytes: int) -> Fit:
    """The fit of a layout on GPUs of `hardware` that have `memory_bytes` each, as the driver prints it."""
    return Fit(
        layout.id, tuple(_Pool(recipe, layout, pool, hardware, memory_bytes).fit() for pool in layout.pools)
    )


class _Pool:
    """Works out one pool; each step adds the lines of its arithmetic."""

    def __init__(self, recipe: Recipe, layout: Layout, pool: Pool, hardware: Hardware, memory: int) -> None:
        self.print, self.layout, self.pool, self.hardware = recipe.footprint, layout, pool, hardware
        self.weights = recipe.model["bytes"]
        self.memory = memory
        self.lines: list[Line] = []
        self.missing: list[str] = []
        self.where = f"{pool.shape} on {hardware.id}"

    def fit(self) -> PoolFit:
        usable = self._usable()
        memory = self._memory(usable)
        if memory.answer is Answer.NO:
            unasked = Step(Answer.UNKNOWN, "not asked: the weights do not fit")
            return PoolFit(self.pool, memory, unasked, unasked, None, tuple(self.lines), tuple(self.missing))
        tokens, kv_bytes = self._kv(usable)
        context = self._context(tokens)
        concurrency = self._concurrency(tokens)
        return PoolFit(self.pool, memory, context, concurrency, kv_bytes, tuple(self.lines), tuple(self.missing))

    def _usable(self) -> int:
        row = self._rows(self.print.utilisation)[-1]
        share = Fraction(str(row.value))
        self._line("memory of one GPU", "as the driver prints it", self.memory)
        usable = math.floor(self.memory * share)
        self._line("the engine's share", f"x {row.value:g} (gpu-memory-utilization)", usable, row.source)
        return usable

    def _memory(self, usable: int) -> Step:
        bad = self._indivisible()
        if bad:
            return Step(Answer.NO, bad)
        even = math.ceil(self.weights.value * (1 + Fraction(str(self.print.slack.value))) / self.pool.gpus)
        self._line(
            "weights, at least",
            f"{self.weights.value:,} B x {1 + self.print.slack.value:g} / {self.pool.gpus} GPUs",
            even, f"{self.weights.source}; {self.print.slack.source}",
        )  # fmt: skip
        found = self._rows(self.print.resident)
        row = max(found, key=lambda row: row.bytes, default=None)
        if row is not None:
            self._line("weights, as published", row.note or "measured", row.bytes, row.source)
        taken = max(even, row.bytes if row is not None else 0)
        self._line("slack", "share - weights: KV cache, state, the engine", usable - taken)
        if usable < taken:
            return Step(Answer.NO, f"{_gib(taken)} of weights a GPU, {_gib(usable)} to put them in", usable - taken)
        if not self._beside(usable):
            return Step(Answer.NO, "the kernels' workspace does not fit beside the engine's share", usable - taken)
        return self._published(row, usable - taken)

    def _published(self, row: Row | None, slack: int) -> Step:
        if row is not None:
            return Step(Answer.YES, f"{_gib(slack)} left a GPU beside the published weights", slack)
        self.missing.append(f"weights resident per GPU with {self.where}, padding included")
        if self.layout.tier in ("official", "vendor"):
            return Step(Answer.YES, f"{_gib(slack)} left a GPU by the sum; weights per GPU are not published", slack)
        return Step(Answer.UNKNOWN, f"not published: {self.missing[-1]}; the sum leaves {_gib(slack)} a GPU", slack)

    def _indivisible(self) -> str:
        for name, cell in (("attention heads", self.print.heads), ("vocabulary", self.print.vocabulary)):
            if cell.value % self.pool.tp:
                self._line("tensor parallelism", f"TP{self.pool.tp} does not divide {cell.value} {name}", None, cell.source)
                return f"TP{self.pool.tp} does not divide {name} of {cell.value}"
        return ""

    def _beside(self, usable: int) -> bool:
        rows = self._rows(self.print.overhead)
        for row in rows:
            self._line("beside the engine's share", row.note, row.bytes, row.source)
        return sum(row.bytes for row in rows) <= self.memory - usable

    def _kv(self, usable: int) -> tuple[int | None, int | None]:
        """(tokens of KV cache, bytes of one GPU), carried over from a measurement on the same product and shape."""
        rows = self._rows(self.print.kv)
        if not rows:
            self.missing.append(f"KV cache of {self.where}, and what the engine takes for itself")
            return None, None
        row = rows[0]
        share = Fraction(str(self._rows(self.print.utilisation)[-1].value))
        kv = row.bytes + usable - math.floor(self.hardware.memory_bytes * share)
        tokens = max(0, kv * (row.tokens or 0) // row.bytes)
        self._line("KV cache", row.note or "as measured elsewhere, for this memory", kv, row.source)
        self._line("KV cache in tokens", f"{row.bytes / (row.tokens or 1):,.0f} B a token: {tokens:,} tokens", None, row.source)
        return tokens, max(0, kv)

    def _context(self, tokens: int | None) -> Step:
        limit = self._limit()
        if tokens is None:
            return Step(Answer.UNKNOWN, f"not published: {self.missing[-1]}")
        if limit is None or limit.max_model_len is None:
            self.missing.append(f"max-model-len of the recipe for {self.hardware.generation}")
            return Step(Answer.UNKNOWN, f"not published: {self.missing[-1]}", tokens)
        answer = Answer.YES if tokens >= limit.max_model_len else Answer.NO
        return Step(answer, f"{tokens:,} tokens of KV cache, {limit.max_model_len:,} asked for", tokens)

    def _concurrency(self, tokens: int | None) -> Step:
        limit = self._limit()
        if tokens is None or limit is None or limit.max_model_len is None:
            return Step(Answer.UNKNOWN, "context is not known")
        full = tokens // limit.max_model_len
        allowed = "" if limit.max_num_seqs is None else f", {limit.max_num_seqs} sequences allowed"
        requests = "1 request" if full == 1 else f"{full} requests"
        return Step(Answer.YES if full else Answer.NO, f"{requests} of full length at once{allowed}", full)

    def _limit(self) -> Row | None:
        return next(iter(self._rows(self.print.context)), None)

    def _rows(self, rows: tuple[Row, ...]) -> list[Row]:
        return [row for row in rows if _holds(row, self.layout, self.pool, self.hardware)]

    def _line(self, label: str, how: str, size: int | None, source: str = "") -> None:
        self.lines.append(Line(label, how, size, source))


def _holds(row: Row, layout: Layout, pool: Pool, hardware: Hardware) -> bool:
    pairs = (
        (row.hardware, hardware.id), (row.generation, hardware.generation), (row.strategy, layout.strategy),
        (row.tp, pool.tp), (row.pp, pool.pp), (row.dp, pool.dp),
    )  # fmt: skip
    return all(wanted is None or wanted == found for wanted, found in pairs) and pool.tp >= (row.tp_min or 1)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
