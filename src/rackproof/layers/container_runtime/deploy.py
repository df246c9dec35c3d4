"""Layer container_runtime: the engine that the site names, NVIDIA Container Toolkit at one version, CDI for the loaded driver."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import CdiSpec
from rackproof.layers.container_runtime import deploy_amd

_CDI = "/var/run/cdi/nvidia.yaml"
_REFRESH = ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")


def bring_about(node: Node) -> None:
    """Engine first, then the toolkit, then what ties them to the driver."""
    with node.layer("container_runtime"):
        _engine(node)
        if node.baseline.vendor != "nvidia":
            deploy_amd.toolkit(node)
            return
        toolkit_changes = _toolkit(node)
        # Podman reads CDI specs by itself: there is no file to write for it and nothing to start again.
        if _is_docker(node) and (toolkit_changes or not _configured(node)):
            node.shell(
                "Container engine knows the NVIDIA runtime and CDI",
                "nvidia-ctk runtime configure --runtime=docker --cdi.enabled\nsystemctl restart docker",
                disrupts=True,  # a restart of the engine ends its containers
                watch=Watch(files=("/etc/docker/daemon.json",), units=("docker",)),
            )
        _cdi(node, toolkit_changes)
        _refreshed(node)


def _is_docker(node: Node) -> bool:
    return node.baseline.runtime.engine == "docker"


def _engine(node: Node) -> None:
    if not _is_docker(node):
        _podman(node)
        return
    package = node.baseline.runtime.engine_package
    if known_or(node.runtime.engine, None) is None:
        node.packages(f"Install {package}", f"refresh\ninstall {package}")
    if not node.unit_ok("docker"):
        node.shell("Start docker", "systemctl unmask -q docker\nsystemctl enable -q --now docker",
                   watch=Watch(units=("docker",)))  # fmt: skip


def _podman(node: Node) -> None:
    """Distributions that are still in use have a podman that does not understand the toolkit's specs: better none than that."""
    runtime, there = node.baseline.runtime, known_or(node.runtime.engine_version, None)
    if not _at_least(there, runtime.engine_min):
        package = runtime.engine_package
        node.packages(f"Install {package}", f"refresh\nat_least {runtime.engine_min} {package}\ninstall {package}")


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
    return _at_least(known_or(node.facts.runtime.toolkit_version, None), node.baseline.runtime.toolkit_min)


def _at_least(found: str | None, least: str) -> bool:
    try:
        return found is not None and Version(found) >= Version(least)
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


def _refreshed(node: Node) -> None:
    """/var/run is empty after a boot: the toolkit's own units write the spec again, then and when the driver changes."""
    units = known_or(node.facts.host.units, {})
    there = [units[name] for name in _REFRESH if name in units and units[name].load in ("loaded", "masked")]
    off = [unit.name for unit in there if unit.enabled != "enabled"]
    if off:
        names = " ".join(off)
        node.shell(
            "The CDI spec is refreshed at boot",
            f"systemctl unmask -q {names}\nsystemctl enable -q {names}",
            watch=Watch(units=tuple(off)),
        )  # fmt: skip
