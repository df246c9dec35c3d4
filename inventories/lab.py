"""The simulated rack that `rackproof-lab up` (or `make lab-up`) started: nothing here is a GPU result.

Enters the lab's own network namespace, so that pyinfra and rackproof can be run plainly, as root.
"""

import rackproof_lab
from rackproof.inventory import rack

_lab = rackproof_lab.describe()
rackproof_lab.enter_network()
_layouts = {"gb300": "gb300-tp8", "b300": "b300-tp8", "mi355x": "mi355x-tp8"}  # by the profile the lab was started with
_amd = _lab["profile"] == "mi355x"

_more = _lab["site"]  # what follows from the flavour that the lab was started with

lab = rack(
    ",".join(node["name"] for node in _lab["nodes"]),
    group="lab_amd" if _amd else "lab",
    addresses=",".join(node["address"] for node in _lab["nodes"]),
    nvlink_domain="lab" if _lab["profile"] == "gb300" else None,
    overlay={
        "hardware": _lab["profile"],
        "layout": _layouts[_lab["profile"]],
        "ssh": {
            "user": _lab["ssh"]["user"],
            "key_file": _lab["ssh"]["key"],
            "known_hosts_file": _lab["ssh"]["known_hosts"],
        },
        "packages": {
            "key_url": _lab["apt"]["amd_key_url" if _amd else "key_url"],
            "key_fingerprint": _lab["apt"]["key_fingerprint"],
            **_more.get("packages", {}),
        },
        **{key: _more[key] for key in ("container",) if key in _more},
        # Names of public registries can only be resolved on the nodes, so nobody can ask for the size first.
        "image": {"repository": _lab["image"]["reference"].rpartition(":")[0], "free_bytes": 10_000_000},
        "simulation": {
            # The image of AMD is of one architecture, so its one digest stands for all.
            "image": {key: _lab["image"].get(key, _lab["image"]["index"]) for key in ("index", "amd64", "arm64")},
            **_more.get("simulation", {}),
        },
    },
    overlay_source="the running lab",
)
