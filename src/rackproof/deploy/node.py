"""One node during a deploy: what is there, what must be, and what has been decided so far.

Everything is decided from one reading, before anything changes; pyinfra then runs the operations step by step on all
nodes. A layer that finds everything in place adds nothing and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger

from rackproof.baseline import Baseline
from rackproof.deploy import holder, operations
from rackproof.deploy import reboot as rebooting
from rackproof.deploy.image_archive import IMPORT_S, ImageArchive
from rackproof.deploy.onhost import Run, Watch
from rackproof.deploy.operations import Step
from rackproof.deploy.packages import MANAGERS
from rackproof.deploy.probe_fact import read
from rackproof.deploy.session import session
from rackproof.deploy.transport import keep_alive
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.collect import model_directory
from rackproof.evidence.read import read_facts
from rackproof.facts import Fact, Missing, NodeFacts, RuntimeFacts
from rackproof.facts_podman import of_engine
from rackproof.facts_selfbuild import traces
from rackproof.inventory import current_plan, refuse
from rackproof.managed import File, keyring, managed_files
from rackproof.package_names import PackageNames
from rackproof.site import Site
from rackproof.verdict.report.clean import clean

STEP_S = 3600  # no step may hang for ever; the longest is pulling an image of 13 GB


@dataclass
class Node:
    """The node that the deploy file is being run for."""

    name: str
    site: Site
    baseline: Baseline
    facts: NodeFacts
    run: Run = field(default_factory=lambda: session().run)
    stopped: str = ""  # why nothing more is done here
    reboot: bool = False  # a reboot is part of this run
    driver_changes: bool = False
    steps: list[Step] = field(default_factory=list)  # so far
    layers: list[str] = field(default_factory=list)  # looked at so far
    notes: list[str] = field(default_factory=list)  # for whoever reads the plan

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """Say for a layer what would be done, or that it is in place."""
        self.layers.append(name)
        before = len(self.steps)
        yield
        for step in self.steps[before:]:
            logger.info(f"{current_host.print_prefix}{name}: {step.name}{step.marks}")
        if len(self.steps) == before and not self.stopped:
            logger.info(f"{current_host.print_prefix}{name}: in place")

    def shell(
        self, name: str, script: str, *, disrupts: bool = False, domain: bool = False, watch: Watch | None = None
    ) -> None:
        """Add a step that runs a script. `disrupts`: it breaks what runs on the GPUs. `domain`: see Step."""
        step = self._step(name, disrupts=disrupts, domain=domain)
        if self._goes_on(step):
            operations.shell(
                name=name, script=script, step=step, run=self.run, watch=watch or Watch(), _timeout=STEP_S
            )

    def watched(
        self, name: str, script: str, timeout_s: int = STEP_S, secret: str = "", watch: Watch | None = None
    ) -> None:
        """Add a step that runs a script for a long time and shows what it prints. `secret`: its standard input."""
        step = self._step(name)
        if self._goes_on(step):
            operations.watched(
                name=name, script=script, step=step, run=self.run, watch=watch or Watch(), timeout_s=timeout_s,
                secret=secret, _timeout=timeout_s,
            )  # fmt: skip

    def imports(self, name: str, archive: ImageArchive, watch: Watch) -> None:
        """Add a step that imports an image from an archive."""
        step = self._step(name)
        if self._goes_on(step):
            operations.imports(name=name, archive=archive, step=step, run=self.run, watch=watch, _timeout=IMPORT_S)

    def packages(self, name: str, script: str, *, disrupts: bool = False, domain: bool = False, detail: str = "") -> None:
        """Add a step that installs or removes packages, by the vendor's key that the site names."""
        step = self._step(name, disrupts=disrupts, domain=domain, detail=detail)
        watch = Watch(packages=True, module="amdgpu" if self.baseline.vendor == "amd" else "nvidia")
        if self._goes_on(step):
            operations.packages(
                name=name, script=script, step=step, run=self.run, watch=watch, manager=self.manager,
                first=self._sound_key(), _timeout=STEP_S,
            )  # fmt: skip

    def files(self, name: str, wanted: Sequence[File], then: str = "", *, first: str = "", domain: bool = False) -> None:
        """Add a step that writes those of the files that are not as they should be."""
        changed = [file for file in wanted if not self.has(file)]
        paths = tuple(file.path for file in changed)
        step = self._step(name, domain=domain, detail=", ".join(paths))
        if changed and self._goes_on(step):
            operations.files(
                name=name, wanted=changed, then=then, first=first, step=step, run=self.run, watch=Watch(files=paths),
                _timeout=STEP_S,
            )  # fmt: skip

    def reboots(self, name: str, reasons: Sequence[str], left: Callable[[NodeFacts], list[str]], module: str = "nvidia") -> None:
        """Add a reboot, as many nodes at a time as the site allows. `left`: what it should have mended and has not."""
        step = self._step(name, disrupts=True, reboots=True, detail="; ".join(reasons))
        if self._goes_on(step):
            self.reboot = True
            settle_s, timeout_s = self.site.value("reboot", "settle_s"), self.site.value("reboot", "timeout_s")
            names = self.baseline.packages.names if self.baseline.packages else None
            version = (names.module if names else "") or self.baseline.driver.version or ""
            terms = rebooting.Terms(settle_s, timeout_s, version, left, module)
            rebooting.reboot(
                name=name, step=step, run=self.run, terms=terms, _parallel=self.site.value("reboot", "batch")
            )

    def note(self, text: str) -> None:
        """Say something for whoever reads the plan, or the log of the deploy."""
        self.notes.append(text)
        logger.info(f"{current_host.print_prefix}note: {text}")

    def stop(self, reason: str) -> None:
        """End the deploy of this node with a message; the run then ends with an error."""
        if not self.stopped:
            self.stopped = reason
            operations.stop(name=f"Stop: {reason}", reason=f"{self.name}: {reason}")

    def busy(self) -> bool:
        """Stop a node whose GPUs somebody uses; where that cannot be seen, somebody may."""
        holders = self.facts.driver.holders
        if self.site.value("disrupt", "gpu_processes") or holders == ():
            return False
        if isinstance(holders, Missing):
            self.stop(f"cannot tell whether its GPUs are in use ({holders.reason}); set disrupt.gpu_processes to go on")
        else:
            self.stop(f"its GPUs are in use by {', '.join(holders)}; end them, or set disrupt.gpu_processes")
        return True

    def has(self, file: File) -> bool:
        """Whether a managed file is on the node as the baseline renders it."""
        there = known_or(self.facts.host.files, {})
        return file.path in there and there[file.path].sha256 == file.sha256

    def managed(self, layer: str) -> list[File]:
        return [file for file in managed_files(self.baseline) if file.layer == layer]

    @property
    def runtime(self) -> RuntimeFacts:
        """What was read of the container engine that the baseline names."""
        return of_engine(self.facts, self.baseline.runtime.engine).runtime

    @property
    def manager(self) -> str:
        """apt | dnf: what installs packages on this node."""
        return self.baseline.packages.platform.manager if self.baseline.packages else "apt"

    def unit_ok(self, unit: str) -> bool:
        """Whether a systemd unit runs and will run after a boot."""
        units = known_or(self.facts.host.units, {})
        return unit in units and units[unit].running and units[unit].enabled == "enabled"

    def version_of(self, package: str) -> str:
        """The installed version of a package, or ""."""
        return str(known_or(self.facts.host.packages, {}).get(package, ""))

    def has_named(self, names: PackageNames, wanted: Sequence[str], version: str) -> bool:
        """As has_packages, where a package may have several names."""
        there = known_or(self.facts.host.packages, {})
        return self.has_packages([names.installed(there, name) for name in wanted], version)

    def has_packages(self, names: Sequence[str], version: str) -> bool:
        """Whether all packages are installed whole, at an upstream version."""
        if known_or(self.facts.host.broken_packages, ()):
            return False
        return all(upstream(self.version_of(name)) == version for name in names)

    def _sound_key(self) -> str:
        """A script that sees to the key of the vendor's repository, where that is set up already."""
        packages = self.baseline.packages
        if packages is None:
            return ""
        return MANAGERS[self.manager].sound_key(packages.key_url, packages.key_fingerprint, keyring(packages))

    def _step(self, name: str, **more: Any) -> Step:
        guarded = bool(more.get("disrupts")) and not self.site.value("disrupt", "gpu_processes")
        return Step(self.layers[-1] if self.layers else "", name, idle=guarded, **more)

    def _goes_on(self, step: Step) -> bool:
        """Note a step; False where it must not be done. The first one takes the node's lock."""
        if self.stopped or (step.disrupts and self.busy()):
            return False
        if not self.steps:
            control = self.facts.control
            seen = None if isinstance(control, Missing) else known_or(control.generation, None)
            lock = None if isinstance(control, Missing) else known_or(control.lock, None)
            dead = lock.sha256 if lock is not None and holder.is_dead(lock) else ""
            operations.lock(name="Lock the node", run=self.run, seen=seen, dead=dead)
        self.steps.append(step)
        return True


def known_or(fact: Fact[Any], default: Any) -> Any:
    """A fact's value, or a default where it is missing. Only for deciding to do something again, never for judging."""
    return default if isinstance(fact, Missing) else fact


def upstream(version: str) -> str:
    """580.126.20 of 580.126.20-1, 1:4.4.1-1 without its epoch."""
    return version.rpartition(":")[2].partition("-")[0]


def begin(selfbuild: bool = False) -> Node:
    """Read the node that pyinfra is preparing. A node that cannot be read, or must not be touched, is stopped.

    `selfbuild`: for the self-build path, which brings no driver and takes a host that was self-built before.
    """
    try:
        planned = current_plan().node(current_host.name)
        if planned.baseline is None or (planned.baseline.packages is None and not selfbuild):
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
    session().add(node, evidence)
    if evidence.problem is not None:
        node.stop(f"cannot be read, so nothing is changed: {evidence.problem}")
    elif not selfbuild and (why := _selfbuilt(facts, planned.site)):
        node.stop(why)
    elif isinstance(facts.host.simulated, Missing) or (facts.host.simulated is not None) != planned.baseline.simulated:
        node.stop("is simulated and the site declares no simulation, or the other way round")
    elif why := _other_platform(planned.baseline, facts):
        node.stop(why)
    elif not isinstance(facts.control, Missing) and (held := holder.refusal(facts.control.lock, node.run)):
        node.stop(held)
    return node


def _other_platform(baseline: Baseline, facts: NodeFacts) -> str:
    """Why the packages of this site are not for this node; "" where they are."""
    platform = baseline.packages.platform if baseline.packages else None
    if platform is None or not platform.operating_systems:
        return ""
    name, release = facts.host.os_id, facts.host.os_version
    if isinstance(name, Missing) or isinstance(release, Missing):
        return "its operating system cannot be told, so packages for it cannot be chosen"
    if platform.is_of(name, release):
        return ""
    wanted = " or ".join(platform.operating_systems)
    return f"runs {clean(name, 40)} {clean(release, 40)}, and packages.repository is for {wanted}: name the one for it"


def _selfbuilt(facts: NodeFacts, site: Site) -> str:
    """Why the official path leaves a node alone: it was self-built, or that cannot be told; "" where it does not."""
    found = traces(facts)
    said = [f"{place}: {clean(str(words), 120)}" for place, words in found.items() if words and not isinstance(words, Missing)]
    unread = [f"{place}: {words.reason}" for place, words in found.items() if isinstance(words, Missing)]
    if said and not site.value("convert", default=False):
        return f"was self-built ({'; '.join(said)}): the official path refuses it until the site says convert: true"
    if unread and not said:
        return f"cannot be told from a self-built host ({'; '.join(unread)}), so nothing is changed"
    return ""
