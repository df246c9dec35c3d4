"""Layer host: automatic upgrades keep off the GPU stack, and tools that later layers need are there."""

from __future__ import annotations

from rackproof.deploy.node import Node, known_or


def bring_about(node: Node) -> None:
    """Repair an interrupted package manager, and freeze the GPU stack against automatic upgrades."""
    with node.layer("host"):
        broken = known_or(node.facts.host.broken_packages, ())
        if broken:
            node.packages(f"Finish what was left half installed: {', '.join(broken[:5])}", "repair\napt -f install")
        node.files("Keep automatic upgrades off the GPU stack", node.managed("host"))
        if not (node.version_of("gpg") or node.version_of("gnupg")):
            node.packages("Install gpg, to check signing keys", "apt update\napt install --no-install-recommends gpg")
