"""The cases: the host's fact of each as a change of a healthy node's raw evidence, and what that must give.

A case expects exactly these requirements to fail, of the first node or of its unit (`fleet.`), and no other. `softer` says
why a case that its reporters call worse is a warning here, and `undetermined` cases end without a pass of what is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .edits import Edit
from .healthy import MODEL, Context

GATE, WARN, INFO = "gate", "warn", "info"


@dataclass(frozen=True)
class Case:
    """One case, or one of several forms of it (`form`)."""

    id: str
    context: Context
    edits: tuple[Edit, ...]
    fails: Mapping[str, str]  # requirement -> severity
    verdict: str
    form: str = ""
    unknown: tuple[str, ...] = ()  # requirements that must not pass for want of an answer
    softer: str = ""


GB300 = Context("gb300")
B300 = Context("b300")
B300_RDMA = Context("b300", "b300-tp16")
B200 = Context("b200")
H200 = Context("h200", "h200-tp16")
MI355X = Context("mi355x")
MI355X_RDMA = Context("mi355x", "mi355x-tp16")
B300_SERVES = Context("b300", serve=True)
B300_RDMA_SERVES = Context("b300", "b300-tp16", serve=True)
MI355X_SERVES = Context("mi355x", serve=True)
B300_WEIGHTS = Context("b300", site={"serving": {"model_directory": MODEL}})
DETECTED = Context("b300", detect=True)
