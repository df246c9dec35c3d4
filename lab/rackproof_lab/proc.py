"""Running other programs: one place that turns a failure into a readable line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rackproof_lab.names import LabError

Arg = str | Path


def run(*command: Arg, stdin: str | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command; LabError with its last words when it fails."""
    argv = [str(a) for a in command]
    done = subprocess.run(
        argv,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-6:]
        raise LabError(f"`{' '.join(argv[:6])}` failed (exit {done.returncode}): " + " | ".join(words))
    return done.stdout


def logged(log: Path, *command: Arg, env: Mapping[str, str] | None = None) -> None:
    """Run a long command with its output in a log file, which the error names."""
    argv = [str(a) for a in command]
    with log.open("wb") as out:
        done = subprocess.run(
            argv,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
    if done.returncode:
        words = log.read_text(errors="replace").strip().splitlines()[-4:]
        raise LabError(f"`{argv[0]}` failed (exit {done.returncode}), log {log}: " + " | ".join(words))


def ok(*command: Arg) -> bool:
    """Whether a command succeeds; its output is of no interest."""
    return (
        subprocess.run([str(a) for a in command], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode
        == 0
    )


def spawn(log: Path, cgroup: Path, *command: Arg, env: Mapping[str, str] | None = None) -> int:
    """Start a background process inside a cgroup and return its pid.

    It enters the cgroup before anything else and gives up if that is gone, so that a `down` which runs at the
    same moment either kills it or keeps it from starting: nothing slips through.
    """
    enter = f'echo $$ > "{cgroup}/cgroup.procs" || exit 1; exec "$@"'
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["sh", "-c", enter, "rackproof-lab", *[str(a) for a in command]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    return process.pid


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with its folders; the mode is set whatever the umask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o644)
    temporary.rename(path)
