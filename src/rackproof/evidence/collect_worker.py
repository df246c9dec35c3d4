"""The process that talks to nodes: reads a job on standard input, writes one JSON line per event.

This is the only module that knows pyinfra's API for connecting and running; see docs of pyinfra 3.10. gevent must be
patched in before anything else is imported.
"""

# ruff: noqa: E402
from gevent import monkey

monkey.patch_all()

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import gevent
from gevent.pool import Pool
from pyinfra.api import Config, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.context import ctx_host, ctx_state

CONNECT_TIMEOUT_S = 10
AT_ONCE = 128  # nodes; each costs one file descriptor and a greenlet


def main() -> None:
    """Read the job, read all nodes, end."""
    job = json.load(sys.stdin)
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("pyinfra").setLevel(logging.CRITICAL)
    inventory = Inventory(([(node["name"], node["data"]) for node in job["nodes"]], {}))  # type: ignore[no-untyped-call]
    state = State(inventory, Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S))  # type: ignore[no-untyped-call]
    pool = Pool(AT_ONCE)
    with ctx_state.use(state):
        for node in job["nodes"]:
            pool.spawn(_read, state, inventory.get_host(node["name"]), job["probes"][node["probe"]], job["timeout_s"])
        pool.join()


def _read(state: State, host: Any, probe: str, timeout_s: int) -> None:
    _say({"event": "connecting", "node": host.name})
    try:
        with gevent.Timeout(timeout_s), ctx_host.use(host):
            host.connect(raise_exceptions=True)
            ok, output = host.run_shell_command(StringCommand(probe), _timeout=timeout_s)
    except gevent.Timeout:
        _failed(host.name, f"unreachable: no complete answer within {timeout_s} s")
    except ConnectError as error:
        _failed(host.name, f"unreachable: {_plain(error)}")
    except Exception as error:  # whatever a transport can come up with: this node is unread, the others go on
        _failed(host.name, f"unreadable: {type(error).__name__}: {_plain(error)}")
    else:
        stream = "\n".join(output.stdout_lines) + "\n"
        if stream.strip():
            _say({"event": "read", "node": host.name, "stream": stream})
        else:
            said = " ".join(output.stderr_lines)[:300]
            _failed(host.name, f"the probe printed nothing{'' if ok else ' and failed'}: {said or 'no message'}")


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _failed(node: str, why: str) -> None:
    _say({"event": "failed", "node": node, "detail": why})


def _say(event: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
