"""The raw evidence behind an outcome: which sections decide it, and the lines of them that say so.

Nobody keeps a list of what a check reads. A section belongs to an outcome if the outcome is another one without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import Kept, read_again
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.tools import commands
from rackproof.verdict.evaluate import NodeResult, Result, answer
from rackproof.verdict.model import Outcome
from rackproof.verdict.report.clean import clean
from rackproof.verdict.report.findings import Finding

Look = Callable[[str], Evidence | None]  # evidence of a node, by name

MAX_NODES = 12  # of one report: reading what decided an outcome costs a fraction of a second
MAX_SECTIONS = 3  # of one outcome
MAX_LINES = 8  # of one section
LINE_CHARS = 240
LOOKED_AT = 400_000  # bytes of a section in which lines are searched
_WORD = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*")
_ADDRESS = re.compile(
    r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
)  # on too many lines to tell anything
_HEAD = re.compile(r"[=+!-] /|\s*<gpu id=|GPU [0-9A-Fa-f]{8}:")  # what the lines below belong to
_BARE = re.compile(r"\s*</?\w+>\s*")  # an XML element's edge, which says nothing by itself
_COMMON = frozenset(
    ("a", "all", "an", "and", "are", "as", "at", "by", "each", "every", "for", "gpu", "gpus", "in", "is", "it", "its",
     "no", "node", "none", "not", "nothing", "of", "on", "or", "since", "the", "to", "was", "with")
)  # fmt: skip


@dataclass(frozen=True)
class Excerpt:
    """What one section said. `command` is what a person would type; `state` is "exit 0 after 0.3 s"."""

    section: str
    command: str
    state: str
    lines: tuple[str, ...]
    left_out: int  # further lines of the section


Quotes = Mapping[str, Mapping[str, tuple[Excerpt, ...]]]  # node -> requirement -> what its evidence says


def quotes(result: Result, found: Iterable[Finding], look: Look) -> Quotes:
    """Excerpts for the first node of each way in which something went wrong, of at most MAX_NODES nodes."""
    wanted: dict[str, set[str]] = {}
    for finding in found:
        for variant in finding.variants:
            if finding.requirement.scope == "node" and (variant.nodes[0] in wanted or len(wanted) < MAX_NODES):
                wanted.setdefault(variant.nodes[0], set()).add(finding.requirement.id)
    by_name = {node.node: node for node in result.nodes}
    read = {name: look(name) for name in wanted}
    return {name: proofs(by_name[name], known, wanted[name]) for name, known in read.items() if known is not None}


def proofs(node: NodeResult, evidence: Evidence, wanted: Collection[str]) -> dict[str, tuple[Excerpt, ...]]:
    """Excerpts for the outcomes of one node whose requirement ids are `wanted`."""
    if node.baseline is None:
        return {}
    outcomes = [outcome for outcome in node.outcomes if outcome.requirement.id in wanted]
    kept = Kept()
    facts = replace(read_again(evidence, kept), node=node.node)
    before = {outcome.requirement.id: answer(outcome.requirement, facts, node.baseline, {}) for outcome in outcomes}
    found: dict[str, list[str]] = {outcome.requirement.id: [] for outcome in outcomes}
    for name in evidence.sections:
        less = replace(evidence, sections={key: item for key, item in evidence.sections.items() if key != name})
        facts = replace(read_again(less, kept), node=node.node)
        for outcome in outcomes:
            if answer(outcome.requirement, facts, node.baseline, {}) != before[outcome.requirement.id]:
                found[outcome.requirement.id].append(name)
    return {
        outcome.requirement.id: tuple(
            excerpt(evidence.sections[name], outcome) for name in found[outcome.requirement.id][:MAX_SECTIONS]
        )
        for outcome in outcomes
    }


def excerpt(section: Section, outcome: Outcome) -> Excerpt:
    """The lines of a section that carry words of what was observed; its first lines where none does."""
    text = section.text[:LOOKED_AT]
    if section.status is not Status.RAN or section.rc != 0 or not text.strip():
        text = f"{section.error_text[:LOOKED_AT]}\n{text}".strip("\n")
    lines = text.splitlines()
    shown = tuple(clean(lines[number], LINE_CHARS) for number in _chosen(lines, outcome))
    return Excerpt(section.name, command_of(section.name), _state(section), shown, len(lines) - len(shown))


def _chosen(lines: list[str], outcome: Outcome) -> list[int]:
    """Numbers of the lines that say most of what was observed, in order, each below the head of its file or GPU."""
    said = _words(_ADDRESS.sub(" ", f"{outcome.observed} {outcome.reason}"))
    subject = {word for word in _words(outcome.requirement.id.partition(".")[2].replace("_", " ")) if len(word) > 2}
    subject |= {word for word in _words(outcome.requirement.title) if len(word) > 4}
    named = set(_ADDRESS.findall(outcome.observed))
    heads = _heads(lines)
    score = {number: _score(line, said, subject) for number, line in enumerate(lines) if not _BARE.fullmatch(line)}
    if any(named & set(_ADDRESS.findall(lines[head])) for head in set(heads)):  # only what is said of those GPUs
        score = {n: points for n, points in score.items() if named & set(_ADDRESS.findall(lines[heads[n]]))}
    best = sorted((number for number, points in score.items() if points), key=lambda number: (-score[number], number))
    if not best:
        return list(range(min(MAX_LINES, len(lines))))
    chosen: set[int] = set()
    for number in best:
        if len(chosen | {number, heads[number]}) > MAX_LINES:
            break
        chosen |= {number, heads[number]}
    return sorted(chosen)


def _heads(lines: list[str]) -> list[int]:
    """For each line the number of the one that says which file or GPU it is of; its own where there is none."""
    heads, head = [], None
    for number, line in enumerate(lines):
        if _HEAD.match(line):
            head = number
        heads.append(number if head is None else head)
    return heads


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)} - _COMMON


def _score(line: str, said: set[str], subject: set[str]) -> int:
    """Two points for a word of what was observed, one for a word of the requirement, which may be part of a name."""
    if len(line) > LOOKED_AT:
        return 0
    low = line.lower()
    return 2 * len(said & _words(low)) + sum(word in low for word in subject)


def _state(section: Section) -> str:
    if section.status is Status.RAN:
        return f"exit {section.rc} after {section.seconds:.1f} s"
    return {
        Status.ABSENT: "not installed",
        Status.NEEDS_ROOT: "needs root, which the probe had not",
        Status.DEADLINE: f"did not end within {section.deadline_s} s",
    }[section.status]


# What a person would type instead of a script of the probe that is too long to be typed.
_TYPED = {
    "identity": "uname -r -m; cat /proc/sys/kernel/random/boot_id",
    "packages": "dpkg -l 2>/dev/null || rpm -qa",
    "nvidia_smi_xml": "nvidia-smi -q",
    "kernel_log": "journalctl -k -b || dmesg",
    "gpu_holders": "fuser -v /dev/nvidia*",
    "docker_images": "docker image ls --digests",
    "podman_images": "podman image ls --digests",
    "podman_info": "podman info",
    "imex_ctl": "nvidia-imex-ctl -N",
    "pci_bridges": "lspci -D -vvv -d ::0604",
    "rocm_smi": "rocm-smi",
}


def command_of(section: str) -> str:
    """What to type on the node to see the same; the files that a section prints stand in the section itself."""
    if section in _TYPED:
        return _TYPED[section]
    script = next((command.script.strip() for command in commands() if command.name == section), "")
    one_line = script if "\n" not in script else ""
    return one_line or f"sh probe.sh, section {section}"


def cat(lines: Iterable[str]) -> str:
    """`cat` of the files whose contents an excerpt shows, or ""."""
    paths = [line[2:] for line in lines if line.startswith("= /")]
    return f"cat {' '.join(paths)}" if paths else ""
