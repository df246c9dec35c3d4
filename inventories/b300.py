"""HGX B300 nodes, each serving a replica of its own (layout b300-tp8).

Change names and addresses to yours; versions, mirrors and consent to reboot stand in group_vars/.
"""

from rackproof.inventory import rack

b300 = rack("hgx[01-08]", group="b300", addresses="10.20.1.[11-18]")
