"""`lscpu`: sockets, cores, and the CPUs of each NUMA node. util-linux 2.23 (flat) to 2.40 (nested, "NUMA:" heading)."""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import read_group
from rackproof.evidence.tools.values import as_int, as_text, one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_system import CpuFacts

COMMANDS: tuple[Command, ...] = ()  # the section is system's

_LINE = re.compile(r"^ *([A-Z][^:\n]*?): *(.*?) *$", re.MULTILINE)
_NUMA = re.compile(r"NUMA node([0-9]{1,5}) CPU\(s\)")


def cpu(evidence: Evidence) -> Fact[CpuFacts]:
    group = read_group(evidence, "system", "/proc and /sys")
    text = group if isinstance(group, Missing) else group.text("lscpu")
    return parse_lscpu(text) if isinstance(text, str) else text or Missing("lscpu is not installed")


def parse_lscpu(text: str) -> Fact[CpuFacts]:
    """What the output holds; a list of NUMA nodes with a gap in its numbers (an excerpt) is left out."""
    fields: dict[str, str] = {}
    for name, value in _LINE.findall(plain(text)):
        fields.setdefault(name, value)
    if "CPU(s)" not in fields:
        return Missing(f"lscpu: {one_line(text) or 'empty'}")
    nodes = {int(match[1]): value for name, value in fields.items() if (match := _NUMA.fullmatch(name))}
    told = as_int(fields.get("NUMA node(s)"), "NUMA node(s)")
    listed = sorted(nodes) == list(range(told)) if isinstance(told, int) else False

    def number(name: str) -> Fact[int]:
        return as_int(fields.get(name), name)

    return CpuFacts(
        architecture=as_text(fields.get("Architecture"), "Architecture"),
        model=as_text(fields.get("Model name"), "Model name"),
        cpus=number("CPU(s)"),
        sockets=number("Socket(s)"),
        cores_per_socket=number("Core(s) per socket"),
        threads_per_core=number("Thread(s) per core"),
        numa_cpus=tuple(nodes[node] for node in sorted(nodes)) if listed else (),
    )


def parse_numactl(text: str) -> Fact[tuple[int, ...]]:
    """Memory of each node in bytes, of `numactl --hardware`: "node 0 size: 1547872 MB" (MB of 2^20 bytes)."""
    sizes = re.findall(r"^node ([0-9]{1,5}) size: ([0-9]{1,12}) MB$", plain(text), re.MULTILINE)
    if not sizes or [int(node) for node, _ in sizes] != list(range(len(sizes))):
        return Missing(f"numactl --hardware lists no nodes in order: {one_line(text) or 'empty'}")
    return tuple(int(size) * 2**20 for _, size in sizes)
