"""`parse`: what rackproof understands of one tool's output. For support, and for trying a strange output."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import click

from rackproof.commands.options import debug
from rackproof.commands.output import say
from rackproof.errors import InputError

# tool -> module in evidence/tools and the function that takes the tool's output as text
TOOLS = {
    "cmdline": ("host", "parse_cmdline"),
    "docker-images": ("container", "parse_images"),
    "dmesg": ("kernel_log", "parse_xids"),
    "imex-ctl": ("imex", "parse_domain"),
    "imex-nodes": ("imex", "parse_nodes"),
    "ip-addr": ("host", "parse_addresses"),
    "modinfo": ("nvidia_driver", "parse_modinfo"),
    "nvidia-ctk-version": ("container", "parse_toolkit_version"),
    "nvidia-params": ("nvidia_driver", "parse_params"),
    "nvidia-smi-nvlink": ("nvidia_nvlink", "parse_nvlink"),
    "nvidia-smi-topo": ("nvidia_topo", "parse_topo"),
    "nvidia-smi-xml": ("nvidia_smi", "parse_xml"),
    "nvrm-version": ("nvidia_driver", "parse_nvrm_version"),
    "os-release": ("host", "parse_os_release"),
    "packages": ("packages", "parse_packages"),
    "systemctl-show": ("systemd", "parse_units"),
}


@click.command(short_help="Show what is understood of one tool's output.")
@click.argument("tool", type=click.Choice(sorted(TOOLS)), metavar="TOOL")
@click.argument("file", default="-")
@debug
def parse(tool: str, file: str) -> int:
    """Print the facts in a tool's output as JSON. FILE is what the tool printed; default: standard input.

    A value that is not there is {"missing": reason}. Exit code 3 when nothing could be read at all.
    """
    from rackproof.facts import Missing

    module, function = TOOLS[tool]
    parser = getattr(importlib.import_module(f"rackproof.evidence.tools.{module}"), function)
    facts = parser(_text(file))
    say(json.dumps(plain_data(facts), indent=1, ensure_ascii=True) + "\n")
    return 3 if isinstance(facts, Missing) else 0


def plain_data(value: Any) -> Any:
    """Facts as JSON data: dataclasses as objects, Missing as {"missing": reason}, sets sorted, tuple keys joined."""
    from rackproof.facts import Missing

    if isinstance(value, Missing):
        return {"missing": value.reason}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain_data(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain_data(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _key(key: object) -> str:
    return "-".join(str(part) for part in key) if isinstance(key, tuple) else str(key)


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(file, f"cannot be read: {error.strerror or error}", "a file with a tool's output") from None
    return data.decode("utf-8", "replace")
