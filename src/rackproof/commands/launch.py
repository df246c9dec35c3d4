"""`launch`: what to run for a layout, on every node of a unit or on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackproof.commands.options import PATH, debug
from rackproof.commands.output import say
from rackproof.errors import InputError

if TYPE_CHECKING:
    from rackproof.launch import Launch, Process
    from rackproof.launch.given import Node
    from rackproof.site import Site

FORMATS = ("argv", "docker", "podman", "env", "systemd", "compose")


@click.command(short_help="What to run for a layout: arguments, container, unit.")
@click.argument("layout", metavar="LAYOUT")
@click.option("--site", metavar="FILE", type=PATH, help="Site values (YAML) on top of the shipped defaults.")
@click.option("--inventory", metavar="FILE", help="Take site and nodes from an inventory file.")
@click.option("--unit", metavar="UNIT", help="The deployment unit of the inventory. Default: its only one.")
@click.option("--node-rank", metavar="R", type=click.IntRange(min=0), help="One node of the unit (or of the role).")
@click.option("--role", type=click.Choice(["prefill", "decode"]), help="One role of a disaggregated layout.")
@click.option("--fabric", type=click.Choice(["node", "mnnvl", "rdma"]), help="Default: the layout's own.")
@click.option("--format", "format_", type=click.Choice(FORMATS),
              help="Default: of the container engine that the site names.")
@click.option("--example", is_flag=True, help="Fill in what no site says with stand-ins.")
@debug
def launch(
    layout: str, site: Path | None, inventory: str | None, unit: str | None, node_rank: int | None,
    role: str | None, fabric: str | None, format_: str | None, example: bool,
) -> int:  # fmt: skip
    """Print what serves LAYOUT: the arguments of vLLM, or a docker or podman command, environment, systemd unit,
    compose file.

    A combination that breaks a rule of the recipe is refused, with the rule and its source. Comments above each
    command say what differs from the upstream recipe and which values come from the site. Nothing is started.
    """
    from rackproof.launch import plan_launch, render

    if inventory and site:
        raise click.UsageError("an inventory already says its site: give one or the other")
    if unit and not inventory:
        raise click.UsageError("--unit names a unit of --inventory")
    chosen, nodes, source = _unit(inventory, unit) if inventory else (_site(site), None, "")
    planned = plan_launch(layout, chosen, fabric=fabric, nodes=nodes, nodes_source=source, example=example)
    processes = _select(planned, role, node_rank)
    format_ = format_ or processes[0].container.engine
    say(render(planned, format_, processes))
    if planned.router and len(processes) == len(planned.processes) and format_ in ("argv", "docker", "podman"):
        say(_router(planned))
    return 0


def _site(file: Path | None) -> Site:
    from rackproof import site as sites

    return sites.from_file(file) if file else sites.shipped()


def _unit(inventory: str, wanted: str | None) -> tuple[Site, list[Node], str]:
    """Site, nodes (head first) and source of one unit of an inventory."""
    from rackproof.inventory import run_inventory
    from rackproof.launch.given import Node

    plan = run_inventory(Path(inventory))
    names = [unit.name for unit in plan.units]
    if wanted is None and len(names) != 1:
        raise InputError(inventory, f"holds {len(names)} deployment units", f"--unit with one of {', '.join(names)}")
    if wanted is not None and wanted not in names:
        raise InputError("--unit", f"no unit {wanted!r} in {inventory}", names)
    unit = plan.units[names.index(wanted)] if wanted else plan.units[0]
    members = [plan.node(name) for name in unit.nodes]
    site = members[0].site
    nodes = [Node(node.name, str(node.connection.get("ssh_hostname", node.name))) for node in members]
    head = site.get("serving", "head_address")
    if head is not None and head.value != nodes[0].address:
        said = f"serving.head_address is {head.value}, and unit {unit.name} of {inventory} begins with {nodes[0].address}"
        raise InputError(head.source, said, "leave it out: an inventory says which node is the head")
    return site, nodes, f"{inventory} (unit {unit.name})"


def _select(planned: Launch, role: str | None, rank: int | None) -> Sequence[Process]:
    roles = list(dict.fromkeys(process.pool.name for process in planned.processes))
    if role is not None and role not in roles:
        raise InputError("--role", f"layout {planned.layout} has no roles", "a layout of prefill and decode, or no --role")
    found = [process for process in planned.processes if role in (None, process.pool.name)]
    if rank is None:
        return found
    if role is None and len(roles) > 1:
        raise InputError("--node-rank", f"each role of {planned.layout} counts its own nodes", "--role as well")
    if rank >= len(found):
        raise InputError("--node-rank", f"{rank} of {len(found)} nodes", f"0 to {len(found) - 1}")
    return [found[rank]]


def _router(planned: Launch) -> str:
    from rackproof.launch.quoting import shell

    words = " ".join(shell(word) for word in planned.router)
    return f"\n# The router in front of both roles (package vllm-router, in no image), on any node that reaches them:\n{words}\n"
