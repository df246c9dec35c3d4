"""Layer gpu_driver: one package origin, the exact driver pinned and installed, module options, reboot, persistence."""

from __future__ import annotations

import re

from rackproof.baseline_parts import PackageBaseline
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import Missing, NodeFacts
from rackproof.layers.gpu_driver import deploy_amd
from rackproof.layers.gpu_driver.repository import repository, secure_boot
from rackproof.layers.host import deploy_kernel
from rackproof.managed import MODPROBE, PERSISTENCED, File
from rackproof.package_names import PackageNames, foreign, locked
from rackproof.verdict.report.clean import clean

_BRANCHED = re.compile(r"^(?:nvidia|libnvidia|cuda-drivers|nvlink5)(?:-[a-z-]+)?-(\d{3})(?:-open|-server|\.[\d.]+)*$")

def bring_about(node: Node) -> None:
    """Repository, packages, module options, and the reboot that makes them real."""
    with node.layer("gpu_driver"):
        if node.baseline.vendor == "amd":
            deploy_amd.bring_about(node)
            return
        if why := _refusal(node):
            node.stop(why)
        repository(node)
        _packages(node)
        by_path = {file.path: file for file in node.managed("gpu_driver")}
        _module_options(node, by_path[MODPROBE])
        _reboot(node)
        _persistence(node, by_path[PERSISTENCED])


def _refusal(node: Node) -> str:
    """Why no driver is installed on this node, whatever else is right with it; "" where nothing speaks against it."""
    packages = node.baseline.packages
    assert packages is not None
    others = foreign(known_or(node.facts.host.packages, {}), packages.origin)
    if others and not node.site.value("packages", "replace_origin", default=False):
        listed = ", ".join(f"{name} (of {origin})" for name, origin in sorted(others.items()))
        return (
            f"has GPU packages of another origin than {packages.origin}: {clean(listed, 1000)}; packages of two origins "
            "break one another: remove these, or set packages.replace_origin, or name their origin in packages.origin"
        )
    return secure_boot(node)


def _packages(node: Node) -> None:
    """Driver and fabric packages in one transaction: a version apart, and Fabric Manager or IMEX will not start."""
    packages, version = node.baseline.packages, node.baseline.driver.version
    assert packages is not None and version is not None
    if _in_place(node, packages.names, version) or node.stopped or node.busy():
        return
    node.driver_changes = True
    node.packages(
        f"Pin and install driver {version}", _script(node, packages, version),
        disrupts=True, domain=True, detail=f"{known_or(node.facts.driver.loaded_version, None) or 'none'} is loaded",
    )  # fmt: skip


def _in_place(node: Node, names: PackageNames, version: str) -> bool:
    there = known_or(node.facts.host.packages, {})
    if node.manager == "dnf":
        system = node.facts.system
        locks = () if isinstance(system, Missing) else known_or(system.versionlocks, ())
        pinned = all(locked(locks, name, version) for name in (*names.driver, *names.fabric))
        if not names.kernel and known_or(node.facts.driver.disk_version, "") != version:
            return False  # installed, says rpm, whether or not the script that builds the module ran to its end
    else:
        pinned = not names.pin or bool(node.version_of(names.pin))
    kernel = known_or(node.facts.host.kernel, "")
    signed = not names.kernel or f"{names.kernel}-{kernel}" in there
    return node.has_named(names, names.driver, version) and pinned and signed and not _unwanted(node)


def _script(node: Node, packages: PackageBaseline, version: str) -> str:
    names = packages.names
    exact = (*names.driver, *names.fabric)
    lines = [
        "refresh",
        f"stream {names.stream}" if names.stream else "",
        f"pin {version} {names.pin or '-'} {' '.join(exact)}",
        f"signed_modules {names.kernel}" if names.kernel else "headers",
        "extra_modules" if node.baseline.nvlink.fabric_modules else "",
        *(f"want {version} {' '.join(names.any_of(name))}" for name in exact),
        f"also {' '.join(names.fabric_unversioned)}" if names.fabric_unversioned else "",
        f"drop {' '.join(unwanted)}" if (unwanted := _unwanted(node)) else "",
        "go",
        f"rebuilt {version} {' '.join(names.driver)}" if node.manager == "dnf" and not names.kernel else "",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _unwanted(node: Node) -> list[str]:
    """Installed packages that must go in the same transaction: of another branch, or of another origin."""
    packages = node.baseline.packages
    assert packages is not None
    return sorted({*_other_branches(node), *foreign(known_or(node.facts.host.packages, {}), packages.origin)})


def _other_branches(node: Node) -> list[str]:
    """Installed packages that carry another branch in their name; a pin package goes by its own conflict."""
    branch = (node.baseline.driver.version or "").partition(".")[0]
    found = ((name, _BRANCHED.match(name)) for name in known_or(node.facts.host.packages, {}))
    return sorted(
        name for name, match in found if match and match.group(1) != branch and "driver-pinning" not in name
    )


def _module_options(node: Node, file: File) -> None:
    """The options must be in every initramfs, or the next boot loads the module without them."""
    rebuild = (
        "if command -v update-initramfs >/dev/null; then update-initramfs -u -k all; "
        "elif command -v dracut >/dev/null; then dracut --force --regenerate-all; fi"
    )
    node.files("Module options, nouveau blacklisted, initramfs rebuilt", [file], then=rebuild)


def _reboot(node: Node) -> None:
    reasons = _reboot_reasons(node, node.facts)
    if not reasons or node.stopped or node.busy():
        return
    if not node.site.value("reboot", "allow"):
        node.stop(f"needs a reboot ({'; '.join(reasons)}): reboot it and run again, or set reboot.allow")
        return
    node.reboots(
        f"Reboot, {node.site.value('reboot', 'batch')} at a time", reasons, lambda facts: _reboot_reasons(node, facts)
    )


def _reboot_reasons(node: Node, facts: NodeFacts) -> list[str]:
    """Why the kernel of this node is not, or will not be, the one that the baseline wants."""
    driver, wanted = facts.driver, node.baseline.driver
    loaded = known_or(driver.loaded_version, None)
    reasons = []
    if loaded != wanted.version:
        reasons.append(f"driver {loaded or 'none'} is loaded, {wanted.version} is wanted")
    if loaded and wanted.flavour and known_or(driver.flavour, "") != wanted.flavour:
        reasons.append(f"the loaded module is not the {wanted.flavour} one")
    if "nouveau" in known_or(driver.loaded_modules, ()):
        reasons.append("nouveau is loaded")
    there = known_or(driver.parameters, {})
    reasons += [f"the kernel was not started with {word}" for word in deploy_kernel.lacking(node, facts)]
    reasons += [f"module parameter {key} is not {value}" for key, value in wanted.parameters if there.get(key) != value]
    return reasons


def _persistence(node: Node, file: File) -> None:
    unit = "nvidia-persistenced"
    if node.has(file) and node.unit_ok(unit) and not node.driver_changes:
        return
    node.files("Persistence mode by the daemon", [file], then="systemctl daemon-reload")
    script = f"systemctl daemon-reload\nsystemctl enable -q {unit}\nsystemctl restart {unit}"
    node.shell("Start nvidia-persistenced", script, watch=Watch(units=(unit,)))
