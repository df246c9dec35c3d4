"""Whether this machine can carry a lab, and installing the programs that are missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rackproof_lab.base import Say
from rackproof_lab.names import LabError, cgroup_root
from rackproof_lab.proc import run

# program -> Debian package
PROGRAMS = {
    "mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg", "gpg": "gnupg", "ip": "iproute2", "ssh": "openssh-client", "openssl": "openssl",
    "docker-registry": "docker-registry", "nsenter": "util-linux",
}  # fmt: skip
_CAPABILITIES = {
    "CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_MKNOD": 27, "CAP_SETUID": 7, "CAP_CHOWN": 0,
    "CAP_IPC_LOCK": 14, "CAP_BPF": 39, "CAP_PERFMON": 38,
}  # fmt: skip


def check() -> None:
    """Refuse, in one line, a machine on which the lab cannot work."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root (namespaces, mounts, device nodes): run it with sudo")
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() and not shutil.which("modprobe"):
        raise LabError("this kernel has no overlayfs, which the nodes' root file systems need")
    status = Path("/proc/self/status").read_text()
    effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    missing = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    if missing:
        raise LabError(f"root lacks {', '.join(missing)} here (a restricted container?); the lab cannot work without")
    if not Path("/proc/self/ns/time").exists():
        raise LabError("this kernel has no time namespaces (needs 5.6 or newer); a node's uptime could not start at 0")
    if os.uname().machine != "x86_64":
        raise LabError(f"the lab's packages are for x86_64, this machine is {os.uname().machine}")
    if not (cgroup_root() / "cgroup.procs").exists():
        raise LabError(f"cgroup2 at {cgroup_root()} is not usable")


def limits_note() -> str:
    """What this machine will not enforce inside the nodes; empty when it enforces all."""
    status = Path("/proc/self/status").read_text()
    effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    controllers = (cgroup_root() / "cgroup.controllers").read_text().split()
    notes = []
    if "memory" not in controllers:
        notes.append("memory and task limits of nodes are accepted but not enforced (cgroups are hybrid here)")
    if not effective >> 24 & 1:
        notes.append("no CAP_SYS_RESOURCE: hard limits such as memlock cannot be raised in nodes")
    return "; ".join(notes)


def ensure_programs(install: bool, say: Say) -> None:
    """Install missing programs by apt-get, saying so; or refuse with their names."""
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if not missing:
        return
    if not install or not shutil.which("apt-get"):
        raise LabError(f"missing programs; install: {' '.join(missing)}")
    say(f"installing missing packages on this machine with apt-get: {' '.join(missing)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "update", env=quiet)
    run("apt-get", "-qq", "-y", "--no-install-recommends", "install", *missing, env=quiet)
