"""No gate can be satisfied by an absent or garbage fact: each fact of a healthy node is changed, one at a time.

What a gate reads is not listed anywhere. A gate reads a fact if it no longer passes without it; and then it may not pass
over nonsense in its place either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest

from rackproof.facts import NodeFacts
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import applies, evaluate_node, judge_one
from rackproof.verdict.model import Outcome, Requirement, Severity, Status

from .fixtures import GONE, baseline
from .test_contract import HARDWARE, healthy

NONSENSE: tuple[Any, ...] = ("", "[Unknown Error]", "ERR!", "\x1b[31mN/A\x1b[0m", -1, None, (), {}, object())
IDENTITY = {"node", "index", "pci_address", "name", "number", "gpu", "link"}  # what an item is called, not a fact of it

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in the facts that holds a value: fields, and of tuples of items the first and the last."""
    if is_dataclass(value):
        for field in fields(value):
            if field.name not in IDENTITY:
                yield from leaves(getattr(value, field.name), (*path, field.name))
        return
    if path:
        yield path
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        for index in sorted({0, len(value) - 1}):
            yield from leaves(value[index], (*path, index))


def changed(value: Any, path: Path, new: Any) -> Any:
    """The facts with another value at one place."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(value, **{step: changed(getattr(value, step), rest, new)})
    return (*value[:step], changed(value[step], rest, new), *value[step + 1 :])


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = getattr(value, step) if isinstance(step, str) else value[step]
    return value


@cache
def asked(hardware: str) -> tuple[Requirement, ...]:
    """The gates that apply to a node of this product."""
    found = (one for one in requirements().values() if one.scope == "node" and one.severity is Severity.GATE)
    return tuple(one for one in found if applies(one, baseline(hardware)))


def gates(facts: NodeFacts, hardware: str, names: Collection[str] | None = None) -> Mapping[str, Status]:
    """The status of each gate, or of those named, judged by itself."""
    return {
        one.id: judge_one(one, facts, baseline(hardware)).status
        for one in asked(hardware)
        if names is None or one.id in names
    }


@cache
def without_each(hardware: str) -> Mapping[Path, Mapping[str, Outcome]]:
    """Every outcome of the healthy node, for each fact that is taken away."""
    facts = healthy(hardware)
    return {path: judged(changed(facts, path, GONE), hardware) for path in leaves(facts)}


def judged(facts: NodeFacts, hardware: str) -> Mapping[str, Outcome]:
    return {found.requirement.id: found for found in evaluate_node(facts, baseline(hardware))}


@cache
def reads(hardware: str) -> Mapping[Path, frozenset[str]]:
    """For each fact the gates that do not pass without it."""
    names = {one.id for one in asked(hardware)}
    before = judged(healthy(hardware), hardware)
    passing = {name for name in names if before[name].status is Status.PASS}
    return {
        path: frozenset(name for name in passing if after[name].status is not Status.PASS)
        for path, after in without_each(hardware).items()
    }


def named(path: Path) -> str:
    return ".".join(str(step) for step in path)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_every_gate_rests_on_a_fact(hardware: str) -> None:
    read: set[str] = set().union(*reads(hardware).values())
    before = judged(healthy(hardware), hardware)
    assert not {one.id for one in asked(hardware) if before[one.id].status is Status.PASS} - read


@pytest.mark.parametrize("hardware", HARDWARE)
def test_taking_a_fact_away_mends_nothing_and_blames_nobody(hardware: str) -> None:
    """Absent is unknown or blocked, never a pass, a failure or a reason not to ask; and no check stumbles."""
    before = judged(healthy(hardware), hardware)
    for path, after in without_each(hardware).items():
        for name, found in after.items():
            was = before[name].status
            allowed = {was, Status.UNKNOWN, Status.BLOCKED} if was is Status.PASS else {was}
            assert found.status in allowed, (named(path), found)
            assert "the check itself failed" not in found.reason, (named(path), found)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_garbage_satisfies_no_gate(hardware: str) -> None:
    facts = healthy(hardware)
    satisfied = []
    for path, wanted in reads(hardware).items():
        for nonsense in NONSENSE:
            if nonsense == at(facts, path) or excused(named(path), nonsense):
                continue  # an empty list of errors is what a healthy node has
            after = gates(changed(facts, path, nonsense), hardware, wanted)
            passed = {name for name, status in after.items() if status is Status.PASS}
            if nonsense in (None, (), {}):
                passed -= HOLD_OF_NOTHING
            satisfied += [(named(path), nonsense, passed)] if passed else []
    assert not satisfied, [str(one) for one in satisfied]


def excused(name: str, nonsense: Any) -> bool:
    excuses = {**ONLY_NAMED, **(NONE_IS_GOOD if nonsense is None or nonsense == () else {})}
    return any(fnmatchcase(name, pattern) for pattern in excuses)


# Gates that ask what must not be there: where nothing is, they hold, and other gates want it there.
HOLD_OF_NOTHING = {
    "container_runtime.toolkit_escape", "container_runtime.cdi_conflict", "image.selfbuild", "host.selfbuild",
    "serving.running",
}  # fmt: skip
# Places that a gate takes along without judging what stands there, and why.
ONLY_NAMED = {
    "host.hostname": "one of several names under which a node may stand in a list; its address is there as well",
    "kernel_log.source": "says which tool the lines are of",
    "nvlink.imex_domain.peers.*.host": "what a peer is called; which addresses belong is judged by nvlink.imex_nodes",
    "driver.libraries.*.path": "where a library was found; its version and size are judged",
    "driver.libraries.*.target": "the same",
    "runtime.cdi_specs.*.path": "what a file is called; its content is judged",
    "runtime.images.*.id": "what an image is called here; its digest says which it is",
    "system.filesystems.*": "only the filesystem on /dev/shm is judged, by its size; the test of its size is in test_host",
    "network.default_routes.0.destination": "the route is judged by its interface",
    "network.default_routes.0.metric": "the same",
    "pci.devices.*.id": "GPUs of AMD are identified by a tool as well; test_amd takes both away",
    "pci.devices.*.address": "the same",
    "pci.devices.*.class_code": "the same",
}
# Where nothing at all is as good as what a healthy node has.
NONE_IS_GOOD = {
    "control.*": "no deploy was here: nothing in its journal or its history can say that the host was self-built",
    "smi.gpus": "the CUDA version stands beside the list of GPUs; gpus.count judges the list",
    "runtime.toolkit_version": "where no toolkit is installed, none has the flaw; that it is there is another gate",
    "runtime.cdi_specs*": "specifications that are not there do not contradict each other; that they are there is another gate",
    "runtime.images*": "an image that is not there is not self-built; that the right one is there is another gate",
    "amd.driver.gpus": "joined with what tools list; gpus.count counts by PCI and KFD too",
}
