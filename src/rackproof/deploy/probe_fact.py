"""The probe as a pyinfra fact: a deploy reads a node once, and decides everything from that."""

from __future__ import annotations

from typing import Any

from pyinfra.api import FactBase

from rackproof.evidence.collect import new_nonce, probe_program
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.stream import parse_stream


class Probe(FactBase[Any]):
    """Evidence of the node. Runs as the connection does (root, or root by sudo)."""

    def command(self, nonce: str, model_directory: str = "") -> str:
        return probe_program(nonce, sudo=False, model_directory=model_directory)

    @staticmethod
    def default() -> Any:
        return None

    def process(self, output: list[str]) -> Any:
        return "\n".join(output) + "\n"


def read(host: Any, timeout_s: int = 90, model_directory: str = "") -> Evidence:
    """The evidence of a pyinfra host; a node that gave none has a problem, and pyinfra has marked it failed.

    `model_directory`: absolute path of the weights; "" leaves them unread.
    """
    nonce = new_nonce()
    stream = host.get_fact(Probe, nonce=nonce, model_directory=model_directory, _timeout=timeout_s)
    if stream is None:
        return Evidence(host.name, problem="the probe could not be run")
    return parse_stream(stream.encode("utf-8", "surrogateescape"), host.name, nonce)
