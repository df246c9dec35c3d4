"""How long `triage` takes on a large log, against `grep -c -F` with as many fixed patterns.

    python benchmarks/triage.py [--mib 1024] [--runs 3]

The log is generated: a start, then requests and statistics as a busy server writes them, then a failure. Both read it
from the page cache, in turn, one after the other in each round; shown are the best time of each, since everything else on
the machine only adds, and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rackproof.triage.diagnose import keywords

_API = "(APIServer pid=1) "
_START = [
    f"{_API}INFO 07-01 10:00:00 [api_server.py:1] vLLM API server version 0.26.0",
    "(Worker_TP0 pid=90) INFO 07-01 10:00:09 [gpu_model_runner.py:1] Starting to load model m...",
    "(Worker_TP0 pid=90) INFO 07-01 10:09:00 [gpu_model_runner.py:2] Model loading took 97.2 GiB memory and 510.0 seconds",
    f"{_API}INFO:     Application startup complete.",
]
_BUSY = [
    *(
        f'{_API}INFO:     192.0.2.{host}:{40000 + host} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        for host in range(1, 30)
    ),
    f"{_API}INFO 07-01 10:10:00 [loggers.py:1] Engine 000: Avg prompt throughput: 9210.4 tokens/s, Avg generation "
    "throughput: 4107.0 tokens/s, Running: 201 reqs, Waiting: 12 reqs, GPU KV cache usage: 71.3%, "
    "Prefix cache hit rate: 44.1%",
]
_FAILURE = [
    '(Worker_TP1 pid=91) ERROR 07-01 12:00:00 [worker.py:1]   File "/x.py", line 1, in execute_model',
    "(Worker_TP1 pid=91) ERROR 07-01 12:00:00 [worker.py:1] torch.OutOfMemoryError: CUDA out of memory. "
    "Tried to allocate 2.00 GiB.",
]


def generate(path: Path, mib: int) -> int:
    """Write the log; returns its lines."""
    block = "\n".join(_BUSY * 400) + "\n"
    repeats = max(1, mib * 1024 * 1024 // len(block))
    with path.open("w") as out:
        out.write("\n".join(_START) + "\n")
        for _ in range(repeats):
            out.write(block)
        out.write("\n".join(_FAILURE) + "\n")
    return len(_START) + len(_FAILURE) + repeats * len(_BUSY) * 400


def ran(command: list[str]) -> str:
    """Into a pipe: with /dev/null as its output grep stops at the first line it finds."""
    environ = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environ).stdout


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--mib", type=int, default=1024)
    options.add_argument("--runs", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, patterns = Path(folder) / "engine.log", Path(folder) / "patterns"
        count = generate(log, chosen.mib)
        patterns.write_text("\n".join(keywords()) + "\n")
        grep = ["grep", "-a", "-c", "-F", "-f", str(patterns), str(log)]
        triage = [str(Path(sys.executable).with_name("rackproof")), "triage", "-q", "--plain", str(log)]
        subprocess.run(["cat", str(log)], stdout=subprocess.DEVNULL, check=True)  # into the page cache
        rounds = [(seconds(lambda: ran(grep)), seconds(lambda: ran(triage))) for _ in range(chosen.runs)]
        by_grep, by_triage = min(one for one, _ in rounds), min(other for _, other in rounds)
        ratio = statistics.median(other / one for one, other in rounds)
        answer = ran(triage).strip()
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"log: {log.stat().st_size / 2**20:.0f} MiB, {count} lines; {len(keywords())} fixed patterns")
        print(f"grep -c -F  {by_grep:7.2f} s")
        print(f"triage      {by_triage:7.2f} s, {by_triage / by_grep:.2f} times grep; peak memory {memory:.0f} MiB")
        print(f"rounds      {chosen.runs}, median ratio {ratio:.2f}, load average {os.getloadavg()[0]:.1f}")
        print(f"answer: {answer.rsplit('  ', 1)[0]}")


if __name__ == "__main__":
    main()
