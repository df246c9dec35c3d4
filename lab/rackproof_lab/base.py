"""The base root file system: Debian with docker, built once by mmdebstrap and shared by every node.

It is cached by the hash of what goes into it. Beside it lies a folder of the .debs that it was made of, which
becomes the nodes' own Debian repository, so that apt can really install and remove there without the internet.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rackproof_lab.names import LabError, cache_dir
from rackproof_lab.proc import logged

Say = Callable[[str], None]
RECIPE = "4"  # raise it when the steps below change
PACKAGES = [
    "systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "python3", "sudo", "apt", "iproute2", "kmod",
    "udev", "ca-certificates", "gnupg", "iputils-ping", "procps", "netbase", "curl", "less", "file", "docker.io",
    "docker-cli", "iptables", "containerd", "runc",
]  # fmt: skip
# installed later, by tests or by the deploy: only the .debs are fetched
SPARE = ["unattended-upgrades", "chrony", "pciutils", "rdma-core", "ibverbs-utils", "infiniband-diags", "podman",
         "crun"]
# served again although installed, so that remove and install work on them
AGAIN = [
    "docker.io", "docker-cli", "containerd", "runc", "iptables", "tini", "gnupg", "gpg", "gpgconf", "gpg-agent",
    "dirmngr", "ca-certificates", "curl", "openssl",
]  # fmt: skip
# programs whose place a stand-in takes; diverted, so that an upgrade of their package does not bring them back
DIVERTED = ("/usr/bin/kmod", "/usr/bin/dmesg", "/usr/bin/timedatectl", "/usr/bin/journalctl")
REAL = "/usr/lib/rackproof-lab-real"


@dataclass(frozen=True)
class Base:
    """A finished base: `tree` is never written to, `debs` holds packages of the same suite."""

    suite: str
    tree: Path
    debs: Path
    key: str


def mirror() -> str:
    """The Debian mirror this machine is set up with, or $RACKPROOF_LAB_MIRROR."""
    if chosen := os.environ.get("RACKPROOF_LAB_MIRROR"):
        return chosen
    for source in ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"):
        words = Path(source).read_text().split() if Path(source).exists() else []
        for word in words:
            if word.startswith("http") and word.rstrip("/").endswith("/debian") and "snapshot" not in word:
                return word
    raise LabError("no Debian mirror found in /etc/apt: set RACKPROOF_LAB_MIRROR to one")


@contextmanager
def cache_lock(say: Say) -> Iterator[Path]:
    """Hold the cache for one builder at a time; a second lab waits for the first one's work and uses it."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another lab that builds in {cache}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        _sweep(cache)
        yield cache


def _sweep(cache: Path) -> None:
    """Remove what a killed build left; the lock is held, so nobody else is building."""
    for leftover in cache.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def ensure(suite: str, say: Say) -> Base:
    """The base of a suite, built if the cache has none. Call with the cache locked."""
    parts = [RECIPE, suite, *PACKAGES, *SPARE, *AGAIN, *DIVERTED]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    cache = cache_dir()
    base = Base(suite, cache / f"base-{suite}-{key}" / "tree", cache / f"base-{suite}-{key}" / "debs", key)
    if base.tree.parent.exists():
        say(f"base root file system: cached ({base.tree.parent})")
        return base
    say(f"base root file system: building Debian {suite} with docker from {mirror()} (once, about 45 s)")
    work = cache / f".tmp-{key}"
    work.mkdir()
    _bootstrap(suite, work, cache / f"base-{suite}.log")
    _clean(work / "tree")
    _divert(work / "tree")
    work.rename(base.tree.parent)
    return base


def _bootstrap(suite: str, work: Path, log: Path) -> None:
    (work / "debs").mkdir()
    fetch = 'chroot "$1" apt-get -qq -y --no-install-recommends --download-only'
    logged(
        log, "mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        *[f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("doc", "man", "locale")],
        f"--customize-hook={fetch} --reinstall install {' '.join(AGAIN)}",
        f"--customize-hook={fetch} install {' '.join(SPARE)}",
        f'--customize-hook=cp "$1"/var/cache/apt/archives/*.deb "{work / "debs"}/"',
        "--format=directory", suite, work / "tree", mirror(),
        env={"TMPDIR": str(work)},
    )  # fmt: skip


def _clean(tree: Path) -> None:
    """Nothing of the build machine, and no identity, may stay in the base."""
    for name in ("etc/resolv.conf", "etc/hostname", "etc/machine-id", "etc/apt/sources.list"):
        (tree / name).unlink(missing_ok=True)
    for pattern in ("etc/apt/sources.list.d/*", "etc/ssh/ssh_host_*", "etc/systemd/system/timers.target.wants/*"):
        for path in tree.glob(pattern):
            path.unlink()
    if not (tree / "proc").is_dir() or not (tree / "usr/bin/dockerd").parent.is_dir():
        raise LabError(f"the base in {tree} is incomplete")


def _divert(tree: Path) -> None:
    """Put a one-line wrapper where each diverted program was; the program itself stays callable under REAL."""
    (tree / REAL[1:]).mkdir(parents=True)
    lines = []
    for path in DIVERTED:
        name = Path(path).name
        (tree / path[1:]).rename(tree / REAL[1:] / name)
        wrapper = f'#!/bin/sh\nexec /usr/lib/rackproof-lab/sh/{name} "${{0##*/}}" "$@"\n'
        (tree / path[1:]).write_text(wrapper)
        (tree / path[1:]).chmod(0o755)
        lines += [path, f"{REAL}/{name}", ":"]
    for alias in ("modprobe", "modinfo", "depmod", "insmod", "rmmod", "lsmod"):
        (tree / REAL[1:] / alias).symlink_to("kmod")
    with (tree / "var/lib/dpkg/diversions").open("a") as handle:
        handle.write("".join(f"{line}\n" for line in lines))
