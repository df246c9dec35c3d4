"""A healthy node whose engine is podman, and the baseline of a site that says so. There is no Docker on it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.facts import ManagedFile, Missing, NodeFacts
from rackproof.facts_podman import DEFAULT_CDI_FOLDERS, PodmanFacts
from rackproof.managed import managed_files

from .fixtures import DOMAIN, DRIVER, PACKAGES, host, node, official_image, runtime, units

NO_DOCKER = Missing("docker is not installed")
OF_DOCKER = ("engine_version", "cgroup_version", "runtimes", "cdi_devices", "images", "cgroup_driver", "default_runtime",
             "data_root", "storage_driver", "security_options", "running", "log_driver")  # fmt: skip


@cache
def podman_baseline(hardware: str = "gb300") -> Baseline:
    values = {
        "hardware": hardware,
        "driver": {"version": DRIVER},
        "container": {"engine": "podman", "toolkit_version": "1.19.1"},
        "packages": PACKAGES,
    }
    domain = {"domain": DOMAIN, "domain_source": "inventory"} if hardware == "gb300" else {}
    return resolve(site.shipped().overlaid(values, "test"), **domain)  # type: ignore[arg-type]


def podman_node(**changes: Any) -> NodeFacts:
    """A GB300 tray; `changes` are fields of PodmanFacts."""
    wanted = podman_baseline()
    image = official_image("gb300")
    image = replace(
        image, tags=(f"docker.io/{image.tags[0]}",), digests=(f"docker.io/{image.digests[0]}", "docker.io/vllm/vllm-openai@sha256:5")
    )
    before = replace(image, id="sha256:99", tags=("docker.io/vllm/vllm-openai:rackproof-previous",), digests=())
    found = PodmanFacts(
        version="5.4.2",
        cgroup_version="2",
        cgroup_driver="systemd",
        oci_runtime="crun",
        data_root="/var/lib/containers/storage",
        storage_driver="overlay",
        log_driver="journald",
        security_options=("seccomp",),
        images=(image, before),
        running=(),
        cdi_folders=DEFAULT_CDI_FOLDERS,
        hooks=(),
    )
    facts = runtime(units(node(), docker={"load": "not-found", "active": "inactive", "enabled": ""}), engine=None, **dict.fromkeys(OF_DOCKER, NO_DOCKER))
    files = {file.path: ManagedFile(file.path, file.sha256) for file in managed_files(wanted)}
    facts = host(facts, files=files, stamp={"baseline": wanted.hash})
    return replace(facts, podman=replace(found, **changes))
