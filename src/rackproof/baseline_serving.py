"""What the weights on a node, and what serves them, must be."""

from __future__ import annotations

from dataclasses import dataclass

from rackproof.resolving import Resolving


@dataclass(frozen=True)
class WeightsBaseline:
    directory: str | None  # where the site keeps the weights; None: it does not say, and nothing is asked


@dataclass(frozen=True)
class ServingBaseline:
    """Values of the layout and of the site's `serving`."""


def weights_baseline(r: Resolving) -> WeightsBaseline:
    return WeightsBaseline(directory=r.choose("weights.directory", "serving", "model_directory"))


def serving_baseline(r: Resolving) -> ServingBaseline:
    r.notes["serving"] = r.notes["hardware"]
    return ServingBaseline()
