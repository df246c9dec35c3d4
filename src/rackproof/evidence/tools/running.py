"""Containers that run, and which of them are inference engines. Formats: `docker ps -q`, `docker inspect`, Docker 20.10 to 29.

Of a container's command only whether it names vllm leaves the node: arguments can hold keys.
"""

from __future__ import annotations

import json
import re

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.values import one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_serving import RunningContainer

_FORMAT = (
    '{"id":{{json .Id}},"name":{{json .Name}},"image":{{json .Image}},"named":{{json .Config.Image}},'
    '"labels":{{json .Config.Labels}}'
)


def listing(engine: str, form: str) -> str:
    """A script that prints what `parse_running` reads. `form`: for `inspect --format`, an object that is left open."""
    return rf"""
ids=$({engine} ps -q --no-trunc) || exit $?
for i in $ids; do
  said=$({engine} inspect --format '{form}' "$i") || continue
  case "$({engine} inspect --format '{{{{.Path}}}} {{{{json .Args}}}}' "$i")" in *vllm*) engine=true ;; *) engine=false ;; esac
  printf '%s,"engine":%s}}\n' "$said" "$engine"
done
echo end
"""


COMMANDS = (Command("docker_running", listing("docker", _FORMAT), "docker", Root.HELPS),)


def running(evidence: Evidence) -> Fact[tuple[RunningContainer, ...]]:
    section = evidence.usable("docker_running", "docker")
    if isinstance(section, Missing):
        return section
    if section.rc:
        return Missing(f"docker ps ended with exit code {section.rc}: {one_line(section.error_text) or 'no message'}")
    return parse_running(section.text)


def parse_running(text: str) -> Fact[tuple[RunningContainer, ...]]:
    """One JSON object a line, and `end`; a line that is none makes all of it unreadable."""
    lines = text.splitlines()
    if lines[-1:] != ["end"]:
        return Missing("the list of running containers is cut off")
    found = [_container(line) for line in lines[:-1]]
    wrong = next((line for line, one in zip(lines, found, strict=False) if one is None), None)
    if wrong is not None:
        return Missing(f"the list of running containers holds {one_line(wrong)}")
    return tuple(one for one in found if one is not None)


def _container(line: str) -> RunningContainer | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    texts = [data.get(key) for key in ("id", "name", "image", "named")] if isinstance(data, dict) else []
    if not texts or not all(isinstance(text, str) for text in texts) or not isinstance(data.get("engine"), bool):
        return None
    if not re.fullmatch(r"[0-9a-f]{64}", data["id"]) or not data["image"]:
        return None
    labels = data.get("labels")
    pairs = {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
    return RunningContainer(
        data["id"], data["name"].removeprefix("/"), data["image"], data["named"], data["engine"], pairs
    )
