"""The options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]
PATH = click.Path(path_type=Path)


@dataclass
class State:
    """What `main` knows about a run, however it ended."""

    debug: bool = False


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    state = context.find_object(State)
    if value and state is not None:
        state.debug = True


def debug(function: Command) -> Command:
    """`--debug`, before or after the command's name."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_debug,
        help="Show the traceback of an unexpected error.",
    )(function)


@dataclass(frozen=True)
class Inputs:
    """What to judge against."""

    hardware: str | None
    layout: str | None
    site: Path | None
    limit: str | None


def inputs(function: Command) -> Command:
    """Adds --hardware, --layout, --site and --limit, as one argument `chosen`."""

    @wraps(function)
    def call(
        *args: Any, hardware: str | None, layout: str | None, site: Path | None, limit: str | None, **rest: Any
    ) -> Any:
        return function(*args, chosen=Inputs(hardware, layout, site, limit), **rest)

    return _added(
        call,
        click.option("--hardware", metavar="ID", help="GPU product, e.g. gb300. Default: detected."),
        click.option("--layout", metavar="ID", help="Layout of the recipe. Default: the official one of the product."),
        click.option("--site", metavar="FILE", type=PATH, help="Site values (YAML) on top of the shipped defaults."),
        click.option("--limit", metavar="NODESET", help="Only these nodes, e.g. tray[01-04]; the rest is unknown."),
    )


@dataclass(frozen=True)
class Outputs:
    """Where the report goes, and how it looks."""

    json: str | None
    junit: str | None
    quiet: bool
    plain: bool


def outputs(function: Command) -> Command:
    """Adds --json, --junit, --quiet and --plain, as one argument `wanted`."""

    @wraps(function)
    def call(*args: Any, json: str | None, junit: str | None, quiet: bool, plain: bool, **rest: Any) -> Any:
        if json == junit == "-":
            raise click.UsageError("--json and --junit cannot both write to standard output")
        return function(*args, wanted=Outputs(json, junit, quiet, plain), **rest)

    return _added(
        call,
        click.option("--json", metavar="FILE", help="Report as JSON; '-': standard output, the text goes to stderr."),
        click.option("--junit", metavar="FILE", help="Report as JUnit XML; '-': as above."),
        click.option("--quiet", "-q", is_flag=True, help="One line."),
        click.option("--plain", is_flag=True, help="ASCII, no colour. NO_COLOR is respected as well."),
    )


@dataclass(frozen=True)
class Reading:
    """How nodes are read."""

    sudo: bool | None
    timeout_s: int
    verbose: bool


def reading(function: Command) -> Command:
    """Adds --sudo, --timeout and --verbose, as one argument `how`."""

    @wraps(function)
    def call(*args: Any, sudo: bool | None, timeout: int, verbose: bool, **rest: Any) -> Any:
        return function(*args, how=Reading(sudo, timeout, verbose), **rest)

    return _added(
        call,
        click.option("--sudo/--no-sudo", default=None, help="Let the probe use 'sudo -n'. Default: as the site says."),
        click.option("--timeout", metavar="SECONDS", default=60, show_default=True, type=click.IntRange(min=1),
                     help="For one node, from connecting to the last byte."),
        click.option("--verbose", "-v", is_flag=True, help="One line on stderr for each node as it is read."),
    )  # fmt: skip


def _added(function: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function
