"""Evidence: what one probe of one node returned, before anybody interprets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rackproof.evidence.sections import Section
from rackproof.facts import Missing


@dataclass(frozen=True)
class Evidence:
    """One probe of one node.

    `problem` is set when there is nothing or not everything: the node could not be reached, the stream was cut off.
    Whatever sections did arrive are still there; the rest is missing with that reason.
    """

    node: str
    sections: Mapping[str, Section] = field(default_factory=dict)
    probe_version: str = ""
    nonce: str = ""
    started: str = ""  # ISO 8601, UTC, by the node's own clock
    seconds: float = 0.0
    problem: str | None = None
    sha256: str = ""  # of the stream as it arrived; of the redacted sections, where it is redacted
    redacted: bool = False  # serial numbers, addresses and names are tokens

    def section(self, name: str) -> Section | Missing:
        """A section by name, or why it is not there."""
        if name in self.sections:
            return self.sections[name]
        return Missing(self.problem or f"the evidence holds no section {name!r}")

    def usable(self, name: str, what: str) -> Section | Missing:
        """A section whose command ran to its end, or why there is none. `what` names the tool in that reason."""
        section = self.section(name)
        if isinstance(section, Missing):
            return section
        return section.unusable(what) or section

    def refused(self, reason: str | None) -> Evidence:
        """The same node's evidence proving nothing, for this reason; unchanged where there is none."""
        return self if reason is None else replace(self, sections={}, problem=reason)

    def answering(self, nonce: str | None) -> Evidence:
        """Evidence that answers somebody else's question, or an older one, proves nothing. None: nobody asked."""
        if nonce is None or self.nonce == nonce:
            return self
        return self.refused(f"the evidence carries nonce {self.nonce}, asked was {nonce}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while nodes were read. `evidence` holds every node by name; those not read yet carry the reason."""

    def __init__(self, evidence: Mapping[str, Evidence]) -> None:
        super().__init__("interrupted")
        self.evidence = evidence
