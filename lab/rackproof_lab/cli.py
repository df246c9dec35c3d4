"""The command line of the lab."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from rackproof_lab import describe, faults, network, node, rack, snapshot, ssh
from rackproof_lab.names import Lab, LabError, selected_id

F = TypeVar("F", bound=Callable[..., Any])
_WORDS: dict[str, Any] = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _say(text: str) -> None:
    click.echo(f"lab: {text}", err=True)


def _lab(function: F) -> F:
    """Give a command the selected lab, and turn a LabError into one line and exit code 1."""

    @click.pass_context
    @functools.wraps(function)
    def wrapped(context: click.Context, *args: Any, **options: Any) -> None:
        try:
            function(Lab(selected_id(context.obj)), *args, **options)
        except LabError as error:
            click.echo(f"rackproof-lab: {error}", err=True)
            sys.exit(1)

    return wrapped  # type: ignore[return-value]


@click.group()
@click.option("--id", "lab_id", help="Which lab; several can run at once. [default: $RACKPROOF_LAB_ID or rp]")
@click.pass_context
def main(context: click.Context, lab_id: str | None) -> None:
    """A simulated rack of GPU hosts. Everything on the nodes that has to do with GPUs is a stand-in."""
    context.obj = lab_id


@main.command()
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 60))
@click.option("--profile", default="gb300", show_default=True, help="Hardware that the nodes play.")
@click.option("--suite", default="trixie", show_default=True, help="Debian release of the nodes.")
@click.option("--state", default="leased", show_default=True, type=click.Choice(["leased", "bare"]),
              help="leased: an R575 driver, tray03 with unattended-upgrades. bare: no driver.")  # fmt: skip
@click.option("--flavour", default="debian", show_default=True, type=click.Choice(["debian", "rocky9"]),
              help="rocky9: dnf and rpm on Debian's userland, only in the state bare.")  # fmt: skip
@click.option("--no-install", is_flag=True, help="Refuse instead of installing missing packages on this machine.")
@_lab
def up(lab: Lab, nodes: int, profile: str, suite: str, state: str, flavour: str, no_install: bool) -> None:
    """Build what is missing and start the nodes."""
    start = time.monotonic()
    rack.up(lab, nodes, profile, suite, state, not no_install, _say, flavour)
    _say(f"{nodes} nodes are up after {time.monotonic() - start:.1f} s: {lab.description}")


@main.command()
@_lab
def down(lab: Lab) -> None:
    """Stop everything and remove the nodes; safe at any time, also after a crash."""
    rack.down(lab, _say)


@main.command()
@_lab
def status(lab: Lab) -> None:
    """One line a node: running or not, active faults."""
    for entry in describe(lab.id)["nodes"]:
        name = entry["name"]
        state = "running" if node.running(lab, name) else "stopped"
        click.echo(f"{name} {entry['address']} {state} faults: {', '.join(faults.active(lab, name)) or 'none'}")


@main.command("ssh", context_settings=_WORDS)
@click.option("--user", default="root", show_default=True)
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@_lab
def ssh_(lab: Lab, user: str, name: str, words: tuple[str, ...]) -> None:
    """Open a shell on a node, or run a command there."""
    _nodes(lab, name)
    os.execvp("nsenter", ssh.command(lab, name, words, user))


@main.command("exec", context_settings=_WORDS)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
@_lab
def exec_(lab: Lab, words: tuple[str, ...]) -> None:
    """Run a command in the lab's network, where the nodes and the names it plays can be reached."""
    describe(lab.id)
    os.execvp("nsenter", [*network.inside(lab), *words])


@main.command("break")
@click.argument("name")
@click.argument("fault")
@_lab
def break_(lab: Lab, name: str, fault: str) -> None:
    """Apply a fault to a node."""
    with rack.locked(lab):
        faults.apply(lab, _nodes(lab, name)[0], fault)


@main.command()
@click.argument("name")
@click.argument("fault", required=False)
@_lab
def heal(lab: Lab, name: str, fault: str | None) -> None:
    """Undo a fault of a node, or all of its faults."""
    with rack.locked(lab):
        for done in faults.heal(lab, _nodes(lab, name)[0], fault):
            _say(f"{name}: {done} healed")


@main.command("faults")
@_lab
def faults_(lab: Lab) -> None:
    """List the faults with what a check should find."""
    for fault in faults.everything():
        click.echo(f"{fault['id']}: {fault['title']}")
        for who, expected in fault["expect"].items():
            if who == "drift":
                click.echo(f"    drift: {', '.join(expected) or 'none'}")
                continue
            for status, requirements in expected.items():
                click.echo(f"    {who}: {status} {', '.join(requirements)}")


@main.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True)
@_lab
def reset(lab: Lab, name: str | None, every: bool) -> None:
    """Throw away what a node has become and boot it as it was made."""
    with rack.locked(lab):
        rack.reset(lab, _nodes(lab, _one(name, every)))


@main.command("snapshot")
@_lab
def snapshot_(lab: Lab) -> None:
    """Keep what every node is now, to come back to."""
    with rack.locked(lab):
        _nodes(lab, None)
        snapshot.take(lab)


@main.command()
@click.argument("name", required=False)
@_lab
def restore(lab: Lab, name: str | None) -> None:
    """Bring one node, or all, back to the snapshot."""
    with rack.locked(lab):
        snapshot.restore(lab, _nodes(lab, name))


def _one(name: str | None, every: bool) -> str | None:
    if bool(name) == every:
        raise LabError("name one node, or say --all")
    return name


def _nodes(lab: Lab, name: str | None) -> list[str]:
    """The named node, or all of them; LabError when there is no such node or no lab."""
    names = [entry["name"] for entry in describe(lab.id)["nodes"]]
    if name is None:
        return names
    if name not in names:
        raise LabError(f"no node {name!r}; there are: {', '.join(names)}")
    return [name]


if __name__ == "__main__":
    main()
