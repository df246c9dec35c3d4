"""Kernels on disk, which one starts next, and whether each has an NVIDIA module: a kernel upgrade that DKMS could not
follow shows only after the next reboot.

`kernel VERSION` holds what modinfo said for it; `grub.cfg` the first `linux` line and `GRUB_DEFAULT` the setting, of
the first boot entry (Debian family); grubenv names the saved entry (RHEL family). DKMS is read from /var/lib/dkms,
since `dkms status` itself takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import one_line, plain
from rackproof.facts import Fact, Missing
from rackproof.facts_system import DkmsModule, KernelFacts

DKMS = "/var/lib/dkms"
GRUBENV = ("/boot/grub2/grubenv", "/boot/grub/grubenv")

_SCRIPT = rf"""
mark /boot/vmlinuz-* /lib/modules/*/vmlinuz /lib/modules/*/modules.dep
for f in /lib/modules/*/modules.dep; do
  [ -f "$f" ] || continue
  k=${{f%/modules.dep}} k=${{k##*/}}
  said=$(modinfo -k "$k" -F version nvidia 2>&1) || said=$(modinfo -k "$k" -F version nvidia-current 2>&1)
  say "kernel $k" "$(printf '%s\n' "$said" | head -n 1)"
done
show {" ".join(GRUBENV)}
grub=
for f in /boot/grub/grub.cfg /boot/grub2/grub.cfg; do
  [ -f "$f" ] || {{ gone "$f"; continue; }}
  if [ -r "$f" ]; then say grub.cfg "$(grep -m 1 -E '^[[:space:]]*linux(efi|16)?[[:space:]]' "$f")"
  else printf '%s\n' "! grub.cfg"; fi
  break
done
say GRUB_DEFAULT "$(cat /etc/default/grub /etc/default/grub.d/*.cfg 2>/dev/null |
  sed -n 's/^[[:space:]]*GRUB_DEFAULT=//p' | tail -n 1)"
mark {DKMS}/*/*/source {DKMS}/*/*/*/*/module {DKMS}/*/kernel-*
"""

COMMANDS = (Command("kernels", script(_SCRIPT), requires="modinfo", root=Root.HELPS),)

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_STATUS = re.compile(r"([^/,:\s]+)(?:/|, )([^,:\s]+)(?:, ([^,\s]+), ([^,:\s]+))?: ([a-z]+)\b.*")


def kernels(evidence: Evidence) -> Fact[KernelFacts]:
    group = read_group(evidence, "kernels", "modinfo")
    if isinstance(group, Missing):
        return group
    installed = _installed(group)
    return KernelFacts(
        nvidia=installed if isinstance(installed, Missing) else _modules(group, installed),
        next=installed if isinstance(installed, Missing) else _next(group, installed),
        dkms=_dkms(group),
    )


def _installed(group: Group) -> Fact[tuple[str, ...]]:
    """Kernels with modules and an image. A removed kernel often leaves its module directory behind."""
    names = {path.removeprefix("kernel ") for path in group.entries if path.startswith("kernel ")}
    if not names:
        return Missing("/lib/modules holds no kernel")
    images = {m[1] for path in group.marked if (m := re.fullmatch(r"/boot/vmlinuz-(.+)", path))}
    images |= {m[1] for path in group.marked if (m := re.fullmatch(r"/lib/modules/([^/]+)/vmlinuz", path))}
    return tuple(sorted(names & images if images else names))


def _modules(group: Group, installed: Iterable[str]) -> Fact[Mapping[str, str | None]]:
    found: dict[str, str | None] = {}
    for kernel in installed:
        said = group.text(f"kernel {kernel}")
        if not isinstance(said, str):
            return said or Missing(f"modinfo said nothing for {kernel}")
        if _VERSION.fullmatch(said.strip()):
            found[kernel] = said.strip()
        elif re.search(r"not found", said):
            found[kernel] = None
        else:
            return Missing(f"modinfo for kernel {kernel}: {one_line(said) or 'nothing printed'}")
    return found


def _next(group: Group, installed: tuple[str, ...]) -> Fact[str]:
    """The kernel GRUB starts by default, where its own files name it."""
    red_hat, debian = (group.text(path) for path in GRUBENV)
    setting = group.text("GRUB_DEFAULT")
    default = setting.strip().strip("\"'") if isinstance(setting, str) else ""
    for text, counts in ((red_hat, True), (debian, default == "saved")):
        if isinstance(text, Missing):
            return text
        pairs = dict(re.findall(r"^(next_entry|saved_entry)=(.+)$", text or "", re.MULTILINE))
        entry = pairs.get("next_entry") or (pairs.get("saved_entry") if counts else None)
        if entry:
            return _named(entry, installed)
    if default not in ("", "0", "saved"):
        return _named(default, installed)
    line = group.text("grub.cfg")
    if not isinstance(line, str):
        return line or Missing("there is no grub.cfg: another boot loader starts this machine")
    match = re.search(r"/vmlinuz-(\S+)", line)
    return match[1] if match else Missing(f"grub.cfg names no kernel: {one_line(line) or 'it has no linux line'}")


def _named(entry: str, installed: tuple[str, ...]) -> Fact[str]:
    """The installed kernel an entry's name holds; 6.8.0-1-x and 6.8.0-1-x-64k are told apart by length."""
    matches = sorted((kernel for kernel in installed if kernel in entry), key=len)
    return matches[-1] if matches else Missing(f"GRUB's default entry names no installed kernel: {one_line(entry)}")


def _dkms(group: Group) -> Fact[tuple[DkmsModule, ...]]:
    """By directories: MODULE/VERSION/source is added, .../KERNEL/ARCH/module is built, kernel-KERNEL-ARCH installed."""
    unread = next((e for p, e in group.entries.items() if p.startswith(f"{DKMS}/") and isinstance(e, Missing)), None)
    if unread:
        return unread
    if not any(path.startswith(f"{DKMS}/") for path in (*group.entries, *group.marked)):
        return Missing(f"the probe did not look into {DKMS}")
    links = {path for path in group.marked if "/kernel-" in path}
    found, built = [], set()
    for path in sorted(group.marked):
        parts = path.removeprefix(f"{DKMS}/").split("/")
        if path.startswith(f"{DKMS}/") and len(parts) == 5 and parts[4] == "module":
            module, version, kernel, arch, _ = parts
            state = "installed" if f"{DKMS}/{module}/kernel-{kernel}-{arch}" in links else "built"
            found.append(DkmsModule(module, version, kernel, state))
            built.add((module, version))
    for path in sorted(group.marked):
        parts = path.removeprefix(f"{DKMS}/").split("/")
        if path.startswith(f"{DKMS}/") and len(parts) == 3 and parts[2] == "source" and tuple(parts[:2]) not in built:
            found.append(DkmsModule(parts[0], parts[1], "", "added"))
    return tuple(found)


def parse_dkms_status(text: str) -> Fact[tuple[DkmsModule, ...]]:
    """`dkms status`, version 2 ("nvidia, 580.1, KERNEL, ARCH: installed") and 3 ("nvidia/580.1, ...")."""
    found = []
    for line in plain(text).splitlines():
        match = _STATUS.fullmatch(line.strip())
        if match:
            found.append(DkmsModule(match[1], match[2], match[3] or "", match[5]))
        elif line.strip():
            return Missing(f"dkms status: {one_line(line)}")
    return tuple(found) or Missing("dkms status printed nothing")
