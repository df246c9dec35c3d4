"""The container engine: Docker's own account of itself, its images and settings, and NVIDIA's container toolkit.

`docker info` says all that `docker version` would, and says it of a daemon that is down too.
Formats: `docker info --format '{{json .}}'` and `docker image inspect`, Docker 20.10 to 29 (both image stores);
`nvidia-ctk --version`, toolkit 1.13 to 1.20. Source: captures; docs.docker.com/reference/api/engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root, Section, Status
from rackproof.evidence.tools import engines
from rackproof.evidence.tools.group import read_group, script
from rackproof.evidence.tools.values import load_json, load_object, one_line, output, string, strings
from rackproof.facts import Fact, ImageFacts, Missing

DAEMON_JSON = "/etc/docker/daemon.json"
MAX_IMAGES = 200

# Values of image variables that look like secrets stay on the node.
_IMAGES_SCRIPT = rf"""
ids=$(docker image ls -q --no-trunc) || exit $?
set -- $(printf '%s\n' "$ids" | sort -u)
[ $# -gt 0 ] || {{ echo '[]'; exit 0; }}
[ $# -le {MAX_IMAGES} ] || echo "only {MAX_IMAGES} of $# images are described" >&2
printf '%s\n' "$@" | head -n {MAX_IMAGES} | xargs docker image inspect |
  sed -E 's/^( *"[A-Za-z0-9_]*(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)[A-Za-z0-9_]*=).*("|",)$/\1***\3/'
"""

COMMANDS = (
    Command("docker_info", "docker info --format '{{json .}}'", "docker", Root.HELPS),
    Command("docker_images", _IMAGES_SCRIPT, "docker", Root.HELPS),
    Command("docker_config", script(f"show {DAEMON_JSON}\n{engines.SCRIPT}"), root=Root.HELPS),
    Command("nvidia_ctk", "nvidia-ctk --version", "nvidia-ctk"),
)


def engine(evidence: Evidence) -> Fact[str | None]:
    """ "docker", or None only where the probe looked for the docker command and there is none."""
    section = evidence.section("docker_info")
    if isinstance(section, Missing):
        return section
    if section.status is Status.ABSENT:
        return None
    unusable = section.unusable("docker")
    if unusable:
        return unusable
    if "Emulate Docker CLI using podman" in section.error_text:
        return "podman"
    found = load_object(section.text, "docker info")
    if isinstance(found, Missing) or not {"ServerVersion", "ServerErrors", "ClientInfo"}.intersection(found):
        return _refusal(section) or Missing(f"docker info: {one_line(section.text) or 'nothing printed'}")
    return "docker"


def engine_version(evidence: Evidence) -> Fact[str]:
    """Version of the daemon, not of the command."""
    return _info_text(evidence, "ServerVersion")


def cgroup_version(evidence: Evidence) -> Fact[str]:
    return _info_text(evidence, "CgroupVersion")


def cgroup_driver(evidence: Evidence) -> Fact[str]:
    return _info_text(evidence, "CgroupDriver")


def default_runtime(evidence: Evidence) -> Fact[str]:
    return _info_text(evidence, "DefaultRuntime")


def log_driver(evidence: Evidence) -> Fact[str]:
    """Of a container for which none is named."""
    return _info_text(evidence, "LoggingDriver")


def data_root(evidence: Evidence) -> Fact[str]:
    return _info_text(evidence, "DockerRootDir")


def storage_driver(evidence: Evidence) -> Fact[str]:
    """overlay2 and the like, or the snapshotter of containerd's image store, whose data lies below containerd's root."""
    return _info_text(evidence, "Driver")


def security_options(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Names alone: "name=seccomp,profile=builtin" is seccomp; rootless and userns change what --privileged means."""
    found = _info(evidence)
    if isinstance(found, Missing):
        return found
    if not isinstance(found.get("SecurityOptions"), list):
        return Missing("docker info lists no security options")
    names = (re.match(r"name=([A-Za-z0-9_-]+)", option) for option in strings(found["SecurityOptions"]))
    return tuple(sorted({match[1] for match in names if match}))


def runtimes(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """Names of the OCI runtimes the daemon knows, sorted."""
    found = _info(evidence)
    if isinstance(found, Missing):
        return found
    names = found.get("Runtimes")
    return tuple(sorted(names)) if isinstance(names, dict) and names else Missing("docker info lists no runtimes")


def cdi_devices(evidence: Evidence) -> Fact[tuple[str, ...]]:
    """CDI devices the daemon discovered by itself: "nvidia.com/gpu=0".

    Docker before 28.2 never lists them, and later ones leave the key out when there are none, so no key is no answer.
    """
    found = _info(evidence)
    if isinstance(found, Missing):
        return found
    devices = found.get("DiscoveredDevices")
    if not isinstance(devices, list):
        return Missing("docker info lists no discovered devices (none there, or Docker older than 28.2)")
    cdi = [device for device in devices if isinstance(device, dict) and device.get("Source") == "cdi"]
    return tuple(name for device in cdi if isinstance(name := device.get("ID"), str))


def daemon_config(evidence: Evidence) -> Fact[Mapping[str, object] | None]:
    """daemon.json; None where there is none, {} where it is empty, as dockerd takes it."""
    group = read_group(evidence, "docker_config", DAEMON_JSON)
    text = group if isinstance(group, Missing) else group.text(DAEMON_JSON)
    if not isinstance(text, str):
        return text
    return load_object(text, DAEMON_JSON) if text.strip() else {}


def images(evidence: Evidence) -> Fact[tuple[ImageFacts, ...]]:
    section = evidence.usable("docker_images", "docker")
    if isinstance(section, Missing):
        return section
    return _refusal(section) or parse_images(section.text)


def parse_images(text: str) -> Fact[tuple[ImageFacts, ...]]:
    """Images as `docker image inspect` describes them, a JSON array. A local build has no digests."""
    found = load_json(text, "docker image inspect")
    if isinstance(found, Missing):
        return found
    if not isinstance(found, list) or not all(isinstance(item, dict) and "RepoTags" in item for item in found):
        return Missing(f"docker image inspect: {one_line(text)}")
    return tuple(_image(item) for item in found)


def _image(item: Mapping[str, object]) -> ImageFacts:
    raw = item.get("Config")
    config: Mapping[str, object] = raw if isinstance(raw, dict) else {}
    variables = dict(variable.split("=", 1) for variable in strings(config.get("Env")) if "=" in variable)
    labels = config.get("Labels")
    return ImageFacts(
        id=str(item.get("Id") or ""),
        tags=strings(item.get("RepoTags")),
        digests=strings(item.get("RepoDigests")),
        architecture=string(item.get("Architecture"), "Architecture of the image"),
        cuda_version=string(variables.get("CUDA_VERSION"), "CUDA_VERSION of the image"),
        labels={str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
    )


def toolkit_version(evidence: Evidence) -> Fact[str | None]:
    """Version of nvidia-ctk; None only where the probe looked for it and there is none."""
    section = evidence.section("nvidia_ctk")
    if not isinstance(section, Missing) and section.status is Status.ABSENT:
        return None
    text = output(evidence, "nvidia_ctk", "nvidia-ctk")
    return text if isinstance(text, Missing) else parse_toolkit_version(text)


def parse_toolkit_version(text: str) -> Fact[str]:
    """ "1.20.0" from "NVIDIA Container Toolkit CLI version 1.20.0"; later lines (commit) come and go."""
    match = re.search(r"^NVIDIA Container Toolkit CLI version v?([0-9]+(?:\.[0-9]+)+\S*)\s*$", text, re.MULTILINE)
    return match[1] if match else Missing(f"nvidia-ctk --version: {one_line(text)}")


def _info_text(evidence: Evidence, key: str) -> Fact[str]:
    found = _info(evidence)
    value = found if isinstance(found, Missing) else found.get(key)
    return value if isinstance(value, Missing) else string(value, f"{key} in docker info")


def _info(evidence: Evidence) -> Fact[Mapping[str, object]]:
    return _answer(evidence, "docker_info", "docker info")


def _answer(evidence: Evidence, name: str, what: str) -> Fact[Mapping[str, object]]:
    """The JSON object of a docker command that reached the daemon; else the reason, in words one can act on."""
    section = evidence.usable(name, "docker")
    if isinstance(section, Missing):
        return section
    refusal = _refusal(section)
    if refusal:
        return refusal
    found = load_object(section.text, what)
    if isinstance(found, Missing):
        return found
    errors = strings(found.get("ServerErrors"))
    return Missing(f"{what}: {one_line(errors[0])}") if errors else found


def _refusal(section: Section) -> Missing | None:
    """Why the daemon did not answer. A down daemon and a locked socket are told in stderr, or in JSON on stdout."""
    said = section.error_text + section.text[:4096]
    if re.search(r"permission denied .*docker (?:API|daemon)|dial unix \S+: connect: permission denied", said, re.I):
        return Missing("docker needs root or the docker group, and the probe had neither (run it with --sudo)")
    if re.search(r"Cannot connect to the Docker daemon|failed to connect to the docker API", said, re.I):
        return Missing("the Docker daemon is not running, or not where the docker command looks for it")
    if section.rc:
        said = one_line(section.error_text) or one_line(section.text)
        return Missing(f"docker ended with exit code {section.rc}: {said or 'no message'}")
    return None
