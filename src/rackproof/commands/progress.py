"""Progress while nodes are read: on stderr only, so that a report in a pipe or a file holds nothing else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from rackproof.commands.output import say
from rackproof.verdict.report.clean import NAME_CHARS, clean
from rackproof.verdict.report.fold import fold

NAMES_CHARS = 48


class Event(Protocol):
    """What rackproof.evidence.collect reports: kind is connecting, retrying, read, failed or done (of all; no node)."""

    @property
    def kind(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Tally:
    """Which nodes were read, which failed, and which are still waited for."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.waiting = dict.fromkeys(nodes)
        self.again: dict[str, None] = {}  # of those, the ones whose connection is tried again
        self.total = len(nodes)
        self.read = self.failed = 0

    def note(self, event: Event) -> str:
        """Count an event; the line that says a node is finished or tried again, or "" for any other event."""
        if event.kind not in ("read", "failed", "retrying") or event.node not in self.waiting:
            return ""
        if event.kind == "retrying":
            self.again[event.node] = None
        else:
            del self.waiting[event.node]
            self.again.pop(event.node, None)
        self.read += event.kind == "read"
        self.failed += event.kind == "failed"
        detail = clean(event.detail)
        return f"{clean(event.node, NAME_CHARS)}: {event.kind}{f': {detail}' if detail else ''}"

    def __str__(self) -> str:
        done = f"{self.read} read" + (f", {self.failed} failed" if self.failed else "")
        if not self.waiting:
            return done
        again = f", connecting again to {_short(self.again)}" if self.again else ""
        return f"{done}, waiting for {_short(self.waiting)}{again}"


def _short(nodes: Iterable[str]) -> str:
    listed = list(nodes)
    names = fold(listed)
    return names if len(names) <= NAMES_CHARS else f"{len(listed)} nodes"


@contextlib.contextmanager
def progress(nodes: Sequence[str], *, quiet: bool = False, verbose: bool = False) -> Iterator[Callable[[Event], None]]:
    """A function to tell events to: a bar on a terminal, lines with --verbose, else nothing."""
    tally = Tally(nodes)
    if not quiet and sys.stderr.isatty():
        with _bar(tally, verbose) as tell:
            yield tell
        return

    def tell_lines(event: Event) -> None:
        line = tally.note(event)
        if line and verbose:
            say(f"{line}\n", sys.stderr)

    yield tell_lines


@contextlib.contextmanager
def counting(total: int, what: str, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A function to call once for each of many things: a bar on a terminal, else a line at each tenth."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        done = 0

        def tell_tenths() -> None:
            nonlocal done
            done += 1
            if not quiet and done * 10 // total > (done - 1) * 10 // total:
                say(f"{what}: {done} of {total}\n", sys.stderr)

        yield tell_tenths
        return
    columns = (TextColumn(what, markup=False), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda: shown.advance(task)


@contextlib.contextmanager
def _bar(tally: Tally, verbose: bool) -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    word = "node" if tally.total == 1 else "nodes"
    title = TextColumn(f"reading {tally.total} {word}", markup=False)
    with Progress(
        title, BarColumn(20), TextColumn("{task.description}", markup=False),
        console=Console(stderr=True, highlight=False), transient=True,
    ) as shown:  # fmt: skip
        task = shown.add_task(str(tally), total=tally.total)

        def tell(event: Event) -> None:
            line = tally.note(event)
            if line and verbose:
                shown.console.print(line, markup=False)
            shown.update(task, completed=tally.total - len(tally.waiting), description=str(tally))

        yield tell
