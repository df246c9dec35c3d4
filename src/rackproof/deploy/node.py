"""One node during a deploy: what is there, what must be, and what has been decided so far.

Everything is decided from one reading, before anything changes; pyinfra then runs the operations step by step on all
nodes. A layer that finds everything in place adds nothing and says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger

from rackproof import __version__
from rackproof.baseline import Baseline
from rackproof.deploy import operations
from rackproof.deploy.probe_fact import read
from rackproof.deploy.transport import keep_alive
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.collect import model_directory
from rackproof.evidence.read import read_facts
from rackproof.facts import Fact, Missing, NodeFacts
from rackproof.inventory import current_plan, refuse
from rackproof.managed import STAMP, File, managed_files
from rackproof.site import Site

STEP_S = 3600  # no step may hang for ever; the longest is pulling an image of 13 GB


@dataclass
class Node:
    """The node that the deploy file is being run for."""

    name: str
    site: Site
    baseline: Baseline
    facts: NodeFacts
    stopped: bool = False
    reboot: bool = False  # a reboot is part of this run
    driver_changes: bool = False
    added: list[str] = field(default_factory=list)  # names of the operations so far

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Say "in place" for a layer that adds no operation."""
        before = len(self.added)
        yield
        if len(self.added) == before and not self.stopped:
            logger.info(f"{current_host.print_prefix}{name}: in place")

    def shell(self, name: str, script: str) -> None:
        """Add a step that runs a script."""
        if self._goes_on(name):
            operations.shell(name=name, script=script, _timeout=STEP_S)

    def packages(self, name: str, script: str) -> None:
        """Add a step that installs or removes packages."""
        if self._goes_on(name):
            operations.packages(name=name, script=script, _timeout=STEP_S)

    def files(self, name: str, wanted: Sequence[File], then: str = "") -> None:
        """Add a step that writes those of the files that are not as they should be."""
        changed = [file for file in wanted if not self.has(file)]
        if changed and self._goes_on(name):
            operations.files(name=name, wanted=changed, then=then, _timeout=STEP_S)

    def reboots(self, name: str) -> None:
        """Add a reboot, as many nodes at a time as the site allows."""
        if self._goes_on(name):
            operations.reboot(
                name=name,
                settle_s=self.site.value("reboot", "settle_s"),
                timeout_s=self.site.value("reboot", "timeout_s"),
                _parallel=self.site.value("reboot", "batch"),
            )

    def stop(self, reason: str) -> None:
        """End the deploy of this node with a message; the run then ends with an error."""
        if not self.stopped:
            self.added.append(reason)
            operations.stop(name=f"Stop: {reason}", reason=f"{self.name}: {reason}")
            self.stopped = True

    def has(self, file: File) -> bool:
        """Whether a managed file is on the node as the baseline renders it."""
        there = known_or(self.facts.host.files, {})
        return file.path in there and there[file.path].sha256 == file.sha256

    def managed(self, layer: str) -> list[File]:
        return [file for file in managed_files(self.baseline) if file.layer == layer]

    def unit_ok(self, unit: str) -> bool:
        """Whether a systemd unit runs and will run after a boot."""
        units = known_or(self.facts.host.units, {})
        return unit in units and units[unit].running and units[unit].enabled == "enabled"

    def version_of(self, package: str) -> str:
        """The installed version of a package, or ""."""
        return str(known_or(self.facts.host.packages, {}).get(package, ""))

    def has_packages(self, names: Sequence[str], version: str) -> bool:
        """Whether all packages are installed whole, at an upstream version."""
        if known_or(self.facts.host.broken_packages, ()):
            return False
        return all(upstream(self.version_of(name)) == version for name in names)

    def _goes_on(self, name: str) -> bool:
        if not self.stopped:
            self.added.append(name)
        return not self.stopped


def known_or(fact: Fact[Any], default: Any) -> Any:
    """A fact's value, or a default where it is missing. Only for deciding to do something again, never for judging."""
    return default if isinstance(fact, Missing) else fact


def upstream(version: str) -> str:
    """580.126.20 of 580.126.20-1, 1:4.4.1-1 without its epoch."""
    return version.rpartition(":")[2].partition("-")[0]


def begin() -> Node:
    """Read the node that pyinfra is preparing. A node that cannot be read, or must not be touched, is stopped."""
    try:
        planned = current_plan().node(current_host.name)
        if planned.baseline is None or planned.baseline.packages is None:
            raise InputError(
                "group_vars", f"nothing to deploy on {planned.name}: no driver is pinned or no repository is named",
                "driver.version, packages.repository, packages.key_url and packages.key_fingerprint",
            )
    except RackproofError as error:
        refuse(error)
    keep_alive(current_host)
    evidence = read(current_host, model_directory=model_directory(planned.site))
    facts = read_facts(evidence)
    node = Node(planned.name, planned.site, planned.baseline, facts)
    if evidence.problem is not None:
        node.stop(f"cannot be read, so nothing is changed: {evidence.problem}")
    elif isinstance(facts.host.selfbuild, Missing) or facts.host.selfbuild is not None:
        node.stop("carries the self-build mark (or it cannot be read): the baseline path does not touch such a host")
    elif isinstance(facts.host.simulated, Missing) or (facts.host.simulated is not None) != planned.baseline.simulated:
        node.stop("is simulated and the site declares no simulation, or the other way round")
    return node


def finish(node: Node) -> None:
    """Leave the stamp: which baseline this host was brought to. Written last, so that it is never ahead of the facts."""
    wanted = {
        "baseline": node.baseline.hash,
        "recipe": node.baseline.recipe,
        "recipe_commit": node.baseline.recipe_commit,
        "layout": node.baseline.layout.id,
        "tier": node.baseline.layout.tier,
        "simulated": node.baseline.simulated,
        "tool": f"rackproof {__version__}",
    }
    there = known_or(node.facts.host.stamp, None) or {}
    with node.layer("stamp"):
        if node.added or any(there.get(key) != value for key, value in wanted.items()):
            text = json.dumps(wanted, indent=1)[:-2] + ',\n "written": "@now@"\n}\n'
            node.files(
                "Stamp the host with its baseline", [File("host", STAMP, text)],
                then=f"sed -i \"s/@now@/$(date -u +%Y-%m-%dT%H:%M:%SZ)/\" {STAMP}",
            )
