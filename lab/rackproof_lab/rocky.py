"""Nodes that play Rocky Linux 9: the base with dnf and rpm above it, and no trace of Debian's package manager.

systemd, sshd and the programs are Debian's. What a deploy and a probe tell the family by is not: os-release, the rpm
database, the kernel's name, dracut, grubby, boot entries, the places of libraries and modules.
"""

from __future__ import annotations

from pathlib import Path

from rackproof_lab import layers, rpm_repo
from rackproof_lab.base import Base, Say
from rackproof_lab.layers import STANDINS, Layer
from rackproof_lab.names import LabError
from rackproof_lab.rpms import KERNEL

FLAVOUR = "rocky9"
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-rocky-lab"
_ENGINE = "docker.io docker-cli containerd runc tini"
_PLUGINS = "local versionlock system-upgrade expired-pgp-keys pre-transaction-actions post-transaction-actions"

# Docker goes with its own scripts, then dpkg and apt as files: there must be nothing that a probe could ask.
_BAKE = f"""
dpkg --purge --force-all {_ENGINE} >/dev/null 2>&1 || :
[ ! -e /usr/sbin/dockerd ] && [ ! -e /usr/bin/containerd ]
groupdel docker 2>/dev/null || :
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/sbin/dpkg* /usr/bin/deb-systemd* /usr/sbin/update-rc.d
rm -rf /usr/lib/apt /usr/lib/dpkg /usr/libexec/dpkg /usr/share/dpkg /etc/apt /etc/dpkg /etc/kernel /etc/debian_version
rm -rf /usr/bin/update-alternatives /var/lib/apt /var/lib/dpkg /var/cache/apt /var/log/apt /var/log/dpkg.log
rm -rf /usr/lib/systemd/system/apt-daily*
rm -rf /var/lib/rpm /usr/lib/modules/* /etc/resolv.conf /etc/docker /var/lib/docker /var/lib/containerd
for p in {_PLUGINS}; do
  rm -rf /etc/dnf/plugins/$p.* /usr/lib/python3/dist-packages/dnf-plugins/$(echo $p | tr - _).py
done
rpm --initdb
rpm -i --nosignature --nodigest "$@"
/usr/lib/rackproof-lab/sh/install-el-host {KERNEL}
"""
_REPOSITORY = "[{name}]\nname={name} (rackproof lab)\nbaseurl=https://{folder}\nenabled=1\ngpgcheck=1\ngpgkey=file://{key}\n"


def stack(base: Base, pool: Path, tools: Path, state: str, say: Say) -> list[Layer]:
    """The layers of such a host, uppermost first, without the base. Call with the cache locked."""
    if state != "bare":
        raise LabError(f"flavour {FLAVOUR} has no state '{state}': say --state bare")
    below = [Layer("dnf-tools", tools)]
    inputs = [layers.tree_hash(STANDINS / "sh"), pool.name, tools.name]
    return [layers.bake(FLAVOUR, _BAKE, rpm_repo.installed(pool), base, below, inputs, say), *below]


def identity(www: Path) -> list[tuple[str, str, int]]:
    """(path, text, mode) of what a node's package manager has of this lab: its two repositories and their key."""
    files = [(KEY[1:], (www / rpm_repo.ROCKY / "key.asc").read_text(), 0o644)]
    for name, folder in (("rocky", rpm_repo.ROCKY), ("docker-ce", rpm_repo.DOCKER)):
        text = _REPOSITORY.format(name=name, folder=folder, key=KEY)
        files.append((f"etc/yum.repos.d/{name}.repo", text, 0o644))
    return files


def site() -> dict[str, object]:
    """Values of the site that follow from this flavour, for lab.json."""
    return {
        "packages": {"repository": f"https://{rpm_repo.NVIDIA}/"}, "container": {"engine_package": "docker-ce"},
        "simulation": {"operating_systems": ["rocky 9"]},
    }  # fmt: skip
