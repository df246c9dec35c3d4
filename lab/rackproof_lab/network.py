"""The lab's network: a bridge in a namespace of its own, one namespace a node.

The machine itself gets no address, route or firewall rule, and nodes have no way out, so a test can neither be
disturbed by the internet nor disturb it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from rackproof_lab.names import Lab, LabError, node_name
from rackproof_lab.proc import ok, run

_CLONE_NEWNET = 0x40000000
_NETNS = Path("/run/netns")


def up(lab: Lab, nodes: int) -> None:
    """Make the lab's namespace and those of the nodes."""
    run("ip", "netns", "add", lab.netns)
    batch = f"""link set lo up
link add br0 type bridge
addr add {lab.gateway}/24 dev br0
addr add {lab.registry_address}/24 dev br0
link set br0 up
"""
    run("ip", "-n", lab.netns, "-batch", "-", stdin=batch)
    for index in range(1, nodes + 1):
        _node_up(lab, index)


def _node_up(lab: Lab, index: int) -> None:
    name = node_name(index)
    netns = lab.node_netns(name)
    run("ip", "netns", "add", netns)
    run("ip", "-n", netns, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", lab.netns)
    run("ip", "-n", lab.netns, "link", "set", name, "master", "br0", "up")
    batch = f"""addr add {lab.address(index)}/24 dev eth0
link set eth0 up
link set lo up
route add default via {lab.gateway}
"""
    run("ip", "-n", netns, "-batch", "-", stdin=batch)


def link(lab: Lab, node: str, connected: bool) -> None:
    """Plug or unplug a node's cable."""
    run("ip", "-n", lab.netns, "link", "set", node, "up" if connected else "down")


def down(lab: Lab) -> None:
    """Remove the lab's namespaces, whichever of them exist."""
    if not _NETNS.is_dir():
        return
    for entry in sorted(_NETNS.iterdir()):
        ours = entry.name == lab.netns or entry.name.startswith(lab.netns + ".")
        if ours and not ok("ip", "netns", "del", entry.name):
            entry.unlink(missing_ok=True)
    if not any(_NETNS.iterdir()) and ok("mountpoint", "-q", _NETNS):
        ok("umount", _NETNS)


def namespaces(lab: Lab) -> list[str]:
    if not _NETNS.is_dir():
        return []
    return sorted(e.name for e in _NETNS.iterdir() if e.name == lab.netns or e.name.startswith(lab.netns + "."))


def enter(lab: Lab) -> None:
    """Move the calling thread into the lab's network namespace (Python 3.11 has no os.setns)."""
    path = _NETNS / lab.netns
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LabError("no lab is up: run: make lab-up") from None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, _CLONE_NEWNET):
            error = ctypes.get_errno()
            raise LabError(f"cannot enter the lab's network namespace: {os.strerror(error)} (are you root?)")
    finally:
        os.close(descriptor)


def inside(lab: Lab) -> list[str]:
    """The words to put before a command so that it runs in the lab's network, with the lab's /etc/hosts."""
    script = 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"'
    return [
        "nsenter", f"--net={_NETNS / lab.netns}", "unshare", "-m", "sh", "-c", script, "rackproof-lab",
        str(lab.dir / "hosts"),
    ]  # fmt: skip
