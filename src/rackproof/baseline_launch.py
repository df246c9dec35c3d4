"""The serving unit of one node, rendered from the launch of its deployment unit, as part of the node's baseline.

What differs between the nodes of a unit (rank, own address) stands in files; `launch` is the sha256 of the files of all
its ranks, so that baselines of one unit stay equal and still change with every argument.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rackproof.launch import plan_launch
from rackproof.launch.given import Node
from rackproof.launch.install import unit_files
from rackproof.site import Site

if TYPE_CHECKING:
    from rackproof.baseline import Baseline


@dataclass(frozen=True)
class Member:
    """A node among those that serve together: names and addresses of all, by rank; prefill before decode."""

    name: str
    nodes: tuple[tuple[str, str], ...]  # (name, address)
    source: str

    @property
    def rank(self) -> int:
        return [name for name, _ in self.nodes].index(self.name)


def with_launch(baseline: Baseline, site: Site, member: Member | None) -> Baseline:
    """The baseline with the files of this node's serving unit. None: a spare, or nobody says which nodes serve together.

    A spare serves nothing, so nothing is installed on it. Raises InputError where the launch breaks a rule of the recipe.
    """
    serving = baseline.serving
    if not serving.install:
        return baseline
    if member is None:
        return replace(baseline, serving=replace(serving, install=False, start=False))
    nodes = [Node(name, address) for name, address in member.nodes]
    launch = plan_launch(baseline.layout.id, site, nodes=nodes, nodes_source=member.source)
    every = [unit_files(launch, process) for process in launch.processes]
    whole = hashlib.sha256("\0".join(text for files in every for _, text in files).encode()).hexdigest()
    return replace(baseline, serving=replace(serving, launch=whole, files=tuple(every[member.rank])))


def selfbuilt_files(
    baseline: Baseline, site: Site, member: Member, image: str, title: str
) -> tuple[tuple[str, str], tuple[str, str]]:
    """(path, text) of unit and environment that run an image of the host's own, under a description that says so."""
    nodes = [Node(name, address) for name, address in member.nodes]
    launch = plan_launch(baseline.layout.id, site, nodes=nodes, nodes_source=member.source)
    process = launch.processes[member.rank]
    own = replace(process, container=replace(process.container, image=image))
    return unit_files(replace(launch, title=title, tier="unsupported"), own)


def alone(name: str, address: str, source: str) -> Member:
    """A node that serves by itself."""
    return Member(name, ((name, address),), source)
