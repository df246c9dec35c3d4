"""YAML files a user may edit: loaded with the line of every value, checked against a JSON Schema, errors by line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rackproof.errors import InputError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Path_ = tuple[str | int, ...]


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast; not in every build of PyYAML
_MAX_DEPTH = 100


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: plain data, and the line on which each value starts, by its path of keys and indexes."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[Path_, int]

    def where(self, *keys: str | int) -> str:
        """`file:line` of a value, or of the nearest thing around it."""
        for end in range(len(keys), -1, -1):
            if keys[:end] in self.lines:
                return f"{self.path}:{self.lines[keys[:end]]}"
        return str(self.path)


def load(path: Path, schema: Mapping[str, Any] | None = None) -> YamlFile:
    """Read, parse and check one YAML file. Raises InputError with file, line, value and what is accepted."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(str(path), "there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    lines: dict[Path_, int] = {}
    try:
        if _too_deep(text):
            raise RecursionError
        node = yaml.compose(text, Loader=_LOADER)
        if node is not None:
            _index(node, (), lines, path)
        parsed = yaml.load(text, Loader=_LOADER)
        data: object = {} if parsed is None else parsed  # nothing but comments, or a lone `---`
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError(line, f"not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:  # e.g. a control character, a date that is none
        raise InputError(str(path), f"not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(str(path), "not usable YAML: nested too deeply, or an anchor that holds itself") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}:{lines[()]}", f"holds a {type(data).__name__}", "a mapping of keys to values")
    loaded = YamlFile(path, data, lines)
    if schema is not None:
        check(loaded, schema)
    return loaded


def _too_deep(text: str) -> bool:
    """The C parser recurses without a limit; nothing a person writes is nested a hundred levels."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    indent = max((len(line) - len(line.lstrip(" -?")) for line in text.splitlines()), default=0)
    return deepest > _MAX_DEPTH or indent > 2 * _MAX_DEPTH


def check(file: YamlFile, schema: Mapping[str, Any]) -> None:
    """Raise InputError for the first (most specific) thing in the file that the schema does not allow."""
    from jsonschema import Draft202012Validator  # a fifth of a second, which a file without a schema need not cost
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema).iter_errors(file.data))
    if error is not None:
        raise InputError(file.where(*_path(error)), *_explain(error))


def _path(error: ValidationError) -> Path_:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        extra = next(iter(_unknown_keys(error)), None)
        return (*path, extra) if extra is not None else path
    return path


def _explain(error: ValidationError) -> tuple[str, str]:
    name = ".".join(str(part) for part in error.absolute_path) or "the file"
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    wanted: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "additionalProperties":
            unknown = ", ".join(repr(key) for key in _unknown_keys(error))
            return f"unknown key {unknown} in {name}", ", ".join(sorted(schema.get("properties", {})))
        case "required":
            missing = [key for key in wanted if key not in instance]
            return f"{name} lacks {', '.join(missing)}", ", ".join(wanted)
        case "enum":
            return f"{name} is {instance!r}", ", ".join(str(value) for value in wanted)
        case "const":
            return f"{name} is {instance!r}", str(wanted)
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{name} is {instance!r}, a {type(instance).__name__}", kinds
        case "pattern":
            hint = schema.get("description", f"text that matches {wanted}")
            return f"{name} is {instance!r}", str(hint)
        case _:
            return f"{name}: {error.message}", str(schema.get("description", ""))


def _unknown_keys(error: ValidationError) -> Iterator[str]:
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    instance: Any = error.instance
    return (key for key in instance if key not in known)


def _index(node: yaml.Node, path: Path_, lines: dict[Path_, int], file: Path) -> None:
    """Note the line of every value; refuse a key written twice, which PyYAML would let win silently."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[Hashable] = set()
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{file}:{key.start_mark.line + 1}", "a key is a list or a mapping", "a word")
            merge = key.tag == "tag:yaml.org,2002:merge"
            name = key.value if merge else yaml.constructor.SafeConstructor().construct_object(key)
            if name in seen:
                raise InputError(f"{file}:{key.start_mark.line + 1}", f"key {name!r} is written twice", "each key once")
            seen.add(name)
            if merge:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            lines.setdefault((*path, name), key.start_mark.line + 1)
            _index(value, (*path, name), lines, file)
        for other in merged:  # what the mapping says itself has its line already
            _index(other, path, lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _index(item, (*path, number), lines, file)
