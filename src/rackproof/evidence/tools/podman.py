"""Podman of the system itself: its own account, images, containers, where it looks for CDI specs, hooks of NVIDIA.

Formats: `podman info --format json`, `podman image inspect`, `podman inspect`, podman 4.3 to 5.4; containers.conf(5),
oci-hooks(5). Source: captures of 5.4.2; docs.podman.io.

Podman has no daemon to ask: each call works on root's storage, and would make one where there is none. So nothing is asked
of a podman that never ran, and it is known to have no images.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools import container, engines
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.running import listing, parse_running
from rackproof.evidence.tools.values import load_object, one_line, string
from rackproof.facts import Fact, ImageFacts, Missing
from rackproof.facts_podman import DEFAULT_CDI_FOLDERS
from rackproof.facts_serving import RunningContainer

STORAGE = "/var/lib/containers/storage"
HOOKS_FOLDER = "/oci/hooks.d/"
UNUSED = "unused"  # what the sections say of a podman without storage
CONFIGS = "/usr/share/containers/containers.conf /etc/containers/containers.conf /etc/containers/containers.conf.d/*.conf"
HOOKS = "/usr/share/containers/oci/hooks.d/*nvidia*.json /etc/containers/oci/hooks.d/*nvidia*.json"

_USED = f"""
root=$(cat /usr/share/containers/storage.conf /etc/containers/storage.conf 2>/dev/null |
  sed -n 's/^ *graphroot *= *"\\(.*\\)".*/\\1/p' | tail -n 1)
[ -d "${{root:-{STORAGE}}}" ] || {{ echo {UNUSED}; exit 0; }}
"""
_IMAGE = (
    '{"Id":{{json .ID}},"RepoTags":{{json .RepoTags}},"RepoDigests":{{json .RepoDigests}},'
    '"Architecture":{{json .Architecture}},"Config":{"Env":{{json .Config.Env}},"Labels":{{json .Config.Labels}}}}'
)
# Values of image variables that look like secrets stay on the node.
_IMAGES_SCRIPT = rf"""{_USED}
ids=$(podman image ls -q --no-trunc) || exit $?
set -- $(printf '%s\n' "$ids" | sort -u)
if [ $# -gt 0 ]; then
  [ $# -le {container.MAX_IMAGES} ] || echo "only {container.MAX_IMAGES} of $# images are described" >&2
  said=$(printf '%s\n' "$@" | head -n {container.MAX_IMAGES} | xargs podman image inspect --format '{_IMAGE}') || exit $?
  printf '%s\n' "$said" |
    sed -E 's/"([A-Za-z0-9_]*(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)[A-Za-z0-9_]*=)([^"\\]|\\.)*"/"\1***"/g'
fi
echo end
"""
_CONTAINER = (
    '{"id":{{json .ID}},"name":{{json .Name}},"image":{{json .Image}},"named":{{json .ImageName}},'
    '"labels":{{json .Config.Labels}}'
)
_CONFIG_SCRIPT = f"""
for f in {CONFIGS}; do
  if [ -f "$f" ] && [ -r "$f" ]; then
    printf '= %s\\n%s\\n' "$f" "$(sed -n '/^ *cdi_spec_dirs *=/,/]/p' "$f" | sed 's/^/|/')"
  elif [ -e "$f" ]; then printf '! %s\\n' "$f"
  else gone "$f"; fi
done
mark {HOOKS}
"""

COMMANDS = (
    Command("podman_info", f"{_USED}podman info --format json", "podman", Root.NEEDED),
    Command("podman_images", _IMAGES_SCRIPT, "podman", Root.NEEDED),
    Command("podman_running", f"{_USED}{listing('podman', _CONTAINER)}", "podman", Root.NEEDED),
    Command("podman_config", script(_CONFIG_SCRIPT), "podman", Root.HELPS),
)
_NEVER = "podman has not been used on this node yet"


def version(evidence: Evidence) -> Fact[str | None]:
    """None only where the probe looked for the command and there is none."""
    group = read_group(evidence, "docker_config", "the settings of container engines")
    said = group if isinstance(group, Missing) else group.text("podman")
    return engines.parse_version(said) if isinstance(said, str) else said


def cgroup_version(evidence: Evidence) -> Fact[str]:
    """ "2" of "v2", as Docker writes it."""
    said = _text(_host(evidence), "cgroupVersion")
    if isinstance(said, Missing):
        return said
    match = re.fullmatch(r"v([12])", said)
    return match[1] if match else Missing(f"cgroupVersion in podman info: {one_line(said)}")


def cgroup_driver(evidence: Evidence) -> Fact[str]:
    return _text(_host(evidence), "cgroupManager")


def oci_runtime(evidence: Evidence) -> Fact[str]:
    return _text(_part(_host(evidence), "ociRuntime"), "name")


def log_driver(evidence: Evidence) -> Fact[str]:
    return _text(_host(evidence), "logDriver")


def data_root(evidence: Evidence) -> Fact[str]:
    return _text(_part(_info(evidence), "store"), "graphRoot")


def storage_driver(evidence: Evidence) -> Fact[str]:
    return _text(_part(_info(evidence), "store"), "graphDriverName")


def security_options(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Names as Docker has them: rootless, userns (remapped users), seccomp, apparmor, selinux."""
    host = _host(evidence)
    security = _part(host, "security")
    if isinstance(host, Missing) or isinstance(security, Missing):
        return security if isinstance(security, Missing) else Missing("podman info has no host")
    flags = {"rootless": "rootless", "seccompEnabled": "seccomp", "apparmorEnabled": "apparmor", "selinuxEnabled": "selinux"}
    if not all(isinstance(security.get(key), bool) for key in flags):
        return Missing("podman info does not say whether it is rootless")
    mappings = host.get("idMappings")
    remapped = isinstance(mappings, dict) and any(mappings.get(key) for key in ("uidmap", "gidmap"))
    return tuple(sorted([name for key, name in flags.items() if security[key]] + ["userns"] * remapped))


def _said(evidence: Evidence, name: str) -> Fact[str]:
    """What a call of podman printed; it must have ended well."""
    section = evidence.usable(name, "podman")
    if isinstance(section, Missing):
        return section
    if section.rc:
        return Missing(f"podman ended with exit code {section.rc}: {one_line(section.error_text) or 'no message'}")
    return section.text


def _info(evidence: Evidence) -> Fact[Mapping[str, object]]:
    said = _said(evidence, "podman_info")
    if isinstance(said, Missing):
        return said
    return Missing(_NEVER) if said.strip() == UNUSED else load_object(said, "podman info")


def _host(evidence: Evidence) -> Fact[Mapping[str, object]]:
    return _part(_info(evidence), "host")


def _part(found: Fact[Mapping[str, object]], key: str) -> Fact[Mapping[str, object]]:
    if isinstance(found, Missing):
        return found
    value = found.get(key)
    return value if isinstance(value, dict) else Missing(f"podman info has no {key}")


def _text(found: Fact[Mapping[str, object]], key: str) -> Fact[str]:
    return found if isinstance(found, Missing) else string(found.get(key), f"{key} in podman info")


def images(evidence: Evidence) -> Fact[tuple[ImageFacts, ...]]:
    said = _said(evidence, "podman_images")
    return said if isinstance(said, Missing) else parse_images(said)


def parse_images(text: str) -> Fact[tuple[ImageFacts, ...]]:
    """One JSON object a line, and `end`; `unused` alone for a podman that never ran."""
    if text.strip() == UNUSED:
        return ()
    *lines, end = text.splitlines() or [""]
    if end != "end":
        return Missing("the list of podman's images is cut off")
    found = container.parse_images(f"[{','.join(lines)}]")
    if isinstance(found, Missing) or len(found) != len(lines):
        return found if isinstance(found, Missing) else Missing("the list of podman's images holds a line that is none")
    return tuple(replace(image, id=_digest(image.id)) for image in found)


def running(evidence: Evidence) -> Fact[tuple[RunningContainer, ...]]:
    said = _said(evidence, "podman_running")
    if isinstance(said, Missing) or said.strip() == UNUSED:
        return said if isinstance(said, Missing) else ()
    found = parse_running(said)
    return found if isinstance(found, Missing) else tuple(replace(one, image=_digest(one.image)) for one in found)


def _digest(name: str) -> str:
    """Podman leaves out what a digest begins with where it shows the id of an image."""
    return f"sha256:{name}" if re.fullmatch(r"[0-9a-f]{64}", name) else name


def cdi_folders(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """What the last file that says anything says; podman's own default where none does."""
    config = read_group(evidence, "podman_config", "podman")
    if isinstance(config, Missing):
        return config
    folders: Fact[tuple[str, ...]] = DEFAULT_CDI_FOLDERS
    for path, text in config.entries.items():
        if HOOKS_FOLDER in path:
            continue
        if isinstance(text, Missing):
            return text
        if text is not None and text.strip():
            folders = _listed(text, path)
    return folders if any(path.endswith(".conf") for path in config.entries) else Missing("the probe read no containers.conf")


def _listed(text: str, path: str) -> Fact[tuple[str, ...]]:
    """A TOML array of strings, which may take several lines and end in a comma."""
    match = re.fullmatch(r"\s*cdi_spec_dirs\s*=\s*\[(.*)\]\s*", re.sub(r"#[^\n]*", "", text), re.DOTALL)
    odd = Missing(f"cdi_spec_dirs in {path}: {one_line(text)}")
    if not match:
        return odd
    try:
        found = json.loads(f"[{match[1].strip().rstrip(',')}]")
    except (ValueError, RecursionError):
        return odd
    return tuple(found) if all(isinstance(one, str) and one.startswith("/") for one in found) else odd


def hooks(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Paths of files by which podman runs NVIDIA's legacy hook in every container."""
    config = read_group(evidence, "podman_config", "podman")
    if isinstance(config, Missing):
        return config
    looked = [entry for path, entry in config.entries.items() if HOOKS_FOLDER in path]
    found = tuple(sorted(path for path in config.marked if HOOKS_FOLDER in path))
    hidden = next((entry for entry in looked if isinstance(entry, Missing)), None)
    return hidden or (found if looked or found else Missing("the probe did not look for hooks"))
