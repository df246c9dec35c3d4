"""Processor time of judging one node: from raw evidence to facts, outcomes and verdict, and its share of its unit's.

    python benchmarks/judge_cpu.py [--rounds 40]

The evidence is that of the healthy nodes of tests/cases, once as it is and once with as much of the driver's messages as
the probe keeps of a kernel log. Every round reads facts anew. Time of the process, not of the clock, so that other work on
the machine counts less; the bound is 50 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cases.edits import logged
from cases.healthy import Context, given
from rackproof.evidence.evidence import Evidence
from rackproof.judging import judge_all

BOUND_MS = 50
KEPT_BYTES = 131072  # what the probe keeps of lines of the driver
LINE = "nvidia 0000:0f:00.0: Using 47-bit DMA addresses, message {number}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    flood = logged(*(LINE.format(number=number) for number in range(KEPT_BYTES // 110)))
    print(f"judging one node, milliseconds of processor time, {rounds} rounds; bound {BOUND_MS}")
    print(f"  {'layout':14} {'kernel log':10} {'evidence':>9} {'best':>8} {'median':>8} {'worst':>8}")
    for context in (Context("gb300"), Context("b300"), Context("b300", "b300-tp16"), Context("mi355x")):
        for name, edits in (("quiet", ()), ("full", (flood,))):
            plan, evidence = given(context, *edits)
            spent = [_once(plan, evidence) for _ in range(rounds)]
            median, size = statistics.median(spent), _kib(next(iter(evidence.values())))
            over = "" if median < BOUND_MS else "   over the bound"
            print(
                f"  {context.layout_id:14} {name:10} {size:5.0f} KiB {min(spent):8.1f} {median:8.1f} {max(spent):8.1f}{over}"
            )


def _once(plan: object, evidence: object) -> float:
    """Milliseconds for one node of the unit."""
    start = time.process_time()
    result = judge_all(plan, evidence)  # type: ignore[arg-type]
    spent = 1000 * (time.process_time() - start) / len(result.nodes)
    assert result.verdict.value == "accept"
    return spent


def _kib(evidence: Evidence) -> float:
    return sum(len(section.stdout) for section in evidence.sections.values()) / 1024


if __name__ == "__main__":
    main()
