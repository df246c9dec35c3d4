"""JSON Schema of the recipe's settings file: a closed set of scopes, references and operators."""

from __future__ import annotations

from typing import Any

from rackproof.sourced import SOURCES, cell

# What a scope and a rule can ask about. `arg.NAME` and `env.NAME` come on top for rules.
FACTS = (
    "vendor", "generation", "hardware", "layout", "strategy", "role", "fabric", "nvlink", "multi_node", "nodes",
    "tp", "pp", "dp", "data_parallel", "ep", "feature", "storage", "dmabuf", "peermem", "has_hcas", "has_gid_index", "head", "image",
    "image_tag", "prefix_caching",
)  # fmt: skip
REFERENCES = (
    "model_repo", "interface", "own_address", "head_address", "hcas", "gid_index", "port_serve", "port_prefill",
    "port_decode", "port_nixl_prefill", "port_nixl_decode",
)  # fmt: skip
STAGES = ("provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving")

_SRC: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_ID: dict[str, Any] = {"type": "string", "pattern": "^[a-z0-9_-]+$", "description": "lower-case letters, digits, - or _"}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


_REFERENCE = _object(("from",), **{"from": {"enum": list(REFERENCES)}, "prefix": {"type": "string"}})
_VALUE: dict[str, Any] = {
    "if": {"type": "object"},
    "then": _REFERENCE,
    "else": {"type": "string", "description": "text in quotes, or {from: what the site knows}"},
}
_FLAG: dict[str, Any] = {"if": {"type": "boolean"}, "then": {"const": True}, "else": _VALUE}
_ARGS: dict[str, Any] = {"type": "object", "propertyNames": {"pattern": "^[a-z0-9-]+$"}, "additionalProperties": _FLAG}
_ENV: dict[str, Any] = {"type": "object", "propertyNames": {"pattern": "^[A-Z0-9_]+$"}, "additionalProperties": _VALUE}
_SCOPE: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"enum": list(FACTS)},
    "additionalProperties": {"type": ["string", "boolean", "array"], "items": {"type": "string"}},
}
_OPERATORS = {
    **_object(
        (),
        **{
            "is": {"type": "array"},
            "not": {"type": "array"},
            "set": {"type": "boolean"},
            "contains": _TEXT,
            "starts": _WORDS,
            "not_starts": _WORDS,
            "at_least": {"type": "number"},
            "divides": {"type": "integer"},
            "multiple_of": {"type": "integer"},
        },
    ),
    "minProperties": 1,
}
_CONDITION: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"pattern": rf"^(arg\.[a-z0-9-]+|env\.[A-Z0-9_]+|{'|'.join(FACTS)})$"},
    "additionalProperties": _OPERATORS,
}
_CELL: dict[str, Any] = {
    **_object(("value", "src"), value={}, src=_SRC, note={"type": "string"}),
}
_CLAIM = _object(("says", "by", "since"), says=_TEXT, by=_TEXT, since=_TEXT)
_INJECTION = _object(
    ("devices", "groups", "security", "note", "src"),
    devices=_WORDS, groups=_WORDS, security=_WORDS, note={"type": "string"}, src=_SRC,
)  # fmt: skip


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _cells(kind: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": cell(kind)}


_CONTAINER = _object(
    ("network", "ipc", "privileged", "capabilities", "ulimits", "entrypoint", "pull", "gpus", "imex", "infiniband",
     "cache", "rocm_image", "podman"),
    network=_CELL, ipc=_CELL, privileged={**_CELL, "properties": {**_CELL["properties"], "value": {"const": False}}},
    capabilities=_CELL, ulimits=_CELL, entrypoint=_CELL, pull=_CELL, imex=_CELL, infiniband=_CELL, cache=_CELL,
    rocm_image=_CELL, podman=_CELL,
    gpus=_object(("nvidia", "amd"), nvidia=_INJECTION, amd=_INJECTION),
)  # fmt: skip

SCHEMA: dict[str, Any] = _object(
    ("schema", "recipe", "sources", "settings", "parallel", "fabric_rules", "rules", "warnings", "owned", "container",
     "ports", "limits", "selfbuild", "router", "conflicts"),
    schema={"const": 1},
    recipe=_TEXT,
    sources=SOURCES,
    settings=_list(
        _object(
            ("id", "scope", "src"),
            id=_ID, scope=_SCOPE, args=_ARGS, env=_ENV, remove=_WORDS, note=_TEXT, differs=_TEXT, src=_SRC,
        )
    ),
    parallel=_cells("string"),
    fabric_rules={
        "type": "object",
        "propertyNames": {"enum": ["node", "mnnvl", "rdma"]},
        "additionalProperties": _object(
            ("all2all", "needs", "src"), all2all={"type": ["string", "null"]}, needs=_WORDS, src=_SRC
        ),
    },
    rules=_list(
        _object(
            ("id", "title", "stage", "when", "require", "src"),
            id=_ID, title=_TEXT, stage={"enum": list(STAGES)}, when=_CONDITION,
            require={**_CONDITION, "minProperties": 1}, src=_SRC,
        )
    ),
    warnings=_list(_object(("id", "title", "when", "src"), id=_ID, title=_TEXT, when=_CONDITION, src=_SRC)),
    owned=_object(("args", "env"), args=cell("array"), env=cell("array")),
    container=_CONTAINER,
    ports=_cells("integer"),
    limits=_cells("integer"),
    selfbuild={"type": "object", "additionalProperties": _CELL},
    router=cell("array"),
    conflicts=_list(
        _object(
            ("topic", "a", "b", "follow", "why"),
            topic=_TEXT, a=_CLAIM, b=_CLAIM, follow={"enum": ["a", "b", "neither"]}, why=_TEXT,
        )
    ),
)  # fmt: skip
