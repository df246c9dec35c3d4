"""What a container engine on a GPU host should be, beyond engine and toolkit: values of rules/container.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rackproof import rules
from rackproof.errors import InputError
from rackproof.resolving import Resolving
from rackproof.sourced import Cell, freeze


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


def container_rules(r: Resolving, engine: str) -> ContainerRules:
    def rule(name: str) -> Any:
        value = r.rule(f"runtime.rules.{name}", "container", name)
        return freeze(value[engine]) if isinstance(value, Mapping) else value

    return ContainerRules(**{field.name: rule(field.name) for field in fields(ContainerRules)})


def engine_package(r: Resolving, engine: str) -> str:
    """What the site names, else the distribution's. Raises InputError for the package of another engine."""
    known, named = rules.load("container")["engine_package"], r.site.get("container", "engine_package")
    others = [package for name, package in known.value.items() if name != engine]
    if named is not None and named.value in others:
        raise InputError(
            named.source, f"container.engine_package is {named.value}, and container.engine is {engine}",
            f"a package of {engine}, or no container.engine_package: then {known.value[engine]}",
        )  # fmt: skip
    return str(r.take("runtime.engine_package", named or Cell(known.value[engine], known.source)))
