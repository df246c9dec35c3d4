"""One pyinfra run as a process: `pyinfra [--dry] -y --limit ... INVENTORY DEPLOY`, watched through a pipe of events."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rackproof.rollout.report import NodeReport, RunReport

EVENTS_FD = "RACKPROOF_EVENTS_FD"
KEPT_LINES = 400
PATIENCE_S = 90  # for a run that was asked to end: it gives locks back first

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def run(
    inventory: Path, deploy: Path, nodes: Sequence[str], *, dry: bool, log: IO[str] | None = None,
    tell: Callable[[Mapping[str, Any]], None] = lambda event: None,
) -> RunReport:  # fmt: skip
    """Run a deploy file on some nodes of an inventory; `tell` hears every event as it comes."""
    report = RunReport({name: NodeReport(name) for name in nodes})
    limits = [word for name in nodes for word in ("--limit", name)]
    words = ["--dry"] if dry else []
    readable, writable = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "pyinfra", "-y", *words, *limits, str(inventory), str(deploy)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        pass_fds=(writable,), start_new_session=True,  # Ctrl-C is ours to pass on, once
        env={**os.environ, EVENTS_FD: str(writable), "PYINFRA_PROGRESS": "off"},
    )  # fmt: skip
    os.close(writable)
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    reader = threading.Thread(target=_keep, args=(process.stderr, lines, log), daemon=True)
    reader.start()
    try:
        with os.fdopen(readable, encoding="utf-8", errors="replace") as events:
            for line in events:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # half a line of a process that was killed
                    event = json.loads(line)
                    report.note(event)
                    tell(event)
        report.exit_code = process.wait()
    finally:
        _end(process)
        reader.join(timeout=5)
    report.log = tuple(lines)
    _unread(report)
    return report


def _keep(stream: IO[str], lines: deque[str], log: IO[str] | None) -> None:
    for line in stream:
        plain = _STYLE.sub("", line.rstrip())
        lines.append(plain)
        if log is not None:
            log.write(plain + "\n")
            log.flush()


def _end(process: subprocess.Popen[str]) -> None:
    """Ask it to end and wait, so that it can give its locks back; only then kill it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _unread(report: RunReport) -> None:
    """For nodes that pyinfra could not connect to, what its log says of them."""
    for node in report.nodes.values():
        if not node.planned and not node.why:
            said = [line.split("]", 1)[1].strip() for line in report.log if line.strip().startswith(f"[{node.name}]")]
            node.why = next((text for text in reversed(said) if text not in ("", "Connected")), "") or _last(report)


def _last(report: RunReport) -> str:
    said = [line for line in report.log if line.startswith(("pyinfra error", "rackproof:", "--> An"))]
    return said[-1] if said else "it was not reached"
