"""The `docker run` (or `podman run`) of one process, as groups of words that belong together."""

from __future__ import annotations

from collections.abc import Iterator

from rackproof.launch.model import Process
from rackproof.launch.quoting import csv_fields

Groups = tuple[tuple[str, ...], ...]


def run_command(program: str, name: str, process: Process, env_file: str = "", unit: bool = False) -> Groups:
    """`run` in the foreground: the supervisor (systemd, a shell) sees how it ends.

    `program`: docker or podman; `env_file`: the environment stands there instead of on the command line; `unit`: systemd
    runs it.
    """
    first, *rest = process.container.entrypoint
    command = ((*rest, process.model), *process.command[1:])
    options = (*_options(process, env_file), *_of_engine(process, unit), ("--entrypoint", first))
    return ((program, "run", "--rm", "--name", name), *options, (process.container.image,), *command)


def _of_engine(process: Process, unit: bool) -> Iterator[tuple[str, ...]]:
    """In a unit podman's container stays in the unit's own cgroup and writes to its log; podman has no daemon for either."""
    for option, value in process.container.engine_options:
        yield f"--{option}", value
    if unit and process.container.engine == "podman":
        yield "--cgroups", "split"
        yield "--log-driver", "passthrough"


def _options(process: Process, env_file: str) -> Iterator[tuple[str, ...]]:
    container = process.container
    yield "--pull", container.pull
    yield "--network", container.network, "--ipc", container.ipc
    for capability in container.capabilities:
        yield "--cap-add", capability
    for limit, value in container.ulimits:
        yield "--ulimit", f"{limit}={value}:{value}"
    for device in container.devices:
        yield "--device", device
    for group in container.groups:
        yield "--group-add", group
    for option in container.security:
        yield "--security-opt", option
    for mount in container.mounts:
        fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
        yield "--mount", csv_fields([*fields, "readonly"] if mount.read_only else fields)
    if env_file:
        yield "--env-file", env_file
    else:
        for key, text in env_words(process):
            yield "--env", f"{key}={text}"
    yield "--stop-timeout", str(container.stop_timeout_s)


def env_words(process: Process) -> Iterator[tuple[str, str]]:
    """The environment as names and text."""
    for name, value in process.env.items():
        yield name, value.text or ""


def remove_command(program: str, name: str) -> tuple[str, ...]:
    """Clears what a crash left behind: a leftover container can hold all GPU memory."""
    return program, "rm", "--force", name


def stop_command(program: str, name: str, process: Process) -> tuple[str, ...]:
    return program, "stop", "-t", str(process.container.stop_timeout_s), name
