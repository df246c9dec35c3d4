"""Layers between the base and a node: what a host of a certain state has before anybody deploys to it.

`bare` has a kernel and a boot loader; `leased` has also the driver of the branch a provider left there; `upgrades`
has also unattended-upgrades switched on. Each is baked once with real apt packages in a chroot, and cached by the
hash of what went in, so that a rack in the state `leased` starts as fast as an empty one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rackproof_lab.base import Base, Say
from rackproof_lab.names import LabError, cache_dir
from rackproof_lab.packages import driver_closure
from rackproof_lab.proc import logged, run

PACKAGE = Path(__file__).parent
STANDINS = PACKAGE / "standins"
OLD_DRIVER = "575.57.08-1"
OLD_PACKAGES = ("nvidia-open-575", "nvidia-modprobe", "nvidia-persistenced")

# Kept from apt's defaults: the timer that runs it, the service that holds back shutdowns.
_UPGRADES = """
dpkg -i --force-confold "$@" >/dev/null
printf 'APT::Periodic::%s "1";\\n' Update-Package-Lists Unattended-Upgrade > /etc/apt/apt.conf.d/20auto-upgrades
mkdir -p /etc/systemd/system/timers.target.wants
for t in apt-daily apt-daily-upgrade; do
  ln -sf /usr/lib/systemd/system/$t.timer /etc/systemd/system/timers.target.wants/$t.timer
done
systemctl enable -q unattended-upgrades.service
"""
_BARE = """
/usr/lib/rackproof-lab/sh/install-host
update-initramfs -c -k all >/dev/null
update-grub 2>/dev/null
"""
_LEASED = """
dpkg -i "$@" >/dev/null
"""
_CHROOT = """
set -eu
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work" "$WORK/root"
mkdir -p "$WORK/root/usr/lib/rackproof-lab" "$WORK/root/run/debs"
mount --bind "$STANDINS" "$WORK/root/usr/lib/rackproof-lab"
mount -o remount,bind,ro "$WORK/root/usr/lib/rackproof-lab"
mount --bind "$DEBS" "$WORK/root/run/debs"
mount -t proc proc "$WORK/root/proc"
mount --bind /dev/null "$WORK/root/dev/null"
DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$WORK/root" sh -eu -c "$SCRIPT" bake "$@"
"""


@dataclass(frozen=True)
class Layer:
    """One folder for overlayfs' lowerdir."""

    name: str
    path: Path


def stack(state: str, base: Base, repo_debs: dict[str, Path], repo_key: str, say: Say) -> list[Layer]:
    """The layers of a state, uppermost first, without the base. Call with the cache locked."""
    bare = bake("bare", _BARE, [], base, [], [tree_hash(STANDINS / "sh"), os.uname().release], say)
    if state == "bare":
        return [bare]
    debs = [repo_debs[name] for name in _closure(repo_debs)]
    return [bake("leased", _LEASED, debs, base, [bare], [repo_key, bare.path.name], say), bare]


def upgrades(below: list[Layer], base: Base, say: Say) -> Layer:
    """unattended-upgrades, enabled, on top of the layers of a state."""
    wanted = _spare_debs(base, "unattended-upgrades")
    return bake("upgrades", _UPGRADES, wanted, base, below, [layer.path.name for layer in below], say)


def lowerdir(layers: list[Layer], base: Base) -> str:
    return ":".join(str(path) for path in [*(layer.path for layer in layers), base.tree])


def bake(
    name: str, script: str, debs: list[Path], base: Base, below: list[Layer], inputs: list[str], say: Say
) -> Layer:
    """Run a script in a chroot above other layers, its arguments the files of some packages; cached by what goes in."""
    parts = [script, _CHROOT, base.key, *inputs, *sorted(d.name for d in debs)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    path = cache_dir() / f"layer-{name}-{base.suite}-{key}"
    if path.exists():
        return Layer(name, path)
    say(f"layer '{name}': baking" + (f" ({len(debs)} packages)" if debs else ""))
    work = cache_dir() / f".tmp-{name}-{key}"
    for folder in ("upper", "work", "root", "debs"):
        (work / folder).mkdir(parents=True)
    for deb in debs:
        shutil.copy(deb, work / "debs")
    environment = {
        "LOWER": lowerdir(below, base), "WORK": str(work), "STANDINS": str(STANDINS), "DEBS": str(work / "debs"),
        "SCRIPT": script,
    }  # fmt: skip
    inside = [f"/run/debs/{deb.name}" for deb in debs]
    log = cache_dir() / f"layer-{name}.log"
    logged(log, "unshare", "-m", "sh", "-c", _CHROOT, "bake", *inside, env=environment)
    shutil.rmtree(work / "upper/run", ignore_errors=True)
    (work / "upper").rename(path)
    shutil.rmtree(work, ignore_errors=True)
    return Layer(name, path)


def _closure(repo_debs: dict[str, Path]) -> list[str]:
    """Names (with version) of the old driver's packages and of all they depend on."""
    names = driver_closure(OLD_PACKAGES, OLD_DRIVER)
    missing = [n for n in names if n not in repo_debs]
    if missing:
        raise LabError(f"the lab's repository lacks {', '.join(missing)}")
    return names


def _spare_debs(base: Base, name: str) -> list[Path]:
    """The .deb of a spare package with those of its dependencies that the base lacks."""
    installed = (base.tree / "var/lib/dpkg/status").read_text()
    found: dict[str, Path] = {}
    queue = [name]
    available = {path.name.split("_")[0]: path for path in base.debs.glob("*.deb")}
    while queue:
        wanted = queue.pop()
        if wanted in found or f"Package: {wanted}\n" in installed or wanted not in available:
            continue
        found[wanted] = available[wanted]
        queue += _depends(available[wanted])
    if name not in found:
        raise LabError(f"{name} is not among the packages beside the base ({base.debs})")
    return list(found.values())


def _depends(deb: Path) -> list[str]:
    line = run("dpkg-deb", "-f", deb, "Depends").strip()
    return [part.split("|")[0].split("(")[0].split(":")[0].strip() for part in line.split(",") if part.strip()]


def tree_hash(folder: Path) -> str:
    """Changes with every name and byte below a folder."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


_COMPILE = """
mount --make-rprivate / && mount --bind "$1" "$2/mnt" && exec chroot "$2" python3 -m compileall -q /mnt/standins
"""


def _compile(target: Path, tree: Path) -> None:
    run("unshare", "-m", "sh", "-c", _COMPILE, "compile", target, tree)


def install_standins(target: Path, tree: Path) -> None:
    """Copy the stand-ins to where the nodes see them, compiled by the nodes' own python (a probe calls many of them),
    readable whatever the umask of the checkout."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(STANDINS, target, ignore=shutil.ignore_patterns("__pycache__"))
    _compile(target, tree)
    for path in [target, *target.rglob("*")]:
        program = path.is_dir() or path.read_bytes()[:2] == b"#!"
        path.chmod(0o755 if program else 0o644)
