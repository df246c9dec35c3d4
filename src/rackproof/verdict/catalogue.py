"""The catalogue: every requirement with its check, one to one, in the order a host is built up."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from rackproof import yamlfile
from rackproof.baseline import Baseline
from rackproof.errors import InputError
from rackproof.facts import NodeFacts, UnitFacts
from rackproof.verdict.model import Judgement, Requirement, Severity, Stage

LAYERS = (
    "host", "gpu_driver", "gpus", "nvlink", "rdma", "container_runtime", "image", "weights", "serving", "fleet",
)  # fmt: skip
FILES = ("requirements.yaml", "offer.yaml")  # of a layer: what it must be, and what a seller said that it is
EVIDENCE = "host.evidence"  # what every other requirement of a node rests on

NodeCheck = Callable[[NodeFacts, Baseline], Judgement]
UnitCheck = Callable[[UnitFacts, Baseline], Judgement]
_C = TypeVar("_C", NodeCheck, UnitCheck)

_checks: dict[str, Any] = {}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": False,
        "required": ["code", "title", "why", "stage", "severity", "sources", "remedy"],
        "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2,3}$"},
            "title": {"type": "string"},
            "why": {"type": "string"},
            "stage": {"enum": [stage.value for stage in Stage]},
            "severity": {"enum": [severity.value for severity in Severity]},
            "sources": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "remedy": {"type": "string"},
            "needs": {"type": "array", "items": {"type": "string"}},
            "applies": {"type": "object"},
            "otherwise": {"type": "string"},
            "unsupported": {"type": "boolean"},
            "vendor": {"enum": ["nvidia", "amd"]},
            "each": {"enum": ["gpu"]},
            "advertised": {"type": "boolean"},
        },
        "dependentRequired": {"applies": ["otherwise"]},
    },
}


def check(requirement: str) -> Callable[[_C], _C]:
    """Register a function as the check of a requirement. Used in layers/*/checks.py only."""

    def register(function: _C) -> _C:
        if requirement in _checks:
            raise ValueError(f"{requirement} has two checks")
        _checks[requirement] = function
        return function

    return register


@cache
def requirements() -> Mapping[str, Requirement]:
    """All requirements by id. Raises InputError when a requirement and its check do not match one to one."""
    found: dict[str, Requirement] = {}
    for layer in LAYERS:
        folder = Path(__file__).parents[1] / "layers" / layer
        for path in (folder / name for name in FILES if (folder / name).exists()):
            _add(found, layer, path)
        for module in sorted(folder.glob("*checks*.py")):
            importlib.import_module(f"rackproof.layers.{layer}.{module.stem}")
    if set(found) != set(_checks):
        odd = sorted(set(found) ^ set(_checks))
        raise InputError("layers", f"requirement and check do not match: {', '.join(odd)}", "one check a requirement")
    return found


def _add(found: dict[str, Requirement], layer: str, path: Path) -> None:
    """The requirements of one file; raises InputError where one clashes with those before it."""
    file = yamlfile.load(path, _SCHEMA)
    for key, fields in file.data.items():
        requirement = _requirement(f"{layer}.{key}", layer, fields)
        twice = next((other.id for other in found.values() if other.code == requirement.code), None)
        if twice:
            raise InputError(file.where(key), f"{twice} has code {requirement.code} already", "a code of its own")
        unknown = [need for need in requirement.needs if need not in found]
        if unknown:
            raise InputError(file.where(key), f"needs {', '.join(unknown)}", "requirements that stand before it")
        found[requirement.id] = requirement


def check_of(requirement: str) -> Any:
    """The check function of a requirement: a NodeCheck, or a UnitCheck in layer fleet."""
    requirements()
    return _checks[requirement]


def _requirement(name: str, layer: str, fields: Mapping[str, Any]) -> Requirement:
    return Requirement(
        id=name,
        layer=layer,
        title=fields["title"],
        why=fields["why"],
        stage=Stage(fields["stage"]),
        severity=Severity(fields["severity"]),
        sources=tuple(fields["sources"]),
        remedy=fields["remedy"],
        needs=tuple(fields.get("needs", ())),
        applies=fields.get("applies"),
        otherwise=fields.get("otherwise", ""),
        unsupported=fields.get("unsupported", False),
        code=fields["code"],
        vendor=fields.get("vendor", ""),
        each=fields.get("each", ""),
        advertised=fields.get("advertised", False),
        scope="fleet" if layer == "fleet" else "node",
    )
