"""A GB300 NVL72 rack: 18 compute trays in one NVLink domain, served as 9 units of two trays (layout gb300-tp8).

Change names and addresses to yours; versions, mirrors and consent to reboot stand in group_vars/.
"""

from rackproof.inventory import rack

gb300 = rack(
    "rack1-tray[01-18]",
    group="gb300",
    addresses="10.10.1.[11-28]",  # on the management network; IMEX is told these
    nvlink_domain="rack1",
)
