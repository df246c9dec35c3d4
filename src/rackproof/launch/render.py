"""A launch written down: command line, docker or podman command, environment, systemd unit or compose file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import yaml

from rackproof.errors import InputError
from rackproof.launch import quoting
from rackproof.launch.docker import env_words, remove_command, run_command, stop_command
from rackproof.launch.explain import header
from rackproof.launch.model import Launch, Process

PROGRAMS = {"docker": "/usr/bin/docker", "podman": "/usr/bin/podman"}


def render(launch: Launch, format_: str, processes: Sequence[Process] | None = None) -> str:
    """The processes (default: all) in one format, each under comments that explain it.

    Several processes in the formats systemd and compose are several files: each begins with `# file:`.
    """
    chosen = launch.processes if processes is None else tuple(processes)
    return "\n".join(FORMATS[format_](launch, process) for process in chosen)


def name_of(launch: Launch, process: Process) -> str:
    """Name of the container, unit and compose project; equal on all nodes of a pool."""
    return launch.name + (f"-{process.pool.name}" if process.pool.name else "")


def _comments(launch: Launch, process: Process, file: str = "") -> str:
    rank = f" (rank {process.rank})" if process.pool.nodes > 1 else ""
    lines = [f"file: {file}{rank}"] if file else []
    return "".join(f"# {line}".rstrip() + "\n" for line in [*lines, *header(launch, process)])


def _shell_command(groups: Sequence[Sequence[str]]) -> str:
    return " \\\n  ".join(" ".join(quoting.shell(word) for word in group) for group in groups) + "\n"


def _argv(launch: Launch, process: Process) -> str:
    return _comments(launch, process) + _shell_command(process.command)


def _docker(launch: Launch, process: Process) -> str:
    return _container(launch, process, "docker")


def _podman(launch: Launch, process: Process) -> str:
    return _container(launch, process, "podman")


def _container(launch: Launch, process: Process, engine: str) -> str:
    _only_for(process, engine)
    return _comments(launch, process) + _shell_command(run_command(engine, name_of(launch, process), process))


def _only_for(process: Process, engine: str) -> None:
    """Raises InputError where the site has another engine, whose options differ and which alone has the image."""
    chosen = process.container.engine
    if chosen != engine:
        raise InputError("--format", f"it is for {engine}, and the site says container.engine: {chosen}", f"{chosen} or systemd")


def _env(launch: Launch, process: Process) -> str:
    """KEY=value lines that a shell (`set -a; . FILE`) and systemd's EnvironmentFile= read alike."""
    lines = (f"{name}={quoting.shell(text)}\n" for name, text in env_words(process))
    return _comments(launch, process) + "".join(lines)


def _systemd(launch: Launch, process: Process) -> str:
    name = name_of(launch, process)
    return _comments(launch, process, f"/etc/systemd/system/{name}.service") + unit_text(launch, process, name)


def unit_text(launch: Launch, process: Process, name: str, env_file: str = "") -> str:
    """A systemd unit that runs the process's container in the foreground, without comments."""
    program = PROGRAMS[process.container.engine]
    groups = run_command(program, name, process, env_file, unit=True)
    run = " \\\n  ".join(" ".join(quoting.systemd(word) for word in group) for group in groups)
    remove, stop = (
        " ".join(quoting.systemd(word) for word in words)
        for words in (remove_command(program, name), stop_command(program, name, process))
    )
    model = quoting.systemd_path(process.model)
    title = quoting.systemd_text(f"{launch.title}, {launch.layout} ({launch.tier})")
    imex = " nvidia-imex.service" if any("imex" in device for device in process.container.devices) else ""
    requires, after, delegate = "Requires=docker.service\n", "docker.service ", ""
    if process.container.engine == "podman":  # no service to wait for, but for the spec, which every boot writes anew
        requires, after, delegate = "", _cdi_first(process), "Delegate=yes\n"
    return (
        f"[Unit]\nDescription={title}\n"
        f"{requires}After={after}network-online.target{imex}\nWants=network-online.target\n"
        f"RequiresMountsFor={model}\n\n"
        f"[Service]\nType=exec\n{delegate}ExecStartPre=-{remove}\nExecStart={run}\nExecStop=-{stop}\n"
        f"TimeoutStopSec={process.container.stop_timeout_s + 30}\nRestart=on-failure\nRestartSec=30\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _cdi_first(process: Process) -> str:
    return "nvidia-cdi-refresh.service " if any(name.startswith("nvidia.com/") for name in process.container.devices) else ""


def _compose(launch: Launch, process: Process) -> str:
    _only_for(process, "docker")
    name = name_of(launch, process)
    data = {"name": name, "services": {"vllm": _service(name, process)}}
    text = yaml.safe_dump(data, sort_keys=False, width=1_000_000, allow_unicode=True)
    return _comments(launch, process, f"{name}.compose.yaml") + text


def _service(name: str, process: Process) -> dict[str, Any]:
    container, write = process.container, quoting.compose
    service: dict[str, Any] = {
        "image": container.image,
        "container_name": name,
        "pull_policy": container.pull,
        "network_mode": container.network,
        "ipc": container.ipc,
        "cap_add": list(container.capabilities),
        "ulimits": {limit: {"soft": value, "hard": value} for limit, value in container.ulimits},
        "devices": [write(device) for device in container.devices],
        "group_add": list(container.groups),
        "security_opt": list(container.security),
        "volumes": [
            {"type": "bind", "source": write(m.source), "target": write(m.target), "read_only": m.read_only,
             "bind": {"create_host_path": False}}
            for m in container.mounts
        ],
        "environment": {key: write(text) for key, text in env_words(process)},
        "entrypoint": [write(word) for word in container.entrypoint],
        "command": [write(word) for word in process.argv[len(container.entrypoint) :]],
        "stop_grace_period": f"{container.stop_timeout_s}s",
        "restart": "on-failure",
    }  # fmt: skip
    return {key: value for key, value in service.items() if value not in ([], {})}


FORMATS: dict[str, Callable[[Launch, Process], str]] = {
    "argv": _argv,
    "docker": _docker,
    "podman": _podman,
    "env": _env,
    "systemd": _systemd,
    "compose": _compose,
}
