"""The boot model: what the kernel of a node would come up with, from the node's own files.

Run before every boot, outside the node, with its root file system mounted. What decides is what would decide on a
real host, so a step that a deploy forgets shows:

* the command line is the one update-grub wrote last, not the one /etc/default/grub holds now
  (of the boot entry, on a host that has those);
* nouveau takes the GPUs unless the *initrd* blacklists it or the command line does;
* the nvidia module is the one the dkms package put under /lib/modules for this kernel, open or proprietary;
* its options are those in the initrd, and an option this version does not know is ignored with a line in the log.
"""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kernel:
    """A booted kernel. `driver` is the version of the loaded nvidia module, None when nouveau or nothing won."""

    cmdline: str
    nouveau: bool
    driver: str | None
    open_module: bool
    options: dict[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


# name as in /proc/driver/nvidia/params -> default. Names of a real R580 module; the list is cut.
PARAMS = {
    "ResmanDebugLevel": "4294967295", "RmLogonRC": "1", "ModifyDeviceFiles": "1", "DeviceFileUID": "0",
    "DeviceFileGID": "0", "DeviceFileMode": "438", "InitializeSystemMemoryAllocations": "1",
    "UsePageAttributeTable": "4294967295", "EnableMSI": "1", "EnablePCIeGen3": "0", "MemoryPoolSize": "0",
    "EnableStreamMemOPs": "0", "RestrictProfilingToAdminUsers": "1", "PreserveVideoMemoryAllocations": "0",
    "EnableResizableBar": "0", "EnableGpuFirmware": "18", "EnableDbgBreakpoint": "0",
    "OpenRmEnableUnsupportedGpus": "1",
    "DmaRemapPeerMmio": "1", "ImexChannelCount": "2048", "CreateImexChannel0": "0", "GrdmaPciTopoCheckOverride": "0",
    "CoherentGPUMemoryMode": '""', "RegistryDwords": '""', "RegistryDwordsPerDevice": '""', "RmMsg": '""',
    "GpuBlacklist": '""', "TemporaryFilePath": '""', "ExcludedGpus": '""',
}  # fmt: skip


def boot(root: Path) -> Kernel:
    """Boot the host whose root file system is at `root`."""
    words = cmdline(root)
    config = initrd(root)
    blacklisted = bool(re.search(r"^\s*blacklist\s+nouveau\b", config, re.M)) or bool(
        re.search(r"\b(module_blacklist|modprobe\.blacklist)=\S*\bnouveau\b", words)
    )
    module = _module(root)
    if not blacklisted or module is None:
        return Kernel(words, nouveau=not blacklisted, driver=None, open_module=False)
    options, ignored = _options(config, module["version"])
    is_open = module.get("license") != "NVIDIA"
    return Kernel(words, False, module["version"], is_open, options, ignored)


def release(root: Path) -> str:
    """What the node's kernel is called: as this machine's, unless the node plays a system with a kernel of its own."""
    named = root / "etc/rackproof-lab-kernel"
    return named.read_text().strip() if named.exists() else os.uname().release


def cmdline(root: Path) -> str:
    """What update-grub or grubby wrote last."""
    entry = root / f"boot/loader/entries/lab-{release(root)}.conf"
    if entry.exists():
        options = re.search(r"^options (.*)$", entry.read_text(), re.M)
        return f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{release(root)} {options[1].strip() if options else ''}"
    config = root / "boot/grub/grub.cfg"
    found = re.search(r"^\s*linux\s+(\S+)\s*(.*)$", config.read_text(), re.M) if config.exists() else None
    image, rest = (found[1], found[2].strip()) if found else (f"/boot/vmlinuz-{release(root)}", "root=LABEL=root ro")
    return f"BOOT_IMAGE={image} {rest}"


def initrd(root: Path) -> str:
    """All modprobe.d files of the initrd in modprobe's order: by name, /etc before /usr/lib."""
    images = [root / "boot" / name for name in (f"initrd.img-{release(root)}", f"initramfs-{release(root)}.img")]
    path = next((image for image in images if image.exists()), None)
    if path is None:
        return ""
    texts: dict[str, str] = {}
    with tarfile.open(path) as archive:
        members = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(".conf")]
        for member in sorted(members, key=lambda m: not m.name.startswith("etc/")):
            data = archive.extractfile(member)
            texts.setdefault(Path(member.name).name, data.read().decode(errors="replace") if data else "")
    return "\n".join(texts[name] for name in sorted(texts))


def _module(root: Path) -> dict[str, str] | None:
    places = [root / "usr/lib/modules" / release(root) / folder / "nvidia.ko" for folder in ("updates/dkms", "extra")]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return None
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def _options(config: str, version: str) -> tuple[dict[str, str], tuple[str, ...]]:
    known = {**PARAMS}
    branch = int(version.split(".")[0])
    if branch < 580:
        del known["CoherentGPUMemoryMode"]  # from 580.65.06
    if branch >= 595:
        del known["GrdmaPciTopoCheckOverride"]  # removed in R595
    ignored = []
    for line in config.splitlines():
        words = line.split()
        if words[:2] != ["options", "nvidia"]:
            continue
        for word in words[2:]:
            name, _, value = word.partition("=")
            name = name.removeprefix("NVreg_")
            if name in known:
                known[name] = f'"{value.strip(chr(34))}"' if PARAMS[name].startswith('"') else value
            else:
                ignored.append(word)
    return known, tuple(ignored)
