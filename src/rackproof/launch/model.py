"""What a launch consists of, before anybody writes it down in one format or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rackproof.recipes import Pool

Origin = Literal["recipe", "layout", "site", "example"]


@dataclass(frozen=True)
class Value:
    """The value of an argument or variable. `text` is None for a bare flag (`--trust-remote-code`)."""

    text: str | None
    source: str  # file:line (source ids)
    origin: Origin = "recipe"
    note: str = ""  # why it is there, where that would surprise a reader
    differs: str = ""  # how it departs from what upstream renders
    said_by: str = ""  # source of note and differs, where it is not that of the value


@dataclass(frozen=True)
class Mount:
    """A directory of the host inside the container."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Container:
    """How the container is run. Ulimits: bytes, or files, -1 for unlimited."""

    image: str  # by digest
    entrypoint: tuple[str, ...]
    network: str
    ipc: str
    capabilities: tuple[str, ...]
    ulimits: tuple[tuple[str, int], ...]
    devices: tuple[str, ...]
    groups: tuple[str, ...]
    security: tuple[str, ...]
    mounts: tuple[Mount, ...]
    pull: str
    stop_timeout_s: int
    notes: tuple[tuple[str, str], ...]  # what is asked for, and why (with the source)
    engine: str = "docker"  # or podman
    engine_options: tuple[tuple[str, str], ...] = ()  # that this engine alone is given: ("pids-limit", "-1")


@dataclass(frozen=True)
class Process:
    """`vllm serve` on one node."""

    pool: Pool
    rank: int  # in its pool
    node: str  # as the inventory calls it, or its address
    address: str
    model: str  # directory of the weights
    args: Mapping[str, Value]
    env: Mapping[str, Value]
    container: Container
    warnings: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[tuple[str, ...], ...]:
        """The command as groups of words that belong together: ("--tensor-parallel-size", "8")."""
        words: list[tuple[str, ...]] = [(*self.container.entrypoint, self.model)]
        for name, value in self.args.items():
            words.append(_words(f"--{name}", value.text))
        return tuple(words)

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word for group in self.command for word in group)


def _words(flag: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return (flag,)
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)


@dataclass(frozen=True)
class Launch:
    """All processes of a deployment unit, head first; prefill before decode."""

    layout: str
    tier: str
    title: str
    recipe_commit: str
    fabric: str
    processes: tuple[Process, ...]
    router: tuple[str, ...] = ()
    example: tuple[str, ...] = ()  # site keys that were filled with example values

    @property
    def name(self) -> str:
        return f"rackproof-{self.layout}"
