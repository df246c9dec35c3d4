"""User and password for a registry, from where docker keeps them, or from the environment.

Nothing here is ever printed: `Credentials` hides its fields, and errors name files and helpers, never their content.
Source: docs.docker.com/reference/cli/docker/login (config.json, credential helpers).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rackproof.errors import InputError
from rackproof.registry.reference import HUB

# The three go together, so that a password never reaches another registry than the one it is for.
HOST_VARIABLE, USER_VARIABLE = "RACKPROOF_REGISTRY_HOST", "RACKPROOF_REGISTRY_USER"
PASSWORD_VARIABLE = "RACKPROOF_REGISTRY_PASSWORD"
_HELPER_S = 30
_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", HUB, "registry-1.docker.io")
_TOKEN_USER = "<token>"  # how a helper says that the secret is an identity token


@dataclass(frozen=True)
class Credentials:
    user: str = field(repr=False)
    secret: str = field(repr=False)
    is_token: bool = False  # the secret is an OAuth2 refresh token, not a password

    @property
    def basic(self) -> str:
        """Value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def find(registry: str, environment: Mapping[str, str] | None = None) -> Credentials | None:
    """What is kept for a registry ("docker.io", "registry.example:5000"), or None. Raises InputError for a broken file."""
    env = os.environ if environment is None else environment
    return _from_environment(registry, env) or _from_docker(registry, env)


def _from_environment(registry: str, env: Mapping[str, str]) -> Credentials | None:
    names = (HOST_VARIABLE, USER_VARIABLE, PASSWORD_VARIABLE)
    values = [env.get(name, "") for name in names]
    if any(values) and not all(values):
        missing = ", ".join(name for name, value in zip(names, values, strict=True) if not value)
        raise InputError("environment", f"{missing} is not set", "all of " + ", ".join(names) + ", or none")
    return Credentials(values[1], values[2]) if values[0] == registry else None


def _from_docker(registry: str, env: Mapping[str, str]) -> Credentials | None:
    folder = env.get("DOCKER_CONFIG") or os.path.join(env.get("HOME", os.path.expanduser("~")), ".docker")
    path = Path(folder, "config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read ({type(error).__name__})", "docker's config.json") from None
    config = config if isinstance(config, dict) else {}
    keys = _HUB_KEYS if registry == HUB else (registry, f"https://{registry}", f"https://{registry}/")
    helpers = _object(config.get("credHelpers"))
    for key in keys:
        if key in helpers:
            return _from_helper(str(helpers[key]), key, path, env)
    if config.get("credsStore"):
        return next(filter(None, (_from_helper(str(config["credsStore"]), key, path, env) for key in keys)), None)
    return next(
        (_entry(_object(config["auths"])[key], path) for key in keys if key in _object(config.get("auths"))), None
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _entry(entry: Any, path: Path) -> Credentials | None:
    """One entry of `auths`: {"auth": base64 of user:password}, or the two in clear, or an identity token."""
    found = _object(entry)
    user, secret, token = (str(found.get(key) or "") for key in ("username", "password", "identitytoken"))
    if found.get("auth"):
        try:
            text = base64.b64decode(str(found["auth"]), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise InputError(
                str(path), "an entry of auths is not base64 of user:password", "what docker login writes"
            ) from None
        user, _, secret = text.partition(":")
        secret = secret.rstrip("\0")
    if token:
        return Credentials(user, token, is_token=True)
    return Credentials(user, secret) if user else None


def _from_helper(name: str, key: str, path: Path, env: Mapping[str, str]) -> Credentials | None:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise InputError(str(path), f"names the credential helper {name!r}", "letters, digits, . _ -")
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run(
            [program, "get"], input=key, capture_output=True, text=True, timeout=_HELPER_S, check=False, env=dict(env)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(
            str(path), f"{program} cannot be run ({type(error).__name__})", "a helper that is installed"
        ) from None
    if done.returncode != 0:
        return None  # "credentials not found in native keychain": there is none for this registry
    try:
        answer = _object(json.loads(done.stdout))
    except ValueError:
        raise InputError(str(path), f"{program} printed no JSON", "a working helper") from None
    user, secret = str(answer.get("Username") or ""), str(answer.get("Secret") or "")
    return Credentials(user, secret, is_token=user == _TOKEN_USER) if secret else None
