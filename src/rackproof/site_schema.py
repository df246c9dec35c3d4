"""JSON Schema of the files in group_vars/: what a site may say, and in which form."""

from __future__ import annotations

from typing import Any

_VERSION = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)+\Z",
    "description": "a version in quotes, digits and dots, such as '580.126.20'",
}
_DIGEST = {"type": "string", "pattern": r"^sha256:[0-9a-f]{64}\Z", "description": "sha256: and 64 hex digits"}
_TEXT = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean"}


def _group(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


SCHEMA: dict[str, Any] = _group(
    recipe=_TEXT,
    layout=_TEXT,
    hardware=_TEXT,
    ssh=_group(
        user=_TEXT,
        port={"type": "integer", "minimum": 1, "maximum": 65535},
        key_file=_TEXT,
        known_hosts_file=_TEXT,
        config_file=_TEXT,
        sudo=_FLAG,
    ),
    driver=_group(version=_VERSION),
    packages=_group(
        repository=_TEXT,
        key_url=_TEXT,
        key_fingerprint={
            "type": "string",
            "pattern": r"^[0-9A-F]{40}\Z",
            "description": "the full fingerprint of the signing key: 40 upper-case hex digits",
        },
    ),
    container=_group(engine={"enum": ["docker"]}, engine_package=_TEXT, toolkit_version=_VERSION),
    image=_group(
        id=_TEXT,
        repository={
            "type": "string",
            "pattern": r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+\Z",
            "description": "registry and path of a mirror of the recipe's image: registry.example:5000/vllm/vllm-openai",
        },
    ),
    gpus=_group(expect_idle=_FLAG),
    reboot=_group(
        allow=_FLAG,
        batch={"type": "integer", "minimum": 1},
        settle_s={"type": "integer", "minimum": 1},
        timeout_s={"type": "integer", "minimum": 10},
    ),
    disrupt=_group(gpu_processes=_FLAG),
    simulation=_group(
        architecture={"enum": ["x86_64", "aarch64"]},
        operating_systems={"type": "array", "items": {"type": "string"}},
        image=_group(index=_DIGEST, amd64=_DIGEST, arm64=_DIGEST),
    ),
)
