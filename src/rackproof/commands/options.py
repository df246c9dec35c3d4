"""The options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rackproof.commands.completion import hardware_ids, layout_ids

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
        click.option("--hardware", metavar="ID", shell_complete=hardware_ids, help="GPU product, e.g. gb300. Default: detected."),
        click.option("--layout", metavar="ID", shell_complete=layout_ids,
                     help="Layout of the recipe. Default: the official one of the product."),
        click.option("--site", metavar="FILE", type=PATH, help="Site values (YAML) on top of the shipped defaults."),
        click.option("--limit", metavar="NODESET", help="Only these nodes, e.g. tray[01-04]; the rest is unknown."),
    )  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """Where the report goes, and how it looks."""

    json: str | None
    junit: str | None
    quiet: bool
    plain: bool
    others: Mapping[str, str] = field(default_factory=dict)  # format -> file
    github: bool = False

    @property
    def files(self) -> dict[str, str]:
        """Format -> file, `-` for standard output."""
        named = {"json": self.json, "junit": self.junit, **self.others}
        return {name: target for name, target in named.items() if target is not None}


FORMATS = {  # format -> what --help says of it
    "json": "Report as JSON (docs/verdict.schema.json); '-': standard output, the text goes to stderr.",
    "html": "Report as one self-contained HTML file.",
    "letter": "What to send to the provider, as Markdown.",
    "junit": "Report as JUnit XML.",
    "prometheus": "Verdicts and outcomes as a text file for Prometheus' node exporter.",
    "gitlab": "Findings as a GitLab code quality report.",
}


def outputs(function: Command) -> Command:
    """Adds an option for each format, --github, --quiet and --plain, as one argument `wanted`."""

    @wraps(function)
    def call(*args: Any, github: bool, quiet: bool, plain: bool, **rest: Any) -> Any:
        files = {name: target for name in FORMATS if (target := rest.pop(name)) is not None}
        if len(set(files.values())) < len(files):
            raise click.UsageError(f"--{' and --'.join(files)} cannot write to the same place")
        json, junit = files.pop("json", None), files.pop("junit", None)
        return function(*args, wanted=Outputs(json, junit, quiet, plain, files, github), **rest)

    return _added(
        call,
        *(click.option(f"--{name}", metavar="FILE", help=words) for name, words in FORMATS.items()),
        click.option("--github", is_flag=True, help="Findings as GitHub workflow annotations, after the report."),
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
