"""Layer gpu_driver: one package origin, the exact driver pinned and installed, module options, reboot, persistence."""

from __future__ import annotations

import re

from rackproof.baseline_parts import PackageBaseline
from rackproof.deploy.node import Node, known_or
from rackproof.deploy.onhost import Watch
from rackproof.facts import NodeFacts
from rackproof.managed import APT_SOURCE, KEYRING, MODPROBE, PERSISTENCED, File

_BRANCHED = re.compile(r"^(?:nvidia|libnvidia|cuda-drivers|nvlink5)(?:-[a-z-]+)?-(\d{3})(?:-open|-server|\.[\d.]+)*$")

_REPOSITORY = """\
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
/usr/lib/apt/apt-helper download-file '{url}' "$t/key" >/dev/null
found=$(gpg --homedir "$t" --batch --no-tty --with-colons --show-keys "$t/key" 2>/dev/null |
  awk -F: '$1 == "pub" {{p = 1}} $1 == "fpr" && p {{print $10; p = 0}}')
if [ "$found" != '{fingerprint}' ]; then
  echo "rackproof: the key at {url} has fingerprint '$found', wanted {fingerprint}: not trusted" >&2; exit 1
fi
mkdir -p "$(dirname {keyring})"
case $(head -c 5 "$t/key") in
  -----) cp "$t/key" "$t/armoured" ;;
  *) gpg --homedir "$t" --batch --no-tty --enarmor <"$t/key" | sed 's/ARMORED FILE/PUBLIC KEY BLOCK/' >"$t/armoured" ;;
esac
install -m 644 "$t/armoured" {keyring}.new && mv -f {keyring}.new {keyring}
"""

# The key may have been replaced on the host, or NVIDIA may have changed it; then the one by fingerprint is fetched.
_KEY = """\
known=$(gpg --batch --no-tty --with-colons --show-keys {keyring} 2>/dev/null | awk -F: '$1 == "fpr" {{print $10; exit}}')
if [ "$known" != '{fingerprint}' ]; then (
{fetch}) || exit 1; fi
"""

_INSTALL = """\
{key}apt update
apt install --allow-downgrades --allow-change-held-packages {pin}
headers=linux-headers-$(uname -r)
if ! apt-cache show "$headers" >/dev/null 2>&1; then
  echo "no package $headers: a module built by DKMS needs headers of the running kernel" >&2; headers=
fi
apt install --no-install-recommends --allow-downgrades --allow-change-held-packages $headers {packages}
"""


def bring_about(node: Node) -> None:
    """Repository, packages, module options, and the reboot that makes them real."""
    with node.layer("gpu_driver"):
        _repository(node)
        _packages(node)
        by_path = {file.path: file for file in node.managed("gpu_driver")}
        _module_options(node, by_path[MODPROBE])
        _reboot(node)
        _persistence(node, by_path[PERSISTENCED])


def _repository(node: Node) -> None:
    packages = node.baseline.packages
    source = next(file for file in node.managed("gpu_driver") if file.path == APT_SOURCE)
    keyring = known_or(node.facts.host.files, {}).get(KEYRING)
    if node.has(source) and keyring is not None and keyring.sha256 is not None:
        return
    assert packages is not None
    name = f"NVIDIA repository key, checked by fingerprint {packages.key_fingerprint[-8:]}"
    node.shell(name, _fetch(packages), watch=Watch(files=(KEYRING,)))
    node.files("NVIDIA repository", [source], then=_aside(node))


def _fetch(packages: PackageBaseline) -> str:
    return _REPOSITORY.format(url=packages.key_url, fingerprint=packages.key_fingerprint, keyring=KEYRING)


def _aside(node: Node) -> str:
    """Other source files for the same origin would give apt two keys for one repository, which it refuses."""
    others = [
        path for path, text in known_or(node.facts.host.apt_sources, {}).items()
        if path != APT_SOURCE and "developer.download.nvidia.com/compute/cuda/repos" in text
    ]
    return "\n".join(f"mv -f '{path}' '{path}.rackproof-disabled'" for path in others)


def _packages(node: Node) -> None:
    """Driver and fabric packages in one transaction: a version apart, and Fabric Manager or IMEX will not start."""
    packages, version = node.baseline.packages, node.baseline.driver.version
    assert packages is not None and version is not None
    names = packages.names
    if node.has_packages(names.driver, version) and node.version_of(names.pin) and not _other_branches(node):
        return
    if node.stopped or node.busy():
        return
    node.driver_changes = True
    wanted = [f"'{name}={version}-*'" for name in (*names.driver, *names.fabric)]
    wanted += [*names.fabric_unversioned, *(f"{name}-" for name in _other_branches(node))]
    key = _KEY.format(keyring=KEYRING, fingerprint=packages.key_fingerprint, fetch=_fetch(packages))
    node.packages(
        f"Pin and install driver {version}", _INSTALL.format(key=key, pin=names.pin, packages=" ".join(wanted)),
        disrupts=True, domain=True, detail=f"{known_or(node.facts.driver.loaded_version, None) or 'none'} is loaded",
    )  # fmt: skip


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
    reasons += [f"module parameter {key} is not {value}" for key, value in wanted.parameters if there.get(key) != value]
    return reasons


def _persistence(node: Node, file: File) -> None:
    unit = "nvidia-persistenced"
    if node.has(file) and node.unit_ok(unit) and not node.driver_changes:
        return
    node.files("Persistence mode by the daemon", [file], then="systemctl daemon-reload")
    script = f"systemctl daemon-reload\nsystemctl enable -q {unit}\nsystemctl restart {unit}"
    node.shell("Start nvidia-persistenced", script, watch=Watch(units=(unit,)))
