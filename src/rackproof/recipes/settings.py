"""How the recipe is run: settings with scopes, rules, the container profile and the conflicts, as data with sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.recipes import FOLDER
from rackproof.recipes.settings_schema import SCHEMA
from rackproof.sourced import Cell, Cells, freeze
from rackproof.yamlfile import YamlFile


@dataclass(frozen=True)
class Setting:
    """Arguments and environment that apply where `scope` matches. Values are text, True (a bare flag) or a reference.

    A reference is `{from: NAME, prefix: TEXT}`: a value that only the site or the node knows.
    """

    id: str
    scope: Mapping[str, tuple[Any, ...]]
    args: Mapping[str, Any]
    env: Mapping[str, Any]
    remove: tuple[str, ...]
    note: str
    differs: str
    source: str


@dataclass(frozen=True)
class Rule:
    """A combination that must hold (`require`) where `when` holds. A warning has no `require`."""

    id: str
    title: str
    stage: str
    when: Mapping[str, Mapping[str, Any]]
    require: Mapping[str, Mapping[str, Any]]
    source: str


@dataclass(frozen=True)
class Claim:
    """What one source says of a topic, since when."""

    says: str
    by: str
    since: str


@dataclass(frozen=True)
class Conflict:
    """Two sources that contradict each other, and which of them we follow: "a", "b" or "neither"."""

    topic: str
    a: Claim
    b: Claim
    follow: str
    why: str
    source: str


@dataclass(frozen=True)
class Noted:
    """One option of the container profile: its value, why it is there, who says so."""

    value: Any
    note: str
    source: str


@dataclass(frozen=True)
class GpuInjection:
    """How a container gets its GPUs, by vendor."""

    devices: tuple[str, ...]
    groups: tuple[str, ...]
    security: tuple[str, ...]
    note: str
    source: str


@dataclass(frozen=True)
class Settings:
    """The settings file as loaded. Ports are TCP; limits are in the unit their name ends in."""

    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...]
    warnings: tuple[Rule, ...]
    container: Mapping[str, Noted]
    gpus: Mapping[str, GpuInjection]
    ports: Mapping[str, Cell[int]]
    limits: Mapping[str, Cell[int]]
    parallel: Mapping[str, Cell[str]]
    owned_args: Cell[tuple[str, ...]]
    owned_env: Cell[tuple[str, ...]]
    fabric_rules: Mapping[str, Mapping[str, Any]]
    selfbuild: Mapping[str, Cell[Any]]
    router: Cell[tuple[str, ...]]
    conflicts: tuple[Conflict, ...]
    sources: Mapping[str, Mapping[str, str]]


def by(source: str) -> str:
    """The source ids out of "recipes/kimi_k3_settings.yaml:58 (rcp, trt)": what fits beside a value."""
    found = re.search(r"\(([^()]*)\)\Z", source)
    return found.group(1) if found else source


def load(recipe_id: str = "kimi_k3", folder: Path = FOLDER) -> Settings:
    """The settings of a recipe; raises InputError with the line that is wrong, or the source that is not there."""
    own, recipe = folder / f"{recipe_id}_settings.yaml", folder / f"{recipe_id}.yaml"
    return _read(own, recipe, *(path.stat().st_mtime_ns if path.exists() else 0 for path in (own, recipe)))


@lru_cache(maxsize=16)
def _read(own: Path, recipe: Path, *_changed: int) -> Settings:
    """The settings from their file, once for each state of it."""
    file = _with_recipe_sources(yamlfile.load(own, SCHEMA), yamlfile.load(recipe))
    return _Reader(file, f"recipes/{own.name}").settings()


def _with_recipe_sources(file: YamlFile, recipe: YamlFile) -> YamlFile:
    """The file with the recipe's sources beside its own; an id in both would make a citation ambiguous."""
    shared: dict[str, Any] = recipe.data.get("sources", {})
    own: dict[str, Any] = file.data["sources"]
    twice = sorted(name for name in own if name in shared and own[name] != shared[name])
    if twice:
        raise InputError(
            file.where("sources", twice[0]), f"source {', '.join(twice)} stands in {recipe.path.name} too", "another id"
        )
    return YamlFile(file.path, {**file.data, "sources": {**shared, **own}}, file.lines)


class _Reader:
    """Takes the parts of the file apart and resolves the sources of each."""

    def __init__(self, file: YamlFile, name: str) -> None:
        self.file, self.data = file, file.data
        self.cells = Cells(file, name)

    def settings(self) -> Settings:
        data = self.data
        return Settings(
            settings=tuple(self._setting(item, i) for i, item in enumerate(self._unique("settings"))),
            rules=tuple(self._rule("rules", item, i) for i, item in enumerate(self._unique("rules"))),
            warnings=tuple(self._rule("warnings", item, i) for i, item in enumerate(self._unique("warnings"))),
            container={key: self._noted(key) for key in data["container"] if key != "gpus"},
            gpus={vendor: self._injection(vendor) for vendor in data["container"]["gpus"]},
            ports=self._cells("ports"),
            limits=self._cells("limits"),
            parallel=self._cells("parallel"),
            owned_args=self.cells.get("owned", "args"),
            owned_env=self.cells.get("owned", "env"),
            fabric_rules=self._fabric_rules(),
            selfbuild=self._cells("selfbuild"),
            router=self.cells.get("router"),
            conflicts=tuple(self._conflict(item, i) for i, item in enumerate(data["conflicts"])),
            sources=data["sources"],
        )

    def _unique(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.data[kind]
        seen: set[str] = set()
        for index, item in enumerate(items):
            if item["id"] in seen:
                raise InputError(self.file.where(kind, index), f"{kind} {item['id']} stands there twice", "each id once")
            seen.add(item["id"])
        return items

    def _cells(self, block: str) -> dict[str, Cell[Any]]:
        return {key: self.cells.get(block, key) for key in self.data[block]}

    def _setting(self, item: Mapping[str, Any], index: int) -> Setting:
        return Setting(
            id=item["id"],
            scope={key: tuple(v) if isinstance(v, list) else (v,) for key, v in item["scope"].items()},
            args=item.get("args", {}),
            env=item.get("env", {}),
            remove=tuple(item.get("remove", ())),
            note=item.get("note", ""),
            differs=item.get("differs", ""),
            source=self.cells.source(item["src"], "settings", index),
        )

    def _rule(self, kind: str, item: Mapping[str, Any], index: int) -> Rule:
        source = self.cells.source(item["src"], kind, index)
        return Rule(item["id"], item["title"], item.get("stage", ""), item["when"], item.get("require", {}), source)

    def _noted(self, key: str) -> Noted:
        cell = self.cells.get("container", key)
        return Noted(cell.value, self.data["container"][key].get("note", ""), cell.source)

    def _injection(self, vendor: str) -> GpuInjection:
        item = self.data["container"]["gpus"][vendor]
        source = self.cells.source(item["src"], "container", "gpus", vendor)
        devices, groups, security = (tuple(item[key]) for key in ("devices", "groups", "security"))
        return GpuInjection(devices, groups, security, item["note"], source)

    def _fabric_rules(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for fabric, item in self.data["fabric_rules"].items():
            source = self.cells.source(item["src"], "fabric_rules", fabric)
            found[fabric] = {"all2all": item["all2all"], "needs": freeze(item["needs"]), "source": source}
        return found

    def _conflict(self, item: Mapping[str, Any], index: int) -> Conflict:
        a, b = (Claim(**item[side]) for side in ("a", "b"))
        source = self.cells.source([a.by, b.by], "conflicts", index)
        return Conflict(item["topic"], a, b, item["follow"], item["why"], source)
