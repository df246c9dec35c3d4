"""The `docker run` of one process, as groups of words that belong together."""

from __future__ import annotations

from collections.abc import Iterator

from rackproof.launch.model import Process
from rackproof.launch.quoting import csv_fields

Groups = tuple[tuple[str, ...], ...]


def docker_command(docker: str, name: str, process: Process, env_file: str = "") -> Groups:
    """`docker run` in the foreground: the supervisor (systemd, a shell) sees how it ends.

    `env_file`: the environment stands there instead of on the command line.
    """
    first, *rest = process.container.entrypoint
    command = ((*rest, process.model), *process.command[1:])
    return ((docker, "run", "--rm", "--name", name), *_options(process, first, env_file), (process.container.image,), *command)


def _options(process: Process, entrypoint: str, env_file: str) -> Iterator[tuple[str, ...]]:
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
    yield "--entrypoint", entrypoint


def env_words(process: Process) -> Iterator[tuple[str, str]]:
    """The environment as names and text."""
    for name, value in process.env.items():
        yield name, value.text or ""


def docker_remove(docker: str, name: str) -> tuple[str, ...]:
    """Clears what a crash left behind: a leftover container can hold all GPU memory."""
    return docker, "rm", "--force", name


def docker_stop(docker: str, name: str, process: Process) -> tuple[str, ...]:
    return docker, "stop", "-t", str(process.container.stop_timeout_s), name
