"""The unit that a deploy installs: one name whatever the layout, so that a new baseline replaces the unit before it.

The environment stands in a file of its own, as docker's --env-file reads it: NAME=value to the end of the line, no
quotes (docs.docker.com/reference/cli/docker/container/run, --env-file).
"""

from __future__ import annotations

from rackproof.launch.docker import env_words
from rackproof.launch.model import Launch, Process
from rackproof.launch.quoting import comment, one_line
from rackproof.launch.render import unit_text
from rackproof.managed import SERVING_ENVIRONMENT, SERVING_UNIT

NAME = "rackproof-serving"  # of the unit and of its container


def unit_files(launch: Launch, process: Process) -> tuple[tuple[str, str], tuple[str, str]]:
    """(path, text) of the unit and of its environment, for one node."""
    head = f"# Managed by rackproof; changes here are reported as drift and undone by the next deploy.\n# {_title(launch, process)}\n"
    unit = unit_text(launch, process, NAME, env_file=SERVING_ENVIRONMENT)
    lines = (f"{name}={one_line(text)}\n" for name, text in env_words(process))
    return (SERVING_UNIT, head + unit), (SERVING_ENVIRONMENT, head + "".join(lines))


def _title(launch: Launch, process: Process) -> str:
    place = f"rank {process.rank} of {process.pool.nodes}" + (f", {process.pool.name}" if process.pool.name else "")
    return comment(
        f"{launch.layout} ({launch.tier}), {place}, fabric {launch.fabric}, recipe {launch.recipe_commit[:7]}"
    )
