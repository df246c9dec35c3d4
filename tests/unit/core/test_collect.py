"""Collection: every node to be read has an entry, whatever happens to the worker or the transport."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from core_builders import stream

import rackproof
from rackproof import site as sites
from rackproof.errors import RackproofError
from rackproof.evidence import collect as collecting
from rackproof.evidence.collect import Event, collect, new_nonce, probe_program
from rackproof.evidence.tools import commands
from rackproof.inventory import load_targets
from rackproof.managed import PATHS
from rackproof.plan import Plan, PlannedNode

SITE = sites.shipped()


def plan(*names: str, **connection: Any) -> Plan:
    return Plan(tuple(PlannedNode(name, SITE, connection=connection) for name in names))


FakeWorker = Callable[[str], list["subprocess.Popen[str]"]]


@pytest.fixture
def fake_worker(monkeypatch: pytest.MonkeyPatch) -> FakeWorker:
    """Puts a Python program of the test's own in place of the worker; gives the processes it became."""
    real = subprocess.Popen
    started: list[subprocess.Popen[str]] = []

    def install(program: str) -> list[subprocess.Popen[str]]:
        def popen(argv: list[str], **options: Any) -> subprocess.Popen[str]:
            assert argv[-1] == "rackproof.evidence.collect_worker"
            started.append(real([sys.executable, "-c", program], **options))
            return started[-1]

        monkeypatch.setattr(collecting.subprocess, "Popen", popen)
        return started

    return install


ANSWER = """
import json, sys
job = json.load(sys.stdin)
def say(**event): print(json.dumps(event), flush=True)
"""


def test_a_worker_that_forgets_a_node(fake_worker: FakeWorker) -> None:
    fake_worker(ANSWER + "say(event='connecting', node='a'); say(event='failed', node='a', detail='unreachable: x')")
    events: list[Event] = []
    found = collect(plan("a", "b"), on_event=events.append)
    assert {name: item.problem for name, item in found.items()} == {
        "a": "unreachable: x", "b": "the collection ended before this node was read",
    }  # fmt: skip
    assert [(event.kind, event.node) for event in events] == [("connecting", "a"), ("failed", "a"), ("done", "")]


def test_an_answer_to_another_question(fake_worker: FakeWorker) -> None:
    old = stream(("uname", "Linux\n")).decode()
    fake_worker(ANSWER + f"say(event='read', node='a', stream={old!r})")
    problem = collect(plan("a"))["a"].problem
    assert problem is not None and "it answers another request" in problem


def test_bytes_that_are_no_text_arrive(fake_worker: FakeWorker) -> None:
    fake_worker(ANSWER + r"say(event='read', node='a', stream='\udcff\udc80 é\n')")
    problem = collect(plan("a"))["a"].problem
    assert problem == "this is not the output of a rackproof probe: it has no header line"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "the collecting process ended with -9: no message"),
        ("raise RuntimeError('no such connector')", "the collecting process ended with 1: RuntimeError: no such connector"),
        (ANSWER + "print('*** a library says hello ***')", "said what it should not: '*** a library says hello"),
        ("import sys; sys.stdin.close(); sys.exit(5)", "the collecting process ended with 5: no message"),
    ],
)
def test_a_worker_that_dies_fails_the_run(fake_worker: FakeWorker, program: str, message: str) -> None:
    started = fake_worker(program)
    many = plan(*(f"node-with-a-long-name-{number:05d}" for number in range(5000)), ssh_hostname="x" * 40)
    for asked in (plan("a"), many):  # a small job fits into the pipe, a large one breaks it
        with pytest.raises(RackproofError) as caught:
            collect(asked)
        assert message in str(caught.value)
    assert all(process.poll() is not None for process in started)


def test_what_was_read_before_a_worker_died_is_kept(fake_worker: FakeWorker) -> None:
    fake_worker(ANSWER + "say(event='failed', node='a', detail='x'); raise SystemExit('late')")
    found = collect(plan("a", "b"))
    assert found["a"].problem == "x"
    assert found["b"].problem == "the collecting process ended with 1: late"


def test_a_listener_that_fails_ends_the_worker(fake_worker: FakeWorker) -> None:
    started = fake_worker(ANSWER + "say(event='connecting', node='a')\nimport time; time.sleep(300)")

    def interrupted(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(plan("a"), on_event=interrupted)
    assert [process.wait(timeout=30) for process in started] == [-15]


@pytest.mark.parametrize(("sudo", "probe"), [(None, ["sudo", "plain"]), (True, ["sudo"] * 2), (False, ["plain"] * 2)])
def test_what_the_worker_is_told(fake_worker: FakeWorker, tmp_path: Path, sudo: bool | None, probe: list[str]) -> None:
    fake_worker(f"import sys; open({str(tmp_path / 'job')!r}, 'w').write(sys.stdin.read())")
    over = SITE.overlaid({"ssh": {"sudo": True}}, "x")
    weights = SITE.overlaid({"serving": {"model_directory": "/models/it's"}}, "x")
    data = {"ssh_hostname": "10.0.0.1", "_sudo": True}
    nodes = (PlannedNode("a", over, connection=data), PlannedNode("b", weights), PlannedNode("c", SITE, left_out=True))
    assert set(collect(Plan(nodes), sudo=sudo, timeout_s=7)) == {"a", "b"}
    job = json.loads((tmp_path / "job").read_text())
    assert [node["name"] for node in job["nodes"]] == ["a", "b"]
    assert job["nodes"][0]["data"] == {"ssh_hostname": "10.0.0.1"}  # the probe calls sudo itself
    programs = [job["probes"][node["probe"]] for node in job["nodes"]]
    assert ["sudo" if "\nsudo=1\n" in program else "plain" for program in programs] == probe
    assert ["d='/models/it'\"'\"'s'" in program for program in programs] == [False, True]
    assert job["timeout_s"] == 7


def test_nodes_that_are_read_alike_share_one_program(fake_worker: FakeWorker, tmp_path: Path) -> None:
    fake_worker(f"import sys; open({str(tmp_path / 'job')!r}, 'w').write(sys.stdin.read())")
    collect(plan("a", "b"))
    job = json.loads((tmp_path / "job").read_text())
    assert ([node["probe"] for node in job["nodes"]], len(job["probes"])) == ([0, 0], 1)
    assert "no model directory was named" in job["probes"][0]


def test_nonces_differ_and_fit() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(nonce in probe_program(nonce, False) for nonce in list(nonces)[:3])


def test_the_probe_fits_on_a_command_line() -> None:
    """Linux takes 128 KiB in one argument, and pyinfra quotes the program once or twice on its way."""
    assert len(probe_program(new_nonce(), True)) < 60_000


@pytest.fixture
def real_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(Path(rackproof.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH")))))


@pytest.mark.usefixtures("real_worker")
def test_this_machine_for_real() -> None:
    events: list[Event] = []
    found = collect(load_targets(["@local"]), on_event=events.append)
    assert [(event.kind, event.node) for event in events] == [("connecting", "@local"), ("read", "@local"), ("done", "")]
    evidence = found["@local"]
    assert (evidence.problem, evidence.node) == (None, "@local")
    assert list(evidence.sections) == [command.name for command in commands(PATHS)]
    assert evidence.sections["cmdline"].stdout == Path("/proc/cmdline").read_bytes()
    assert collect(load_targets(["@local"]))["@local"].nonce != evidence.nonce


@pytest.fixture
def port() -> Iterator[Callable[[bytes | None], int]]:
    """A port of 127.0.0.9 that is closed (None), or that greets with these bytes and hangs up."""
    servers: list[socket.socket] = []

    def serve(server: socket.socket, greeting: bytes) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(greeting)

    def open_(greeting: bytes | None) -> int:
        server = socket.create_server(("127.0.0.9", 0))
        number: int = server.getsockname()[1]
        if greeting is None:
            server.close()
        else:
            servers.append(server)
            threading.Thread(target=serve, args=(server, greeting), daemon=True).start()
        return number

    yield open_
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.mark.usefixtures("real_worker")
def test_nodes_that_cannot_be_reached(port: Callable[[bytes | None], int]) -> None:
    def at(name: str, number: int) -> PlannedNode:
        data = {"ssh_hostname": "127.0.0.9", "ssh_port": number, "ssh_user": "root", "ssh_strict_host_key_checking": "yes"}
        return PlannedNode(name, SITE, connection=data)

    nodes = (at("closed", port(None)), at("web", port(b"HTTP/1.0 400 Bad\r\n\r\n")), PlannedNode("@local", SITE))
    found = collect(Plan(nodes))
    assert set(found) == {"closed", "web", "@local"}
    for name in ("closed", "web"):
        assert found[name].problem is not None and found[name].problem.startswith("unreachable: ")
        assert not found[name].sections
    assert "\n" not in (found["web"].problem or "")
    assert found["@local"].problem is None  # one bad node spoils no other
