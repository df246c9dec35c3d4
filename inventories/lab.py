"""The simulated rack that `rackproof-lab up` (or `make lab-up`) started: nothing here is a GPU result.

Enters the lab's own network namespace, so that pyinfra and rackproof can be run plainly, as root.
"""

import rackproof_lab

from rackproof.inventory import rack

_lab = rackproof_lab.describe()
rackproof_lab.enter_network()

lab = rack(
    ",".join(node["name"] for node in _lab["nodes"]),
    group="lab",
    addresses=",".join(node["address"] for node in _lab["nodes"]),
    nvlink_domain="lab",
    overlay={
        "ssh": {
            "user": _lab["ssh"]["user"],
            "key_file": _lab["ssh"]["key"],
            "known_hosts_file": _lab["ssh"]["known_hosts"],
        },
        "packages": {"key_url": _lab["apt"]["key_url"], "key_fingerprint": _lab["apt"]["key_fingerprint"]},
        "image": {"repository": _lab["image"]["reference"].rpartition(":")[0]},
        "simulation": {"image": {key: _lab["image"][key] for key in ("index", "amd64", "arm64")}},
    },
    overlay_source="the running lab",
)
