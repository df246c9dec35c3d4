"""The process that talks to nodes: reads a job on standard input, writes one JSON line per event.

This is the only module that knows pyinfra's API for connecting and running; see docs of pyinfra 3.10. gevent must be
patched in before anything else is imported.
"""

# ruff: noqa: E402
from gevent import monkey

monkey.patch_all()

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import gevent
from gevent import subprocess
from gevent.pool import Pool
from pyinfra.api import Config, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.context import ctx_host, ctx_state

CONNECT_TIMEOUT_S = 10
AT_ONCE = 128  # nodes; each costs one file descriptor and a greenlet
TRIES = 3  # of the connection; a command is never run again
PAUSE_S = 1  # before the second try; twice as long before the third

# A node that is busy or just starting says these. A wrong key, name or password stays wrong.
_PASSING = re.compile(
    r"Could not connect|EOF error(?! \(EOF when reading a line)|SSH error .*(?:protocol banner|reset by peer|timed out|Timeout "
    r"opening channel|No existing session|Connection (?:lost|closed))|Temporary failure in name resolution"
)
_ASKED = "EOF when reading a line"  # pyinfra asks a person about the key of a jump host; here is nobody to answer

_events: TextIO = sys.stdout


def main() -> None:
    """Read the job, read all nodes, end. Only events go where standard output went: a library may print."""
    global _events
    job = json.load(sys.stdin)
    _events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as this process lives
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("pyinfra").setLevel(logging.CRITICAL)
    remote = [node for node in job["nodes"] if "docker_identifier" not in node["data"]]
    inventory = Inventory(([(node["name"], node["data"]) for node in remote], {}))  # type: ignore[no-untyped-call]
    state = State(inventory, Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S))  # type: ignore[no-untyped-call]
    pool = Pool(AT_ONCE)
    with ctx_state.use(state):
        for node in job["nodes"]:
            name, probe, data = node["name"], job["probes"][node["probe"]], node["data"]
            if "docker_identifier" in data:
                pool.spawn(_read, name, lambda at=data["docker_identifier"], p=probe: _in_container(at, p), job["timeout_s"])
            else:
                host = inventory.get_host(name)
                pool.spawn(_read, name, lambda h=host, p=probe: _on_host(h, p, job["timeout_s"]), job["timeout_s"])
        pool.join()


def _read(name: str, probe: Any, timeout_s: int) -> None:
    """Run a probe and say what came of it: (stdout, stderr, whether it ended well)."""
    _say({"event": "connecting", "node": name})
    try:
        with gevent.Timeout(timeout_s):
            stream, said, ok = probe()
    except gevent.Timeout:
        _failed(name, f"unreachable: no complete answer within {timeout_s} s")
    except ConnectError as error:
        _failed(name, f"unreachable: {_plain(error)}")
    except Exception as error:  # whatever a transport can come up with: this node is unread, the others go on
        _failed(name, f"unreadable: {type(error).__name__}: {_plain(error)}")
    else:
        if stream.strip():
            _say({"event": "read", "node": name, "stream": stream})
        else:
            said = " ".join(said.split())[:300]
            _failed(name, f"the probe printed nothing{'' if ok else ' and failed'}: {said or 'no message'}")


def _on_host(host: Any, probe: str, timeout_s: int) -> tuple[str, str, bool]:
    with ctx_host.use(host):
        _connect(host)
        ok, output = host.run_shell_command(StringCommand(probe), _timeout=timeout_s)
    return "\n".join(output.stdout_lines) + "\n", " ".join(output.stderr_lines), ok


def _connect(host: Any) -> None:
    for again in range(1, TRIES + 1):
        try:
            host.connect(raise_exceptions=True, show_errors=False)
            return
        except ConnectError as error:
            if again == TRIES or not _PASSING.match(_plain(error)):
                raise
            _say({"event": "retrying", "node": host.name, "detail": f"try {again} of {TRIES}: {_plain(error)}"})
        gevent.sleep(PAUSE_S * again)


def _in_container(name: str, probe: str) -> tuple[str, str, bool]:
    """In a running container of this machine's engine. pyinfra's own connector would start a stopped one, or make one of
    an image; a reader does neither."""
    command = ["docker", "exec", name, "sh", "-c", probe]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
    except FileNotFoundError:
        raise ConnectError("docker is not installed on this machine") from None
    try:
        stream, said = process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
    return stream, said, process.returncode == 0


def _plain(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return f"the key of the jump host is in no known_hosts file that the ssh config names ({text})" if _ASKED in text else text


def _failed(node: str, why: str) -> None:
    _say({"event": "failed", "node": node, "detail": why})


def _say(event: Mapping[str, Any]) -> None:
    _events.write(json.dumps(event) + "\n")
    _events.flush()


if __name__ == "__main__":
    main()
