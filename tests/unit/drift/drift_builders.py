"""Healthy nodes, and comparing two of them the way the command does."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rackproof import site
from rackproof.baseline import Baseline
from rackproof.drift.classes import allowances, classes
from rackproof.drift.compare import Change, Yardstick, compare
from rackproof.drift.findings import Finding, findings
from rackproof.facts import NodeFacts
from rackproof.facts_rdma import Hca, Port, RdmaFacts

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
fixtures: Any = importlib.import_module("layers.fixtures")


def yardstick(days: float = 0, rebooted: bool = False, baseline: Baseline | None = None, **policy: Any) -> Yardstick:
    site_ = site.shipped().overlaid({"drift": policy}, "test") if policy else site.shipped()
    return Yardstick(classes(), allowances(site_), baseline, days, rebooted)


def changes(before: NodeFacts, after: NodeFacts, **how: Any) -> tuple[Change, ...]:
    return compare(before, after, yardstick(**how))


def drifted(before: NodeFacts, after: NodeFacts, **how: Any) -> list[Finding]:
    return [group.finding for group in findings(changes(before, after, **how)) if group.finding.drift]


def with_rdma(facts: NodeFacts, rate: int = 400 * 10**9, state: str = "ACTIVE", guid: str = "a" * 16) -> NodeFacts:
    port = Port(
        1, state=state, phys_state="LinkUp", rate_bits_per_s=rate, link_layer="InfiniBand", errors={"symbol_error": 0}
    )
    hca = Hca("mlx5_0", (port,), fw_version="40.44.1036", node_guid=guid, pci_address="00000000:03:00.0")
    return replace(facts, rdma=RdmaFacts((hca,), "sysfs", ("uverbs0",), frozenset({"mlx5_ib"}), None, "24.10"))
