"""The vendor's package repository and its key on a node, and whether Secure Boot lets in what is built from it."""

from __future__ import annotations

from rackproof.baseline_parts import PackageBaseline
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.deploy.packages import MANAGERS
from rackproof.facts import Missing
from rackproof.managed import AMD_PREFERENCES, APT_SOURCE, PREFERENCES, keyring, source_file

_VENDORS = {"nvidia": "NVIDIA", "ubuntu": "NVIDIA", "amd": "AMD"}


def repository(node: Node) -> None:
    """Key by fingerprint, source file, and the pin where that is a file."""
    packages = node.baseline.packages
    assert packages is not None
    source, key = source_file(packages), keyring(packages)
    there = known_or(node.facts.host.files, {}).get(key)
    if not (node.has(source) and there is not None and there.sha256 is not None):
        vendor = _VENDORS[packages.origin]
        name = f"{vendor} repository key, checked by fingerprint {packages.key_fingerprint[-8:]}"
        node.shell(name, _fetch_key(packages), watch=Watch(files=(key,)))
        node.files(f"{vendor} repository", [source], then=_aside(node) if source.path == APT_SOURCE else "")
    pins = [file for file in node.managed("gpu_driver") if file.path in (PREFERENCES, AMD_PREFERENCES)]
    node.files("Pin of the driver", pins)


def _fetch_key(packages: PackageBaseline) -> str:
    manager = MANAGERS[packages.platform.manager]
    return manager.key_script(packages.key_url, packages.key_fingerprint, keyring(packages))


def _aside(node: Node) -> str:
    """Other source files for the same origin would give apt two keys for one repository, which it refuses."""
    others = [
        path
        for path, text in known_or(node.facts.host.apt_sources, {}).items()
        if path != APT_SOURCE and "developer.download.nvidia.com/compute/cuda/repos" in text
    ]
    return "\n".join(f"mv -f '{path}' '{path}.rackproof-disabled'" for path in others)


def secure_boot(node: Node) -> str:
    """Why the firmware would not let the module in; "" where it would, or where Secure Boot cannot be seen."""
    packages, system = node.baseline.packages, node.facts.system
    kernel = system if isinstance(system, Missing) else system.kernel
    on = False if isinstance(kernel, Missing) else known_or(kernel.secure_boot, False)
    signed = packages is not None and packages.names.kernel
    if not on or signed or node.site.value("driver", "module_key_enrolled", default=False):
        return ""
    return (
        "has Secure Boot on, and the module that DKMS builds here is signed by a key the firmware does not know: enrol "
        "that key (mokutil --import /var/lib/shim-signed/mok/MOK.der or /var/lib/dkms/mok.pub, confirmed on the console "
        "at the next boot) and set driver.module_key_enrolled, or switch Secure Boot off, or for NVIDIA on Ubuntu set "
        "packages.origin: ubuntu for modules that Canonical signs"
    )
