"""Inventories: pyinfra inventory files that also say which nodes share an NVLink domain and which serve together.

An inventory file is plain Python that calls `rack` once for each rack. pyinfra reads the group that `rack` returns;
rackproof reads the plan that it notes down. Everything is resolved and checked here, before any node is contacted.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.baseline_launch import Member, alone, with_launch
from rackproof.errors import InputError, RackproofError
from rackproof.nodesets import expand, fold, refuse_duplicates
from rackproof.plan import Plan, PlannedNode, Unit
from rackproof.site import Site

Group = tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]

DOCKER = "@docker/"  # before the name of a running container of this machine
_plans: list[Plan] = []  # noted by `rack` while an inventory file runs


def rack(
    nodes: str,
    *,
    group: str,
    addresses: str | None = None,
    nvlink_domain: str | None = None,
    units: Sequence[str] | None = None,
    spares: str = "",
    overlay: Mapping[str, Any] | None = None,
    overlay_source: str = "",
) -> Group:
    """One rack (or any set of like nodes), as a pyinfra group.

    nodes: nodeset of names, in slot order. group: its file in group_vars/. addresses: nodeset of as many addresses,
    where names do not resolve; they are also what IMEX is told. nvlink_domain: name of the NVLink domain that all
    these nodes share. units: nodesets of the nodes that serve together; without it, the nodes are cut in order into
    units of the layout's size. spares: nodes in no unit. overlay: site values known only at run time.

    Raises InputError before anything is contacted; under the pyinfra command that is one message and exit code 3.
    """
    try:
        caller = Path(sys._getframe(1).f_globals.get("__file__", "inventory"))
        folder = caller.resolve().parent.parent / "group_vars"
        if not (folder / f"{group}.yaml").is_file():
            known = sorted(path.stem for path in folder.glob("*.yaml") if path.stem != "all")
            raise InputError(str(caller), f"group {group!r} has no file {folder / group}.yaml", known)
        site = sites.load(folder, [group])
        if overlay:
            site = site.overlaid(overlay, overlay_source)
        return _note(_Rack(str(caller), site, nodes, addresses, nvlink_domain, units, spares))
    except RackproofError as error:
        if "pyinfra_cli" not in sys.modules:
            raise
        refuse(error)


def refuse(error: RackproofError) -> NoReturn:
    """End a pyinfra run with one message and exit code 3, where pyinfra would print a traceback and return 1."""
    print(f"rackproof: {error}", file=sys.stderr)
    raise SystemExit(3) from None


class _Rack:
    """Works out one call of `rack`."""

    def __init__(
        self, where: str, site: Site, nodes: str, addresses: str | None, domain: str | None,
        units: Sequence[str] | None, spares: str,
    ) -> None:
        self.where, self.site, self.domain_name = where, site, domain
        self.names = expand(nodes, where)
        self.addresses = expand(addresses, where) if addresses else self.names
        if len(self.addresses) != len(self.names):
            raise InputError(where, f"{len(self.names)} nodes and {len(self.addresses)} addresses", "as many of each")
        self.spares = expand(spares, where) if spares else ()
        self.baseline = self._baseline()
        self.units = self._units(units)

    def _baseline(self) -> Baseline:
        domain = self.addresses if self.domain_name else None
        source = f"{self.where} (NVLink domain {self.domain_name})" if self.domain_name else ""
        return resolve(self.site, domain=domain, domain_source=source)

    def _units(self, declared: Sequence[str] | None) -> tuple[Unit, ...]:
        prefix = self.domain_name or self.site.value("hardware", default="unit")
        members = [expand(text, self.where) for text in declared] if declared is not None else self._cut()
        listed = [name for unit in members for name in unit]
        refuse_duplicates([*listed, *self.spares], self.where)
        strangers = [name for name in (*listed, *self.spares) if name not in self.names]
        if strangers:
            raise InputError(self.where, f"{fold(strangers)} is in a unit but not in the rack", fold(self.names))
        homeless = [name for name in self.names if name not in listed and name not in self.spares]
        if homeless:
            size = self.baseline.layout.nodes
            raise InputError(
                self.where,
                f"host {fold(homeless)} is in no deployment unit (layout {self.baseline.layout.id} takes {size} nodes)",
                "every host in one unit, or named in spares=",
            )
        # Racks of one file may share a prefix; their units must not share names.
        first = 1 + sum(unit.name.startswith(f"{prefix}-u") for plan in _plans for unit in plan.units)
        return tuple(Unit(f"{prefix}-u{number:02d}", unit) for number, unit in enumerate(members, first))

    def _cut(self) -> list[tuple[str, ...]]:
        """Units of the layout's size, in slot order; a rest that makes no whole unit is left homeless."""
        size = self.baseline.layout.nodes
        free = [name for name in self.names if name not in self.spares]
        return [tuple(free[at : at + size]) for at in range(0, len(free) - size + 1, size)]

    def plan(self) -> Plan:
        unit_of = {name: unit.name for unit in self.units for name in unit.nodes}
        connection = connection_data(self.site)
        plan = Plan(
            tuple(
                PlannedNode(
                    name, self.site, self.baseline, unit_of.get(name, ""),
                    connection={**connection, "ssh_hostname": address},
                )
                for name, address in zip(self.names, self.addresses, strict=True)
            ),
            self.units,
        )
        return replace(plan, nodes=tuple(self._served(plan, node) for node in plan.nodes))

    def _served(self, plan: Plan, node: PlannedNode) -> PlannedNode:
        """The node with the serving unit of its rank: units and ranks are in inventory order."""
        return replace(node, baseline=with_launch(self.baseline, self.site, member_of(plan, node.name)))


def _note(work: _Rack) -> Group:
    plan = work.plan()
    merged([*_plans, plan])  # refuses a host that another rack of the file already has
    _plans.append(plan)
    return [(node.name, {**node.connection, "rackproof_unit": node.unit}) for node in plan.nodes], {}


def merged(plans: Sequence[Plan]) -> Plan:
    """Several racks as one plan."""
    return Plan(
        tuple(node for plan in plans for node in plan.nodes), tuple(unit for plan in plans for unit in plan.units)
    )


def current_plan() -> Plan:
    """The plan of the inventory that this process has run (the pyinfra door)."""
    if not _plans:
        raise InputError("inventory", "holds no rack", "an inventory file that calls rackproof.inventory.rack")
    return merged(_plans)


def member_of(plan: Plan, name: str) -> Member | None:
    """A node of a plan among those it serves with, by rank; None for a spare."""
    unit = next((unit for unit in plan.units if name in unit.nodes), None)
    if unit is None:
        return None
    nodes = tuple((one, str(plan.node(one).connection.get("ssh_hostname", one))) for one in unit.nodes)
    return Member(name, nodes, f"deployment unit {unit.name}")


def connection_data(site: Site) -> dict[str, Any]:
    """pyinfra's connector data for a site. Host keys are always checked; a key file that is not there is an error."""
    data: dict[str, Any] = {
        "ssh_user": site.value("ssh", "user"),
        "ssh_strict_host_key_checking": "yes",
        "_sudo": bool(site.value("ssh", "sudo")),
    }
    port = site.get("ssh", "port")
    if port and not sites.is_default(port):  # a port that somebody chose; else that of an ssh config counts, else 22
        data["ssh_port"] = port.value
    for key, name in (
        ("key_file", "ssh_key"), ("known_hosts_file", "ssh_known_hosts_file"), ("config_file", "ssh_config_file")
    ):
        cell = site.get("ssh", key)
        if cell is None:
            continue
        path = Path(os.path.expanduser(cell.value))
        if not path.is_file():
            raise InputError(cell.source, f"ssh.{key} is {cell.value!r}, and there is no such file", "a readable file")
        data[name] = str(path)
    return data


def run_inventory(path: Path) -> Plan:
    """Run an inventory file outside pyinfra and return its plan."""
    _plans.clear()
    try:
        runpy.run_path(str(path))
    except RackproofError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code
        raise InputError(str(path), f"cannot be run: {type(error).__name__}: {error}") from error
    return current_plan()


def load_targets(
    targets: Sequence[str],
    *,
    hardware: str | None = None,
    layout: str | None = None,
    site_file: Path | None = None,
    limit: str | None = None,
) -> Plan:
    """The plan for what stands on a command line: inventory files, nodesets (`root@tray[01-18]`), `@local`, or
    `@docker/NAME` for a running container of this machine."""
    files = [target for target in targets if target.endswith(".py")]
    plans = [run_inventory(Path(target)) if Path(target).is_file() else _no_file(target) for target in files]
    names = [target for target in targets if target not in files]
    if files and (hardware or layout or site_file):
        raise InputError("command line", "an inventory already says its hardware, layout and site", "one or the other")
    if names:
        plans.append(_named(names, hardware, layout, site_file))
    plan = merged(plans)
    if not plan.nodes:
        raise InputError("command line", "names no node", "an inventory file, root@tray[01-18], or @local")
    return plan.limited(expand(limit, "--limit")) if limit else plan


def _no_file(target: str) -> Plan:
    raise InputError(target, "there is no such inventory file", "a path, root@tray[01-18], or @local")


def _named(targets: Sequence[str], hardware: str | None, layout: str | None, site_file: Path | None) -> Plan:
    site = sites.from_file(site_file) if site_file else sites.shipped()
    nodes: list[PlannedNode] = []
    for target in targets:
        if target == "@local":
            nodes.append(planned(target, site, hardware, layout))
            continue
        if target.startswith(DOCKER):
            for name in expand(target.removeprefix(DOCKER), "command line"):
                nodes.append(planned(DOCKER + name, site, hardware, layout, _container(name)))
            continue
        user, at, rest = target.rpartition("@")
        if at and not re.fullmatch(r"[^\s@,\[\]]+", user):
            raise InputError("command line", f"{target!r} names no node", "one user@ before a nodeset, or @local")
        for name in expand(rest, "command line"):
            connection = {**connection_data(site), **({"ssh_user": user} if at else {}), "ssh_hostname": name}
            nodes.append(planned(name, site, hardware, layout, connection))
    return Plan(tuple(nodes))


def _container(name: str) -> dict[str, Any]:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise InputError("command line", f"{DOCKER}{name} names no container", f"{DOCKER} and the name of a running container")
    return {"docker_identifier": name}


def planned(
    name: str, site: Site, hardware: str | None, layout: str | None, connection: Mapping[str, Any] | None = None
) -> PlannedNode:
    """A node nobody wrote an inventory for. Without a hardware id its product is detected later, from evidence."""
    chosen = hardware or site.value("hardware")
    baseline = resolve(site, hardware_id=chosen, layout_id=layout) if chosen else None
    if baseline is not None and baseline.layout.nodes == 1:
        baseline = with_launch(baseline, site, alone(name, str((connection or {}).get("ssh_hostname", name)), name))
    return PlannedNode(name, site, baseline, layout=layout, connection=connection or {})
