"""Launches for tests: a site that says everything, and every layout on every fabric it can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rackproof import recipes, site
from rackproof.errors import InputError
from rackproof.launch import Launch, plan_launch
from rackproof.recipes import Layout
from rackproof.site import Site

EXPECTED = Path(__file__).parent / "expected"
FABRICS = ("node", "mnnvl", "rdma")


def usable() -> list[Layout]:
    return [layout for layout in recipes.load().layouts.values() if layout.tier != "rejected"]


def site_of(**serving: Any) -> Site:
    """The shipped defaults with a complete `serving` on top, and what a test adds."""
    base = {"model_directory": "/models/Kimi-K3", "interface": "enP6p3s0f0np0"}
    return site.shipped().overlaid({"allow_derived": True, "serving": {**base, **serving}}, "site.yaml")


def launched(layout_id: str, fabric: str | None = None, **serving: Any) -> Launch:
    """A layout for a site, its addresses 10.0.0.1 and up."""
    nodes = recipes.load().layouts[layout_id].nodes
    addresses = {"addresses": [f"10.0.0.{number + 1}" for number in range(nodes)]} if nodes > 1 else {}
    return plan_launch(layout_id, site_of(**{**addresses, **serving}), fabric=fabric)


def refusal(layout_id: str, fabric: str | None = None, **serving: Any) -> str:
    """The message with which a launch is refused; "" when it is not."""
    try:
        launched(layout_id, fabric, **serving)
    except InputError as error:
        return str(error)
    return ""


def arg(launch: Launch, name: str, node: int = 0) -> str | None:
    """The text of an argument on a node; "" for a bare flag, None where it is absent."""
    value = launch.processes[node].args.get(name)
    return None if value is None else value.text or ""


def env(launch: Launch, name: str, node: int = 0) -> str | None:
    value = launch.processes[node].env.get(name)
    return None if value is None else value.text
