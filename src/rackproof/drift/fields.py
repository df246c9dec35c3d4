"""The fields of NodeFacts as paths, found from the types: what has to be classified is never a list kept by hand.

A path is written `smi.gpus[].uuid`: `.` is a field, `[]` an item of a list of dataclasses, `{}` a value of a mapping.
A tuple or a set of plain values is one leaf.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import rackproof
from rackproof.facts import Missing, NodeFacts

# Modules whose names annotations of facts use, where they are imported for type checkers only.
_MODULES = tuple(
    f"rackproof.{module.name}"
    for module in pkgutil.iter_modules(rackproof.__path__)
    if module.name.startswith("facts") and not module.ispkg
)


@cache
def leaves(root: type = NodeFacts) -> tuple[str, ...]:
    """Path of every leaf field below a dataclass, in the order the fields are declared."""
    return tuple(path for path, _ in _walk(root, ""))


@cache
def lists(root: type = NodeFacts) -> Mapping[str, frozenset[str]]:
    """Path of every list of dataclasses (without its `[]`) -> names of the fields of one item."""
    found: dict[str, frozenset[str]] = {}
    for path, _ in _walk(root, "", found):
        del path
    return found


def _walk(kind: Any, path: str, found: dict[str, frozenset[str]] | None = None) -> Iterator[tuple[str, Any]]:
    kind = _bare(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        for field in fields(kind):
            yield from _walk(hints[field.name], f"{path}.{field.name}".lstrip("."), found)
    elif origin is tuple and len(arguments) == 2 and arguments[1] is ... and is_dataclass(_bare(arguments[0])):
        item = _bare(arguments[0])
        if found is not None:
            found[path] = frozenset(field.name for field in fields(item))
        yield from _walk(item, f"{path}[]", found)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _walk(arguments[1], f"{path}{{}}", found)
    else:
        yield path, kind


def _bare(kind: Any) -> Any:
    """A type without Missing and None: Fact[X | None] is X."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [one for one in get_args(kind) if one not in (Missing, type(None))]
        return _bare(rest[0]) if len(rest) == 1 else kind
    return kind


@cache
def _hints(kind: type) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for module in _MODULES:
        names.update(vars(importlib.import_module(module)))
    return get_type_hints(kind, localns=names)
