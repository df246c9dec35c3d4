"""Time and memory of `rackproof judge DIR` for 100, 1,000 and 10,000 nodes: `python benchmarks/judge_many.py`.

The evidence is that of one node, written again under other names, serial numbers and UUIDs. `--from BUNDLE` takes a
node's own (a tray of the lab, or a real one); without it, the fixture that the parsers are tested with. Each row is one
run of the command as a user starts it. CPU time is what can be compared on a machine that does other work. Peak memory is VmHWM of the process, and of its worker processes together, read
from /proc while it runs: Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from rackproof.evidence.bundle import read_bundle, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
POLL_S = 0.05


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--from", dest="bundle", type=Path, help="evidence of one node")
    words.add_argument("--bundles", type=Path, help="a folder to write the bundles to, or to take them from again")
    words.add_argument("--nodes", default="100,1000,10000", help="sizes, separated by commas")
    words.add_argument("--hardware", default="gb300")
    words.add_argument("--json", action="store_true", help="also write the JSON report")
    asked = words.parse_args()
    sizes = sorted(int(size) for size in asked.nodes.split(","))
    first = read_bundle(asked.bundle)[0] if asked.bundle else fixture()
    raw = sum(len(section.stdout) for section in first.sections.values())
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        files = list(written(first, asked.bundles or folder / "all", sizes[-1]))
        print(f"{len(files)} bundles of {raw // 1024} KiB raw each")
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
        print(
            "| nodes | seconds | CPU seconds | CPU ms per node | peak MiB | peak MiB of workers | KiB per node | exit code |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for size in sizes:
            print(row(size, folder, files, asked.hardware, asked.json), flush=True)


def fixture() -> Evidence:
    sys.path.insert(0, str(ROOT / "tests/unit/tools"))
    from tool_evidence import healthy

    evidence: Evidence = healthy()
    return evidence


def written(first: Evidence, folder: Path, count: int) -> Iterator[Path]:
    for number in range(count):
        path = folder / f"rack{number // 18:04d}-tray{number % 18:02d}.tar.gz"
        if not path.exists():
            write_bundle(path, like(first, path.name.removesuffix(".tar.gz"), number))
        yield path


def like(first: Evidence, name: str, number: int) -> Evidence:
    """The same node under another name, with GPUs of its own."""
    mark = sha256(name.encode()).hexdigest()

    def changed(section: Section) -> Section:
        text = re.sub(rb"GPU-[0-9a-f]{8}", b"GPU-" + mark[:8].encode(), section.stdout)
        text = re.sub(rb"(<serial>)\d+", rb"\g<1>" + str(10**12 + number).encode(), text)
        return replace(section, stdout=text)

    sections = {key: changed(section) for key, section in first.sections.items()}
    return replace(first, node=name, sections=sections, sha256=mark)


def row(size: int, folder: Path, files: list[Path], hardware: str, json: bool) -> str:
    some = folder / f"some-{size}"
    some.mkdir()
    for path in files[:size]:
        (some / path.name).symlink_to(path.resolve())
    command = [str(BIN / "rackproof"), "judge", str(some), "--hardware", hardware, "--quiet"]
    command += ["--json", str(folder / "verdict.json")] if json else []
    started, before = time.perf_counter(), cpu_s()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    own = workers = 0
    while process.poll() is None:
        own = max(own, peak_kib(process.pid))
        workers = max(workers, sum(peak_kib(child) for child in children(process.pid)))
        time.sleep(POLL_S)
    seconds = time.perf_counter() - started
    cpu = cpu_s() - before
    cells = (
        size, f"{seconds:.1f}", f"{cpu:.1f}", f"{cpu / size * 1000:.1f}", own // 1024, workers // 1024, f"{own / size:.1f}",
        process.returncode,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def cpu_s() -> float:
    """CPU time of everything this process has started and that has ended: other work on the machine does not count."""
    times = os.times()
    return times.children_user + times.children_system


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def peak_kib(pid: int) -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
