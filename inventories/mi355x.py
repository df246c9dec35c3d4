"""AMD Instinct MI355X nodes, each serving a replica of its own (layout mi355x-tp8).

Change names and addresses to yours; versions, mirrors and consent to reboot stand in group_vars/.
"""

from rackproof.inventory import rack

mi355x = rack("mi[01-08]", group="mi355x", addresses="10.30.1.[11-18]")
