"""No gate can be satisfied by an absent or garbage fact: each fact of a healthy node is changed, one at a time.

What a gate reads is not listed anywhere. A gate reads a fact if it no longer passes without it; and then it may not pass
over nonsense in its place either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import pytest

from rackproof.facts import NodeFacts
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import applies, judge_one
from rackproof.verdict.model import Requirement, Severity, Status

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
def reads(hardware: str) -> Mapping[Path, frozenset[str]]:
    """For each fact the gates that do not pass without it."""
    facts = healthy(hardware)
    before = gates(facts, hardware)
    found = {}
    for path in leaves(facts):
        after = gates(changed(facts, path, GONE), hardware)
        found[path] = frozenset(name for name in before if before[name] is Status.PASS is not after[name])
    return found


def named(path: Path) -> str:
    return ".".join(str(step) for step in path)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_every_gate_rests_on_a_fact(hardware: str) -> None:
    passing = {name for name, status in gates(healthy(hardware), hardware).items() if status is Status.PASS}
    assert passing - set().union(*reads(hardware).values()) == set()


@pytest.mark.parametrize("hardware", HARDWARE)
def test_an_absent_fact_leaves_its_gates_open(hardware: str) -> None:
    """Absent is unknown, never a failure of the node."""
    facts = healthy(hardware)
    for path, wanted in reads(hardware).items():
        after = gates(changed(facts, path, GONE), hardware, wanted)
        assert set(after.values()) <= {Status.UNKNOWN}, (named(path), after)


@pytest.mark.parametrize("hardware", HARDWARE)
def test_garbage_satisfies_no_gate(hardware: str) -> None:
    facts = healthy(hardware)
    satisfied = []
    for path, wanted in reads(hardware).items():
        for nonsense in NONSENSE:
            if nonsense == at(facts, path) or named(path) in ONLY_NAMED:
                continue  # an empty list of errors is what a healthy node has
            after = gates(changed(facts, path, nonsense), hardware, wanted)
            passed = {name for name, status in after.items() if status is Status.PASS}
            if nonsense in (None, (), {}):
                passed -= HOLD_OF_NOTHING
            satisfied += [(named(path), nonsense, passed)] if passed else []
    assert not satisfied, [str(one) for one in satisfied]


# Gates that ask what must not be there: where nothing is, they hold, and other gates want it there.
HOLD_OF_NOTHING = {
    "container_runtime.toolkit_escape", "container_runtime.cdi_conflict", "image.selfbuild", "host.selfbuild",
    "serving.running",
}  # fmt: skip

# Places that a gate takes along without judging what stands there.
ONLY_NAMED = {
    "host.hostname": "one of several names under which a node may stand in a list; its address is there as well",
    "kernel_log.source": "says which tool the lines are of",
    "nvlink.imex_domain.peers.0.host": "what a peer is called; which addresses belong is judged by nvlink.imex_nodes",
    "nvlink.imex_domain.peers.1.host": "the same",
    "runtime.images.0.id": "what an image is called here; its digest says which it is",
    "runtime.images.0.tags": "the same, and an image without a tag is still the image",
    "runtime.images.1.id": "the image of before, which no gate asks for",
    "runtime.images.1.tags": "the same",
    "runtime.images.1.digests": "the same",
    "runtime.cdi_specs.0.driver_versions": "a spec need not name a driver version; cdi_all asks for its devices",
    "runtime.cdi_specs.0.path": "what a file is called; its content is judged",
}
