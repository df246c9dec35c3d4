"""Layer container_runtime: engine, NVIDIA Container Toolkit at one version, CDI for the driver that is loaded."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import CdiSpec
from rackproof.layers.container_runtime import deploy_amd

_CDI = "/var/run/cdi/nvidia.yaml"


def bring_about(node: Node) -> None:
    """Engine first, then the toolkit, then what ties them to the driver."""
    with node.layer("container_runtime"):
        _engine(node)
        if node.baseline.vendor != "nvidia":
            deploy_amd.toolkit(node)
            return
        toolkit_changes = _toolkit(node)
        if toolkit_changes or not _configured(node):
            node.shell(
                "Container engine knows the NVIDIA runtime and CDI",
                "nvidia-ctk runtime configure --runtime=docker --cdi.enabled\nsystemctl restart docker",
                disrupts=True,  # a restart of the engine ends its containers
                watch=Watch(files=("/etc/docker/daemon.json",), units=("docker",)),
            )
        _cdi(node, toolkit_changes)


def _engine(node: Node) -> None:
    package = node.baseline.runtime.engine_package
    if known_or(node.facts.runtime.engine, None) is None:
        node.packages(f"Install {package}", f"refresh\ninstall {package}")
    if not node.unit_ok("docker"):
        node.shell("Start docker", "systemctl unmask -q docker\nsystemctl enable -q --now docker",
                   watch=Watch(units=("docker",)))  # fmt: skip


def _toolkit(node: Node) -> bool:
    names = node.baseline.packages.names.toolkit if node.baseline.packages else ()
    version = node.baseline.runtime.toolkit_version
    if version is None and _safe(node):
        return False
    if version is not None and node.has_packages(names, version):
        return False
    wanted = [f"want {version} {name}" if version else f"also {name}" for name in names]
    node.packages(
        f"Install NVIDIA Container Toolkit {version or ''}".rstrip(),
        "\n".join(["refresh", *wanted, "go"]),
    )
    return True


def _safe(node: Node) -> bool:
    """Whether the installed toolkit is not older than the oldest that is safe, where the site pins none."""
    there = known_or(node.facts.runtime.toolkit_version, None)
    try:
        return there is not None and Version(there) >= Version(node.baseline.runtime.toolkit_min)
    except InvalidVersion:
        return False


def _configured(node: Node) -> bool:
    config = known_or(node.facts.runtime.daemon_config, None) or {}
    features = config.get("features")
    runtimes = config.get("runtimes")
    return (
        isinstance(features, dict) and features.get("cdi") is True and isinstance(runtimes, dict) and "nvidia" in runtimes
    )


def _cdi(node: Node, toolkit_changes: bool) -> None:
    """A spec names the driver's libraries by version: one left over from another driver keeps containers from starting."""
    specs: tuple[CdiSpec, ...] = known_or(node.facts.runtime.cdi_specs, ())
    version = node.baseline.driver.version
    stale = [spec for spec in specs if set(spec.driver_versions) != {version}]
    whole = any(len([d for d in spec.devices if d.isdigit()]) >= node.baseline.gpus.count for spec in specs)
    if not (toolkit_changes or node.driver_changes or stale or not whole):
        return
    by_hand = [spec.path for spec in stale if spec.path.startswith("/etc/cdi/")]
    aside = "".join(f"mv -f '{path}' '{path}.rackproof-disabled'\n" for path in by_hand)
    node.shell(
        "CDI spec for the loaded driver", f"{aside}mkdir -p /var/run/cdi\nnvidia-ctk cdi generate --output={_CDI}",
        watch=Watch(files=(_CDI, *by_hand)),
    )  # fmt: skip
