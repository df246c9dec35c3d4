"""Bringing a whole lab up and down."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from rackproof_lab import (
    base,
    cgroup,
    dnf_root,
    faults,
    host,
    image,
    layers,
    network,
    node,
    profile,
    repo,
    rocky,
    rpm_repo,
    services,
    ssh,
)
from rackproof_lab.base import Say
from rackproof_lab.names import Lab, LabError
from rackproof_lab.node import Rack
from rackproof_lab.proc import put, replace

Publish = Callable[[], dict[str, str]]  # lays out signed repositories; returns the part of lab.json about them
UPGRADES_NODE = "tray03"  # in the state 'leased', the one node where somebody left unattended-upgrades on


@contextlib.contextmanager
def locked(lab: Lab) -> Iterator[None]:
    """One command at a time changes a lab."""
    lab.lock.parent.mkdir(parents=True, exist_ok=True)
    with lab.lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another rackproof-lab command works on lab '{lab.id}' (lock {lab.lock})") from None
        yield


def up(
    lab: Lab, nodes: int, profile_name: str, suite: str, state: str, install: bool, say: Say, flavour: str = "debian"
) -> None:
    """Build what is missing and boot the nodes; whatever interrupts it, nothing stays behind."""
    host.check()
    if profile.load(profile_name).get("vendor") == "amd" and state == "leased":
        raise LabError(f"profile {profile_name}: the driver of a leased rack is NVIDIA's; use --state bare")
    with locked(lab):
        if lab.description.exists():
            raise LabError(f"lab '{lab.id}' is up already: run `rackproof-lab down` first, or `reset --all`")
        host.ensure_programs(install, say)
        if note := host.limits_note():
            say(f"note: {note}")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # a background job has SIGINT ignored
            signal.signal(number, _interrupt)
        remove(lab)  # what a killed `up` may have left
        origin = cgroup.enter(cgroup.make(lab, "up"))  # so that `down` finds our children if we are killed
        try:
            _up(lab, nodes, profile_name, suite, state, flavour, say)
        except BaseException:
            cgroup.leave(origin)
            say("cleaning up")
            remove(lab)
            raise
        cgroup.leave(origin)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _up(lab: Lab, nodes: int, profile_name: str, suite: str, state: str, flavour: str, say: Say) -> None:
    with base.cache_lock(say):
        root = base.ensure(suite, say)
        lowers, publish = (_dnf if flavour == rocky.FLAVOUR else _apt)(lab, root, state, nodes, say)
    rack = Rack(lab, nodes, profile_name, state, suite, str(root.tree), lowers, flavour)
    say("certificates, signed repositories, network")
    description = _outside(rack, publish, root)
    say(f"starting {', '.join(rack.names())}")
    for name in rack.names():
        node.prepare(rack, name)
    description["ssh"] = ssh.write_client_files(lab, nodes)
    for name in rack.names():
        node.start(rack, name)
    ssh.wait(lab, rack.names(), 60 + 20 * nodes)
    rack.save()
    replace(lab.description, json.dumps(description, indent=1) + "\n")


def _apt(lab: Lab, root: base.Base, state: str, nodes: int, say: Say) -> tuple[dict[str, str], Publish]:
    """Lowerdirs of nodes with apt, and what publishes their repositories. Call with the cache locked."""
    debs = repo.build(say)
    stack = layers.stack(state, root, debs, repo.content_key(), say)
    lowers = {"*": layers.lowerdir(stack, root)}
    if state == "leased" and nodes >= int(UPGRADES_NODE[4:]):
        lowers[UPGRADES_NODE] = layers.lowerdir([layers.upgrades(stack, root, say), *stack], root)
    return lowers, lambda: repo.publish_all(lab.dir / "www", lab.dir / "gnupg", debs, root.debs, root.suite)


def _dnf(lab: Lab, root: base.Base, state: str, nodes: int, say: Say) -> tuple[dict[str, str], Publish]:
    """As _apt, for nodes with dnf."""
    tools = dnf_root.tools(root, say)
    pool = rpm_repo.build(root, tools, say)
    lowers = {"*": layers.lowerdir(rocky.stack(root, pool, tools, state, say), root)}
    return lowers, lambda: rpm_repo.publish_all(lab.dir / "www", lab.dir / "gnupg", pool, root, tools)


def _outside(rack: Rack, publish: Publish, root: base.Base) -> dict[str, Any]:
    """Everything the nodes need from outside: keys, repositories, network, services, image."""
    lab = rack.lab
    lab.dir.mkdir(parents=True, exist_ok=True)
    ssh.make_key(lab.dir / "id_ed25519", f"rackproof-lab-{lab.id}")
    ca = services.certificate(lab)
    layers.install_standins(lab.dir / "standins", root.tree)
    apt = publish()
    nodes = [{"name": name, "address": lab.address(i)} for i, name in enumerate(rack.names(), 1)]
    trays = "".join(f"{n['address']} {n['name']}\n" for n in nodes)
    put(lab.dir / "hosts", f"127.0.0.1 localhost\n{services.hosts_lines(lab)}{trays}")
    network.up(lab, rack.nodes)
    services.start(lab)
    return {
        "schema": 1, "id": lab.id, "netns": lab.netns, "profile": rack.profile, "state": rack.state,
        "suite": rack.suite, "flavour": rack.flavour, "nodes": nodes, "apt": apt,
        "site": rocky.site() if rack.flavour == rocky.FLAVOUR else {},
        "registry": {"host": "docker.io", "alias": "registry.lab", "url": f"https://{lab.registry_address}"},
        "image": image.push(lab, rack.profile), "ca": str(ca), "hosts": str(lab.dir / "hosts"),
    }  # fmt: skip


def down(lab: Lab, say: Say) -> None:
    """Remove everything of a lab, also what a killed `up` left, also a running `up`. Doing it twice is fine."""
    host.check()
    deadline = time.monotonic() + 30
    while True:
        try:
            with locked(lab):
                remove(lab)
                lab.lock.unlink(missing_ok=True)
                return
        except LabError:
            if time.monotonic() > deadline or not _kill_up(lab, say):
                raise
            time.sleep(0.1)


def _kill_up(lab: Lab, say: Say) -> bool:
    """End an `up` that holds the lock; False when the holder is another command."""
    group = lab.cgroup / "up"
    if not group.exists():
        return False
    say("ending the `up` that is running")
    cgroup.kill(group)
    return True


def remove(lab: Lab) -> None:
    """Processes first, then namespaces, then files; the shared cache stays."""
    if lab.cgroup.exists():
        cgroup.kill(lab.cgroup)
    network.down(lab)
    shutil.rmtree(lab.dir, ignore_errors=True)
    if lab.dir.exists():
        raise LabError(f"cannot remove {lab.dir}")


def reset(lab: Lab, names: list[str]) -> None:
    """Throw away what nodes have become and boot them as they were made."""
    rack = Rack.load(lab)
    for name in names:
        node.stop(lab, name)
        faults.forget(lab, name)
        node.prepare(rack, name)
        node.start(rack, name)
    ssh.wait(lab, names, 60 + 20 * len(names))
