"""What a pyinfra run told about each node, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One step of a node's plan. `marks` say what somebody must know before it is done."""

    layer: str
    name: str
    marks: str = ""  # "[needs idle GPUs]", "[reboot]"
    detail: str = ""
    disrupts: bool = False
    reboots: bool = False
    domain: bool = False  # has to be done on all nodes of an NVLink domain together


@dataclass
class NodeReport:
    """One node in one run."""

    name: str
    planned: bool = False  # it was read, and its steps were worked out
    stopped: str = ""  # why nothing more may be done there
    layers: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: str = ""  # after the run; "" where it was not judged
    lacks: tuple[str, ...] = ()
    failed_step: str = ""
    why: str = ""

    @property
    def accepted(self) -> bool:
        return self.verdict == "accept" and not self.failed_step


@dataclass
class RunReport:
    """One pyinfra run."""

    nodes: dict[str, NodeReport] = field(default_factory=dict)
    exit_code: int = 0
    log: tuple[str, ...] = ()  # the last lines of pyinfra's own log

    def note(self, event: Mapping[str, Any]) -> None:
        """Take in one event; what is no event of a known node is left out."""
        node = self.nodes.get(str(event.get("node")))
        if node is None:
            return
        kind = event.get("event")
        if kind == "planned":
            node.planned, node.stopped = True, str(event["stopped"])
            node.layers, node.notes = tuple(event["layers"]), tuple(event["notes"])
            node.steps = tuple(Step(**{key: step[key] for key in Step.__dataclass_fields__}) for step in event["steps"])
        elif kind == "verdict":
            node.verdict, node.lacks = str(event["verdict"]), tuple(event["lacks"])
        elif kind in ("dropped", "failed"):
            node.failed_step = str(event["step"])
            node.why = str(event.get("why") or node.why)
