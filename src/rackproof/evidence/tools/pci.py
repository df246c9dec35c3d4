"""PCI functions from sysfs: GPUs, accelerators and network functions, their links, AER totals and the bridges above.

One walk with shell builtins; no root, no lspci. Virtual functions are left out. nvidia_driver.py reads the GPUs' ids
from the same section. Source: Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-pci-devices-aer_stats.
"""

from __future__ import annotations

import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import as_int, as_text, one_line, pci_address
from rackproof.facts import Fact, Missing
from rackproof.facts_pci import PciDevice

TOP = "/sys/bus/pci/devices"
FILES = ("numa_node", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
AER = ("aer_dev_fatal", "aer_dev_nonfatal", "aer_dev_correctable")

_SCRIPT = f"""
n=0
for d in {TOP}/*; do
  read -r vendor <"$d/vendor" || continue
  n=$((n + 1))
  read -r class <"$d/class"
  case $class:$vendor in
    0x0300*:0x10de|0x0302*:0x10de)
      device=? subvendor=? subdevice=?
      read -r device <"$d/device"; read -r subvendor <"$d/subsystem_vendor"; read -r subdevice <"$d/subsystem_device"
      say "${{d##*/}}" "$device $subvendor $subdevice" ;;
    0x02*|0x12*|0x03*:0x1002) [ ! -e "$d/physfn" ] || continue ;;
    *) continue ;;
  esac
  device=?
  read -r device <"$d/device"
  cd -P "$d" || continue
  say "$d" "$vendor $device $class $PWD"
  for f in {" ".join(FILES)}; do [ ! -f "$f" ] || show "$d/$f"; done
  for f in {" ".join(AER)}; do
    [ -f "$f" ] || continue
    total=
    while read -r name count; do case $name in TOTAL_*) total=$count ;; esac; done <"$f"
    say "$d/$f" "$total"
  done
done
say devices "$n"
"""

COMMANDS = (Command("pci", script(_SCRIPT)),)

_DEVICE = re.compile(r"0x([0-9a-f]{4}) (?:0x([0-9a-f]{4})|\?) 0x([0-9a-f]{4})[0-9a-f]{2} (/\S+)")
_ON_PATH = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def devices(evidence: Evidence) -> Fact[tuple[PciDevice, ...]]:
    group = read_group(evidence, "pci", TOP)
    if isinstance(group, Missing):
        return group
    count = group.needed("devices")
    if isinstance(count, Missing) or count == "0":
        return count if isinstance(count, Missing) else Missing(f"{TOP} shows no device at all")
    found = []
    for path, text in group.entries.items():
        name = path.removeprefix(f"{TOP}/")
        if name == path or "/" in name:
            continue
        device = _device(group, path, text) if isinstance(text, str) else Missing(f"{path} could not be read")
        if isinstance(device, Missing):
            return device
        found.append(device)
    return tuple(found)


def _device(group: Group, path: str, text: str) -> PciDevice | Missing:
    match = _DEVICE.fullmatch(text)
    address = pci_address(path.rsplit("/", 1)[1])
    if not match or not address:
        return Missing(f"{path}: {one_line(text)}")

    def value(name: str) -> str | None:
        content = group.text(f"{path}/{name}")
        return content.strip() if isinstance(content, str) else None

    return PciDevice(
        address=address,
        id=f"{match[1]}:{match[2]}" if match[2] else Missing(f"{path}/device could not be read"),
        class_code=match[3],
        numa_node=as_int(value("numa_node"), "numa_node"),
        link_speed=_speed(value("current_link_speed"), "current_link_speed"),
        link_speed_max=_speed(value("max_link_speed"), "max_link_speed"),
        link_width=_width(value("current_link_width"), "current_link_width"),
        link_width_max=_width(value("max_link_width"), "max_link_width"),
        bridges=tuple(pci_address(part) or part for part in match[4].split("/")[:-1] if _ON_PATH.fullmatch(part)),
        aer_fatal=as_int(value("aer_dev_fatal"), "aer_dev_fatal"),
        aer_nonfatal=as_int(value("aer_dev_nonfatal"), "aer_dev_nonfatal"),
        aer_correctable=as_int(value("aer_dev_correctable"), "aer_dev_correctable"),
    )


def _speed(raw: str | None, what: str) -> Fact[float]:
    """ "32.0 GT/s PCIe"; "Unknown" where there is no link or the device no longer answers."""
    text = as_text(raw, what)
    if isinstance(text, Missing):
        return text
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?", text)
    return float(match[1]) * 1e9 if match else Missing(f"{what}: {one_line(text)}")


def _width(raw: str | None, what: str) -> Fact[int]:
    """Lanes; 0 is no link, and more than 32 what a device that no longer answers reads as."""
    width = as_int(raw, what)
    return width if isinstance(width, Missing) or 0 < width <= 32 else Missing(f"{what}: {width}")
