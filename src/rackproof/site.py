"""The site: one customer's choices, read from group_vars/ and merged from general to particular.

`all.yaml` comes first, then one file a group; later files win value by value. Every value remembers the file and line
it came from, because that line is where somebody will have to change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.site_schema import SCHEMA
from rackproof.sourced import Cell, freeze

Key = tuple[str, ...]
SHIPPED = Path(__file__).parent / "site_defaults.yaml"


@dataclass(frozen=True)
class Site:
    """Merged values by path of keys, each a Cell with the file and line it came from."""

    cells: Mapping[Key, Cell[Any]] = field(default_factory=dict)

    def get(self, *key: str) -> Cell[Any] | None:
        """The cell at a path, or None where the site says nothing."""
        return self.cells.get(key)

    def require(self, *key: str) -> Cell[Any]:
        """The cell at a path; raises InputError when no file sets it."""
        cell = self.cells.get(key)
        if cell is None:
            raise InputError("group_vars", f"nothing sets {'.'.join(key)}", "a value in all.yaml or in a group's file")
        return cell

    def value(self, *key: str, default: Any = None) -> Any:
        cell = self.cells.get(key)
        return default if cell is None else cell.value

    def under(self, *prefix: str) -> dict[str, Cell[Any]]:
        """The cells directly below a path, by their last key."""
        size = len(prefix)
        return {key[-1]: cell for key, cell in self.cells.items() if key[:size] == prefix and len(key) == size + 1}

    def overlaid(self, values: Mapping[str, Any], source: str) -> Site:
        """This site with more values on top, for what only exists at run time (a lab's addresses and keys)."""
        yamlfile.check(yamlfile.YamlFile(Path(source), dict(values), {}), SCHEMA)
        return Site({**self.cells, **{key: Cell(value, source) for key, value in _flatten(values, ())}})


def is_default(cell: Cell[Any]) -> bool:
    """Whether a value is what ships with the package, which nobody chose."""
    return cell.source.startswith(f"{SHIPPED.parent.name}/{SHIPPED.name}:")


def load(folder: Path, groups: Sequence[str]) -> Site:
    """The site of a host in `groups` (most general first), on top of the defaults that ship with the package.

    A group without a file of its own is fine; a folder without `all.yaml` is not.
    """
    files = [yamlfile.load(SHIPPED, SCHEMA), yamlfile.load(folder / "all.yaml", SCHEMA)]
    files += [
        yamlfile.load(path, SCHEMA) for path in (folder / f"{group}.yaml" for group in groups) if path.exists()
    ]
    return merged(files)


def shipped() -> Site:
    """The defaults alone: for judging a stranger's node, for whom no site has spoken."""
    return merged([yamlfile.load(SHIPPED, SCHEMA)])


def from_file(path: Path) -> Site:
    """The defaults with one file on top (`--site FILE`)."""
    return merged([yamlfile.load(SHIPPED, SCHEMA), yamlfile.load(path, SCHEMA)])


def merged(files: Sequence[yamlfile.YamlFile]) -> Site:
    cells: dict[Key, Cell[Any]] = {}
    for file in files:
        name = "/".join(filter(None, (file.path.parent.name, file.path.name)))
        for key, value in _flatten(file.data, ()):
            line = file.where(*key).rpartition(":")[2]
            cells[key] = Cell(value, f"{name}:{line}")
    return Site(cells)


def _flatten(data: Mapping[str, Any], prefix: Key) -> list[tuple[Key, Any]]:
    found: list[tuple[Key, Any]] = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            found += _flatten(value, (*prefix, key))
        else:
            found.append(((*prefix, key), freeze(value)))
    return found
