"""Control hosts: the machines that run rackproof at night. No GPU node, so no baseline; the site says what they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rackproof import site as sites
from rackproof.errors import InputError, RackproofError
from rackproof.inventory import Group, connection_data, refuse
from rackproof.nodesets import expand, refuse_duplicates
from rackproof.site import Site

_sites: dict[str, Site] = {}  # noted by `control` while an inventory file runs


def control(
    hosts: str,
    *,
    group: str = "",
    addresses: str | None = None,
    overlay: Mapping[str, Any] | None = None,
    overlay_source: str = "",
) -> Group:
    """Control hosts as a pyinfra group. `hosts`: nodeset of names; `addresses`: nodeset of as many, where names do not
    resolve; `group`: a file in group_vars/ besides all.yaml; `overlay`: site values known only at run time.

    Raises InputError before anything is contacted; under the pyinfra command that is one message and exit code 3.
    """
    try:
        caller = Path(sys._getframe(1).f_globals.get("__file__", "inventory"))
        site = sites.load(caller.resolve().parent.parent / "group_vars", [group] if group else [])
        if overlay:
            site = site.overlaid(overlay, overlay_source)
        if site.get("nightly", "inventory") is None:
            raise InputError("group_vars", "nothing sets nightly.inventory", "an inventory file below nightly.project")
        return _note(str(caller), site, hosts, addresses)
    except RackproofError as error:
        if "pyinfra_cli" not in sys.modules:
            raise
        refuse(error)


def _note(where: str, site: Site, hosts: str, addresses: str | None) -> Group:
    names = expand(hosts, where)
    reached = expand(addresses, where) if addresses else names
    if len(reached) != len(names):
        raise InputError(where, f"{len(names)} hosts and {len(reached)} addresses", "as many of each")
    refuse_duplicates([*_sites, *names], where)
    _sites.update(dict.fromkeys(names, site))
    data = connection_data(site)
    return [(name, {**data, "ssh_hostname": address}) for name, address in zip(names, reached, strict=True)], {}


def site_of(name: str) -> Site:
    """The site of a control host; raises InputError for one that no inventory names."""
    if name not in _sites:
        raise InputError(name, "is no control host", "an inventory file that calls rackproof.control.control")
    return _sites[name]
