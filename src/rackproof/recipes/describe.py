"""The recipe for people and machines: what it holds, where that is from, and where its sources contradict each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rackproof.recipes import TIERS, Recipe
from rackproof.recipes.settings import Claim, Conflict, Settings, by
from rackproof.recipes.upstream import Snapshot
from rackproof.sourced import Cell

SECTIONS = ("provenance", "model", "host", "images", "layouts", "settings", "rules", "limits", "conflicts")


def as_data(recipe: Recipe, settings: Settings, snapshot: Snapshot) -> dict[str, Any]:
    """Everything as plain data, by section."""
    return {
        "schema": 1,
        "id": recipe.id,
        "title": recipe.title,
        "provenance": {**snapshot.provenance, "sources": {key: dict(value) for key, value in settings.sources.items()}},
        "model": _cells(recipe.model),
        "host": _cells(recipe.host),
        "images": [_plain(image) for image in recipe.images.values()],
        "layouts": [_plain(layout) for layout in recipe.layouts.values()],
        "settings": [_plain(setting) for setting in settings.settings],
        "rules": [_plain(rule) for rule in (*settings.rules, *settings.warnings)],
        "limits": {**_cells(settings.limits), **{f"port_{name}": _cell(c) for name, c in settings.ports.items()}},
        "conflicts": [_plain(conflict) for conflict in settings.conflicts],
    }


def as_text(recipe: Recipe, settings: Settings, snapshot: Snapshot, sections: tuple[str, ...] = SECTIONS) -> str:
    """The same for reading; each section under its name."""
    writers = {
        "provenance": lambda: _provenance(recipe, settings, snapshot),
        "model": lambda: _cell_lines(recipe.model),
        "host": lambda: _cell_lines(recipe.host),
        "images": lambda: _images(recipe),
        "layouts": lambda: _layouts(recipe),
        "settings": lambda: _settings(settings),
        "rules": lambda: _rules(settings),
        "limits": lambda: _cell_lines({**settings.limits, **{f"port {k}": v for k, v in settings.ports.items()}}),
        "conflicts": lambda: _conflicts(settings),
    }
    blocks = [f"{name.upper()}\n" + "\n".join(f"  {line}" for line in writers[name]()) for name in sections]
    return "\n\n".join([recipe.title, *blocks])


def _provenance(recipe: Recipe, settings: Settings, snapshot: Snapshot) -> list[str]:
    lines = [f"{key}: {value}" for key, value in snapshot.provenance.items()]
    lines.append("sources:")
    for key, source in settings.sources.items():
        date = f", {source['date']}" if "date" in source else ""
        lines.append(f"  {key}: {source['at']} ({source['kind']}{date})")
    return lines


def _cell_lines(cells: Mapping[str, Cell[Any]]) -> list[str]:
    return [f"{key.replace('_', ' ')}: {_value(cell.value)} ({by(cell.source)})" for key, cell in cells.items()]


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(item)}" for key, item in value.items()) or "none"
    return "unverified" if value is None else str(value)


def _images(recipe: Recipe) -> list[str]:
    lines: list[str] = []
    for image in recipe.images.values():
        lines.append(f"{image.id}: {image.repository}:{image.tag}, CUDA {image.cuda}, {image.role} ({by(image.source)})")
        for name, digest in (("index", image.index), ("amd64", image.amd64), ("arm64", image.arm64)):
            lines.append(f"  {name} {digest or 'not published in full'}")
    return lines


def _layouts(recipe: Recipe) -> list[str]:
    lines: list[str] = []
    for tier in TIERS:
        found = [layout for layout in recipe.layouts.values() if layout.tier == tier]
        lines += [f"{tier}:"] if found else []
        for layout in found:
            shapes = ", ".join(f"{pool.name} {pool.shape}".strip() for pool in layout.pools)
            nodes = f"{layout.nodes} node{'s' if layout.nodes > 1 else ''}"
            why = f": {layout.why or layout.warn}" if layout.why or layout.warn else ""
            lines.append(f"  {layout.id}: {shapes} on {nodes} of {layout.hardware}, {layout.fabric} ({by(layout.source)}){why}")
    return lines


def _settings(settings: Settings) -> list[str]:
    lines: list[str] = []
    for setting in settings.settings:
        scope = ", ".join(f"{key} {'/'.join(map(str, values)) or 'none'}" for key, values in setting.scope.items())
        lines.append(f"{setting.id} [{scope or 'always'}] ({by(setting.source)})")
        lines += [f"  --{name}{'' if value is True else ' ' + _given(value)}" for name, value in setting.args.items()]
        lines += [f"  {name}={_given(value)}" for name, value in setting.env.items()]
        lines += [f"  differs: {setting.differs}"] if setting.differs else []
    return lines


def _given(value: Any) -> str:
    return f"{value.get('prefix', '')}<{value['from']}>" if isinstance(value, Mapping) else str(value)


def _rules(settings: Settings) -> list[str]:
    lines = [f"{rule.id}: {rule.title} [{rule.stage}] ({by(rule.source)})" for rule in settings.rules]
    return lines + [f"{rule.id} (warning): {rule.title} ({by(rule.source)})" for rule in settings.warnings]


def _conflicts(settings: Settings) -> list[str]:
    lines: list[str] = []
    for conflict in settings.conflicts:
        lines += [conflict.topic, f"  a: {_claim(conflict.a)}", f"  b: {_claim(conflict.b)}", f"  {_followed(conflict)}"]
    return lines


def _claim(claim: Claim) -> str:
    return f"{claim.says} ({claim.by}, {claim.since})"


def _followed(conflict: Conflict) -> str:
    return f"we follow {conflict.follow}: {conflict.why}"


def _cells(cells: Mapping[str, Cell[Any]]) -> dict[str, Any]:
    return {key: _cell(cell) for key, cell in cells.items()}


def _cell(cell: Cell[Any]) -> dict[str, Any]:
    return {"value": _json(cell.value), "source": cell.source}


def _plain(item: Any) -> Any:
    return _json({field.name: getattr(item, field.name) for field in dataclasses.fields(item)})


def _json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_json(item) for item in value]
    return value
