"""The NVIDIA driver by its witnesses: loaded module, module on disk, user-space library, and what PCI shows.

Formats: /proc/driver/nvidia/version and params (R515 to R620, open and proprietary), `modinfo`, sysfs, modprobe.d(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import as_int, one_line, output, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_driver import Library

PROC = "/proc/driver/nvidia"
MODULES = (
    "nvidia", "nvidia_current", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nouveau", "ib_umad",
    "mlx5_ib", "mlx5_core", "gdrdrv", "amdgpu",
)  # fmt: skip
LIBRARIES = ("libnvidia-ml.so.1", "libcuda.so.1")
LIBRARY_DIRS = "/usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /lib64"

# gpus/*/information is not read: opening it can hang on a sick GPU, and the directory names say all that is needed.
_PROC_SCRIPT = f"""
show {PROC}/version {PROC}/params
mark {PROC}/gpus/*
for f in /dev/nvidia*; do
  if [ -c "$f" ]; then printf '%s\\n' "+ $f"; elif [ ! -e "$f" ]; then gone "$f"; fi
done
for m in {" ".join(MODULES)}; do
  mark /sys/module/$m
  [ ! -f /sys/module/$m/version ] || show /sys/module/$m/version
done
"""
_LIBRARY_SCRIPT = f"""
found=
for d in {LIBRARY_DIRS} /usr/lib; do
  [ "$d" != /usr/lib ] || [ -z "$found" ] || continue
  for f in {" ".join(f"$d/{name}" for name in LIBRARIES)}; do
    if [ -e "$f" ] || [ -h "$f" ]; then
      found=1
      say "$f" "$(readlink -f "$f")"
      if [ -f "$f" ]; then say "size $f" "$(stat -L -c %s "$f")"; else printf '%s\\n' "- size $f"; fi
    else gone "$f"; fi
  done
done
"""

COMMANDS = (
    Command("nvidia_proc", script(_PROC_SCRIPT)),
    Command("nvidia_modinfo", "modinfo nvidia | grep -E '^(filename|version|license):'", requires="modinfo"),
    Command("nvidia_library", script(_LIBRARY_SCRIPT)),
)

_NVRM = re.compile(r"^NVRM version:.* Kernel Module(?: for [a-z0-9_]+)? +([0-9]+(?:\.[0-9]+)+)(?:\s|$)", re.MULTILINE)
_LIBRARY = re.compile(r"lib(?:nvidia-ml|cuda)\.so\.([0-9]{3,}(?:\.[0-9]+)+)$")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")


def loaded_version(evidence: Evidence) -> Fact[str | None]:
    """Version of the module that runs now; None only where every place to look was there to say so."""
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    version = group.text(f"{PROC}/version")
    if isinstance(version, str):
        return parse_nvrm_version(version)
    for module in ("nvidia", "nvidia_current"):
        text = group.text(f"/sys/module/{module}/version")
        if isinstance(text, str) and _VERSION.fullmatch(text.strip()):
            return text.strip()
    modules = loaded_modules(evidence)
    if isinstance(version, Missing):
        return version
    if isinstance(modules, Missing):
        return modules
    if any(name.startswith("nvidia") for name in modules):
        return Missing("an NVIDIA module is loaded and does not say its version")
    return None


def parse_nvrm_version(text: str) -> Fact[str]:
    """ "580.95.05" from the first line of /proc/driver/nvidia/version."""
    match = _NVRM.search(text)
    return match[1] if match else Missing(f"{PROC}/version: {one_line(text) or 'empty'}")


def flavour(evidence: Evidence) -> Fact[str]:
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    text = group.text(f"{PROC}/version")
    if text is None:
        return Missing("no NVIDIA module is loaded")
    return text if isinstance(text, Missing) else parse_flavour(text)


def parse_flavour(text: str) -> Fact[str]:
    """open | proprietary, by the words NVIDIA puts before the version."""
    if "NVIDIA UNIX Open Kernel Module" in text:
        return "open"
    if re.search(r"NVIDIA UNIX (?:x86_64|aarch64) Kernel Module", text):
        return "proprietary"
    return Missing(f"{PROC}/version: {one_line(text) or 'empty'}")


def disk_version(evidence: Evidence) -> Fact[str]:
    text = output(evidence, "nvidia_modinfo", "modinfo")
    return text if isinstance(text, Missing) else parse_modinfo(text)


def parse_modinfo(text: str) -> Fact[str]:
    match = re.search(r"^version: +([0-9]+(?:\.[0-9]+)+)$", text, re.MULTILINE)
    return match[1] if match else Missing(f"modinfo nvidia gives no version: {one_line(text) or 'empty'}")


def library_version(evidence: Evidence) -> Fact[str]:
    """The version in the name that libnvidia-ml.so.1 leads to; missing where two directories disagree."""
    group = read_group(evidence, "nvidia_library", "the library directories")
    if isinstance(group, Missing):
        return group
    own = {path: entry for path, entry in group.entries.items() if re.fullmatch(r"/\S+/libnvidia-ml\.so\.1", path)}
    targets = {path: text for path, text in own.items() if isinstance(text, str)}
    if not targets:
        hidden = next((entry for entry in own.values() if isinstance(entry, Missing)), None)
        return hidden or Missing("there is no libnvidia-ml.so.1 in the library directories")
    found = {match[1] if (match := _LIBRARY.search(target.strip())) else target for target in targets.values()}
    version = found.pop()
    if found or not _VERSION.fullmatch(version):
        return Missing("; ".join(f"{path} leads to {one_line(target)}" for path, target in targets.items()))
    return version


def libraries(evidence: Evidence) -> Fact[tuple[Library, ...]]:
    """Every one of LIBRARIES in every library directory; missing where a directory could not be looked into."""
    group = read_group(evidence, "nvidia_library", "the library directories")
    if isinstance(group, Missing):
        return group
    found = []
    for path, target in group.entries.items():
        name = path.rsplit("/", 1)[-1]
        if name not in LIBRARIES or not path.startswith("/"):
            continue
        if isinstance(target, Missing):
            return target
        if target is not None:
            found.append(_library(group, path, target.strip()))
    looked = any(path.endswith("/libcuda.so.1") for path in group.entries)
    return tuple(found) if looked else Missing("the probe did not look for libcuda.so.1")


def _library(group: Group, path: str, target: str) -> Library:
    size = group.text(f"size {path}")
    match = _LIBRARY.search(target)
    return Library(
        name=path.rsplit("/", 1)[-1],
        path=path,
        target=one_line(target),
        version=match[1] if match else Missing(f"{path} leads to {one_line(target) or 'nothing'}"),
        size_bytes=as_int(size.strip(), f"size of {path}") if isinstance(size, str) else size or Missing("a broken link"),
    )


def device_nodes(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Names of the character devices /dev/nvidia*: nvidia0, nvidiactl, nvidia-uvm; () where there are none."""
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    names = group.names("/dev")
    return names if isinstance(names, Missing) else tuple(name for name in names if name.startswith("nvidia"))


def loaded_modules(evidence: Evidence) -> Fact[frozenset[str]]:
    """Which of MODULES are in the kernel."""
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    states = {name: group.exists(f"/sys/module/{name}") for name in MODULES}
    unread = next((state for state in states.values() if isinstance(state, Missing)), None)
    return unread or frozenset(name for name, state in states.items() if state is True)


def parameters(evidence: Evidence) -> Fact[Mapping[str, str]]:
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    text = group.needed(f"{PROC}/params")
    return text if isinstance(text, Missing) else parse_params(text)


def parse_params(text: str) -> Fact[Mapping[str, str]]:
    """Name -> value of /proc/driver/nvidia/params, text values without their quotes."""
    pairs = re.findall(r"^([A-Za-z0-9_]+): ?(.*)$", text, re.MULTILINE)
    values = {name: value.strip().removeprefix('"').removesuffix('"') for name, value in pairs}
    return values or Missing(f"{PROC}/params: {one_line(text) or 'empty'}")


def proc_gpus(evidence: Evidence) -> Fact[tuple[str, ...]]:
    group = _proc(evidence)
    if isinstance(group, Missing):
        return group
    if group.text(f"{PROC}/version") is None:
        return Missing("no NVIDIA module is loaded")
    names = group.names(f"{PROC}/gpus")
    return names if isinstance(names, Missing) else tuple(pci_address(name) or name for name in names)


def pci_gpus(evidence: Evidence) -> Fact[tuple[str, ...]]:
    devices = _pci(evidence)
    return devices if isinstance(devices, Missing) else tuple(devices)


def pci_ids(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """ "10de:31c2" of each GPU, in the order of pci_gpus."""
    devices = _pci(evidence)
    return devices if isinstance(devices, Missing) else tuple(devices.values())


def _pci(evidence: Evidence) -> Fact[Mapping[str, str]]:
    """Address -> vendor:device of the NVIDIA devices of class display, from pci.py's section."""
    group = read_group(evidence, "pci", "/sys/bus/pci/devices")
    if isinstance(group, Missing):
        return group
    count = group.needed("devices")
    if isinstance(count, Missing) or count == "0":
        return count if isinstance(count, Missing) else Missing("/sys/bus/pci/devices shows no device at all")
    found = {}
    for path, text in group.entries.items():
        address = pci_address(path)
        if address is None:
            continue
        device = re.match(r"0x([0-9a-f]{4})(?:\s|$)", text) if isinstance(text, str) else None
        found[address] = f"10de:{device[1]}" if device else "10de:?"
    return found


def _proc(evidence: Evidence) -> Group | Missing:
    return read_group(evidence, "nvidia_proc", PROC)
