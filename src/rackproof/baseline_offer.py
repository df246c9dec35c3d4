"""What the seller of a node said that it is (`offer:` in the site). A difference is a finding of its own class."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rackproof import rules
from rackproof.resolving import Resolving


@dataclass(frozen=True)
class Nics:
    """So many network ports of one rate and kind."""

    count: int
    rate_bits_per_s: int
    link_layer: str | None  # InfiniBand | Ethernet


@dataclass(frozen=True)
class OfferRules:
    """Shares from 0 to 1, and the word for a machine without a hypervisor. Values of rules/offer.yaml."""

    ram_tolerance: float
    gpu_memory_tolerance: float
    disk_tolerance: float
    bare_metal: str


@dataclass(frozen=True)
class OfferBaseline:
    """Nothing that the site does not say is expected: None. Sizes as they are sold: GiB of memory, bytes of disk."""

    gpus: int | None
    gpu_product: str | None
    gpu_memory_gib: float | None
    nics: tuple[Nics, ...]
    nvme_count: int | None
    nvme_bytes: int | None
    ram_gib: float | None
    sockets: int | None
    cores: int | None
    cpu_model: str | None
    bare_metal: bool | None
    rules: OfferRules


def offer_baseline(r: Resolving) -> OfferBaseline:
    plain = {field.name for field in fields(OfferBaseline)} - {"nics", "rules"}
    chosen: dict[str, Any] = {name: r.choose(f"offer.{name}", "offer", name) for name in plain}
    return OfferBaseline(
        nics=tuple(
            Nics(item["count"], int(item["rate_gbit_per_s"] * 1_000_000_000), item.get("link_layer"))
            for item in r.choose("offer.nics", "offer", "nics", default=())
        ),
        rules=OfferRules(**{name: r.rule(f"offer.rules.{name}", "offer", name) for name in rules.load("offer")}),
        **chosen,
    )
