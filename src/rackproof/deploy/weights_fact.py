"""What lies in the model directory, as a pyinfra fact: read only for sites that have weights fetched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyinfra import host
from pyinfra.api import FactBase

from rackproof.deploy import weights_scripts
from rackproof.errors import RackproofError


@dataclass(frozen=True)
class WeightsState:
    """`revision` as recorded, "" where none is; `missing`: what keeps the directory from being whole, "" where it is."""

    revision: str
    missing: str


class ModelDirectory(FactBase[Any]):
    """The two lines of weights_scripts.state."""

    def command(self, directory: str) -> str:
        return weights_scripts.state(directory)

    @staticmethod
    def default() -> Any:
        return None

    def process(self, output: list[str]) -> Any:
        return output


def read(directory: str) -> WeightsState:
    """The state of a model directory of the node that is being deployed."""
    found = parse(host.get_fact(ModelDirectory, directory=directory, _timeout=120))
    if found is None:
        raise RackproofError(f"{host.name}: the model directory {directory} could not be read")
    return found


def parse(lines: list[str] | None) -> WeightsState | None:
    """None for what is not whole: then nothing is decided from it."""
    if not lines or len(lines) != 3 or lines[2] != ".":
        return None
    (one, _, revision), (two, _, missing) = (line.partition(" ") for line in lines[:2])
    return WeightsState(revision, missing) if (one, two) == ("revision", "missing") else None
