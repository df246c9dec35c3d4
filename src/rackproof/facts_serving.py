"""What serves on a node, as far as files say it: units of ours, their environment, and what NCCL and a loader add to it.

Values of variables that look like secrets never leave the node; their names do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing

_UNREAD: Missing = Missing("not read")


@dataclass(frozen=True)
class DockerRun:
    """`docker run` or `podman run` of a unit's ExecStart, taken apart."""

    image: str
    options: Mapping[str, tuple[str, ...]]  # "--network" -> ("host",); () for a bare flag. --env is in `env`
    env: Mapping[str, str]
    arguments: tuple[str, ...]  # what the container is given to run


@dataclass(frozen=True)
class ServingUnitFile:
    name: str  # rackproof-gb300-tp8.service
    enabled: Fact[bool]  # the next boot starts it
    run: Fact[DockerRun]


@dataclass(frozen=True)
class RunningContainer:
    """A container that runs, whoever started it."""

    id: str
    name: str
    image: str  # id of the image it was made from, which a tag moved since does not change
    named: str  # the image as it was asked for
    engine: bool  # its command names vllm
    labels: Mapping[str, str]  # its own and those of its image


@dataclass(frozen=True)
class ServingFacts:
    units: Fact[tuple[ServingUnitFile, ...]] = _UNREAD  # rackproof-*.service in /etc/systemd/system
    env_file: Fact[Mapping[str, str] | None] = _UNREAD  # serving.env; None where there is none
    secrets: Fact[tuple[str, ...]] = _UNREAD  # names of variables in either that look like secrets
    nccl_conf: Fact[Mapping[str, str] | None] = _UNREAD  # /etc/nccl.conf; None where there is none
    preload: Fact[tuple[str, ...]] = _UNREAD  # libraries in /etc/ld.so.preload; () where there are none
    segments: Fact[Mapping[str, int]] = _UNREAD  # files in /dev/shm by the start of their names: "nccl-" -> 3
