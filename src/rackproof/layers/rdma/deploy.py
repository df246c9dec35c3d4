"""Layer rdma: the network stack that the site names, a module by which NICs reach GPU memory, and lockable memory.

Only where nodes of the layout talk by RDMA. The network stack comes before the GPU driver, whose peer-memory module is
built against it.
"""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.facts import Missing
from rackproof.managed import ENGINE_LIMITS, PEERMEM, RDMA_KEY, File

_HEADER = "# Managed by rackproof\n"
_LIMITS = File("rdma", ENGINE_LIMITS, f"{_HEADER}[Service]\nLimitMEMLOCK=infinity\n")
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
        docker = known_or(node.facts.host.units, {}).get("docker")
        if docker is None or docker.memlock != "infinity" or not node.has(_LIMITS):
            node.files("Containers may lock memory", [_LIMITS], then="systemctl daemon-reload")
            if docker is None or docker.memlock != "infinity":
                node.shell(
                    "Restart docker with its new limit", "systemctl daemon-reload\nsystemctl restart docker",
                    disrupts=True, watch=Watch(units=("docker",)),
                )  # fmt: skip


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
