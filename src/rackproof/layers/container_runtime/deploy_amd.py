"""Layer container_runtime on AMD: the container toolkit, where the site asks for it.

The recipe does not need it: the devices of AMD's GPUs are handed to a container by name, as AMD and vLLM document it. Who
starts containers by `--runtime amd`, or by CDI, asks for it by container.amd_toolkit.
"""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import CdiSpec, Missing
from rackproof.managed import AMD_TOOLKIT
from rackproof.package_names import plain

SPEC = "/etc/cdi/amd.json"


def toolkit(node: Node) -> None:
    """Repository, package at one version, the engine's settings, and the CDI spec of the devices that are there."""
    version = node.baseline.runtime.amd_toolkit
    if version is None or node.baseline.packages is None:
        return
    node.files("AMD container toolkit repository", [f for f in node.managed("container_runtime") if f.path == AMD_TOOLKIT])
    changes = _package(node, version)
    if changes or not _configured(node):
        node.shell(
            "Container engine knows the AMD runtime and CDI",
            "amd-ctk runtime configure --runtime=docker\nsystemctl restart docker",
            disrupts=True,  # a restart of the engine ends its containers
            watch=Watch(files=("/etc/docker/daemon.json",), units=("docker",)),
        )
    if changes or node.driver_changes or node.reboot or not _whole(node):
        node.shell(
            "CDI spec for the devices of this boot", f"mkdir -p /etc/cdi\namd-ctk cdi generate --output {SPEC}",
            watch=Watch(files=(SPEC,)),
        )  # fmt: skip


def _package(node: Node, version: str) -> bool:
    names = node.baseline.packages.names.toolkit if node.baseline.packages else ()
    if {plain(node.version_of(name)) for name in names} == {version} and not known_or(node.facts.host.broken_packages, ()):
        return False
    wanted = [f"want {version} {name}" for name in names]
    node.packages(f"Install AMD Container Toolkit {version}", "\n".join(["refresh", *wanted, "go"]))
    return True


def _configured(node: Node) -> bool:
    config = known_or(node.facts.runtime.daemon_config, None) or {}
    features, runtimes = config.get("features"), config.get("runtimes")
    cdi = isinstance(features, dict) and features.get("cdi") is True
    return cdi and isinstance(runtimes, dict) and "amd" in runtimes


def _whole(node: Node) -> bool:
    """Whether a spec hands over every render node that the driver made, and no other."""
    specs: tuple[CdiSpec, ...] = known_or(node.facts.runtime.amd_cdi_specs, ())
    driver = node.facts.amd if isinstance(node.facts.amd, Missing) else node.facts.amd.driver
    renders = () if isinstance(driver, Missing) else known_or(driver.render_nodes, ())
    wanted = {"/dev/kfd", *(f"/dev/dri/{name}" for name in renders)}
    return any(set(spec.nodes) == wanted for spec in specs)
