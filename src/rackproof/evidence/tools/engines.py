"""containerd and Podman: versions, and what containerd's settings say about GPUs.

Of config.toml only the lines that concern runtimes and CDI leave the node, since registry passwords stand in it too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.tools.group import read_group
from rackproof.evidence.tools.values import one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_system import EngineFacts

CONFIG = "/etc/containerd/config.toml"
DROP_INS = "/etc/containerd/conf.d"
_WANTED = (
    "^[[:space:]]*(version|imports|disabled_plugins|default_runtime_name|enable_cdi|cdi_spec_dirs|SystemdCgroup|"
    "BinaryName)[[:space:]]*=|^[[:space:]]*\\[plugins[.].*[.]runtimes[.][^].]*\\]"
)

SCRIPT = rf"""
for tool in containerd podman; do
  if command -v $tool >/dev/null; then say $tool "$($tool --version 2>&1 | head -n 1)"
  else printf '%s\n' "- $tool"; fi
done
for f in {CONFIG} {DROP_INS}/*.toml; do
  if [ -f "$f" ] && [ -r "$f" ]; then
    printf '%s\n%s\n' "= $f" "$(grep -E '{_WANTED}' "$f" | sed 's/^/|/')"
  elif [ -e "$f" ]; then printf '%s\n' "! $f"
  else gone "$f"; fi
done
"""

COMMANDS: tuple[Command, ...] = ()  # the section is container's docker_config

# "containerd containerd.io 1.7.27 05044ec0", "containerd github.com/containerd/containerd/v2 v2.1.4 ...", "podman version 5.4.0"
_VERSION = re.compile(r"(?:containerd \S+|podman version) v?([0-9]+(?:\.[0-9]+)+\S*)(?:\s|$)")
_SETTING = re.compile(r"\s*([A-Za-z_]+)\s*=\s*(.*?)\s*(?:#.*)?")
_TABLE = re.compile(r"\s*\[plugins\..*\.runtimes\.\"?([A-Za-z0-9_-]+)\"?\]\s*")


def engines(evidence: Evidence) -> Fact[EngineFacts]:
    group = read_group(evidence, "docker_config", "the settings of container engines")
    if isinstance(group, Missing):
        return group
    texts = {path: text for path, text in group.entries.items() if path.startswith("/etc/containerd/")}
    unread = next((text for text in texts.values() if isinstance(text, Missing)), None)
    found = [text for text in texts.values() if isinstance(text, str)]
    config: Fact[Mapping[str, str] | None] = parse_config("\n".join(found)) if found else None
    return EngineFacts(
        containerd=_version(group.text("containerd"), "containerd"),
        podman=_version(group.text("podman"), "podman"),
        containerd_config=unread or (config if texts else Missing(f"the probe did not look for {CONFIG}")),
    )


def _version(text: Fact[str | None], tool: str) -> Fact[str]:
    return parse_version(text) if isinstance(text, str) else text or Missing(f"{tool} is not installed")


def parse_version(text: str) -> Fact[str]:
    match = _VERSION.match(text)
    return match[1] if match else Missing(f"version of the container engine: {one_line(text) or 'nothing printed'}")


def parse_config(text: str) -> Mapping[str, str]:
    """Key -> value as written, quotes left off; below a runtime's table as "nvidia.BinaryName". `runtimes` lists them."""
    found: dict[str, str] = {}
    runtimes: list[str] = []
    runtime = ""
    for line in text.replace("\r\n", "\n").splitlines():
        table, setting = _TABLE.fullmatch(line), _SETTING.fullmatch(line)
        if table:
            runtime = table[1]
            runtimes.append(runtime)
        elif setting:
            inside = runtime and setting[1] in ("BinaryName", "SystemdCgroup")
            found[f"{runtime}.{setting[1]}" if inside else setting[1]] = setting[2].strip("\"'")
    if runtimes:
        found["runtimes"] = " ".join(dict.fromkeys(runtimes))
    return found
