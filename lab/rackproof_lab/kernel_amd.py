"""The boot model of a host with AMD's GPUs, as kernel.py is that of NVIDIA's: from the node's own files.

* The module is the one that the dkms package built for this kernel; where there is none, the kernel's own.
* The kernel's own has no version, and knows none of these GPUs (assumed: which kernels do differs by distribution).
* `blacklist amdgpu` in the *initrd* or on the command line keeps out both, since both have one name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rackproof_lab import kernel

OWN = "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko"  # below /usr/lib/modules/KERNEL
BUILT = "updates/dkms/amdgpu.ko"


@dataclass(frozen=True)
class AmdKernel:
    """A booted kernel. `module` is None where amdgpu was kept out, else what its file says of itself."""

    cmdline: str
    module: dict[str, str] | None

    @property
    def version(self) -> str:
        """Of the loaded module; "" where there is none, or the kernel's own."""
        return (self.module or {}).get("version", "")

    @property
    def drives(self) -> bool:
        """Whether the loaded module knows the GPUs of this host."""
        return bool(self.version)


def boot(root: Path) -> AmdKernel:
    """Boot the host whose root file system is at `root`."""
    cmdline = kernel.cmdline(root)
    kept_out = re.search(r"^\s*blacklist\s+amdgpu\b", kernel.initrd(root), re.M) or re.search(
        r"\b(module_blacklist|modprobe\.blacklist)=\S*\bamdgpu\b", cmdline
    )
    return AmdKernel(cmdline, None if kept_out else _module(root))


def _module(root: Path) -> dict[str, str] | None:
    folder = root / "usr/lib/modules" / os.uname().release
    for path in (folder / BUILT, folder / OWN):
        if path.exists():
            return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    return None
