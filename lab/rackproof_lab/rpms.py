"""The stand-in packages as rpms: names and relations of NVIDIA's dnf repository, the contents of the lab's own debs.

What a deb of the lab brings (programs, units, what its scripts do) is taken from `packages`, so that a host of either
kind plays the same hardware. What differs on Enterprise Linux differs here: libraries under /usr/lib64, DKMS' modules
under extra/, no initramfs built by a package, daemons that no install starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rackproof_lab import packages, scripts
from rackproof_lab.packages import Deb
from rackproof_lab.scripts import LIBDIR

KERNEL = "5.14.0-570.12.1.el9_6.x86_64"  # what a node of this kind runs
DRIVERS = ("580.95.05-1", "580.126.20-1", "610.43.02-1ubuntu1")  # as `packages` spells them
EPOCH = "3:"

# Tests tell a package to fail or to take its time, as those of the lab's debs.
_HOOKS = """D=/etc/rackproof-lab.d
if [ -e $D/fail-postinst ] && grep -qx NAME $D/fail-postinst; then
  echo "lab: scriptlet of NAME told to fail" >&2; exit 1
fi
if [ -e $D/slow-postinst ] && grep -qx NAME $D/slow-package 2>/dev/null; then
  sleep "$(cat $D/slow-postinst)" || exit 1
fi
"""


@dataclass
class Rpm:
    """One binary package. `files`: path -> text or (`->`) link target; `copies`: path -> a file to be taken as it is.

    Scripts are sh; rpm gives them $1, the number of versions of the package that there will be.
    """

    name: str
    version: str
    release: str = "1"
    epoch: str = ""  # "3:"
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    copies: dict[str, Path] = field(default_factory=dict)
    config: tuple[str, ...] = ()
    pre: str = ""
    post: str = ""
    preun: str = ""
    postun: str = ""

    @property
    def nevra(self) -> str:
        return f"{self.name}-{self.epoch or '0:'}{self.version}-{self.release}.x86_64"

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-{self.release}.x86_64.rpm"

    def spec(self) -> str:
        """The text of the spec file; the tree to be packed lies in %{_sourcedir}/<file name>."""
        lines = [f"Name: {self.name}", f"Version: {self.version}", f"Release: {self.release}", "License: MIT"]
        lines += [f"Epoch: {self.epoch[:-1]}"] if self.epoch else []
        lines += ["Summary: lab stand-in", "AutoReqProv: no"]
        lines += [f"Requires: {word}" for word in self.requires] + [f"Provides: {word}" for word in self.provides]
        lines += ["%description", "Part of rackproof's test lab; holds nothing of NVIDIA's.", "%install"]
        lines += ["mkdir -p %{buildroot}", f"cp -a %{{_sourcedir}}/{self.filename}/. %{{buildroot}}/"]
        for section in ("pre", "post", "preun", "postun"):
            text = getattr(self, section).replace("%", "%%")
            lines += [f"%{section}", text.strip()] if text else []
        lines.append("%files")
        for path in (*self.files, *self.copies):
            lines.append(f"{'%config(noreplace) ' if path in self.config else ''}{path}")
        return "\n".join([*lines, ""])


def nvidia() -> list[Rpm]:
    """All packages of NVIDIA's repository."""
    found = [rpm for version in DRIVERS for rpm in driver(version)]
    found += [rpm for version in packages.TOOLKITS for rpm in toolkit(version)]
    return found + [_made(deb, deb.name) for deb in packages.others() if deb.name == "nvlsm"]


def _made(deb: Deb, name: str, release: str = "1", epoch: str = "", requires: tuple[str, ...] = ()) -> Rpm:
    """A deb's contents as an rpm of another name."""
    files = {path.replace(LIBDIR, "/usr/lib64"): text.replace("%v", KERNEL) for path, text in deb.files.items()}
    return Rpm(
        name, deb.version.split("-")[0], release, epoch, requires, files=files, config=deb.conffiles,
        pre=scripts.PERSISTENCED_USER if deb.postinst == scripts.PERSISTENCED_USER else "",
        post=post(name, _el(deb.postinst), deb), preun=preun(_el(deb.prerm), deb), postun=postun(deb),
    )  # fmt: skip


def _el(script: str) -> str:
    """What a deb's script does, where Enterprise Linux keeps things."""
    if script == scripts.PERSISTENCED_USER:
        return ""
    built = script.replace("updates/dkms", "extra").replace(scripts.INITRAMFS, "")
    # DKMS builds for kernels with headers, and its packages go on without a module where it cannot.
    return built.replace('[ -d "$k" ] || continue', '[ -e "/usr/src/kernels/$(basename "$k")/Makefile" ] || continue')


def post(name: str, more: str, deb: Deb) -> str:
    """What runs after an install; `deb`: whose units it has."""
    lines = [_HOOKS.replace("NAME", name), more]
    if deb.units:
        names = " ".join(deb.units)
        lines.append("if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi")
        if deb.enable:  # by a preset; a package starts nothing
            lines.append(f'if [ "$1" = 1 ]; then systemctl enable -q {names} || :; fi')
    return "\n".join(lines)


def preun(more: str, deb: Deb) -> str:
    """What runs before the last version is removed."""
    stop = f"systemctl disable -q --now {' '.join(deb.units)} || :" if deb.units else ""
    return f'if [ "$1" = 0 ]; then :\n{more}\n{stop}\nfi\n' if more or stop else ""


def postun(deb: Deb) -> str:
    """What runs after a version was removed: units that run are started anew with the one that stays."""
    if not deb.units:
        return ""
    restart = f"[ \"$1\" = 0 ] || systemctl try-restart {' '.join(deb.units)} || :"
    return f"if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; {restart}; fi\n"


_WORDS = "nouveau.modeset=0 rd.driver.blacklist=nouveau modprobe.blacklist=nouveau"
_GRUBBY = f"grubby --update-kernel=ALL --args='{_WORDS}' || :\n"


def driver(version: str) -> Iterator[Rpm]:
    """All packages of one driver version. Those of the branch's module stream have an epoch, the fabric's have none."""
    branch = int(version.split(".")[0])
    suffix = f"-{branch}" if branch <= 580 else ""
    debs = {deb.name: deb for deb in packages.driver(version)}
    same = f"= {EPOCH}{version.split('-')[0]}"

    def of(deb: str, name: str, *requires: str) -> Rpm:
        return _made(debs[deb], name, "1.el9", EPOCH, requires)

    yield of(f"nvidia-dkms{suffix}-open", "kmod-nvidia-open-dkms", "dkms", f"nvidia-kmod-common {same}")
    common = of(f"nvidia-kernel-common{suffix}", "nvidia-kmod-common", "grubby")
    common.post += _GRUBBY
    yield common
    libraries = f"nvidia-driver-cuda-libs {same}"
    yield of(f"libnvidia-compute{suffix}", "nvidia-driver-cuda-libs")
    yield of(f"nvidia-utils{suffix}", "nvidia-driver-cuda", libraries, f"nvidia-kmod-common {same}")
    yield of("nvidia-modprobe", "nvidia-modprobe")
    yield of("nvidia-persistenced", "nvidia-persistenced", libraries)
    for name in ("nvidia-fabricmanager", "nvidia-imex", "libnvidia-nscq"):
        yield _made(debs[name], name)


def toolkit(version: str) -> Iterator[Rpm]:
    """The four container toolkit packages; since 1.18 they want exactly one version of each other."""
    same = f"= {version}"
    wants = {
        "libnvidia-container-tools": (f"libnvidia-container1 {same}",),
        "nvidia-container-toolkit": (f"nvidia-container-toolkit-base {same}", f"libnvidia-container-tools {same}"),
    }
    for deb in packages.toolkit(version):
        yield _made(deb, deb.name, requires=wants.get(deb.name, ()))


def streams(rpms: list[Rpm]) -> str:
    """Module metadata: a stream for each driver branch, which lists the packages that only show when it is enabled."""
    branches: dict[str, list[Rpm]] = {}
    for rpm in rpms:
        if rpm.epoch == EPOCH:
            branches.setdefault(rpm.version.split(".")[0], []).append(rpm)
    return "".join(_stream(branch, found) for branch, found in sorted(branches.items()))


def _stream(branch: str, rpms: list[Rpm]) -> str:
    names = "".join(f"        - {name}\n" for name in sorted({rpm.name for rpm in rpms}))
    artifacts = "".join(f"    - {rpm.nevra}\n" for rpm in rpms)
    return (
        "---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n"
        f"  stream: {branch}-open\n  version: 20260301000000\n  context: ab0c1d2e\n  arch: x86_64\n"
        "  summary: lab stand-in\n  description: lab stand-in\n  license:\n    module:\n    - MIT\n"
        f"  profiles:\n    default:\n      rpms:\n{names}  artifacts:\n    rpms:\n{artifacts}...\n"
    )
