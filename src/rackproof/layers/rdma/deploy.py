"""Layer rdma: the network stack that the site names, a module by which NICs reach GPU memory, and lockable memory.

Only where nodes of the layout talk by RDMA. The network stack comes before the GPU driver, whose peer-memory module is
built against it.
"""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.facts import Missing
from rackproof.managed import CONTAINERD_LIMITS, ENGINE_LIMITS, PEERMEM, RDMA_KEY, File

_HEADER = "# Managed by rackproof\n"
# A container gets the limit of containerd, where that is a service of its own, and else docker's (moby/moby#44547).
_ENGINE = {"containerd": "containerd", "docker": "dockerd"}  # service -> its process
_LIMITS = tuple(
    File("rdma", path, f"{_HEADER}[Service]\nLimitMEMLOCK=infinity\n") for path in (CONTAINERD_LIMITS, ENGINE_LIMITS)
)
_PEERMEM = File("rdma", PEERMEM, f"{_HEADER}nvidia_peermem\n")


def before_driver(node: Node) -> None:
    """rdma-core of the distribution, or DOCA-OFED from the repository that the site names; nothing where it names none."""
    packages = node.baseline.packages
    if packages is None or packages.rdma is None or not node.baseline.rdma.needed:
        return
    with node.layer("rdma"):
        rdma = node.facts.rdma
        ofed = None if isinstance(rdma, Missing) else known_or(rdma.ofed_version, None)
        if packages.rdma.stack == "inbox" and ofed is not None:
            node.stop(f"has OFED {ofed} installed and rdma.stack is inbox: remove it, or set rdma.stack: doca")
            return
        files = node.managed("rdma")
        key = known_or(node.facts.host.files, {}).get(RDMA_KEY)
        if files and not (all(map(node.has, files)) and key is not None and key.sha256 is not None):
            script = MANAGERS[node.manager].key_script(packages.rdma.key_url, packages.rdma.key_fingerprint, RDMA_KEY)
            node.shell("Key of the network stack's repository", script, watch=Watch(files=(RDMA_KEY,)))
            node.files("Repository of the network stack", files)
        if not all(map(node.version_of, packages.rdma.shown_by)):
            node.packages(
                f"Install the network stack ({packages.rdma.stack})",
                f"refresh\ninstall {' '.join(packages.rdma.names)}\n" + _OPENIBD * (packages.rdma.stack == "doca"),
                disrupts=True, detail="network interfaces may go away for a moment",
            )  # fmt: skip


_OPENIBD = "! systemctl cat openibd >/dev/null 2>&1 || systemctl enable -q openibd\n"


def bring_about(node: Node) -> None:
    """nvidia_peermem now and at every boot where the network stack has the interface for it; memlock of the engine."""
    if not node.baseline.rdma.needed:
        return
    with node.layer("rdma"):
        if node.baseline.vendor == "nvidia":
            _peermem(node)
        if node.baseline.runtime.engine != "docker":
            return  # podman has no daemon whose limit a container gets: the launch gives it
        node.files("Containers may lock memory", _LIMITS, then="systemctl daemon-reload")
        limited = [service for service in _ENGINE if not _unlimited(node, service)]
        if limited:
            node.shell(
                f"Restart {' and '.join(limited)} with the new limit", _RESTART.format(" ".join(limited)),
                disrupts=True, watch=Watch(units=tuple(limited)),
            )  # fmt: skip


# Docker before release 18.09 has no service of that name for containerd.
_RESTART = """\
systemctl daemon-reload
for unit in {}; do ! systemctl cat "$unit" >/dev/null 2>&1 || systemctl restart "$unit"; done
"""


def _unlimited(node: Node, service: str) -> bool:
    """Whether a service may lock memory without limit: by its unit, and since it was started."""
    units = known_or(node.facts.host.units, {})
    unit, docker = units.get(service), units.get("docker")
    if unit is None or not unit.installed:  # it comes with docker in this run, or containerd is no service here
        return service != "docker" and docker is not None and docker.installed
    state = node.facts.system if isinstance(node.facts.system, Missing) else node.facts.system.state
    daemons = {} if isinstance(state, Missing) else known_or(state.daemons, {})
    running = daemons.get(_ENGINE[service])
    limit = None if running is None else known_or(running.memlock, None)
    return unit.memlock == "infinity" and (limit is None or limit.soft is None)


def _peermem(node: Node) -> None:
    """Without the interface in ib_core the module cannot load, and its entry would fail at every boot."""
    system = node.facts.system
    direct = system if isinstance(system, Missing) else system.gpudirect
    offered = False if isinstance(direct, Missing) else known_or(direct.peer_memory_symbol, False)
    stack = node.baseline.packages.rdma if node.baseline.packages else None
    if not (offered or (stack is not None and stack.stack == "doca")):
        node.notes.append(
            "nvidia_peermem is left out: the kernel's ib_core has no peer-memory interface; dma-buf is used"
        )
        return
    loaded = "nvidia_peermem" in known_or(node.facts.driver.loaded_modules, ())
    if not node.has(_PEERMEM):
        node.files("nvidia_peermem at every boot", [_PEERMEM])
    if not loaded:
        node.shell("Load nvidia_peermem", "modprobe nvidia_peermem")
