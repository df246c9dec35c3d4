"""Collection: one probe on every node of a plan at once, over pyinfra's own connectors.

pyinfra runs in a process of its own (`collect_worker`): it patches the interpreter for gevent, and a transport that
goes wrong must not take the judge with it. What the worker could not read becomes Evidence with a problem.
"""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rackproof.errors import RackproofError
from rackproof.evidence.evidence import Evidence, Interrupted
from rackproof.evidence.probe import assemble
from rackproof.evidence.stream import parse_stream
from rackproof.evidence.tools import commands
from rackproof.managed import PATHS
from rackproof.plan import Plan
from rackproof.site import Site


@dataclass(frozen=True)
class Event:
    """Progress: `kind` is connecting, retrying (the connection), read, failed or done."""

    kind: str
    node: str
    detail: str = ""


def probe_program(nonce: str, sudo: bool, listed: bool = False, model_directory: str = "") -> str:
    """The probe as every door runs it; `listed` for a person who reads it before running it.

    `model_directory`: where the weights lie on the node, an absolute path; "" leaves them unread.
    """
    return assemble(commands(PATHS, model_directory), nonce, sudo, listed)


def model_directory(site: Site) -> str:
    """What a site says of the weights, in the form probe_program takes."""
    return str(site.value("serving", "model_directory", default=""))


def new_nonce() -> str:
    """A nonce for one collection, so that an answer cannot be an older one."""
    return secrets.token_hex(8)


def collect(
    plan: Plan,
    *,
    sudo: bool | None = None,
    timeout_s: int = 60,
    nonce: str | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> dict[str, Evidence]:
    """Evidence of every node to be read, by name. A node that cannot be read is there too, with its problem.

    `sudo`: let the probe use `sudo -n` for sections that need root; None: as each node's site says. `timeout_s` bounds
    one node from connecting to the last byte. `nonce`: the asker's, where somebody else asked; None: a new one.
    """
    nonce = nonce or new_nonce()
    job = _job(plan, sudo, timeout_s, nonce)
    found: dict[str, Evidence] = {}
    unread = "the collection ended before this node was read"
    try:
        for answer in _worker(job):
            event = Event(answer["event"], answer["node"], answer.get("detail", ""))
            if event.kind == "read":
                found[event.node] = parse_stream(answer["stream"].encode("utf-8", "surrogateescape"), event.node, nonce)
            elif event.kind == "failed":
                found[event.node] = Evidence(event.node, problem=event.detail)
            on_event(event)
    except RackproofError as error:
        if not found:
            raise
        unread = str(error)  # what was read before is still good
    except KeyboardInterrupt:
        raise Interrupted(_all(plan, found, "interrupted before this node was read")) from None
    on_event(Event("done", ""))
    return _all(plan, found, unread)


def _all(plan: Plan, found: dict[str, Evidence], unread: str) -> dict[str, Evidence]:
    for node in plan.to_read:
        found.setdefault(node.name, Evidence(node.name, problem=unread))
    return found


def _job(plan: Plan, sudo: bool | None, timeout_s: int, nonce: str) -> dict[str, Any]:
    """What the worker reads: nodes, and each program once, since most nodes get the same."""
    programs: dict[tuple[bool, str], str] = {}
    nodes = []
    for node in plan.to_read:
        with_sudo = bool(node.site.value("ssh", "sudo") if sudo is None else sudo)  # the probe calls it, where needed
        kind = (with_sudo, model_directory(node.site))
        programs.setdefault(kind, probe_program(nonce, with_sudo, model_directory=kind[1]))
        data = {key: value for key, value in node.connection.items() if not key.startswith("_")}
        nodes.append({"name": node.name, "data": data, "probe": list(programs).index(kind)})
    return {"timeout_s": timeout_s, "nodes": nodes, "probes": list(programs.values())}


def run_script(plan: Plan, script: str, *, sudo: bool | None = None, timeout_s: int = 60) -> dict[str, tuple[bool, str]]:
    """Run a short script on every node to be read: by name, whether it answered, and what it said or why it did not."""
    return run_scripts(plan, {node.name: script for node in plan.to_read}, sudo=sudo, timeout_s=timeout_s)


def run_scripts(
    plan: Plan, scripts: Mapping[str, str], *, sudo: bool | None = None, timeout_s: int = 60
) -> dict[str, tuple[bool, str]]:
    """Run a script of its own on each of some nodes of a plan, all at once; answers as those of `run_script`."""
    nodes: list[dict[str, Any]] = []
    programs: list[str] = []
    for node in (node for node in plan.nodes if node.name in scripts):
        data = {key: value for key, value in node.connection.items() if not key.startswith("_")}
        with_sudo = bool(node.site.value("ssh", "sudo") if sudo is None else sudo)
        program = scripts[node.name]
        nodes.append({"name": node.name, "data": data, "probe": len(programs)})
        programs.append(f"sudo -n sh -c {shlex.quote(program)}" if with_sudo else program)
    job = {"timeout_s": timeout_s, "nodes": nodes, "probes": programs}
    found = dict.fromkeys(scripts, (False, "it was not reached"))
    for answer in _worker(job):
        if answer["event"] in ("read", "failed"):
            ok = answer["event"] == "read"
            found[answer["node"]] = (ok, (answer["stream"] if ok else answer["detail"]).strip())
    return found


def _worker(job: Mapping[str, Any]) -> Any:
    """Run the worker and yield its answers; it is ended with us, also on Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "rackproof.evidence.collect_worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        encoding="utf-8", errors="surrogateescape",
    )
    assert process.stdin and process.stdout and process.stderr
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError):  # it is gone already; its exit code says so below
            process.stdin.write(json.dumps(job))
            process.stdin.close()
        for line in process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                raise RackproofError(f"the collecting process said what it should not: {line[:200]!r}") from None
            yield answer
        process.wait()
        reader.join(timeout=1)
        if process.returncode != 0:
            last = "".join(complaints).strip().splitlines()[-1:] or ["no message"]
            raise RackproofError(f"the collecting process ended with {process.returncode}: {last[0]}")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
