"""What an upstream recipe file says that matters to hosts, and how it differs from the snapshot that we pin.

Upstream files are data that somebody else wrote: read with a size limit and the safe loader, never executed, never
believed. Everything that is not known to be prose is compared, so that a key we have never seen shows as a change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rackproof import yamlfile
from rackproof.errors import InputError
from rackproof.recipes import FOLDER

MAX_BYTES = 1024 * 1024
MAX_VALUES = 20_000  # after aliases are followed: a file of aliases to aliases stays a message
MAX_DEPTH = 32
MODEL = "moonshotai/Kimi-K3"
PROSE = "guide.sha256"  # of the words themselves: they may say what no pattern below reads
Facts = dict[str, str]

# Prose and presentation: a change there changes nothing for a host. Facts in the guide are read by _GUIDE.
_PROSE = re.compile(
    r"meta\.(title|slug|provider|description|date_added|date_updated|difficulty|tasks|performance_headline"
    r"|related_recipes)(\.|$)|guide$|(.*\.)?(description|note|display_name|orientation|name)$"
)
_GUIDE = {
    "driver_branches": re.compile(r"\br(\d{3})\+"),
    "images": re.compile(r"\bvllm/vllm-openai[\w.-]*(?::[\w.-]*\w)?"),
    "cuda_builds": re.compile(r"\bcu1\d\d\b"),
    "minimum_hardware": re.compile(r"[Aa]t least (\d+x [A-Z0-9/]+)"),
    "all2all_backends": re.compile(r"--all2all-backend (\w+)"),
    "environment": re.compile(r"\b([A-Z][A-Z0-9_]{3,}=\"?[\w,.:-]+)"),
    "kernel_modules": re.compile(r"\b(nvidia_peermem|gdrdrv|nvidia_fs)\b"),
}
_KINDS: tuple[tuple[str, str], ...] = (
    ("environment", r".*\b(env|extra_env|base_env)\.|guide\.environment$"),
    ("arguments", r".*args\.|.*\.vllm_args\.|guide\.all2all_backends$"),
    ("driver", r"guide\.(driver_branches|cuda_builds|kernel_modules)$"),
    ("image", r"model\.(docker_image|nightly_required)|guide\.images$|model\.install\."),
    ("version", r"model\.min_vllm_version"),
    ("hardware", r"meta\.(hardware|default_hardware)|guide\.minimum_hardware$|taxonomy\."),
    ("memory", r"variants\."),
    ("layouts", r"(compatible_strategies|default_strategy|strategy_|kv_cache_strategy|features\.|opt_in_features"
                r"|strategies\.)"),
    ("model", r"model\."),
    ("prose", r"guide\.sha256$"),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One value that differs. `ours` or `theirs` is None where it is absent."""

    kind: str  # environment | arguments | driver | image | version | hardware | memory | layouts | model | prose | unknown
    path: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True)
class Upstream:
    """Facts of an upstream recipe, by dotted path. `whole`: strategies and hardware profiles were there to read."""

    file: Path
    sha256: str
    facts: Facts
    whole: bool


@dataclass(frozen=True)
class Snapshot:
    """What we pin of upstream, and the commit and file it was taken from."""

    provenance: Mapping[str, str]
    facts: Facts


_SNAPSHOT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "provenance", "facts"],
    "properties": {
        "schema": {"const": 1},
        "provenance": {"type": "object", "additionalProperties": {"type": "string"}},
        "facts": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def pinned(recipe_id: str = "kimi_k3", folder: Path = FOLDER) -> Snapshot:
    """The snapshot that the recipe data was taken from."""
    data = yamlfile.load(folder / f"{recipe_id}_snapshot.yaml", _SNAPSHOT_SCHEMA).data
    return Snapshot(data["provenance"], data["facts"])


def read(path: Path) -> Upstream:
    """An upstream recipe file, or a checkout of the recipes repository. Raises InputError for what is neither."""
    if not path.is_dir():
        text = _text(path)
        return Upstream(path, _sha256(text), _recipe_facts(path, text), whole=False)
    file = _recipe_in(path)
    text = _text(file)
    facts = _recipe_facts(file, text)
    extra = dict(_strategies(path)) | dict(_profiles(path, facts))
    return Upstream(file, _sha256(text), facts | extra, whole=bool(extra))


def compare(ours: Snapshot, theirs: Upstream) -> list[Change]:
    """Every difference, by kind and path. Strategies and profiles are compared only where `theirs` has them."""
    mine = ours.facts if theirs.whole else {key: value for key, value in ours.facts.items() if not _beside(key)}
    paths = sorted(mine.keys() | theirs.facts.keys())
    changes = [
        Change(kind_of(path), path, mine.get(path), theirs.facts.get(path))
        for path in paths
        if mine.get(path) != theirs.facts.get(path)
    ]
    order = [kind for kind, _ in _KINDS]
    return sorted(changes, key=lambda change: (order.index(change.kind) if change.kind in order else 99, change.path))


def counts(change: Change) -> bool:
    """Whether a change touches what we pin. Other words around the same facts are worth reading, not more."""
    return change.kind != "prose"


def write_snapshot(theirs: Upstream, provenance: Mapping[str, str]) -> str:
    """The text of a snapshot file: facts of a checkout, with where they are from."""
    head = (
        "# What the upstream recipe said at the pinned commit, as facts by path: what `rackproof recipe diff` compares\n"
        "# with. Written by RACKPROOF_REGENERATE=1 pytest tests/unit/recipe_upstream; never by hand.\n"
    )
    data = {"schema": 1, "provenance": dict(provenance), "facts": dict(sorted(theirs.facts.items()))}
    return head + yaml.safe_dump(data, sort_keys=False, width=1000, allow_unicode=True)


def kind_of(path: str) -> str:
    """What a path is about, for a host; "unknown" for a key that we have never seen."""
    return next((kind for kind, pattern in _KINDS if re.match(pattern, path)), "unknown")


def _beside(path: str) -> bool:
    return path.startswith(("strategies.", "taxonomy."))


def _recipe_in(folder: Path) -> Path:
    for candidate in (folder / "models" / f"{MODEL}.yaml", folder / "Kimi-K3.yaml"):
        if candidate.is_file():
            return candidate
    found = sorted(folder.glob("Kimi-K3*.yaml"))
    if len(found) == 1:
        return found[0]
    problem = f"holds {len(found)} files Kimi-K3*.yaml" if found else "holds no recipe of Kimi K3"
    raise InputError(str(folder), problem, f"a checkout with models/{MODEL}.yaml, or one file")


def _text(path: Path) -> bytes:
    if not path.exists():
        raise InputError(str(path), "there is no such file", "an upstream recipe file, or a checkout of the recipes")
    if not path.is_file():
        raise InputError(str(path), "is no regular file", "an upstream recipe file, or a checkout of the recipes")
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(str(path), f"is larger than {MAX_BYTES} bytes", "a recipe file")
    return data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _mapping(path: Path, data: bytes) -> Mapping[str, Any]:
    try:
        loaded = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(str(path), f"not usable YAML: {reason}", "a recipe file") from None
    if not isinstance(loaded, Mapping):
        raise InputError(str(path), f"holds a {type(loaded).__name__}", "a mapping, as upstream recipes are")
    return loaded


def _recipe_facts(path: Path, data: bytes) -> Facts:
    loaded = _mapping(path, data)
    for section in ("meta", "model"):
        if not isinstance(loaded.get(section), Mapping):
            found = type(loaded[section]).__name__ if section in loaded else "absent"
            raise InputError(str(path), f"{section} is {found}", "a mapping, as in upstream's recipes")
    if loaded["model"].get("model_id") != MODEL:
        raise InputError(str(path), f"is the recipe of {loaded['model'].get('model_id')!r}", MODEL)
    facts = dict(_flat(path, loaded, ""))
    prose = _prose(loaded)
    return facts | _guide(prose) | {PROSE: _sha256(prose.encode("utf-8", "surrogatepass"))}


def _prose(loaded: Mapping[str, Any]) -> str:
    """The guide and the install notes, where upstream states what it has no field for."""
    install = loaded["model"].get("install")
    notes = [value.get("note") for value in install.values() if isinstance(value, Mapping)] if isinstance(
        install, Mapping
    ) else []  # fmt: skip
    return "\n".join(str(text) for text in (loaded.get("guide"), *notes) if text is not None)


def _guide(text: str) -> Facts:
    """Facts stated in words: what each pattern found, sorted, each once."""
    found = {name: sorted(set(pattern.findall(text))) for name, pattern in _GUIDE.items()}
    return {f"guide.{name}": ", ".join(word.replace('"', "") for word in words) for name, words in found.items() if words}


def _strategies(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((folder / "strategies").glob("*.yaml")):
        if re.fullmatch(r"(single|multi)_node_\w+|pd_cluster", file.stem):
            yield from _flat(file, _mapping(file, _text(file)), f"strategies.{file.stem}")


def _profiles(folder: Path, recipe: Facts) -> Iterator[tuple[str, str]]:
    """Hardware profiles of the products that the recipe names."""
    file = folder / "taxonomy.yaml"
    if not file.is_file():
        return
    profiles = _mapping(file, _text(file)).get("hardware_profiles")
    if not isinstance(profiles, Mapping):
        raise InputError(str(file), "has no mapping hardware_profiles", "taxonomy.yaml as in upstream's repository")
    named = {path.split(".")[2] for path in recipe if path.startswith("meta.hardware.")}
    for name, profile in profiles.items():
        if name in named:
            yield from _flat(file, profile, f"taxonomy.{name}")


def _flat(file: Path, value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Dotted paths and text of all values that are no prose."""
    for count, item in enumerate(_walk(file, value, prefix, 0)):
        if count >= MAX_VALUES:
            raise InputError(str(file), f"holds more than {MAX_VALUES} values", "a recipe file")
        yield item


def _walk(file: Path, value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise InputError(str(file), f"{path[:60]} is nested more than {MAX_DEPTH} deep", "a recipe file")
    if path and _PROSE.match(path):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(file, item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        yield from _list(file, list(value), path, depth)
    else:
        yield path, _scalar(value)


def _list(file: Path, items: list[Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    if path.endswith("args"):
        yield from ((f"{path}.{flag}", text) for flag, text in _flags(items))
    elif any(isinstance(item, (Mapping, list)) for item in items):
        for number, item in enumerate(items):
            yield from _walk(file, item, f"{path}.{number}", depth + 1)
    else:
        yield path, ", ".join(sorted(_scalar(item) for item in items))


def _flags(words: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Flags and their text, the last of a flag winning, as upstream's generator has it."""
    found: dict[str, str] = {}
    flag = ""
    for word in words:
        text = _scalar(word)
        if text.startswith("-"):
            flag, found[text] = text, ""
        else:
            found[flag] = f"{found[flag]} {text}".strip() if found.get(flag) else text
    yield from found.items()


def _scalar(value: Any) -> str:
    """One spelling for each value: true, null, and JSON without spaces."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = str(value)
    if text.startswith("{"):
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):
            return text
    return text
