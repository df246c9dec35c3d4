"""One node: the files that make it itself, starting and stopping it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackproof_lab import cgroup, profile, rocky, services, ssh
from rackproof_lab.names import Lab, node_name
from rackproof_lab.proc import put, replace, spawn

HOSTFILES = Path(__file__).parent / "hostfiles"
# The unit that a deploy installs is left as it is; what it calls docker is the script that calls docker.
_SERVING = (
    "[Service]\nBindReadOnlyPaths=/usr/bin/docker:/run/rackproof-lab-docker "
    "/usr/local/lib/rackproof-lab/docker:/usr/bin/docker\n"
)
# Podman's own programs stay as they are; the runtime below it is the script that calls the runtime.
_PODMAN = '[engine]\nruntime = "crun"\n[engine.runtimes]\ncrun = ["/usr/local/lib/rackproof-lab/crun"]\n'
# What a node has written; all of it is on the machine's own file system.
DATA = ("upper", "docker", "containerd", "containers")


@dataclass(frozen=True)
class Rack:
    """How the nodes of a lab were made; kept in rack.json so that `reset` can make one again."""

    lab: Lab
    nodes: int
    profile: str
    state: str
    suite: str
    base_tree: str
    lowers: dict[str, str]
    flavour: str = "debian"

    def save(self) -> None:
        keys = ("nodes", "profile", "state", "suite", "base_tree", "lowers", "flavour")
        replace(self.lab.dir / "rack.json", json.dumps({key: getattr(self, key) for key in keys}))

    @staticmethod
    def load(lab: Lab) -> Rack:
        return Rack(lab=lab, **json.loads((lab.dir / "rack.json").read_text()))

    def names(self) -> list[str]:
        return [node_name(index) for index in range(1, self.nodes + 1)]


def prepare(rack: Rack, name: str) -> None:
    """Make a node fresh: an empty overlay with only its identity in it. Its host key outlives this."""
    folder = rack.lab.node_dir(name)
    for old in (*DATA, "work", "sim", "rw"):
        shutil.rmtree(folder / old, ignore_errors=True)
    for new in (*DATA, "work", "root", "sim", "rw"):
        (folder / new).mkdir(parents=True, exist_ok=True)
    ssh.make_key(folder / "ssh_host_ed25519_key", name)
    _write_sim(rack, name)
    _write_identity(rack, name, folder / "upper")


def _write_sim(rack: Rack, name: str) -> None:
    index = rack.names().index(name) + 1
    data: dict[str, Any] = profile.node(profile.load(rack.profile), rack.lab.id, name, index)
    sim = rack.lab.node_dir(name) / "sim"
    replace(sim / "node.json", json.dumps(data))
    replace(sim / "faults.json", "{}")


def _write_identity(rack: Rack, name: str, upper: Path) -> None:
    lab = rack.lab
    for path, text, mode in _identity(rack, name):
        put(upper / path, text, mode)
    for key, mode in (("ssh_host_ed25519_key", 0o600), ("ssh_host_ed25519_key.pub", 0o644)):
        put(upper / "etc/ssh" / key, (lab.node_dir(name) / key).read_text(), mode)
    link = upper / "etc/systemd/system/sysinit.target.wants/lab-boot.service"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/etc/systemd/system/lab-boot.service")


def _identity(rack: Rack, name: str) -> list[tuple[str, str, int]]:
    """(path, text, mode) of every file that this node has of its own."""
    lab = rack.lab
    ca = (lab.dir / "ca/ca.crt").read_text()
    bundle = (Path(rack.base_tree) / "etc/ssl/certs/ca-certificates.crt").read_text()
    trays = "".join(f"{lab.address(i)} {n}\n" for i, n in enumerate(rack.names(), 1))
    title = profile.load(rack.profile)["title"]
    banner = (
        f"RACKPROOF LAB: simulated hardware, profile {rack.profile}\n"
        f"{name} plays a host of the kind '{title}'. It has no GPU: GPU tools, driver files, packages and the\n"
        "container image on it are stand-ins of rackproof's test lab. Nothing measured here says anything about GPUs.\n"
    )
    sshd = (
        "AuthorizedKeysFile /etc/ssh/authorized_keys/lab\nUseDNS no\nPasswordAuthentication no\n"
        "PermitRootLogin prohibit-password\nHostKey /etc/ssh/ssh_host_ed25519_key\nMaxStartups 100\nMaxSessions 100\n"
    )
    return [
        ("etc/rackproof-lab", banner, 0o644),
        ("etc/motd", banner, 0o644),
        ("etc/hostname", name + "\n", 0o644),
        ("etc/hosts", f"127.0.0.1 localhost\n{services.hosts_lines(lab)}{trays}", 0o644),
        ("etc/resolv.conf", "# rackproof lab: there is no name server, names are in /etc/hosts\n", 0o644),
        ("etc/machine-id", os.urandom(16).hex() + "\n", 0o444),
        *(rocky.identity(lab.dir / "www") if rack.flavour == rocky.FLAVOUR else _apt(lab)),
        ("etc/ssh/authorized_keys/lab", (lab.dir / "id_ed25519.pub").read_text(), 0o644),
        ("etc/ssh/sshd_config.d/rackproof-lab.conf", sshd, 0o644),
        ("usr/local/share/ca-certificates/rackproof-lab.crt", ca, 0o644),
        ("etc/ssl/certs/ca-certificates.crt", bundle + ca, 0o644),
        ("etc/sudoers.d/rackproof-lab", "deploy ALL=(ALL) NOPASSWD:ALL\n", 0o440),
        ("etc/sysusers.d/rackproof-lab.conf", 'u deploy 1000 "lab operator" /home/deploy /bin/bash\n', 0o644),
        ("etc/tmpfiles.d/rackproof-lab.conf", "d /home/deploy 0700 deploy deploy\n", 0o644),
        ("usr/local/lib/rackproof-lab/docker", (HOSTFILES / "docker-run.sh").read_text(), 0o755),
        ("usr/local/lib/rackproof-lab/crun", (HOSTFILES / "oci-runtime.py").read_text(), 0o755),
        ("etc/containers/containers.conf.d/rackproof-lab.conf", _PODMAN, 0o644),
        ("etc/systemd/system/rackproof-serving.service.d/lab.conf", _SERVING, 0o644),
        ("etc/tmpfiles.d/rackproof-lab-docker.conf", "f /run/rackproof-lab-docker 0755\n", 0o644),
        (
            "etc/systemd/system/lab-boot.service",
            (HOSTFILES / "lab-boot.service").read_text(),
            0o644,
        ),
    ]


def _apt(lab: Lab) -> list[tuple[str, str, int]]:
    """(path, text, mode) of what apt has of this lab: the distribution's repository and its key."""
    keyring = "/etc/apt/keyrings/rackproof-lab-debian.asc"
    source = f"Types: deb\nURIs: https://debian.lab/debian\nSuites: /\nSigned-By: {keyring}\n"
    # without this every fetch waits 10 s for an SRV record that no server here answers
    settings = 'Acquire::EnableSrvRecords "false";\nAPT::Install-Recommends "false";\n'
    return [
        ("etc/apt/apt.conf.d/99rackproof-lab", settings, 0o644),
        ("etc/apt/sources.list.d/debian-lab.sources", source, 0o644),
        (keyring[1:], (lab.dir / "www/debian.lab/key.asc").read_text(), 0o644),
    ]


def start(rack: Rack, name: str) -> None:
    """Boot a node; returns at once."""
    lab, folder = rack.lab, rack.lab.node_dir(name)
    group = cgroup.make(lab, name)
    lower = rack.lowers.get(name, rack.lowers["*"])
    spawn(
        folder / "runner.log", group, "unshare", "-m", "sh", HOSTFILES / "runner.sh",
        name, folder, lower, lab.node_netns(name), sys.executable, Path(__file__).parent.parent,
    )  # fmt: skip


def stop(lab: Lab, name: str) -> None:
    """Pull the plug: every process of the node dies at once, its mounts with them."""
    cgroup.kill(lab.cgroup / name)


def running(lab: Lab, name: str) -> bool:
    return bool(cgroup.pids(lab.cgroup / name)) if (lab.cgroup / name).exists() else False
