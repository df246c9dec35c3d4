"""What the lab offers its nodes: a certificate authority, a web server and a container registry."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rackproof_lab import cgroup, network
from rackproof_lab.names import Lab, LabError
from rackproof_lab.proc import ok, put, run, spawn

REGISTRY_NAMES = ("registry-1.docker.io", "index.docker.io", "auth.docker.io", "registry.lab")
WEB_NAMES = (
    "developer.download.nvidia.com", "nvidia.github.io", "repo.radeon.com", "download.docker.com", "debian.lab",
    "rocky.lab",
)  # fmt: skip
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def hosts_lines(lab: Lab) -> str:
    """For /etc/hosts: the public names that the lab plays."""
    return f"{lab.gateway} {' '.join(WEB_NAMES)}\n{lab.registry_address} {' '.join(REGISTRY_NAMES)}\n"


def certificate(lab: Lab) -> Path:
    """A throw-away CA and one server certificate for all names; returns the CA's certificate."""
    folder = lab.dir / "ca"
    if (folder / "chain.crt").exists():
        return folder / "ca.crt"
    folder.mkdir(parents=True, exist_ok=True)
    run("openssl", "req", "-x509", *_EC, "-days", "30", "-subj", f"/CN=rackproof lab {lab.id} throw-away CA",
        "-keyout", folder / "ca.key", "-out", folder / "ca.crt",
        "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
    names = [f"DNS:{name}" for name in (*WEB_NAMES, *REGISTRY_NAMES)]
    names += [f"IP:{address}" for address in (lab.gateway, lab.registry_address)]
    put(folder / "extensions", f"subjectAltName={','.join(names)}\nextendedKeyUsage=serverAuth\n")
    run(
        "openssl",
        "req",
        *_EC,
        "-subj",
        "/CN=rackproof-lab",
        "-keyout",
        folder / "server.key",
        "-out",
        folder / "server.csr",
    )
    run("openssl", "x509", "-req", "-in", folder / "server.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key",
        "-CAcreateserial", "-days", "30", "-extfile", folder / "extensions", "-out", folder / "server.crt")  # fmt: skip
    put(folder / "chain.crt", (folder / "server.crt").read_text() + (folder / "ca.crt").read_text())
    return folder / "ca.crt"


def start(lab: Lab) -> None:
    """Start web server and registry and wait until both listen."""
    group = cgroup.make(lab, "services")
    enter = ["nsenter", f"--net=/run/netns/{lab.netns}"]
    chain, key = lab.dir / "ca/chain.crt", lab.dir / "ca/server.key"
    package = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    spawn(lab.dir / "web.log", group, *enter, sys.executable, "-m", "rackproof_lab.web", lab.dir / "www", lab.gateway,
          chain, key, env=package)  # fmt: skip
    put(lab.dir / "registry.yml", _registry(lab, chain, key))
    spawn(lab.dir / "registry.log", group, *enter, "docker-registry", "serve", lab.dir / "registry.yml")
    for name, address in (("web", lab.gateway), ("registry", lab.registry_address)):
        _wait(lab, name, address)


def _registry(lab: Lab, chain: Path, key: Path) -> str:
    return f"""version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {lab.dir}/registry}}
  delete: {{enabled: true}}
  maintenance: {{uploadpurging: {{enabled: false}}}}
http:
  addr: "{lab.registry_address}:443"
  tls: {{certificate: {chain}, key: {key}}}
"""


def _wait(lab: Lab, name: str, address: str) -> None:
    probe = "import socket,sys; socket.create_connection((sys.argv[1], 443), 1)"
    for _ in range(200):
        if ok(*network.inside(lab), sys.executable, "-IS", "-c", probe, address):
            return
        time.sleep(0.05)
    raise LabError(f"the lab's {name} does not listen on {address}:443, log {lab.dir / name}.log")
