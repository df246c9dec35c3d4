"""Hardware profiles: what a simulated node is made of."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from rackproof_lab.names import LabError

FOLDER = Path(__file__).parent / "profiles"
IMEX_MAJOR = 510  # device major of the IMEX channels; a real kernel hands out a free one
NODES_PER_DOMAIN = 18


def load(name: str) -> dict[str, Any]:
    """A profile by its id."""
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.yaml")))
        raise LabError(f"no hardware profile {name!r}; there are: {known}")
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    return data


def node(profile: dict[str, Any], lab_id: str, name: str, index: int) -> dict[str, Any]:
    """The profile with the identities of one node: the same lab, node and GPU always get the same serials."""
    gpus = []
    for number, bdf in enumerate(profile["gpus"]):
        digest = hashlib.sha256(f"rackproof-lab/{lab_id}/{name}/{number}".encode()).hexdigest()
        gpus.append(
            {
                "index": number, "bdf": bdf, "module_id": number + 1,
                "uuid": "GPU-" + "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])),
                "serial": f"99{int(digest[32:42], 16) % 10**11:011d}", "pdi": f"0x{digest[42:58]}",
                "fabric_guid": f"0x{digest[48:64]}",
            }
        )  # fmt: skip
    place = {
        "chassis_serial": "9900000000001", "slot": index, "tray_index": (index - 1) % NODES_PER_DOMAIN, "host_id": 1,
        "peer_type": "Switch Connected",
    }  # fmt: skip
    return {**profile, "gpus": gpus, "place": place, "imex_major": IMEX_MAJOR}
