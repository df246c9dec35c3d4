"""The stamp: which baseline a host was brought to, with the site's choices that made it, so that a rollback can make the
same baseline again. The stamps before it are kept beside it."""

from __future__ import annotations

import json
from typing import Any

from rackproof import __version__
from rackproof.baseline import Baseline
from rackproof.deploy.node import Node, known_or
from rackproof.managed import HISTORY, STAMP, File
from rackproof.site import Site

KEPT = 10  # earlier stamps

# The groups of a site that a baseline is made of. How a node is reached, or when it may be rebooted, is none of it.
CHOICES = (
    "recipe", "layout", "allow_derived", "hardware", "driver", "kernel", "rdma", "packages", "container", "image", "gpus",
    "simulation", "serving",
)  # fmt: skip

KEEP = f"""\
if [ -f {STAMP} ]; then
  mkdir -p {HISTORY}
  cp -p {STAMP} "{HISTORY}/$(date -u +%Y%m%dT%H%M%SZ)-$(sha256sum <{STAMP} | cut -c 1-12).json"
  ls -r {HISTORY} | tail -n +{KEPT + 1} | while read -r old; do rm -f "{HISTORY}/$old"; done
fi"""


def stamp_of(baseline: Baseline, site: Site) -> dict[str, Any]:
    """What the stamp of a host says, but for the time."""
    return {
        "baseline": baseline.hash,
        "recipe": baseline.recipe,
        "recipe_commit": baseline.recipe_commit,
        "layout": baseline.layout.id,
        "tier": baseline.layout.tier,
        "simulated": baseline.simulated,
        "tool": f"rackproof {__version__}",
        "driver": baseline.driver.version,
        "image": baseline.image.reference,
        "launch": baseline.serving.launch,
        "site": choices(site),
    }


def choices(site: Site) -> dict[str, Any]:
    """The site's values that a baseline is made of, nested as in group_vars."""
    found: dict[str, Any] = {}
    for key, cell in site.cells.items():
        if key[0] in CHOICES:
            group = found
            for part in key[:-1]:
                group = group.setdefault(part, {})
            group[key[-1]] = list(cell.value) if isinstance(cell.value, tuple) else cell.value
    return found


def finish(node: Node) -> None:
    """Leave the stamp. Written last, so that it is never ahead of the facts."""
    wanted = stamp_of(node.baseline, node.site)
    there = known_or(node.facts.host.stamp, None) or {}
    with node.layer("stamp"):
        if node.steps or any(there.get(key) != value for key, value in wanted.items()):
            text = json.dumps(wanted, indent=1)[:-2] + ',\n "written": "@now@"\n}\n'
            node.files(
                "Stamp the host with its baseline",
                [File("host", STAMP, text)],
                first=KEEP if there.get("baseline") not in (None, wanted["baseline"]) else "",
                then=f'sed -i "s/@now@/$(date -u +%Y-%m-%dT%H:%M:%SZ)/" {STAMP}',
            )
