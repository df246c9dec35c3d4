"""The kernel's command line and settings, where the site asks for them. What needs a reboot is rebooted with the driver."""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or
from rackproof.facts import NodeFacts
from rackproof.managed import SYSCTL


def bring_about(node: Node) -> None:
    """Add what the command line lacks, and set the kernel's settings now and for every boot."""
    missing = lacking(node, node.facts)
    if missing:
        wanted = node.baseline.kernel.arguments
        node.packages(f"Kernel command line: {' '.join(missing)}", f"kernel_arguments {' '.join(wanted)}")
    files = [file for file in node.managed("host") if file.path == SYSCTL]
    node.files("Settings of the kernel", files, then=f"sysctl -q -p {SYSCTL}")


def lacking(node: Node, facts: NodeFacts) -> list[str]:
    """Arguments that the running kernel was not started with."""
    there = known_or(facts.host.cmdline, ())
    return [word for word in node.baseline.kernel.arguments if not _given(word, there)]


def _given(word: str, cmdline: tuple[str, ...]) -> bool:
    """`pci=a,b` may stand as one word or as several."""
    name, _, value = word.partition("=")
    if name != "pci":
        return word in cmdline
    options = {option for other in cmdline if other.startswith("pci=") for option in other[4:].split(",")}
    return set(value.split(",")) <= options
