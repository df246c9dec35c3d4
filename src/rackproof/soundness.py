"""Facts are what their types say, or they are missing.

A parser with a defect could give text where a number belongs, and a check would then compare what cannot be compared.
The evaluator passes every node through `sound` first: a value of the wrong kind becomes Missing at the nearest place that
may be missing, with the reason, so that garbage is unknown by construction and not by each check's care.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Union
from weakref import WeakValueDictionary

import rackproof
from rackproof import facts
from rackproof.facts import Missing, NodeFacts

# Types of the modules fact*.py, which facts.py names for the type checker only.
_NAMES = {
    name: value
    for module in pkgutil.iter_modules(rackproof.__path__)
    if module.name.startswith("fact")
    for name, value in vars(importlib.import_module(f"rackproof.{module.name}")).items()
}

Check = Callable[[Any], Any]  # the value, made sound; raises _Unsound where it cannot be


class _Unsound(Exception):
    """A value of the wrong kind where nothing may be missing."""


_checked: WeakValueDictionary[int, NodeFacts] = WeakValueDictionary()  # by id: a node is judged alone and in its unit


def sound(node: NodeFacts) -> NodeFacts:
    """The same facts; where all are of their kind, the very same object.

    A whole part of the wrong kind (`host`, `driver`) is left: no check can get at anything in it.
    """
    if _checked.get(id(node)) is node:
        return node
    try:
        found: NodeFacts = _dataclass(NodeFacts)(node)
    except _Unsound:
        return node
    _checked[id(found)] = found
    return found


@cache
def _dataclass(kind: type) -> Check:
    hints = typing.get_type_hints(kind, vars(facts), _NAMES)
    checks = [(field.name, _check(hints[field.name])) for field in fields(kind)]

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise _Unsound(f"{_kind(value)} where {kind.__name__} belongs")
        changes = {}
        for name, sound_field in checks:
            before = getattr(value, name)
            after = sound_field(before)
            if after is not before:
                changes[name] = after
        return replace(value, **changes) if changes else value  # type: ignore[type-var]

    return check


_SIMPLE = frozenset({bool, int, float, str, type(None)})  # what is whole as soon as it is of its kind


def _check(hint: Any) -> Check:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _union([argument for argument in arguments if argument is not Missing], Missing in arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        return _items(frozenset, _check(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_check(arguments[0]), _check(arguments[1]))
    if is_dataclass(hint):
        return _dataclass(hint)  # type: ignore[arg-type]
    return _plain(hint)


def _union(kinds: list[Any], may_be_missing: bool) -> Check:
    checks = [_check(kind) for kind in kinds]
    simple = frozenset(kind for kind in kinds if kind in _SIMPLE) | ({Missing} if may_be_missing else frozenset())

    def check(value: Any) -> Any:
        if type(value) in simple or (may_be_missing and isinstance(value, Missing)):
            return value
        problem = ""
        for sound_value in checks:
            try:
                return sound_value(value)
            except _Unsound as unsound:
                problem = problem or str(unsound)
        if may_be_missing:
            return Missing(f"rackproof misread it: {problem}")
        raise _Unsound(problem)

    return check


def _tuple(arguments: tuple[Any, ...]) -> Check:
    if arguments[-1] is Ellipsis:
        return _items(tuple, _check(arguments[0]))
    checks = [_check(argument) for argument in arguments]

    def check(value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(checks):
            raise _Unsound(f"{_kind(value)} where {len(checks)} values belong")
        return _same(value, tuple(sound_item(item) for sound_item, item in zip(checks, value, strict=True)))

    return check


def _items(kind: type[tuple[Any, ...]] | type[frozenset[Any]], sound_item: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _Unsound(f"{_kind(value)} where a {kind.__name__} belongs")
        return _same(value, kind(sound_item(item) for item in value))

    return check


def _same(before: Any, after: Any) -> Any:
    if isinstance(before, tuple):
        return before if all(old is new for old, new in zip(before, after, strict=True)) else after
    return before if after == before else after


def _mapping(sound_key: Check, sound_item: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Unsound(f"{_kind(value)} where a mapping belongs")
        for key in value:
            sound_key(key)
        after = {key: sound_item(item) for key, item in value.items()}
        return value if all(after[key] is item for key, item in value.items()) else after

    return check


def _plain(kind: Any) -> Check:
    wanted: tuple[type, ...] = (float, int) if kind is float else (kind,)
    anything = kind in (Any, object)

    def check(value: Any) -> Any:
        if anything or type(value) is kind:
            return value
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
            raise _Unsound(f"{_kind(value)} where {'none' if kind is type(None) else kind.__name__} belongs")
        return value

    return check


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
