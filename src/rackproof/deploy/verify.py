"""The end of a deploy: nodes that were changed are read again, and every node is judged by the same checks.

What judges is handed in by the deploy file; a deploy knows only names, verdicts and what is lacking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra import state as current_state
from pyinfra.api import QuoteString, StringCommand, operation

from rackproof.deploy import operations
from rackproof.deploy.node import Node
from rackproof.deploy.probe_fact import read
from rackproof.deploy.session import session
from rackproof.evidence.collect import model_directory
from rackproof.evidence.evidence import Evidence
from rackproof.inventory import current_plan
from rackproof.plan import Plan
from rackproof.verdict.report.clean import clean

AGAIN_S = 5  # between two readings of a node that is still coming up


@dataclass(frozen=True)
class Acceptance:
    """What the checks say of one node, its deployment unit included."""

    verdict: str
    lacks: tuple[str, ...] = ()  # "requirement: what is there, what is wanted", one for each gate that does not pass
    settling: bool = False  # all it lacks comes up by itself some time after a start, or was not read in time


Judge = Callable[[Plan, Mapping[str, Evidence]], Mapping[str, Acceptance]]


def verify(node: Node, judge: Judge) -> None:
    """Add the last steps: read again, judge, release the lock. In a run that changes nothing the reading at hand is
    judged, and no command is sent."""
    if not node.stopped:
        read_again(name="Read again what this run may have changed")
        accepted(name="Verify by the same checks", judge=judge, patience_s=node.site.value("rolling", "settle_s"))
        if node.steps:
            operations.unlock(name="Unlock the node", run=node.run, note="accepted")
    session().tell(
        "planned", node=node.name, stopped=node.stopped, layers=node.layers, notes=node.notes,
        steps=[{**vars(step), "marks": step.marks.strip()} for step in node.steps],
    )  # fmt: skip


@operation()
def read_again() -> Generator[StringCommand, None, None]:
    """A fresh reading of this node, if this run has changed any: what one node says may depend on the others."""
    if current_state.is_executing and session().changes:
        _read(current_host.name)
    yield from ()


def _read(name: str) -> None:
    """Everything that the first reading held, the weights included."""
    weights = model_directory(session().nodes[name].site)
    session().evidence[name] = read(current_host, model_directory=weights)


@operation()
def accepted(judge: Judge, patience_s: int) -> Generator[StringCommand, None, None]:
    """Fail this node unless it is accepted."""
    if not current_state.is_executing:
        return
    name = current_host.name
    deadline = time.monotonic() + patience_s
    found = _judged(judge)[name]
    while session().changes and found.settling and time.monotonic() < deadline:
        time.sleep(AGAIN_S)
        _read(name)
        found = _judged(judge)[name]
    session().tell("verdict", node=name, verdict=found.verdict, lacks=list(found.lacks))
    if found.verdict == "accept":
        logger.info(f"{current_host.print_prefix}verdict: accept")
        return
    lacks = clean("; ".join(found.lacks), 1500)
    session().failures[name] = f"not accepted ({found.verdict}): {lacks}"
    yield StringCommand("printf '%s\\n'", QuoteString(f"rackproof: {name}: {session().failures[name]}"), ">&2; exit 1")


_last: list[tuple[tuple[str, ...], Mapping[str, Acceptance]]] = []


def _judged(judge: Judge) -> Mapping[str, Acceptance]:
    """All nodes of this run judged from their last readings; once for each set of readings."""
    run = session()
    evidence = {
        name: Evidence(name, problem="its deploy failed") if run.failed(name) else item
        for name, item in run.evidence.items()
    }
    key = tuple(f"{name} {item.sha256} {item.problem}" for name, item in evidence.items())
    if not _last or _last[0][0] != key:
        _last[:] = [(key, judge(_plan(), evidence))]
    return _last[0][1]


def _plan() -> Plan:
    """The nodes of this run with what each is to be, and the units that are wholly in it."""
    run, plan = session(), current_plan()
    nodes: list[Any] = [
        replace(node, baseline=run.nodes[node.name].baseline) for node in plan.nodes if node.name in run.nodes
    ]
    return Plan(tuple(nodes), tuple(unit for unit in plan.units if set(unit.nodes) <= set(run.nodes)))
