"""Reaching the nodes: keys, known hosts, a client configuration, and waiting for a node to answer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rackproof_lab import network
from rackproof_lab.names import Lab, LabError, node_name
from rackproof_lab.proc import put, run


def make_key(path: Path, comment: str) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path)


def write_client_files(lab: Lab, nodes: int) -> dict[str, str]:
    """Known hosts and client configuration of all nodes; returns the ssh part of lab.json."""
    key, known, config = lab.dir / "id_ed25519", lab.dir / "known_hosts", lab.dir / "ssh_config"
    lines, blocks = [], []
    for index in range(1, nodes + 1):
        name, address = node_name(index), lab.address(index)
        kind, public = (lab.node_dir(name) / "ssh_host_ed25519_key.pub").read_text().split()[:2]
        lines.append(f"{name},{address} {kind} {public}\n")
        blocks.append(f"Host {name} {address}\n  HostName {address}\n  HostKeyAlias {address}\n\n")
    common = (
        f"Host *\n  User root\n  IdentityFile {key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n"
        "  ConnectTimeout 5\n  LogLevel ERROR\n"
    )
    put(known, "".join(lines))
    put(config, "".join(blocks) + common)
    return {"user": "root", "sudo_user": "deploy", "key": str(key), "known_hosts": str(known), "config": str(config)}


def command(lab: Lab, node: str, words: Sequence[str], user: str = "root") -> list[str]:
    return [*network.inside(lab), "ssh", "-F", str(lab.dir / "ssh_config"), "-l", user, node, *words]


def script(lab: Lab, node: str, text: str, seconds: float = 300) -> str:
    """Run a sh script as root on a node and return its output; LabError with its last lines when it fails."""
    done = subprocess.run(
        command(lab, node, ["sh", "-s"]),
        check=False,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )
    if done.returncode:
        words = (done.stderr + done.stdout).strip().splitlines()[-6:]
        raise LabError(f"script on {node} failed (exit {done.returncode}): " + " | ".join(words))
    return done.stdout


def boot_id(lab: Lab, node: str) -> str:
    """The id of the running boot; empty when the node does not answer."""
    words = ["cat", "/proc/sys/kernel/random/boot_id"]
    try:
        done = subprocess.run(command(lab, node, words), capture_output=True, text=True, check=False, timeout=8)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def wait(lab: Lab, nodes: Sequence[str], seconds: float, not_boot: dict[str, str] | None = None) -> None:
    """Wait until nodes answer and have finished booting; `not_boot` holds boot ids that do not count any more."""
    old = not_boot or {}
    deadline = time.monotonic() + seconds
    left = list(nodes)
    while left:
        for node in list(left):
            seen = boot_id(lab, node)
            if seen and seen != old.get(node):
                left.remove(node)
        if left and time.monotonic() > deadline:
            logs = ", ".join(f"{n} (console {lab.node_dir(n) / 'console.log'})" for n in left)
            raise LabError(f"no ssh within {seconds:.0f} s on: {logs}")
        if left:
            time.sleep(0.1)
    for node in nodes:
        settle = ["timeout", "60", "systemctl", "is-system-running", "--wait"]
        subprocess.run(command(lab, node, settle), capture_output=True, check=False, timeout=90)
