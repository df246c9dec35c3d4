"""Starting and stopping the units of a plan, all at once, and watching them until they are ready or are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rackproof.deploy.holder import new_run
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.collect import run_scripts
from rackproof.managed import managed_files
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.serve import ledger, scripts
from rackproof.serve.watch import Starting, parse_look

PAUSE_S = 2.0
STOP_S = 300  # the engine is given the recipe's stop timeout, and processes time to let go
Tell = Callable[[str, str, float], None]  # node, what, seconds after the start


@dataclass
class Outcome:
    """How a start ended on the nodes of one unit. `said`: what a node said that would not start it."""

    unit: str
    ready: bool
    why: str
    nodes: Mapping[str, Starting]
    said: dict[str, str] = field(default_factory=dict)


def units_of(plan: Plan, wanted: str | None) -> list[Unit]:
    """The units to act on, all of their nodes with a unit of ours; `wanted` names one."""
    names = [unit.name for unit in plan.units]
    if wanted is not None and wanted not in names:
        raise InputError("--limit", f"no unit {wanted!r} in this inventory", names)
    found = [unit for unit in plan.units if wanted in (None, unit.name)]
    for unit in found:
        for name in unit.nodes:
            ledger.run_of(plan.node(name))
    return found


def starting(node: PlannedNode) -> Starting:
    """Which port this rank opens, by what its unit is told."""
    words = ledger.run_of(node).arguments
    if "--headless" in words:
        return Starting(node.name, None)
    at = words.index("--port") + 1 if "--port" in words else 0
    return Starting(node.name, int(words[at]) if 0 < at < len(words) and words[at].isdigit() else 8000)


def start(plan: Plan, unit: Unit, tell: Tell, timeout_s: float | None, sudo: bool | None) -> Outcome:
    """Start every node of a unit and watch it. A start that fails is stopped on all of its nodes."""
    members = [plan.node(name) for name in unit.nodes]
    baseline = members[0].baseline
    assert baseline is not None
    deadline_s = timeout_s if timeout_s is not None else baseline.serving.ready_timeout_s
    found = {node.name: starting(node) for node in members}
    run, began = new_run(), time.monotonic()
    answers = run_scripts(plan, {n.name: scripts.start(run, _hashes(n), _engine(n)) for n in members}, sudo=sudo, timeout_s=120)
    answers = {name: scripts.answered(*answer) for name, answer in answers.items()}
    said = {name: text for name, (ok, text) in answers.items() if not ok}
    for name, (ok, text) in answers.items():
        found[name].since = next(
            (int(w[6:]) for w in text.splitlines() if ok and w.startswith("since ") and w[6:].isdigit()), None
        )
    if said:
        started = [name for name in found if name not in said]
        if started:
            run_scripts(plan, {name: scripts.stop(run, _engine(plan.node(name))) for name in started}, sudo=sudo, timeout_s=STOP_S)
        return Outcome(unit.name, False, "would not start", found, said)
    why = _watch(plan, found, tell, began, deadline_s, sudo)
    if why:
        run_scripts(plan, {name: scripts.stop(run, _engine(plan.node(name))) for name in found}, sudo=sudo, timeout_s=STOP_S)
    return Outcome(unit.name, not why, why, found)


def _watch(
    plan: Plan, found: Mapping[str, Starting], tell: Tell, began: float, deadline_s: float, sudo: bool | None
) -> str:
    """Look until all are ready; "" then, else why not."""
    while True:
        look(plan, found, sudo, lambda name, stage: tell(name, stage, time.monotonic() - began), began)
        failed = [name for name, one in found.items() if one.failed]
        if failed:
            look(plan, found, sudo, lambda name, stage: None, began)  # what the others and the end of the log say
            for one in found.values():
                one.end()
            return f"failed on {', '.join(failed)}"
        if all(one.ready for one in found.values()):
            return ""
        if time.monotonic() - began >= deadline_s:
            late = [name for name, one in found.items() if not one.ready]
            return f"not ready after {deadline_s:g} s: {', '.join(late)}"
        time.sleep(PAUSE_S)


def look(
    plan: Plan, found: Mapping[str, Starting], sudo: bool | None, tell: Callable[[str, str], None], began: float
) -> None:
    """One look at every node; a node that cannot be reached now is looked at again the next time."""
    wanted = {
        name: scripts.look(one.port, one.since, one.offset, _engine(plan.node(name))) for name, one in found.items()
    }
    for name, (ok, text) in run_scripts(plan, wanted, sudo=sudo, timeout_s=60).items():
        if ok:
            for stage in found[name].see(parse_look(name, text), time.monotonic() - began):
                tell(name, stage)


def stop(plan: Plan, units: Sequence[Unit], sudo: bool | None) -> dict[str, tuple[bool, str]]:
    """Stop every node of the units; by node: whether nothing of it is left on a GPU, and what was said or is left."""
    run = new_run()
    names = [name for unit in units for name in unit.nodes]
    answers = run_scripts(plan, {name: scripts.stop(run, _engine(plan.node(name))) for name in names}, sudo=sudo, timeout_s=STOP_S)
    return {name: _stopped(*scripts.answered(*answer)) for name, answer in answers.items()}


def _stopped(ok: bool, text: str) -> tuple[bool, str]:
    left = [line[5:] for line in text.splitlines() if line.startswith("left ")]
    return ok and not left, f"GPUs are still held by {', '.join(left)}" if left else "stopped" if ok else text


def record(plan: Plan, outcome: Outcome, line: str, sudo: bool | None) -> None:
    """Leave the ledger line in the journal of each node as well."""
    run = new_run()
    answers = run_scripts(plan, {name: scripts.note(run, line) for name in outcome.nodes}, sudo=sudo, timeout_s=60)
    missed = [name for name, (ok, _) in answers.items() if not ok]
    if missed:
        raise RackproofError(f"the start could not be noted in the journal of {', '.join(missed)}")


def read_only(plan: Plan, units: Sequence[Unit]) -> Plan:
    """The plan with nothing but these units to be read."""
    names = {name for unit in units for name in unit.nodes}
    return replace(plan, nodes=tuple(replace(node, left_out=node.name not in names) for node in plan.nodes))


def _hashes(node: PlannedNode) -> dict[str, str]:
    assert node.baseline is not None
    return {file.path: file.sha256 for file in managed_files(node.baseline) if file.layer == "serving"}


def _engine(node: PlannedNode) -> str:
    assert node.baseline is not None
    return node.baseline.runtime.engine
