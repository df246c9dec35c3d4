"""Layer nvlink: IMEX on the trays of an NVLink domain, Fabric Manager on HGX; neither where it does not belong."""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.package_names import PackageNames


def bring_about(node: Node) -> None:
    """Bring the fabric daemon of this hardware to the driver's version, configured, enabled and running."""
    if node.baseline.vendor != "nvidia":
        return
    with node.layer("nvlink"):
        version = node.baseline.driver.version
        names = node.baseline.packages.names if node.baseline.packages else None
        assert names is not None and version is not None
        stale = not node.driver_changes and not _installed(node, names, version)
        if stale:
            node.packages(
                f"Install {', '.join(names.fabric)} {version}", _script(names, version), disrupts=True, domain=True
            )
        if node.baseline.nvlink.kind == "nvl72":
            _imex(node, stale)
        else:
            _fabric_manager(node, stale)


def _installed(node: Node, names: PackageNames, version: str) -> bool:
    return node.has_named(names, names.fabric, version) and all(map(node.version_of, names.fabric_unversioned))


def _script(names: PackageNames, version: str) -> str:
    exact = [f"want {version} {' '.join(names.any_of(name))}" for name in names.fabric]
    loose = [f"also {' '.join(names.fabric_unversioned)}"] if names.fabric_unversioned else []
    return "\n".join(["refresh", *exact, *loose, "go", ""])


def _imex(node: Node, stale: bool) -> None:
    """All trays get the node list before any starts: the list is read only at start, and must be equal everywhere."""
    if not node.baseline.nvlink.host_imex:
        return
    files = node.managed("nvlink")
    node.files("IMEX node list of the NVLink domain", files, domain=True)
    changed = any(not node.has(file) for file in files)
    if changed or stale or node.driver_changes or node.reboot or not node.unit_ok("nvidia-imex") or _disagrees(node):
        node.shell(
            "Start nvidia-imex", "systemctl enable -q nvidia-imex\nsystemctl restart nvidia-imex",
            disrupts=True, watch=Watch(units=("nvidia-imex",)),
        )  # fmt: skip


def _disagrees(node: Node) -> bool:
    """The daemon still runs on an older node list or version than what is installed: the domain refuses it."""
    domain = known_or(node.facts.nvlink.imex_domain, None)
    return domain is not None and domain.status != "UP" and any("mismatch" in link.lower() for link in domain.bad_links)


def _fabric_manager(node: Node, stale: bool) -> None:
    """Its modules first, and for the next boots too; nvlsm is started by Fabric Manager's own unit."""
    load = "".join(f"modprobe {module}\n" for module in node.baseline.nvlink.fabric_modules)
    node.files("Kernel modules of the NVLink fabric, at every boot", node.managed("nvlink"), then=load)
    if stale or node.driver_changes or node.reboot or not node.unit_ok("nvidia-fabricmanager"):
        node.shell(
            "Start nvidia-fabricmanager",
            f"{load}systemctl enable -q nvidia-fabricmanager\nsystemctl restart nvidia-fabricmanager",
            disrupts=True, watch=Watch(units=("nvidia-fabricmanager",)),
        )  # fmt: skip
