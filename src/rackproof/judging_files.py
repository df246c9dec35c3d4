"""Thousands of files of evidence judged one by one, in several processes, in memory that grows with the result alone.

A worker reads a file, parses it and judges the node; only outcomes and facts come back. The order of the files is the
order of the result, whoever was faster.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rackproof import site as sites
from rackproof.baseline import Baseline
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.bundle import Refuse, read_bundle
from rackproof.evidence.signature import refusal
from rackproof.facts import NodeFacts
from rackproof.gathering import Gathering
from rackproof.inventory import planned
from rackproof.judging import judge_one
from rackproof.plan import Plan, PlannedNode
from rackproof.verdict.evaluate import NodeResult, Result

BATCH = 8  # files a worker takes at once
WAITING = 4  # batches a worker may be ahead of what has been gathered
FEW = 64  # files: not worth another process


@dataclass(frozen=True)
class Asked:
    """What the files are judged against. Without a plan, each node stands for itself."""

    plan: Plan | None = None
    hardware: str | None = None
    layout: str | None = None
    site_file: Path | None = None
    nonce: str | None = None
    signers: Path | None = None
    only: frozenset[str] | None = None  # --limit, where there is no plan that could say who is left out


@dataclass(frozen=True)
class Judged:
    """One file: the node's result, or None where nobody asked for the node."""

    path: Path
    node: str
    result: NodeResult | None
    facts: NodeFacts | None


class Bench:
    """Judges files in one process; what all nodes share is worked out once."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._site = sites.from_file(asked.site_file) if asked.site_file else sites.shipped()
        self._nodes = {node.name: node for node in asked.plan.nodes} if asked.plan else {}
        self._like: PlannedNode | None = None
        self._refuse: Refuse = partial(refusal, asked.signers) if asked.signers else lambda *signed: None

    def judge(self, path: Path) -> Judged:
        evidence = read_bundle(path, self._refuse)[0].answering(self._asked.nonce)
        if not evidence.node:
            raise InputError(str(path), evidence.problem or "names no node", "the output of a rackproof probe")
        node = self._planned(evidence.node)
        if node is None or node.left_out:
            return Judged(path, evidence.node, None, None)
        return Judged(path, evidence.node, *judge_one(node, evidence))

    def _planned(self, name: str) -> PlannedNode | None:
        if self._asked.plan is not None:
            return self._nodes.get(name)
        if self._like is None:
            self._like = planned(name, self._site, self._asked.hardware, self._asked.layout)
        left_out = self._asked.only is not None and name not in self._asked.only
        return replace(self._like, name=name, left_out=left_out)


def judge_files(
    paths: Sequence[Path],
    asked: Asked,
    tell: Callable[[], None],
    workers: int | None = None,
    where: dict[str, Path] | None = None,
) -> Result:
    """Every file judged, and every unit. `tell` is called once a file. `workers`: None for as many as there are CPUs.
    `where` is filled with the file of each node.

    Raises InputError for a file that is no evidence, and for two files of one node.
    """
    workers = min(workers or os.cpu_count() or 1, max(1, len(paths) // FEW))
    gathering = Gathering(
        asked.plan.units if asked.plan else (), [node.name for node in asked.plan.nodes] if asked.plan else ()
    )
    seen = {} if where is None else where
    for judged in _one_by_one(paths, asked) if workers == 1 else _by_workers(paths, asked, workers):
        tell()
        if judged.node in seen:
            both = f"{seen[judged.node]} and {judged.path}"
            raise InputError(both, f"two pieces of evidence are of node {judged.node!r}", "one for each node")
        seen[judged.node] = judged.path
        if judged.result is not None and judged.facts is not None:
            gathering.add(judged.result, judged.facts)
    for node in _unseen(asked, seen):
        gathering.add(*judge_one(node, None))
    return gathering.result()


def _unseen(asked: Asked, seen: dict[str, Path]) -> list[PlannedNode]:
    """Nodes of the plan without a file, and those left out: both stay in the result, and prove nothing."""
    if asked.plan is not None:
        return [node for node in asked.plan.nodes if node.left_out or node.name not in seen]
    if asked.only is None:
        return []
    missing = sorted(asked.only - set(seen))
    if missing:
        raise InputError("--limit", f"there is no evidence of {', '.join(missing[:5])}", "nodes of the files given")
    site = sites.from_file(asked.site_file) if asked.site_file else sites.shipped()
    left = (name for name in seen if name not in (asked.only or ()))
    return [replace(planned(name, site, asked.hardware, asked.layout), left_out=True) for name in left]


def _one_by_one(paths: Sequence[Path], asked: Asked) -> Iterator[Judged]:
    bench = Bench(asked)
    return (bench.judge(path) for path in paths)


_bench: Bench | None = None  # of a worker process


def _start(asked: Asked) -> None:
    """Begin a worker, which must not outlive the process that started it, however that one ended."""
    global _bench
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _bench = Bench(asked)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


Told = tuple[str, str, str] | list[Judged]


def _batch(paths: tuple[Path, ...]) -> Told:
    """Judged files, or an input error as text: an exception with arguments of its own does not survive the way back."""
    assert _bench is not None
    try:
        return [_bench.judge(path) for path in paths]
    except InputError as error:
        return (error.where, error.problem, error.accepted)


def _by_workers(paths: Sequence[Path], asked: Asked, workers: int) -> Iterator[Judged]:
    """In the order of the paths, with a bounded number of batches on the way."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    batches = _batches(paths)
    shared = _Shared()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(asked,))
    try:
        waiting: deque[Future[Any]] = deque(pool.submit(_batch, batch) for batch in islice(batches, workers * WAITING))
        while waiting:
            told = _answer(waiting.popleft())
            waiting.extend(pool.submit(_batch, batch) for batch in islice(batches, 1))
            yield from shared.of(told)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _answer(future: Future[Any]) -> list[Judged]:
    try:
        told: Told = future.result()
    except InputError:
        raise
    except Exception as error:
        raise RackproofError(f"a process that judged evidence ended: {type(error).__name__}: {error}") from None
    if isinstance(told, tuple):
        raise InputError(*told)
    return told


def _batches(paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    return (tuple(paths[start : start + BATCH]) for start in range(0, len(paths), BATCH))


class _Shared:
    """Baselines that came back from workers, one object for all nodes that have an equal one."""

    def __init__(self) -> None:
        self._known: dict[str, Baseline] = {}

    def of(self, told: list[Judged]) -> list[Judged]:
        """One batch. What was one object in the worker is one here, so each is hashed once."""
        known: dict[int, Baseline] = {}
        found = []
        for judged in told:
            result = judged.result
            if result is not None and result.baseline is not None:
                baseline = known.get(id(result.baseline))
                if baseline is None:
                    baseline = self._known.setdefault(result.baseline.hash, result.baseline)
                    known[id(result.baseline)] = baseline
                judged = replace(judged, result=replace(result, baseline=baseline))
            found.append(judged)
        return found
