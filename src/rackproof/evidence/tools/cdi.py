"""CDI specs of nvidia.com/gpu and amd.com/gpu: files in /etc/cdi and /run/cdi, written by nvidia-ctk, amd-ctk or by hand,
YAML or JSON.

A spec names every library it mounts with its version (libcuda.so.580.95.05), so a stale one gives itself away.
Source: github.com/cncf-tags/container-device-interface SPEC.md, 0.5 to 1.1; specs of toolkit 1.13 to 1.20;
github.com/ROCm/container-toolkit internal/cdi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import one_line
from rackproof.facts import CdiSpec, Fact, Missing

MAX_BYTES = 512 * 1024  # a spec of 8 GPUs has 60 KB

# head and sed instead of a read loop: a spec is too long for one. The empty line ends a last line that had no end.
_SCRIPT = f"""
dirs='/etc/cdi /run/cdi'
[ -h /var/run ] || dirs="$dirs /var/run/cdi"
for d in $dirs; do
  for f in "$d"/*.yaml "$d"/*.json; do
    if [ -r "$f" ] && [ -f "$f" ]; then
      printf '%s\\n' "= $f"; head -c {MAX_BYTES + 1} "$f" | sed 's/^/|/'; echo
    elif [ -e "$f" ]; then printf '%s\\n' "! $f"
    else gone "$f"; fi
  done
done
"""

COMMANDS = (Command("cdi_specs", script(_SCRIPT), root=Root.HELPS),)

KIND, AMD_KIND = "nvidia.com/gpu", "amd.com/gpu"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# An anchor or an alias outside quotes: neither tool writes them, and they can make a small file huge.
_ANCHOR = re.compile(r"(?:^|[\s\[{,:-])[&*][A-Za-z0-9_-]", re.MULTILINE)
_DRIVER = re.compile(r"\.so\.([0-9]{3,}\.[0-9]+(?:\.[0-9]+)*)\b")


def cdi_specs(evidence: Evidence) -> Fact[tuple[CdiSpec, ...]]:
    group = read_group(evidence, "cdi_specs", "the CDI directories")
    return group if isinstance(group, Missing) else parse_specs(group)


def amd_cdi_specs(evidence: Evidence) -> Fact[tuple[CdiSpec, ...]]:
    group = read_group(evidence, "cdi_specs", "the CDI directories")
    return group if isinstance(group, Missing) else parse_specs(group, AMD_KIND)


def parse_specs(group: Group, kind: str = KIND) -> Fact[tuple[CdiSpec, ...]]:
    """All specs of one kind; () where the directories hold none. One unreadable file hides the answer."""
    found = []
    for path, text in group.entries.items():
        if isinstance(text, Missing):
            return text
        if text is None:
            continue
        spec = parse_spec(path, text, kind)
        if isinstance(spec, Missing):
            return spec
        if spec is not None:
            found.append(spec)
    return tuple(found)


def parse_spec(path: str, text: str, kind: str = KIND) -> Fact[CdiSpec | None]:
    """One spec file; None where it describes devices of another kind."""
    if kind not in text:
        return None
    if len(text) > MAX_BYTES:
        return Missing(f"{path} is larger than {MAX_BYTES} bytes")
    if _ANCHOR.search(text):
        return Missing(f"{path} uses YAML anchors")
    try:
        spec = yaml.load(text, Loader=_LOADER)  # a safe loader; JSON is YAML too
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        return Missing(f"{path} is not valid YAML: {one_line(str(error))}")
    if not isinstance(spec, dict):
        return Missing(f"{path} is not a CDI spec")
    if spec.get("kind") != kind:
        return None
    devices = spec.get("devices")
    if not isinstance(devices, list) or not all(isinstance(d, dict) and "name" in d for d in devices):
        return Missing(f"{path} lists no devices")
    return CdiSpec(
        path=path,
        driver_versions=tuple(sorted(set(_DRIVER.findall(text)))),
        devices=tuple(str(device["name"]) for device in devices),
        nodes=_nodes(devices) if kind == AMD_KIND else (),
    )


def _nodes(devices: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Paths of all device files, sorted; what has another form than amd-ctk writes is left out, and so found lacking."""
    found = set()
    for device in devices:
        edits = device.get("containerEdits")
        listed = edits.get("deviceNodes") if isinstance(edits, dict) else None
        for node in listed if isinstance(listed, list) else []:
            path = node.get("path") if isinstance(node, dict) else None
            if isinstance(path, str):
                found.add(path)
    return tuple(sorted(found))
