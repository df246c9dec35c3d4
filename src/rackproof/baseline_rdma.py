"""What RDMA between the nodes of a unit must be. Asked only of layouts whose traffic crosses nodes by RDMA."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class RdmaBaseline:
    needed: bool  # the layout's traffic between nodes goes over RDMA


def rdma_baseline(r: Resolving) -> RdmaBaseline:
    r.notes["rdma.needed"] = r.layout.source
    # KV cache between prefill and decode travels over RDMA, also on NVL72 trays.
    return RdmaBaseline(needed=r.layout.nodes > 1 and (r.layout.fabric == "rdma" or r.layout.strategy == "pd_cluster"))
