"""A root file system with the real dnf and rpm, on top of the lab's base, and a small repository for it.

No Rocky or RHEL is to be had without their registries, but Debian has dnf 4 and rpm as packages: what a deploy asks of
dnf runs for real here, only on packages of a few bytes. There is no kernel, systemd or SELinux of such a system in it.

`tools` is what every user of dnf shares: the programs. Whole nodes are made of it by `rocky`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rackproof_lab.base import Base, Say, mirror
from rackproof_lab.names import cache_dir
from rackproof_lab.proc import logged

PACKAGES = ("dnf", "dnf-plugins-core", "rpm", "createrepo-c", "util-linux")
VERSIONS = ("580.95.05", "580.126.20", "610.43.02")
DRIVER = (
    "kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "nvidia-modprobe", "nvidia-persistenced",
)  # fmt: skip
FABRIC = ("nvidia-fabricmanager", "nvidia-imex", "libnvidia-nscq")
KERNEL = "5.14.0-503.el9.x86_64"  # what the root's uname says

# Debian's plugin `local` keeps a repository of its own for what was installed, which no system of ours has.
_TOOLS = f"""
cd /
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install {" ".join(PACKAGES)} >/dev/null
sed -i 's/^enabled.*/enabled = false/' /etc/dnf/plugins/local.conf
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
"""
_BAKE = f"""
cd /
mkdir -p /etc/dnf/vars; echo 9 >/etc/dnf/vars/releasever
mkdir -p /repo/specs /etc/yum.repos.d
spec() {{
  printf 'Name: %s\\nVersion: %s\\nRelease: %s\\nSummary: lab stand-in\\n' "$1" "$2" "$3"
  [ "$4" = 0 ] || printf 'Epoch: %s\\n' "$4"
  printf 'License: MIT\\nBuildArch: noarch\\n'
  printf '%%description\\nlab stand-in\\n%%files\\n'
}}
build() {{ rpmbuild --quiet --define '_topdir /repo/build' --define '_rpmdir /repo/rpms' -bb "$1" >/dev/null 2>&1; }}
make() {{
  spec "$@" >/repo/specs/$1.spec
  build /repo/specs/$1.spec
}}
for v in {" ".join(VERSIONS)}; do
  for n in {" ".join(DRIVER)}; do make $n $v 1.el9 3; done
  for n in {" ".join(FABRIC)}; do make $n $v 1 0; done
done
make nvlsm 2025.10.14 1 0
make infiniband-diags 51.0 1.el9 0
# as the real one, of which several may be installed
several='s/^BuildArch: noarch/ExclusiveArch: x86_64\\nProvides: installonlypkg(kernel)/'
for k in 503 570; do
  spec kernel-devel 5.14.0 $k.el9 0 | sed "$several" >/repo/specs/k.spec
  build /repo/specs/k.spec
done
createrepo_c -q /repo/rpms
printf '[lab]\\nname=lab\\nbaseurl=file:///repo/rpms\\nenabled=1\\ngpgcheck=0\\n' >/etc/yum.repos.d/lab.repo
# uname of such a system, and the files of its two kernels
printf '#!/bin/sh\\n[ "$1" = -r ] && echo {KERNEL} || exec /usr/bin/uname.real "$@"\\n' >/usr/bin/uname.lab
chmod 755 /usr/bin/uname.lab; mv /usr/bin/uname /usr/bin/uname.real; mv /usr/bin/uname.lab /usr/bin/uname
for k in {KERNEL} 5.14.0-570.el9.x86_64; do
  mkdir -p /usr/lib/modules/$k
  touch /usr/lib/modules/$k/modules.dep /usr/lib/modules/$k/vmlinuz
done
rm -rf /usr/lib/modules/$(uname.real -r) /repo/build
"""
_ENTER = """
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work" "$WORK/root"
mount -t proc proc "$WORK/root/proc"
mount --bind /dev/null "$WORK/root/dev/null"
mount --bind /dev/urandom "$WORK/root/dev/urandom"
"""

# "SOURCE TARGET" a line: folders of the machine that a script works on
_BINDS = """
printf '%s' "$BINDS" | while read -r source target; do
  mkdir -p "$WORK/root$target"
  mount --bind "$source" "$WORK/root$target"
done
"""


def tools(base: Base, say: Say) -> Path:
    """The folder with dnf, rpm and createrepo_c that goes above the base; built once. Call with the cache locked."""
    said = "root file system with dnf: building (once, about half a minute)"
    return _bake("dnf-tools", _TOOLS, base, str(base.tree), lambda: say(said), network=True)


def ensure(base: Base, say: Say) -> str:
    """What goes above the base for a root with a small repository of its own, uppermost first, as overlayfs has it."""
    below = tools(base, say)
    made = _bake("dnf", _BAKE, base, f"{below}:{base.tree}", lambda: say("a small rpm repository: building"))
    return f"{made}:{below}"


def _bake(name: str, script: str, base: Base, lower: str, announce: Callable[[], None], network: bool = False) -> Path:
    key = hashlib.sha256(f"{base.key}{script}{_ENTER}{Path(lower.split(':')[0]).name}".encode()).hexdigest()[:12]
    path = cache_dir() / f"{name}-{key}"
    if path.exists():
        return path
    announce()
    work = cache_dir() / f".tmp-{name}-{key}"
    for folder in ("upper/etc/apt/sources.list.d", "work", "root"):
        (work / folder).mkdir(parents=True)
    settings = ""
    if network:
        (work / "upper/etc/apt/sources.list").write_text(f"deb {mirror()} {base.suite} main\n")
        shutil.copy("/etc/resolv.conf", work / "upper/etc/resolv.conf")
        settings = 'cp -r /etc/apt/apt.conf.d/. "$WORK/root/etc/apt/apt.conf.d/"\n'
    inside = f'{_ENTER}{settings}exec chroot "$WORK/root" sh -eu -c "$SCRIPT"\n'
    environment = {"LOWER": lower, "WORK": str(work), "SCRIPT": script}
    log = cache_dir() / f"{name}.log"
    logged(log, "unshare", "-m", "-p", "-f", "--kill-child", "sh", "-euc", inside, env=environment)
    (work / "upper").rename(path)
    shutil.rmtree(work, ignore_errors=True)
    return path


def run(
    base: Base, layer: str | Path, script: str, timeout_s: int = 600, binds: Mapping[Path, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in a throw-away copy of the root, without any network. `binds`: folders of the machine -> where."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        for name in ("upper", "work", "root"):
            Path(folder, name).mkdir()
        lines = "".join(f"{source} {target}\n" for source, target in (binds or {}).items())
        environment = {
            "LOWER": f"{layer}:{base.tree}", "WORK": folder, "SCRIPT": script, "BINDS": lines,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C",
        }  # fmt: skip
        inside = f'{_ENTER}{_BINDS}exec chroot "$WORK/root" sh -c "$SCRIPT"\n'
        return subprocess.run(
            ["unshare", "-m", "-n", "-p", "-f", "--kill-child", "sh", "-euc", inside], env=environment, text=True,
            capture_output=True, check=False, timeout=timeout_s,
        )  # fmt: skip
