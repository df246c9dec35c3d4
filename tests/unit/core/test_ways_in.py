"""Ways to a node besides a plain connection: through a jump host, at the second try, into a container."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rackproof
from rackproof import site as sites
from rackproof.evidence.collect import Event, collect
from rackproof.evidence.evidence import Evidence
from rackproof.inventory import connection_data, load_targets

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
from loopback import SSHD, LoopbackNodes


@pytest.fixture(autouse=True)
def real_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(Path(rackproof.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH")))))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackNodes]:
    if SSHD is None:
        pytest.skip("there is no sshd on this machine")
    try:
        started = LoopbackNodes(tmp_path_factory.mktemp("ways"), 2).__enter__()
    except RuntimeError as error:  # a sandbox that lets no sshd run
        pytest.skip(str(error))
    yield started
    started.__exit__(None, None, None)


def log_of(nodes: LoopbackNodes, start: int) -> str:
    return nodes.log.read_bytes()[start:].decode()


# --- through a jump host


def through_a_jump(nodes: LoopbackNodes, folder: Path, known_hosts: Path, **values: str) -> tuple[Evidence, str]:
    """Evidence of a node that the ssh config reaches by the other one, and what sshd logged meanwhile."""
    jump, target = nodes.addresses
    config, site = folder / "ssh_config", folder / "site.yaml"
    config.write_text(
        f"Host tray01\n  HostName {target}\n  Port {nodes.port}\n  ProxyJump door\n"
        f"Host door {jump}\n  HostName {jump}\n  Port {nodes.port}\n  User {nodes.user}\n  IdentityFile {nodes.key}\n"
        f"  UserKnownHostsFile {known_hosts}\n"
    )
    site.write_text(
        f"ssh: {{user: {nodes.user}, key_file: {nodes.key}, known_hosts_file: {nodes.known_hosts}, config_file: {config}}}\n"
    )
    before = nodes.log.stat().st_size
    found = collect(load_targets(["tray01"], site_file=site), timeout_s=300)
    return found["tray01"], log_of(nodes, before)


def test_a_node_behind_a_jump_host(nodes: LoopbackNodes, tmp_path: Path) -> None:
    found, log = through_a_jump(nodes, tmp_path, nodes.known_hosts)
    assert found.problem is None and found.sections
    jump, target = nodes.addresses
    for address in (jump, target):
        assert len(re.findall(rf"Connection from \S+ port \d+ on {re.escape(address)} ", log)) == 1, log
    assert len(re.findall("Starting session: command for", log)) == 1  # on the node; at the door only a channel


def test_a_jump_host_nobody_vouched_for(nodes: LoopbackNodes, tmp_path: Path) -> None:
    """Nobody is asked, nothing is answered, and what is printed meanwhile does not harm other nodes."""
    (tmp_path / "none").write_text("")
    found, log = through_a_jump(nodes, tmp_path, tmp_path / "none")
    assert found.problem is not None and "key of the jump host is in no known_hosts file" in found.problem
    assert "Accepted publickey" not in log


def test_the_port_of_an_ssh_config_counts_unless_the_site_names_one() -> None:
    assert "ssh_port" not in connection_data(sites.shipped())
    assert connection_data(sites.shipped().overlaid({"ssh": {"port": 22}}, "x"))["ssh_port"] == 22


# --- at the second try


@pytest.fixture
def moody(nodes: LoopbackNodes) -> Iterator[socket.socket]:
    """A door to the first node that hangs up on the first visitor."""
    server = socket.create_server(("127.0.0.9", 0))

    def pump(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve() -> None:
        visitors = 0
        while True:
            try:
                visitor, _ = server.accept()
            except OSError:
                return
            visitors += 1
            if visitors == 1:
                visitor.close()
                continue
            inner = socket.create_connection((nodes.addresses[0], nodes.port))
            threading.Thread(target=pump, args=(visitor, inner), daemon=True).start()
            threading.Thread(target=pump, args=(inner, visitor), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield server
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_a_connection_is_tried_again_and_the_command_is_not(
    nodes: LoopbackNodes, moody: socket.socket, tmp_path: Path
) -> None:
    port = moody.getsockname()[1]
    known, site = tmp_path / "known_hosts", tmp_path / "site.yaml"
    known.write_text(nodes.known_hosts.read_text().replace(f"[{nodes.addresses[0]}]:{nodes.port}", f"[127.0.0.9]:{port}"))
    site.write_text(f"ssh: {{user: {nodes.user}, port: {port}, key_file: {nodes.key}, known_hosts_file: {known}}}\n")
    before, events = nodes.log.stat().st_size, list[Event]()
    found = collect(load_targets(["127.0.0.9"], site_file=site), timeout_s=300, on_event=events.append)
    assert found["127.0.0.9"].problem is None
    assert [event.kind for event in events] == ["connecting", "retrying", "read", "done"]
    assert events[1].detail.startswith("try 1 of 3: ")
    assert len(re.findall("Starting session: command for", log_of(nodes, before))) == 1


def test_a_wrong_key_is_not_tried_again(nodes: LoopbackNodes, tmp_path: Path) -> None:
    site, empty = tmp_path / "site.yaml", tmp_path / "known_hosts"
    empty.write_text("")
    site.write_text(f"ssh: {{user: {nodes.user}, port: {nodes.port}, key_file: {nodes.key}, known_hosts_file: {empty}}}\n")
    events: list[Event] = []
    collect(load_targets([nodes.addresses[0]], site_file=site), timeout_s=300, on_event=events.append)
    assert [event.kind for event in events] == ["connecting", "failed", "done"]


# --- into a container


DOCKER = """#!/bin/sh
echo "$@" | head -c 60 >>{log}; echo >>{log}
[ "$1" = exec ] || exit 9
case $2 in
  vllm01) shift 2; exec "$@" ;;
  *) echo "Error response from daemon: container $2 is not running" >&2; exit 1 ;;
esac
"""


def test_running_containers_are_read_and_others_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for docker, which runs the probe here: the very words that docker would be given."""
    tool = tmp_path / "docker"
    tool.write_text(DOCKER.format(log=tmp_path / "log"))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = collect(load_targets(["@docker/vllm[01-02]", "@local"]), timeout_s=300)
    assert found["@docker/vllm01"].problem is None and found["@docker/vllm01"].node == "@docker/vllm01"
    assert list(found["@docker/vllm01"].sections) == list(found["@local"].sections)
    stopped = found["@docker/vllm02"]
    assert stopped.problem == (
        "the probe printed nothing and failed: Error response from daemon: container vllm02 is not running"
    )
    asked = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("exec vllm")]
    assert sorted(asked) == ["exec vllm01 sh -c #!/bin/sh", "exec vllm02 sh -c #!/bin/sh"]


def test_no_docker_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    found = collect(load_targets(["@docker/a"]), timeout_s=300)
    assert found["@docker/a"].problem == "unreachable: docker is not installed on this machine"
