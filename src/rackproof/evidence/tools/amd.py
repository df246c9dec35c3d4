"""amdgpu without any tool of ROCm: the module, /dev/kfd and /dev/dri, KFD's topology, and the devices' own files.

ras/*_err_count is not read: every look at it writes into the kernel log. Uncorrectable errors come from amd-smi and
from the kernel log itself. Sources: docs.kernel.org/gpu/amdgpu, kfd_topology.c, captures of amdgpu 6.8 to 6.16.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools import kernel_log
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.rocminfo import location
from rackproof.evidence.tools.values import as_int, as_text, one_line, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_amd import AmdDriverFacts, AmdGpu, DeviceAccess, KfdNode, RasEvent

MODULE = "/sys/module/amdgpu"
NODES = "/sys/class/kfd/kfd/topology/nodes"
GROUPS = ("render", "video")  # whose members may open the devices
XGMI = 11  # type of an io_link that is XGMI: HSA_IOLINKTYPE_XGMI in kfd_crat.h
DEVICE_FILES = (
    "unique_id", "mem_info_vram_total", "mem_info_vram_used", "current_compute_partition", "current_memory_partition",
    "vbios_version",
)  # fmt: skip

_SCRIPT = f"""
mark {MODULE} /dev/kfd
if [ -d {MODULE} ]; then
  mark /dev/dri/renderD*
  show {MODULE}/version {MODULE}/srcversion {MODULE}/parameters/* {NODES}/*/properties
  if command -v modinfo >/dev/null; then
    say 'modinfo srcversion' "$(modinfo -F srcversion amdgpu)"
    say 'modinfo filename' "$(modinfo -n amdgpu)"
  fi
  [ ! -c /dev/kfd ] || say 'kfd access' "$(stat -c '%a %G' /dev/kfd)"
  for g in {" ".join(GROUPS)}; do say "members $g" "$(getent group $g)"; done
  set -- {NODES}/*/io_links/*/properties
  [ ! -r "$1" ] || printf '= xgmi\\n%s\\n' "$(awk '
    $1 == "type" {{ type = $2 }}
    $1 == "node_from" {{ from = $2 }}
    $1 == "node_to" && type == {XGMI} {{ print "|" from, $2 }}' "$@")"
  for d in /sys/class/drm/card[0-9]*/device; do
    case $d in */card*-*) continue ;; esac  # a connector
    vendor=
    read -r vendor <"$d/vendor"
    [ "$vendor" = 0x1002 ] || continue
    device=?
    read -r device <"$d/device"
    cd -P "$d" || continue
    say "gpu ${{PWD##*/}}" "$device"
    for f in {" ".join(DEVICE_FILES)}; do
      [ -f "$f" ] || continue
      value=
      read -r value <"$f"
      say "${{PWD##*/}} $f" "$value"
    done
  done 2>/dev/null
fi
"""

COMMANDS = (Command("amd", script(_SCRIPT)),)

_LINE = re.compile(r"(?:amdgpu(?: ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))?:|\[amdgpu\]\] \*ERROR\*) (.*)")
# What the driver writes: amdgpu_ras.c, amdgpu_umc.c, amdgpu_job.c, amdgpu_device.c.
_RAS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("uncorrectable", re.compile(r"(?<![0-9])([0-9]{1,18}) (?:new )?uncorrectable hardware errors? detected")),
    ("correctable", re.compile(r"(?<![0-9])([0-9]{1,18}) (?:new )?correctable hardware errors? detected")),
    ("deferred", re.compile(r"(?<![0-9])([0-9]{1,18}) (?:new )?deferred hardware errors? detected")),
    ("poison", re.compile(r"[Pp]oison is (?:created|consumed)")),
    ("bad-pages", re.compile(r"Saved bad pages ([0-9]{1,9}) reaches threshold|RAS records:? ([0-9]{1,9}) exceeds")),
    ("fatal", re.compile(r"Fatal error|uncorrectable hardware error.*detected!|device lost from bus", re.IGNORECASE)),
    ("ring-timeout", re.compile(r"ring \S+ timeout|timeout waiting for kiq fence")),
    ("reset", re.compile(r"GPU reset (?:begin|end|\(|succeeded)|kick off gpu reset", re.IGNORECASE)),
    ("aca", re.compile(r"Accelerator Check Architecture events logged")),
)


def driver(evidence: Evidence) -> Fact[AmdDriverFacts]:
    group = read_group(evidence, "amd", MODULE)
    if isinstance(group, Missing):
        return group
    loaded = group.exists(MODULE)
    kfd = group.exists("/dev/kfd")
    if isinstance(loaded, Missing):
        return loaded
    if not loaded:
        absent = Missing("amdgpu is not loaded")
        return AmdDriverFacts(False, None, absent, absent, absent, absent, kfd, absent, absent, ())
    version = group.text(f"{MODULE}/version")
    return AmdDriverFacts(
        loaded=True,
        loaded_version=as_text(version, f"{MODULE}/version") if isinstance(version, str) else version,
        loaded_srcversion=group.needed(f"{MODULE}/srcversion"),
        disk_srcversion=group.needed("modinfo srcversion"),
        disk_path=group.needed("modinfo filename"),
        parameters=_parameters(group),
        kfd_device=kfd,
        render_nodes=_render_nodes(group),
        kfd_nodes=_kfd_nodes(group),
        kfd_access=_kfd_access(group),
        xgmi=_xgmi(group),
        gpus=_gpus(group),
        members=_members(group),
    )


def _kfd_access(group: Group) -> Fact[DeviceAccess]:
    text = group.text("kfd access")
    if not isinstance(text, str):
        return text or Missing("/dev/kfd is no device")
    match = re.fullmatch(r"([0-7]{3,4}) (\S{1,64})", text.strip())
    return DeviceAccess(match[1], match[2]) if match else Missing(f"/dev/kfd: {one_line(text) or 'stat printed nothing'}")


def _members(group: Group) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Group -> who is listed in it, as getent prints it: "render:x:992:alice,bob". A group that is not there is left out."""
    members = {}
    for name in GROUPS:
        text = group.text(f"members {name}")
        if not isinstance(text, str):
            return text or Missing(f"the probe did not look for members of {name}")
        found = re.fullmatch(rf"{name}:[^:]*:[0-9]+:([^:\s]*)", text)
        if found:
            members[name] = tuple(filter(None, found[1].split(",")))
        elif text:
            return Missing(f"members of {name}: {one_line(text)}")
    return members or Missing(f"getent knows no group {' and no group '.join(GROUPS)}")


def _parameters(group: Group) -> Fact[Mapping[str, str]]:
    """Parameter -> value; those that only root may read are left out."""
    start = f"{MODULE}/parameters/"
    texts = {path.removeprefix(start): text for path, text in group.entries.items() if path.startswith(start)}
    found = {name: text.strip() for name, text in texts.items() if isinstance(text, str)}
    return found or Missing("amdgpu shows no parameters")


def _render_nodes(group: Group) -> Fact[tuple[str, ...]]:
    return group.names("/dev/dri")


def _xgmi(group: Group) -> Fact[frozenset[tuple[int, int]]]:
    """Pairs (from, to) of KFD nodes. Between the GPUs of a machine that is all there is; to a CPU only on an APU."""
    text = group.text("xgmi")
    if not isinstance(text, str):
        return text or Missing("KFD shows no links")
    matches = [re.fullmatch(r"([0-9]{1,4}) ([0-9]{1,4})", line) for line in text.splitlines() if line]
    if not all(matches):
        return Missing(f"links of KFD: {one_line(text)}")
    return frozenset((int(match[1]), int(match[2])) for match in matches if match)


def _kfd_nodes(group: Group) -> Fact[tuple[KfdNode, ...]]:
    """GPU nodes, by node number. A node that cannot be read makes the list missing: it may be a GPU."""
    if group.entries.get(f"{NODES}/*/properties", "") is None:
        return Missing("KFD shows no topology: /dev/kfd's driver is not there")
    found: list[tuple[int, KfdNode]] = []
    for path, text in group.entries.items():
        match = re.fullmatch(rf"{NODES}/([0-9]{{1,4}})/properties", path)
        if not match:
            continue
        node = parse_kfd(text, int(match[1])) if isinstance(text, str) else Missing(f"{path} could not be read")
        if isinstance(node, Missing):
            return node
        if node is not None:
            found.append((int(match[1]), node))
    return tuple(node for _, node in sorted(found, key=lambda item: item[0]))


def parse_kfd(text: str, node: int = 0) -> Fact[KfdNode | None]:
    """One `properties` file; None for a CPU, which has no SIMDs. "gfx_target_version 90500" is gfx950."""
    values = {name: int(number) for name, number in re.findall(r"^(\w+) ([0-9]{1,19})$", text, re.MULTILINE)}
    simds = values.get("simd_count")
    if simds is None:
        return Missing(f"KFD node {node}: {one_line(text) or 'empty, which is what a reader without access gets'}")
    if simds == 0:
        return None
    target, each, place = values.get("gfx_target_version"), values.get("simd_per_cu"), values.get("location_id")
    vendor, device = values.get("vendor_id"), values.get("device_id")
    identified = vendor is not None and device is not None and max(vendor, device) <= 0xFFFF
    return KfdNode(
        node=node,
        architecture=_gfx(target) if target else Missing("gfx_target_version: not printed"),
        compute_units=simds // each if each else Missing("simd_per_cu: not printed"),
        pci_address=location(place, values.get("domain", 0)) if place else Missing("location_id: not printed"),
        pci_id=f"{vendor:04x}:{device:04x}" if identified else Missing("device_id: not printed"),
    )


def _gfx(version: int) -> str:
    """90402 is gfx942, 90010 gfx90a: the last two parts are hexadecimal digits."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _gpus(group: Group) -> tuple[AmdGpu, ...]:
    """Devices of amdgpu in the order of their addresses; the index is the place in that order, and no tool's."""
    names = sorted(path.removeprefix("gpu ") for path in group.entries if path.startswith("gpu "))
    return tuple(_gpu(group, index, name) for index, name in enumerate(names))


def _gpu(group: Group, index: int, name: str) -> AmdGpu:
    def value(file: str) -> str | None:
        text = group.entries.get(f"{name} {file}")
        return text.strip() if isinstance(text, str) else None

    device = group.entries.get(f"gpu {name}")
    match = re.fullmatch("0x([0-9a-f]{4})", device) if isinstance(device, str) else None
    return AmdGpu(
        index=index,
        pci_address=pci_address(name) or Missing(f"address: {one_line(name)}"),
        pci_id=f"1002:{match[1]}" if match else Missing("device could not be read"),
        serial=as_text(value("unique_id"), "unique_id"),
        vbios=as_text(value("vbios_version"), "vbios_version"),
        memory_bytes=as_int(value("mem_info_vram_total"), "mem_info_vram_total"),
        memory_used_bytes=as_int(value("mem_info_vram_used"), "mem_info_vram_used"),
        compute_partition=as_text(value("current_compute_partition"), "current_compute_partition"),
        memory_partition=as_text(value("current_memory_partition"), "current_memory_partition"),
    )


def ras(evidence: Evidence) -> Fact[tuple[RasEvent, ...]]:
    """Errors of AMD GPUs in the kernel log; Missing where the log could not be read."""
    section = evidence.usable("kernel_log", "reading the kernel log")
    if isinstance(section, Missing):
        return section
    log = kernel_log.parse_kernel_log(section.text, section.error_text)
    if isinstance(log, Missing):
        return log
    return parse_ras(kernel_log.body(section.text))


def parse_ras(text: str) -> tuple[RasEvent, ...]:
    """Every error line of amdgpu, oldest first. A count of 0 is no error, and is left out."""
    found = []
    for line in text.splitlines():
        match = _LINE.search(line) if "amdgpu" in line else None
        if not match:
            continue
        said = match[2]
        for kind, pattern in _RAS:
            event = pattern.search(said)
            if event:
                count = next((int(number) for number in event.groups() if number), None)
                if count != 0:
                    address = pci_address(match[1] or "") or "?"
                    printed: Fact[int] = Missing("no count in the line") if count is None else count
                    found.append(RasEvent(address, kind, printed, one_line(said, 400)))
                break
    return tuple(found)
