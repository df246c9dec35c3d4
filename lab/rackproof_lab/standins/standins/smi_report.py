"""nvidia-smi -q and -q -x: the whole report, from gpu.tree."""

from __future__ import annotations

import time

from . import model, truth

_COLUMN = 55
# the text form writes these with 0x, the XML without
_HEX = (
    "pci_bus", "pci_device", "pci_domain", "pci_device_id", "pci_sub_system_id", "pci_base_class", "pci_sub_class",
)  # fmt: skip


def xml(gpus: list[truth.Json], driver: str) -> str:
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        "\t<!-- rackproof lab stand-in: simulated GPU -->",
        f"\t<timestamp>{_now()}</timestamp>",
        f"\t<driver_version>{driver}</driver_version>",
        f"\t<cuda_version>{truth.cuda_version(driver)}</cuda_version>",
        f"\t<attached_gpus>{len(gpus)}</attached_gpus>",
    ]
    tree = model.tree()
    for gpu in gpus:
        known = model.values(gpu, driver)
        lines.append(f'\t<gpu id="{known["bus_id"]}">')
        for entry in tree:
            lines += _xml(entry, known, 2)
        lines += ["\t</gpu>", ""]
    return "\n".join([*lines[:-1], "</nvidia_smi_log>"])


def _xml(entry: model.Entry, known: dict[str, str], depth: int) -> list[str]:
    tab = "\t" * depth
    if entry.value is None:
        inner = [line for child in entry.children for line in _xml(child, known, depth + 1)]
        return [f"{tab}<{entry.tag}>", *inner, f"{tab}</{entry.tag}>"]
    if entry.value.startswith("!"):
        return [f"{tab}<{entry.tag}>", f"{tab}\t{entry.value[1:]}", f"{tab}</{entry.tag}>"]
    if entry.value.startswith("~"):
        return [f"{tab}<{entry.tag}>", f"{tab}</{entry.tag}>"]
    return [f"{tab}<{entry.tag}>{escape(model.fill(entry.value, known))}</{entry.tag}>"]


def escape(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(gpus: list[truth.Json], driver: str) -> str:
    lines = ["", "==============NVSMI LOG==============", ""]
    head = {"Timestamp": _now(), "Driver Version": driver, "CUDA Version": truth.cuda_version(driver)}
    lines += [f"{label:<{_COLUMN}}: {value}" for label, value in head.items()]
    lines += ["", f"{'Attached GPUs':<{_COLUMN}}: {len(gpus)}"]
    tree = model.tree()
    for gpu in gpus:
        known = model.values(gpu, driver)
        lines.append(f"GPU {known['bus_id']}")
        for entry in tree:
            lines += _text(entry, known, 1)
        lines.append("")
    return "\n".join(lines)


def _text(entry: model.Entry, known: dict[str, str], depth: int) -> list[str]:
    if entry.value is None:
        deeper = depth if entry.label == "-" else depth + 1
        inner = [line for child in entry.children for line in _text(child, known, deeper)]
        return inner if entry.label == "-" else ["    " * depth + entry.label, *inner]
    if entry.label == "-":
        return []
    value = model.fill(entry.value.lstrip("~"), known)
    if entry.tag in _HEX:
        value = f"0x{value}"
    return [f"{'    ' * depth + entry.label:<{_COLUMN}}: {value}"]


def _now() -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y")
