"""The baseline: recipe + hardware + site + layout, resolved into all that one node must be.

The deploy applies it and the checks judge against it; nothing else holds an expected value. Each value says where it
comes from (`provenance`), which is not part of what makes two baselines equal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rackproof import baseline_core
from rackproof.baseline_amd import AmdBaseline, amd_baseline
from rackproof.baseline_kernel import KernelBaseline, kernel_baseline
from rackproof.baseline_offer import OfferBaseline, offer_baseline
from rackproof.baseline_parts import (
    DriverBaseline,
    GpuBaseline,
    HostBaseline,
    ImageBaseline,
    NvlinkBaseline,
    PackageBaseline,
    RuntimeBaseline,
)
from rackproof.baseline_rdma import RdmaBaseline, rdma_baseline
from rackproof.baseline_serving import ServingBaseline, WeightsBaseline, serving_baseline, weights_baseline
from rackproof.baseline_system import SystemBaseline, system_baseline
from rackproof.recipes import Layout
from rackproof.resolving import Resolving
from rackproof.site import Site


@dataclass(frozen=True)
class Baseline:
    """All that one node must be. Two trays of a unit have equal baselines."""

    recipe: str
    recipe_commit: str
    hardware: str
    vendor: str  # nvidia | amd: who made the GPUs
    layout: Layout
    simulated: bool  # the site declares a lab: every report says so, and a real node cannot meet it
    host: HostBaseline
    driver: DriverBaseline
    gpus: GpuBaseline
    nvlink: NvlinkBaseline
    runtime: RuntimeBaseline
    image: ImageBaseline
    packages: PackageBaseline | None
    kernel: KernelBaseline
    system: SystemBaseline
    rdma: RdmaBaseline
    amd: AmdBaseline | None  # None where the GPUs are not AMD's
    weights: WeightsBaseline
    serving: ServingBaseline
    offer: OfferBaseline
    provenance: Mapping[str, str] = field(compare=False, hash=False, default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without anything that only says where a value stands: what the hash is taken of."""
        data = dataclasses.asdict(self)
        del data["provenance"], data["serving"]["files"]
        for words in ("source", "why", "warn", "upstream"):
            del data["layout"][words]
        return data

    @property
    def hash(self) -> str:
        """sha256 of the canonical JSON of `as_dict`."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def source(self, key: str) -> str:
        """Where the value at a dotted path comes from."""
        return self.provenance[key]


def resolve(
    site: Site,
    *,
    hardware_id: str | None = None,
    layout_id: str | None = None,
    domain: tuple[str, ...] | None = None,
    domain_source: str = "",
) -> Baseline:
    """The baseline of a node. `domain` are the addresses of its NVLink domain as the inventory declares them.

    Raises InputError when site, hardware and layout contradict each other.
    """
    r = Resolving(site, hardware_id, layout_id)
    r.notes["recipe"] = site.require("recipe").source
    r.notes["recipe_commit"] = f"recipes/{r.recipe.id}.yaml"
    r.notes["vendor"] = r.notes["hardware"]
    simulated = any(key[0] == "simulation" for key in site.cells)
    r.notes["simulated"] = "group_vars: simulation" if simulated else "no simulation is declared"
    host = baseline_core.host(r)
    return Baseline(
        recipe=r.recipe.id,
        recipe_commit=r.recipe.commit,
        hardware=r.hardware.id,
        vendor=r.hardware.vendor,
        layout=r.layout,
        simulated=simulated,
        host=host,
        driver=baseline_core.driver(r),
        gpus=baseline_core.gpus(r),
        nvlink=baseline_core.nvlink(r, domain, domain_source),
        runtime=baseline_core.runtime(r),
        image=baseline_core.image(r, baseline_core.OCI_ARCHITECTURE[host.architecture]),
        packages=baseline_core.packages(r),
        kernel=kernel_baseline(r),
        system=system_baseline(r),
        rdma=rdma_baseline(r),
        amd=amd_baseline(r),
        weights=weights_baseline(r),
        serving=serving_baseline(r),
        offer=offer_baseline(r),
        provenance=r.notes,
    )
