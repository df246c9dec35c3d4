"""`journal` and `unlock`: what deploys left on nodes, and a lock whose holder is gone."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rackproof.commands import output
from rackproof.commands.options import Inputs, Reading, debug, inputs, reading
from rackproof.commands.verify import TARGETS, plan_of, read_nodes
from rackproof.errors import RackproofError

if TYPE_CHECKING:
    from rackproof.facts import Fact
    from rackproof.facts_control import Change, ControlFacts


@click.command(short_help="What deploys changed on nodes, and who holds their lock.")
@TARGETS
@inputs
@reading
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@debug
def journal(targets: tuple[str, ...], chosen: Inputs, how: Reading, as_json: bool) -> int:
    """The end of each node's journal (/var/lib/rackproof/journal.jsonl), oldest first, and its lock if there is one.

    Exit code: 0, or 3 when a node could not be read.
    """
    from rackproof.evidence.tools.control import control

    plan = plan_of(targets, chosen)
    evidence = read_nodes(plan, how, quiet=False)
    missed = []
    for node in plan.to_read:
        found = control(evidence[node.name])
        if not _told(node.name, found, as_json):
            missed.append(node.name)
    if missed:
        raise RackproofError(f"the journal of {', '.join(missed)} could not be read")
    return 0


def _told(name: str, found: Fact[ControlFacts], as_json: bool) -> bool:
    from rackproof.facts import Missing
    from rackproof.verdict.report.clean import clean

    if isinstance(found, Missing) or isinstance(found.journal, Missing):
        why = found.reason if isinstance(found, Missing) else "it is not readable"
        output.say(f"{clean(name)}: {clean(why)}\n", sys.stderr)
        return False
    for change in found.journal:
        output.say((json.dumps({"node": name, **vars(change)}) if as_json else _line(name, change)) + "\n")
    lock = found.lock
    if lock is not None and not isinstance(lock, Missing) and not as_json:
        output.say(
            f"{clean(name)}: locked by {clean(lock.operator)} (run {clean(lock.run)}) since {clean(lock.since)}\n"
        )
    return True


def _line(name: str, change: Change) -> str:
    from rackproof.verdict.report.clean import clean

    what = f"{change.layer}: {change.step}" if change.layer != "lock" else change.event
    end = {"begin": " ...", "end": f" ({change.rc})"}.get(change.event, "")
    keys = sorted({*change.before, *change.after})
    diff = "".join(f"\n    {key}: {_short(change.before.get(key))} -> {_short(change.after.get(key))}" for key in keys)
    text = f"{name}: {change.time} {change.operator} {change.run} {what}{end}{' ' + change.note if change.note else ''}"
    return clean(text) + "".join(f"\n    {clean(line)}" for line in diff.split("\n    ")[1:])


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return value if len(value) <= 40 else f"{value[:19]}..."


@click.command(short_help="Remove the lock of a deploy that is gone.")
@TARGETS
@inputs
@reading
@debug
def unlock(targets: tuple[str, ...], chosen: Inputs, how: Reading) -> int:
    """Remove a deploy's lock from nodes and say whose it was. Only for a run that is known to be gone: a run that still
    goes on stops at its next step. While a step is working on a node, its lock stays.

    Exit code: 0, or 3 when a node could not be reached or a step is still working there.
    """
    from rackproof.deploy.onhost import UNLOCK
    from rackproof.evidence.collect import run_script
    from rackproof.verdict.report.clean import clean

    plan = plan_of(targets, chosen)
    answers: dict[str, Any] = run_script(plan, UNLOCK, sudo=how.sudo, timeout_s=how.timeout_s)
    for name, (ok, said) in answers.items():
        output.say(f"{clean(name)}: {clean(said)}\n", None if ok else sys.stderr)
    left = [name for name, (ok, said) in answers.items() if not ok or "not unlocked" in said]
    if left:
        raise RackproofError(f"not unlocked: {', '.join(left)}")
    return 0
