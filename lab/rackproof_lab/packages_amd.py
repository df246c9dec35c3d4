"""Stand-ins for AMD's packages, in the repositories they come from: the driver of two releases, amd-smi and rocm-smi of
ROCm, and the container toolkit.

Versions are those of public package listings: amdgpu-dkms carries module, release and build in one, its firmware the
release alone, and the toolkit the release of Ubuntu behind a tilde.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from rackproof_lab import scripts
from rackproof_lab.packages import Deb
from rackproof_lab.scripts import wrapper

SUITE, UBUNTU = "noble", "24.04"
# folder below repo.radeon.com/amdgpu -> (release, module, code of the release, build)
RELEASES = {
    "30.30.3": ("30.30.3", "6.16.13", "30300300", "2327507"),
    "31.40": ("31.40.0", "6.19.14", "31400000", "2364437"),
}
ROCM = "7.2.3"
TOOLKITS = ("1.2.0", "1.3.0")


def repositories() -> dict[str, list[Deb]]:
    """Path below repo.radeon.com of every repository -> its packages."""
    found = {f"amdgpu/{folder}/ubuntu": list(driver(*release)) for folder, release in RELEASES.items()}
    return {**found, f"rocm/apt/{ROCM}": list(tools()), "amd-container-toolkit/apt": list(toolkits())}


def everything() -> Iterator[Deb]:
    for debs in repositories().values():
        yield from debs


def driver(release: str, module: str, code: str, build: str) -> Iterator[Deb]:
    """The driver of one release: sources for DKMS, and firmware."""
    source = f"{module}-{build}.{UBUNTU}"
    yield Deb(
        "amdgpu-dkms", f"1:{module}.{code}-{build}.{UBUNTU}", {"Depends": "amdgpu-dkms-firmware"},
        {f"/usr/src/amdgpu-{source}/dkms.conf": f'PACKAGE_NAME="amdgpu"\nPACKAGE_VERSION="{source}"\n'},
        postinst=_INSTALL.format(source=source, module=module, srcversion=_srcversion(source)),
        prerm=_REMOVE,
    )  # fmt: skip
    firmware = f"/usr/lib/firmware/updates/amdgpu/{release}.txt"
    yield Deb("amdgpu-dkms-firmware", f"1:{release}.0.{code}-{build}.{UBUNTU}", {}, {firmware: "lab stand-in\n"})


def tools() -> Iterator[Deb]:
    """What ROCm has for looking at GPUs; a host needs neither."""
    yield Deb("amd-smi-lib", f"26.2.2.70203-90~{UBUNTU}", {}, {"/usr/bin/amd-smi": wrapper("amd-smi", "26.2.2")})
    yield Deb("rocm-smi-lib", f"7.8.0.70203-90~{UBUNTU}", {}, {"/usr/bin/rocm-smi": wrapper("rocm-smi", "7.8.0")})


def toolkits() -> Iterator[Deb]:
    for version in TOOLKITS:
        runtime = '#!/bin/sh\n# lab stand-in\nexec runc "$@"\n'
        files = {"/usr/bin/amd-ctk": wrapper("amd-ctk", version), "/usr/bin/amd-container-runtime": runtime}
        yield Deb("amd-container-toolkit", f"{version}~{UBUNTU}", {}, files)


def _srcversion(source: str) -> str:
    """As modinfo prints it: 23 hexadecimal digits that differ with the sources."""
    return hashlib.sha256(f"rackproof-lab {source}".encode()).hexdigest()[:23].upper()


# A 'module' for every kernel: a text file that the lab's boot model and its modinfo read. Folders and links are DKMS's.
_INSTALL = """
rm -rf /var/lib/dkms/amdgpu
mkdir -p /var/lib/dkms/amdgpu/{source}
ln -s /usr/src/amdgpu-{source} /var/lib/dkms/amdgpu/{source}/source
for k in /usr/lib/modules/*/; do
  [ -d "$k" ] || continue
  kernel=$(basename "$k")
  built=/var/lib/dkms/amdgpu/{source}/$kernel/$(uname -m)/module
  mkdir -p "$k/updates/dkms" "$built"
  ln -s "{source}/$kernel/$(uname -m)" "/var/lib/dkms/amdgpu/kernel-$kernel-$(uname -m)"
  printf 'version=%s\\nsrcversion=%s\\nlicense=GPL and additional rights\\nvermagic=%s SMP preempt mod_unload\\n' \\
    '{module}' '{srcversion}' "$kernel" > "$built/amdgpu.ko"
  cp "$built/amdgpu.ko" "$k/updates/dkms/amdgpu.ko"
  sed -i '/\\/amdgpu/d' "$k/modules.dep"
  echo 'updates/dkms/amdgpu.ko:' >> "$k/modules.dep"
done
""" + scripts.INITRAMFS

_REMOVE = """
for k in /usr/lib/modules/*/; do
  rm -f "$k/updates/dkms/amdgpu.ko"
  if [ -e "$k/modules.dep" ]; then sed -i '/\\/amdgpu/d' "$k/modules.dep"; fi
done
rm -rf /var/lib/dkms/amdgpu
"""
