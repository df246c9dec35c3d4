"""Plan and deploy over an inventory: read once, decide the order, change one lot after another, stop where one is not
accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rackproof.errors import InputError
from rackproof.plan import Plan
from rackproof.rollout import pyinfra
from rackproof.rollout.lots import Lot, lots
from rackproof.rollout.report import NodeReport, RunReport

DEPLOY, ROLLBACK = "k3.py", "k3_rollback.py"
Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Work:
    """What is to be run, on what."""

    inventory: Path
    deploy: Path
    plan: Plan
    units_at_once: int
    log: IO[str] | None = None


@dataclass
class Rollout:
    """How a deploy over all lots went."""

    done: list[tuple[Lot, RunReport]] = field(default_factory=list)
    stopped_at: Lot | None = None
    untouched: tuple[Lot, ...] = ()

    @property
    def accepted(self) -> bool:
        return self.stopped_at is None


def deploy_file(inventory: Path, name: str) -> Path:
    """deploys/NAME beside the inventory's folder."""
    path = inventory.resolve().parent.parent / "deploys" / name
    if not path.is_file():
        raise InputError(str(path), "there is no such deploy file", "deploys/ beside inventories/, or --file")
    return path


def units_at_once(plan: Plan, asked: int | None) -> int:
    """The batch size: asked for, or the smallest that a node's site allows."""
    return asked or min((node.site.value("rolling", "units") for node in plan.to_read), default=1)


def look(work: Work, tell: Tell) -> tuple[list[NodeReport], list[Lot]]:
    """Read all nodes and work out what would be done, with the code that would do it; changes nothing."""
    names = [node.name for node in work.plan.to_read]
    report = pyinfra.run(work.inventory, work.deploy, names, dry=True, log=work.log, tell=tell)
    nodes = [report.nodes[name] for name in names]
    return nodes, lots(work.plan, report.nodes, work.units_at_once)


def roll(
    work: Work, order: Sequence[Lot], begin: Callable[[int, Lot], Tell], end: Callable[[Lot, RunReport], None]
) -> Rollout:
    """Change lot after lot. `begin` is told of each and gives what hears its events; `end` gets its report."""
    rollout = Rollout()
    for number, lot in enumerate(order):
        tell = begin(number, lot)
        report = pyinfra.run(work.inventory, work.deploy, lot.nodes, dry=False, log=work.log, tell=tell)
        rollout.done.append((lot, report))
        end(lot, report)
        if not all(node.accepted for node in report.nodes.values()):
            rollout.stopped_at, rollout.untouched = lot, tuple(order[number + 1 :])
            break
    return rollout
