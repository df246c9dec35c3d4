"""The host that runs rackproof at night; what it runs and when stands under `nightly:` in group_vars/.

Change the name to yours. It needs SSH to the GPU nodes as the user nightly.user, with their host keys known.
"""

from rackproof.control import control

controller = control("control01", group="control")
