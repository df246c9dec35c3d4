"""What the distribution and Docker have as rpms: what such a host starts with, and what can be installed besides.

The container engine is real: the files of Debian's docker, under the names of Docker's rpms. Of the rest rpm is told
that it is there, so that dependencies and questions come out as on a real host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rackproof_lab.packages import Deb
from rackproof_lab.rpms import EPOCH, KERNEL, Rpm, post, postun, preun

RELEASE = "9.6"
_PLUGINS = "usr/lib/python3/dist-packages/dnf-plugins"
_OS_RELEASE = f"""NAME="Rocky Linux"
VERSION="{RELEASE} (rackproof lab: Debian underneath)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="{RELEASE}"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux {RELEASE} (rackproof lab: Debian underneath)"
"""
_DNF_CONF = """[main]
gpgcheck=1
installonly_limit=3
clean_requirements_on_remove=True
best=True
skip_if_unavailable=False
"""
# what is there by other means, so that rpm knows of it: name -> what else it provides
_THERE = {
    "bash": ("/bin/sh", "/usr/bin/sh"), "coreutils": (), "glibc": (), "systemd": (), "util-linux": (), "gnupg2": (),
    "curl": (), "openssh-server": (), "python3": (), "rpm": (), "sudo": (), "kmod": (), "iproute": (),
    "iptables-nft": ("iptables",), "ca-certificates": (), "shadow-utils": (),
}  # fmt: skip


def _program(name: str) -> str:
    return f'#!/bin/sh\nexec /usr/lib/rackproof-lab/sh/{name} "$@"\n'


def _kernel_part(name: str) -> Rpm:
    version, _, release = KERNEL.removesuffix(".x86_64").partition("-")
    return Rpm(name, version, release, provides=("installonlypkg(kernel)",))


def system() -> Iterator[Rpm]:
    """What such a host has before anybody deploys to it."""
    for name, provides in _THERE.items():
        yield Rpm(name, "9", "1.el9", provides=provides)
    release = f"Rocky Linux release {RELEASE} (rackproof lab)\n"
    yield Rpm(
        "rocky-release", RELEASE, "1.el9", provides=(f"system-release = {RELEASE}", "system-release(releasever) = 9"),
        files={"/usr/lib/os-release": _OS_RELEASE, "/etc/redhat-release": release, "/etc/rocky-release": release,
               "/etc/system-release": release},
    )  # fmt: skip
    yield Rpm("dnf", "4.14.0", "25.el9", files={"/etc/dnf/dnf.conf": _DNF_CONF}, config=("/etc/dnf/dnf.conf",))
    core = _kernel_part("kernel-core")
    core.files = {
        f"/usr/lib/modules/{KERNEL}/vmlinuz": "lab stand-in for a kernel image\n",
        f"/boot/vmlinuz-{KERNEL}": "lab stand-in for a kernel image\n",
    }
    yield core
    yield Rpm("dracut", "057", "87.el9", files={"/usr/bin/dracut": _program("dracut")})
    yield Rpm("grubby", "8.40", "64.el9", files={"/usr/sbin/grubby": _program("grubby")})
    yield Rpm("dkms", "3.2.1", "1.el9", files={"/usr/sbin/dkms": _program("dkms")})  # EPEL's


def spare(tools: Path) -> Iterator[Rpm]:
    """What the distribution's repository has beside that."""
    headers = _kernel_part("kernel-devel")
    headers.files = {f"/usr/src/kernels/{KERNEL}/Makefile": "# lab stand-in\n"}
    yield headers
    yield Rpm("infiniband-diags", "54.0", "1.el9")
    yield Rpm("rdma-core", "54.0", "1.el9")
    plugin, config, entries = (
        f"/{_PLUGINS}/versionlock.py", "/etc/dnf/plugins/versionlock.conf", "/etc/dnf/plugins/versionlock.list",
    )  # fmt: skip
    yield Rpm(
        "python3-dnf-plugin-versionlock", "4.3.0", "20.el9", requires=("dnf",), provides=("dnf-command(versionlock)",),
        files={plugin: (tools / plugin[1:]).read_text(), config: (tools / config[1:]).read_text(), entries: ""},
        config=(config, entries),
    )  # fmt: skip


# --- the container engine ---

_ENGINE = {  # rpm -> the debs whose files it has, what it wants
    "containerd.io": (("containerd", "runc"), ()),
    "docker-ce-cli": (("docker-cli",), ()),
    "docker-ce": (("docker.io", "tini"), ("docker-ce-cli", "containerd.io", "iptables")),
}
_GROUP = "getent group docker >/dev/null || groupadd --system docker\n"


def docker(base: Path) -> Iterator[Rpm]:
    """The real engine, under the names of Docker's own repository, at the version that Debian has."""
    for name, (debs, requires) in _ENGINE.items():
        paths = [path for deb in debs for path in _listed(base, deb)]
        units = tuple(Path(path).name for path in paths if path.endswith(".service"))
        unit = Deb(name, "", units=units)
        version = _version(base, debs[0])
        rpm = Rpm(
            name, version, "1.el9", EPOCH if name != "containerd.io" else "", requires,
            copies={path: base / path[1:] for path in paths}, pre=_GROUP if name == "docker-ce" else "",
            post=post(name, "", unit), preun=preun("", unit), postun=postun(unit),
        )  # fmt: skip
        yield rpm


def _listed(base: Path, deb: str) -> list[str]:
    """Programs, units and rules of an installed deb, without its documentation and what only Debian has."""
    names = (base / f"var/lib/dpkg/info/{deb}.list").read_text().split("\n")
    wanted = re.compile(r"/usr/(s?bin|lib/systemd/system|lib/udev/rules\.d)/[^/]+")
    return [path for path in names if wanted.fullmatch(path)]


def _version(base: Path, deb: str) -> str:
    """Upstream version of an installed deb, in rpm's characters: 26.1.5."""
    status = (base / "var/lib/dpkg/status").read_text()
    found = re.search(rf"^Package: {re.escape(deb)}\n(?:\S.*\n| .*\n)*?Version: (?:\d+:)?(\d+(?:\.\d+)*)", status, re.M)
    if found is None:
        raise ValueError(f"{deb} is not installed in {base}")
    return found[1]
