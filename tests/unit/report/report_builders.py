"""Results made by hand: what a report shows must not depend on which checks exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.recipes import Layout
from rackproof.verdict.evaluate import NodeResult, Result, combine
from rackproof.verdict.model import Outcome, Requirement, Severity, Stage, Status, verdict_of

P, F, U, N, B = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.NOT_APPLICABLE, Status.BLOCKED
SHA = "5e" * 32
LAYOUT = Layout("gb300-tp8", "gb300", "multi_node_tp", 2, "mnnvl", "official", "recipe", tp=8)
BASELINE = replace(resolve(site.shipped(), hardware_id="gb300"), recipe_commit="0a1b2c3d4e5f", layout=LAYOUT)


def need(name: str, severity: Severity = Severity.GATE, stage: Stage = Stage.ENGINE_INIT, **rest: Any) -> Requirement:
    layer = name.partition(".")[0]
    fields = {
        "title": f"Title of {name}",
        "why": f"Why {name} matters.",
        "sources": (f"https://example.com/{name}",),
        "remedy": f"Mend {name}.",
        "code": f"{layer[:3].upper()}-{len(name):02d}",
        "scope": "fleet" if layer == "fleet" else "node",
    }
    return Requirement(id=name, layer=layer, stage=stage, severity=severity, **{**fields, **rest})


EVIDENCE = need("host.evidence", stage=Stage.PROVISIONING, title="The node answered and the probe ran to its end")
OS = need("host.os")
BRANCH = need(
    "gpu_driver.branch", stage=Stage.CONTAINER_START, title="The driver branch is one the image's CUDA runs on"
)
COUNT = need("gpus.count")
POWER = need("gpus.power_limit", Severity.WARN, title="The power limit is the product's own")
NOTE = need("gpus.vbios", Severity.INFO)
FABRIC = need("nvlink.fabric")
IMEX = need("nvlink.imex")
TOOLKIT = need("container_runtime.toolkit")
DIGEST = need("image.digest")
LOCKSTEP = need("fleet.driver", stage=Stage.MULTI_NODE, title="Every node of a unit runs the same driver")
NODE_NEEDS = (EVIDENCE, OS, BRANCH, COUNT, POWER, NOTE, FABRIC, IMEX, TOOLKIT, DIGEST)


def node(name: str, *changes: Outcome, unit: str = "", baseline: Baseline | None = BASELINE, sha: str = SHA,
         simulated: bool = False, needs: Sequence[Requirement] = NODE_NEEDS) -> NodeResult:  # fmt: skip
    """A node on which everything passes but for `changes`."""
    changed = {outcome.requirement.id: outcome for outcome in changes}
    outcomes = tuple(changed.get(item.id, Outcome(item, P, "as it should be", "as it should be")) for item in needs)
    hardware = baseline.hardware if baseline else "unknown"
    return NodeResult(name, hardware, verdict_of(outcomes), outcomes, sha, simulated, baseline, unit)


def fail(requirement: Requirement, observed: str = "bad", expected: str = "good") -> Outcome:
    return Outcome(requirement, F, observed, expected)


def unknown(requirement: Requirement, reason: str = "nvidia-smi did not end within 20 s") -> Outcome:
    return Outcome(requirement, U, reason=reason)


def unread(name: str, reason: str = "connection refused", unit: str = "") -> NodeResult:
    blocked = [Outcome(item, B, reason=reason, blocked_by="host.evidence") for item in NODE_NEEDS[1:]]
    return node(name, unknown(EVIDENCE, reason), *blocked, sha="", unit=unit)


def unit(name: str, nodes: Sequence[str], outcome: Outcome | None = None) -> Outcome:
    base = outcome or Outcome(LOCKSTEP, P, "580.126.20", "one version")
    return Outcome(base.requirement, base.status, base.observed, base.expected, base.reason, base.blocked_by,
                   tuple(nodes), name)  # fmt: skip


def rack() -> Result:
    """Eighteen trays with one of everything that can go wrong."""
    nodes = [node(f"tray{number:02d}", unit=f"u{(number + 1) // 2:02d}") for number in range(1, 19)]
    blocked = [Outcome(item, B, reason="no driver", blocked_by="gpu_driver.branch") for item in (COUNT, FABRIC, IMEX)]
    for number in (3, 7):
        nodes[number - 1] = node(f"tray{number:02d}", fail(BRANCH, "575.57.08", ">= 580"), *blocked)
    nodes[10] = node("tray11", fail(BRANCH, "570.124.06", ">= 580"), fail(POWER, "1200 W", "1400 W"))
    nodes[11] = unread("tray12")
    nodes[12] = node("tray13", unknown(FABRIC), Outcome(TOOLKIT, N, reason="the site runs no containers"))
    units = [(f"u{number:02d}", (f"tray{2 * number - 1:02d}", f"tray{2 * number:02d}")) for number in range(1, 10)]
    fleet = [unit(*item) for item in units]
    fleet[5] = unit(*units[5], unknown(LOCKSTEP, "tray12: connection refused"))
    fleet[1] = unit(*units[1], fail(LOCKSTEP, "tray03 575.57.08, tray04 580.126.20", "one version"))
    return combine(nodes, fleet)
