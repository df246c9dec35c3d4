"""What the seller of a node said that it is (`offer:` in the site). A difference is a finding of its own class."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class OfferBaseline:
    """Nothing that the site does not say is expected."""


def offer_baseline(r: Resolving) -> OfferBaseline:
    r.notes["offer"] = r.notes["hardware"]
    return OfferBaseline()
