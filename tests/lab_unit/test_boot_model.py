"""The boot model: what a node's kernel comes up with is decided by the node's own files."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

kernel = pytest.importorskip("rackproof_lab.kernel")


def host(root: Path, module: str = "", flavour: str = "Dual MIT/GPL", initrd: str = "", grub: str = "") -> Path:
    """A root file system with as much of a host as the boot model reads."""
    if module:
        folder = root / "usr/lib/modules" / os.uname().release / "updates/dkms"
        folder.mkdir(parents=True)
        (folder / "nvidia.ko").write_text(f"version={module}\nlicense={flavour}\n")
    return with_boot(root, initrd, grub)


def with_boot(root: Path, initrd: str, grub: str) -> Path:
    """The root with an initrd that holds one file of modprobe.d, and with a grub.cfg where there are words for it."""
    (root / "boot/grub").mkdir(parents=True)
    with tarfile.open(root / "boot" / f"initrd.img-{os.uname().release}", "w") as archive:
        info = tarfile.TarInfo("etc/modprobe.d/gpu.conf")
        info.size = len(initrd)
        archive.addfile(info, io.BytesIO(initrd.encode()))
    if grub:
        (root / "boot/grub/grub.cfg").write_text(f"\tlinux /boot/vmlinuz-x {grub}\n")
    return root


def test_nouveau_wins_unless_the_initrd_blacklists_it(tmp_path: Path) -> None:
    booted = kernel.boot(host(tmp_path, module="580.126.20"))
    assert booted.nouveau and booted.driver is None


def test_a_blacklist_on_disk_only_does_not_count(tmp_path: Path) -> None:
    root = host(tmp_path, module="580.126.20")
    (root / "etc/modprobe.d").mkdir(parents=True)
    (root / "etc/modprobe.d/nouveau.conf").write_text("blacklist nouveau\n")
    assert kernel.boot(root).nouveau


@pytest.mark.parametrize("words", ["module_blacklist=nouveau", "modprobe.blacklist=foo,nouveau"])
def test_the_command_line_can_blacklist_nouveau(tmp_path: Path, words: str) -> None:
    assert kernel.boot(host(tmp_path, module="580.126.20", grub=f"ro {words}")).driver == "580.126.20"


def test_the_module_of_the_dkms_package_is_loaded_with_its_flavour(tmp_path: Path) -> None:
    booted = kernel.boot(host(tmp_path, module="580.126.20", flavour="NVIDIA", initrd="blacklist nouveau\n"))
    assert (booted.driver, booted.open_module) == ("580.126.20", False)


def test_options_come_from_the_initrd_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    initrd = "blacklist nouveau\noptions nvidia NVreg_CreateImexChannel0=1 NVreg_NoSuchThing=1\n"
    booted = kernel.boot(host(tmp_path, module="580.126.20", initrd=initrd))
    assert booted.options["CreateImexChannel0"] == "1"
    assert booted.ignored == ("NVreg_NoSuchThing=1",)


@pytest.mark.parametrize(
    ("version", "option"),
    [("575.57.08", "NVreg_CoherentGPUMemoryMode=driver"), ("610.43.02", "NVreg_GrdmaPciTopoCheckOverride=1")],
)
def test_options_a_version_does_not_have_are_ignored(tmp_path: Path, version: str, option: str) -> None:
    booted = kernel.boot(host(tmp_path, module=version, initrd=f"blacklist nouveau\noptions nvidia {option}\n"))
    assert booted.ignored == (option,)


def test_the_command_line_is_the_one_update_grub_wrote(tmp_path: Path) -> None:
    assert kernel.boot(host(tmp_path, grub="root=LABEL=root ro iommu.passthrough=1")).cmdline.endswith(
        "root=LABEL=root ro iommu.passthrough=1"
    )


def test_a_host_without_a_driver_has_none(tmp_path: Path) -> None:
    booted = kernel.boot(host(tmp_path, initrd="blacklist nouveau\n"))
    assert booted.driver is None and not booted.nouveau


def test_a_host_with_boot_entries_of_its_own_kernel(tmp_path: Path) -> None:
    """Enterprise Linux: options in an entry, an initramfs by dracut, DKMS' module under extra/, another kernel's name."""
    name = "5.14.0-570.el9.x86_64"
    for folder in ("boot/loader/entries", "etc", f"usr/lib/modules/{name}/extra"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/rackproof-lab-kernel").write_text(f"{name}\n")
    (tmp_path / f"boot/loader/entries/lab-{name}.conf").write_text("title x\noptions root=LABEL=root ro a=1\n")
    (tmp_path / f"usr/lib/modules/{name}/extra/nvidia.ko").write_text("version=580.126.20\nlicense=Dual MIT/GPL\n")
    assert kernel.boot(tmp_path).nouveau, "nothing blacklists it yet"
    with tarfile.open(tmp_path / f"boot/initramfs-{name}.img", "w") as archive:
        info = tarfile.TarInfo("etc/modprobe.d/x.conf")
        info.size = len(b"blacklist nouveau\n")
        archive.addfile(info, io.BytesIO(b"blacklist nouveau\n"))
    booted = kernel.boot(tmp_path)
    assert booted.driver == "580.126.20" and booted.cmdline.endswith("vmlinuz-5.14.0-570.el9.x86_64 root=LABEL=root ro a=1")
