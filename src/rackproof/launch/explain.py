"""The comments above a rendered command: what it is, and where each unusual value comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rackproof.launch.model import Launch, Process, Value
from rackproof.launch.quoting import comment
from rackproof.recipes.settings import by


def header(launch: Launch, process: Process) -> list[str]:
    """Comment lines without their comment sign."""
    lines = [_title(launch, process), f"Image: {process.container.image}"]
    if launch.example:
        lines.append(f"EXAMPLE: stand-ins for {', '.join(launch.example)}; it cannot be run as it stands.")
    lines += [f"WARNING: {warning}" for warning in process.warnings]
    return [comment(line) for line in lines + _sections(process)]


def _title(launch: Launch, process: Process) -> str:
    pool = process.pool
    part = f", {pool.name}" if pool.name else ""
    place = f"node {process.rank} of {pool.nodes}" if pool.nodes > 1 else "one node"
    head = " (head)" if pool.nodes > 1 and process.rank == 0 else ""
    name = f" on {process.node}" if process.address else ""
    return (
        f"{launch.title}, layout {launch.layout} ({launch.tier}){part}: {pool.shape}, fabric {launch.fabric}, "
        f"{place}{head}{name}. Recipe {launch.recipe_commit[:7]}."
    )


def _sections(process: Process) -> list[str]:
    values = list(_named(process))
    differs = _grouped((name, f"{value.differs}; {_why(value)}") for name, value in values if value.differs)
    differs += [f"  {what}: {why}" for what, why in process.container.notes]
    noted = _grouped((name, _why(value)) for name, value in values if value.note and not value.differs)
    site = _grouped((name, value.source) for name, value in values if value.origin == "site")
    sections = (("Differs from what upstream renders:", differs), ("Worth knowing:", noted), ("From the site:", site))
    return [line for title, lines in sections if lines for line in (title, *lines)]


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """One line for all names that are explained alike."""
    names: dict[str, list[str]] = {}
    for name, words in pairs:
        names.setdefault(words, []).append(name)
    return [f"  {', '.join(found)}: {words}" for words, found in names.items()]


def _why(value: Value) -> str:
    who = by(value.said_by or value.source)
    return f"{value.note} ({who})" if value.note else f"({who})"


def _named(process: Process) -> Iterator[tuple[str, Value]]:
    for name, value in process.args.items():
        yield f"--{name}" + ("" if value.text is None or len(value.text) > 40 else f" {value.text}"), value
    for name, value in process.env.items():
        yield f"{name}={value.text}", value
