"""A simulated rack of GPU hosts: real SSH, systemd, apt, Docker and registry, stand-ins for the GPU tools.

Two functions are meant for other programs: `describe()` says where the lab's nodes are, `enter_network()` moves
the calling thread to where it can reach them.
"""

from __future__ import annotations

import json
from typing import Any

from rackproof_lab import network
from rackproof_lab.names import Lab, LabError, selected_id

__all__ = ["LabError", "describe", "enter_network"]


def describe(lab_id: str | None = None) -> dict[str, Any]:
    """The parsed lab.json of a lab that is up; LabError says what to run when there is none."""
    lab = Lab(selected_id(lab_id))
    try:
        description: dict[str, Any] = json.loads(lab.description.read_text())
    except FileNotFoundError:
        raise LabError("no lab is up: run: make lab-up") from None
    return description


def enter_network(lab_id: str | None = None) -> None:
    """Move the calling thread into the lab's network namespace; threads and processes it starts go with it."""
    network.enter(Lab(selected_id(lab_id)))
