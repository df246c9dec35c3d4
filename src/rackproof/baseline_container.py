"""What a container engine on a GPU host should be, beyond engine and toolkit: values of rules/container.yaml."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class ContainerRules:
    """Sizes in bytes; each field is the rule of its name."""

    toolkit_escape_fixed: str
    containerd_min: str
    podman_min: str
    cgroup_version: str
    cdi_runtime_from: str
    data_free_bytes: int
    data_filesystems: tuple[str, ...]
    storage_drivers: tuple[str, ...]
    containerd_store: tuple[str, ...]
    containerd_root: str
    open_files_min: int
    obsolete_packages: tuple[str, ...]


def container_rules(r: Resolving) -> ContainerRules:
    return ContainerRules(
        **{
            field.name: r.rule(f"runtime.rules.{field.name}", "container", field.name)
            for field in fields(ContainerRules)
        }
    )
