"""Command lines and YAML in the documents of this part: options exist, files exist, YAML is YAML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from rackproof.cli import cli
from rackproof.site_schema import SCHEMA

ROOT = Path(__file__).resolve().parents[3]
DOCS = [ROOT / "docs" / f"{name}.md" for name in ("drift", "nightly", "collect-at-scale")]
SCRIPTS = sorted((ROOT / "examples").glob("*/collect.sh"))


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, list[str]]]:
    for path in DOCS:
        for _, text in blocks(path):
            for line in text.splitlines():
                found = re.search(r"\brackproof ((?:drift|nightly|judge|verify|probe|collect) .*)", line)
                if found:
                    yield path.name, shlex.split(found[1], comments=True)
    for path in SCRIPTS:
        for found in re.findall(r"rackproof (?:probe|judge) [^\n>|]*", path.read_text()):
            yield path.parent.name, shlex.split(found)[1:]


@pytest.mark.parametrize(("where", "words"), list(commands()))
def test_every_option_of_a_command_line_exists(where: str, words: list[str]) -> None:
    command: click.Command = cli.commands[words[0]]
    if isinstance(command, click.Group):
        command = command.commands.get(words[1]) or command.commands["compare"]
    known = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= known, where


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_yaml_is_yaml_and_links_lead_somewhere(path: Path) -> None:
    for kind, text in blocks(path):
        if kind == "yaml":
            assert yaml.safe_load(text)
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert target.startswith("http") or (path.parent / target).exists(), target
    for name in re.findall(r"`nightly\.(\w+)`", path.read_text()):
        assert name in SCHEMA["properties"]["nightly"]["properties"], name
    for name in re.findall(r"\b(?:deploys|inventories|examples|group_vars)/[\w/.-]+\.(?:py|sh|yaml)", path.read_text()):
        assert (ROOT / name).exists(), name
