"""The nightly run on a control host: a systemd service and timer that call `rackproof nightly`.

    pyinfra inventories/control.py deploys/nightly.py

Needs a control host with systemd, rackproof in a virtual environment there, and the site's folder with inventories/ and
group_vars/; see docs/nightly.md. A second run changes nothing.
"""

from rackproof.deploy.nightly import bring_about

bring_about()
