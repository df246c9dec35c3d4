"""Where credentials come from, and that they never show."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from rackproof.errors import InputError
from rackproof.registry.credentials import Credentials, find

AUTH = base64.b64encode(b"puller:s3:cret").decode()
HUB = "https://index.docker.io/v1/"


def config(folder: Path, text: object) -> dict[str, str]:
    (folder / "config.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return {"DOCKER_CONFIG": str(folder), "PATH": str(folder)}


def helper(folder: Path, name: str, script: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("registry, key", [("docker.io", HUB), ("docker.io", "docker.io"), ("r.example:5000", "r.example:5000"),
                                           ("r.example", "https://r.example")])  # fmt: skip
def test_docker_config(tmp_path: Path, registry: str, key: str) -> None:
    env = config(tmp_path, {"auths": {key: {"auth": AUTH}}})
    assert find(registry, env) == Credentials("puller", "s3:cret")
    assert find("other.example", env) is None


def test_identity_token_and_plain_fields(tmp_path: Path) -> None:
    env = config(
        tmp_path, {"auths": {"a": {"identitytoken": "t"}, "b": {"username": "u", "password": "p"}, "c": {}, "d": None}}
    )
    assert find("a", env) == Credentials("", "t", is_token=True)
    assert find("b", env) == Credentials("u", "p")
    assert find("c", env) is None and find("d", env) is None


def test_helpers(tmp_path: Path) -> None:
    helper(tmp_path, "one", 'read -r h; printf \'{"ServerURL": "%s", "Username": "u", "Secret": "p"}\' "$h"')
    helper(tmp_path, "none", "echo credentials not found in native keychain; exit 1")
    env = config(tmp_path, {"credHelpers": {"r.example": "one", "s.example": "none"}, "credsStore": "none"})
    assert find("r.example", env) == Credentials("u", "p")
    assert find("s.example", env) is None and find("docker.io", env) is None
    env = config(tmp_path, {"credsStore": "one", "auths": {HUB: {}}})
    assert find("docker.io", env) == Credentials("u", "p")


@pytest.mark.parametrize(
    "text", ["{", "\xff", '{"auths": {"r": {"auth": "%%"}}}', '{"credsStore": "../evil"}', '{"credsStore": "absent"}']
)
def test_a_broken_file_is_named_and_its_content_is_not(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        find("r", config(tmp_path, text))
    assert "config.json" in str(caught.value) and "%%" not in str(caught.value)


def test_a_file_of_another_shape_holds_nothing(tmp_path: Path) -> None:
    for text in ("[]", "7", '{"auths": []}', '{"auths": {"r": "x"}, "credHelpers": 7}'):
        assert find("r", config(tmp_path, text)) is None
    assert find("r", {"DOCKER_CONFIG": str(tmp_path / "nowhere")}) is None


def test_the_environment_is_for_one_registry_alone(tmp_path: Path) -> None:
    env = config(tmp_path, {}) | {
        "RACKPROOF_REGISTRY_HOST": "r.example", "RACKPROOF_REGISTRY_USER": "u", "RACKPROOF_REGISTRY_PASSWORD": "p",
    }  # fmt: skip
    assert find("r.example", env) == Credentials("u", "p")
    assert find("docker.io", env) is None
    del env["RACKPROOF_REGISTRY_HOST"]
    with pytest.raises(InputError, match="RACKPROOF_REGISTRY_HOST is not set"):
        find("r.example", env)


def test_nothing_of_it_shows() -> None:
    assert "s3cret" not in repr(Credentials("u", "s3cret")) and "s3cret" not in str(Credentials("u", "s3cret"))
