"""Layer gpu_driver on AMD: the amdgpu driver of one release, from AMD's repository. No ROCm: that is in the image.

Containers need nothing else of it: a deploy gives them the devices. Users whom the site names get into the groups of the
devices, for what they run on the host itself.
"""

from __future__ import annotations

from rackproof import rules
from rackproof.deploy.node import Node, known_or, upstream
from rackproof.facts import Missing, NodeFacts
from rackproof.layers.gpu_driver.repository import repository, secure_boot
from rackproof.layers.host import deploy_kernel
from rackproof.package_names import PackageNames, amd_modules
from rackproof.verdict.report.clean import clean


def bring_about(node: Node) -> None:
    """Repository, driver, reboot, users. Partition modes are read and said, and never changed: that resets the GPUs."""
    if why := _unknown(node) or _kept_out(node) or secure_boot(node):
        node.stop(why)
    repository(node)
    _packages(node)
    _reboot(node)
    _users(node)
    _partitions(node)


def _unknown(node: Node) -> str:
    """A driver that no release is known to have is not replaced: nobody has described what that leaves behind."""
    there = node.version_of("amdgpu-dkms")
    if not there or upstream(there) in amd_modules():
        return ""
    return (
        f"has amdgpu-dkms {clean(there, 60)}, which is of no release that is known here: remove it (apt purge amdgpu-dkms "
        "amdgpu-dkms-firmware), or bring it to a known release by AMD's own installer first"
    )


def _kept_out(node: Node) -> str:
    """A blacklist is of AMD's module and of the kernel's own alike, and no reboot of ours would get past it."""
    amd = node.facts.amd
    if isinstance(amd, Missing) or isinstance(amd.driver, Missing) or amd.driver.loaded:
        return ""
    if known_or(amd.blacklisted, False) is not True:
        return ""
    return (
        "has amdgpu blacklisted (/etc/modprobe.d, or modprobe.blacklist= on the kernel command line), and nothing loads it "
        "after boot: take that away, run update-initramfs -u and update-grub, and reboot; or load the module by a unit"
    )


def _packages(node: Node) -> None:
    packages = node.baseline.packages
    assert packages is not None
    names, release = packages.names, node.baseline.driver.version
    if _in_place(node, names) or node.stopped or node.busy():
        return
    node.driver_changes = True
    wanted = "".join(f"want {names.version} {name}\n" for name in names.driver)
    # Its version has a form of its own, so what is installed of it is what the pin lets through: this release's.
    wanted += "".join(f"also {name}\n" for name in names.held if name not in names.driver)
    node.packages(
        f"Pin and install amdgpu {release}", f"refresh\nheaders\nextra_modules\n{wanted}go\n", disrupts=True,
        detail=f"module {names.version}",
    )  # fmt: skip


def _in_place(node: Node, names: PackageNames) -> bool:
    """Driver and firmware whole, and of this release. Firmware of another one is what the next boot would load."""
    of_release = all(upstream(node.version_of(name)).endswith(f".{names.code}") for name in names.held)
    return of_release and node.has_packages(names.driver, names.version)


def _reboot(node: Node) -> None:
    reasons = _reasons(node, node.facts)
    if not reasons or node.stopped or node.busy():
        return
    if not node.site.value("reboot", "allow"):
        node.stop(f"needs a reboot ({'; '.join(reasons)}): reboot it and run again, or set reboot.allow")
        return
    node.reboots(
        f"Reboot, {node.site.value('reboot', 'batch')} at a time",
        reasons,
        lambda facts: _reasons(node, facts),
        "amdgpu",
    )


def _reasons(node: Node, facts: NodeFacts) -> list[str]:
    """Why the kernel of this node has not, or will not have, the driver that the baseline wants."""
    assert node.baseline.packages is not None
    wanted = node.baseline.packages.names.module
    driver = facts.amd if isinstance(facts.amd, Missing) else facts.amd.driver
    if isinstance(driver, Missing):
        return [f"amdgpu cannot be read ({driver.reason})"]
    loaded = known_or(driver.loaded_version, None) if driver.loaded else None
    reasons = []
    if loaded != wanted:
        there = loaded or ("the kernel's own" if driver.loaded else "none")
        reasons.append(f"module amdgpu {there} is loaded, {wanted} is wanted")
    elif known_or(driver.loaded_srcversion, "") != known_or(driver.disk_srcversion, ""):
        reasons.append("another build of amdgpu is loaded than the one on disk")
    return reasons + [f"the kernel was not started with {word}" for word in deploy_kernel.lacking(node, facts)]


# gpasswd and not usermod: a user may come from a directory, the groups are the host's own.
_JOIN = """\
for user in {users}; do
  id -u "$user" >/dev/null 2>&1 || {{ echo "rackproof: there is no user $user on this host (gpus.users)" >&2; exit 1; }}
  for group in {groups}; do gpasswd -a "$user" "$group" >/dev/null; done
done
"""


def _users(node: Node) -> None:
    """Those whom the site names, and no other; who is in a group already and is not named stays there."""
    wanted = node.baseline.amd
    assert wanted is not None
    driver = node.facts.amd if isinstance(node.facts.amd, Missing) else node.facts.amd.driver
    there = {} if isinstance(driver, Missing) else known_or(driver.members, {})
    outside = [user for user in wanted.users if any(user not in there.get(group, ()) for group in wanted.device_groups)]
    if outside:
        script = _JOIN.format(users=" ".join(outside), groups=" ".join(wanted.device_groups))
        node.shell(f"Into the groups {' and '.join(wanted.device_groups)}: {', '.join(outside)}", script)


def _partitions(node: Node) -> None:
    gpus = () if isinstance(node.facts.amd, Missing) else known_or(node.facts.amd.gpus, ())
    wanted = rules.load("deploy")["amd_partitions"].value
    found = {str(known_or(gpu.compute_partition, wanted["compute"])) for gpu in gpus}
    found |= {str(known_or(gpu.memory_partition, wanted["memory"])) for gpu in gpus}
    if others := found - set(wanted.values()):
        node.note(
            f"GPUs are partitioned ({clean(', '.join(sorted(others)), 100)}), and the layouts count on "
            f"{' and '.join(wanted.values())}; a deploy leaves that as it is: amd-smi set --compute-partition and "
            "--memory-partition change it, and end what runs"
        )
