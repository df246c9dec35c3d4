"""The testinfra door: `pytest checks --hosts=ssh://root@tray01`. One item per requirement and node.

testinfra is used as a transport only, one command per node, all nodes at once; the judgement is the same as
`rackproof verify`'s. Its default backend (paramiko) verifies no host key, so a host must be written `ssh://` or
`local://`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import testinfra

from rackproof.errors import RackproofError
from rackproof.evidence.collect import model_directory, new_nonce, probe_program
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.stream import parse_stream
from rackproof.inventory import load_targets
from rackproof.judging import judge_all
from rackproof.plan import Plan, PlannedNode
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Outcome, Status

AT_ONCE = 32  # nodes; each is one ssh process


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rackproof")
    group.addoption("--inventory", help="inventory file: its nodes, baselines and deployment units")
    group.addoption("--hardware", help="hardware id; without it the product is detected")
    group.addoption("--layout", help="layout id; without it the first official one of the hardware")
    group.addoption("--site", help="site file with pinned versions")


def pytest_configure(config: pytest.Config) -> None:
    """Everything wrong with the input is said before any node is contacted, with exit code 3."""
    try:
        config.stash[_PLAN] = _plan(config)
        requirements()
    except RackproofError as error:
        pytest.exit(f"rackproof: {error}", returncode=3)


_PLAN: pytest.StashKey[tuple[Plan, dict[str, str]]] = pytest.StashKey()


def _plan(config: pytest.Config) -> tuple[Plan, dict[str, str]]:
    """The plan, and the testinfra address of each node."""
    hosts = [spec for spec in (config.getoption("--hosts") or "").split(",") if spec]
    bad = [spec for spec in hosts if not spec.startswith(("ssh://", "local://"))]
    if bad:
        raise RackproofError(f"--hosts={bad[0]}: this backend verifies no host key\n  accepted: ssh://user@host, local://")
    inventory = config.getoption("--inventory")
    if inventory:
        plan = load_targets([inventory])
        address = {node.name: str(node.connection.get("ssh_hostname", node.name)) for node in plan.nodes}
        specs = {_host_of(spec): spec for spec in hosts}
        return plan, {
            name: specs.get(where) or specs.get(name) or f"ssh://root@{where}" for name, where in address.items()
        }
    if not hosts:
        return Plan(()), {}
    site = config.getoption("--site")
    plan = load_targets(
        [_host_of(spec) for spec in hosts],
        hardware=config.getoption("--hardware"),
        layout=config.getoption("--layout"),
        site_file=Path(site) if site else None,
    )
    return plan, {_host_of(spec): spec for spec in hosts}


def _host_of(spec: str) -> str:
    if spec.startswith("local://"):
        return "@local"
    return spec.partition("://")[2].rpartition("@")[2].partition("?")[0].rpartition("/")[2].partition(":")[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    plan, _ = metafunc.config.stash[_PLAN]
    if "node_requirement" in metafunc.fixturenames:
        names = [r.id for r in requirements().values() if r.scope == "node"]
        pairs = [(node.name, name) for node in plan.nodes for name in names]
        metafunc.parametrize("node_requirement", pairs, ids=[f"{node}-{name}" for node, name in pairs])
    if "unit_requirement" in metafunc.fixturenames:
        names = [r.id for r in requirements().values() if r.scope == "fleet"]
        metafunc.parametrize("unit_requirement", names)


@pytest.fixture(scope="session")
def result(request: pytest.FixtureRequest) -> Iterator[Result]:
    """Every node read once, all at the same time, and judged."""
    plan, specs = request.config.stash[_PLAN]
    options = {
        "ssh_config": request.config.getoption("--ssh-config"),
        "ssh_identity_file": request.config.getoption("--ssh-identity-file"),
        "sudo": request.config.getoption("--sudo"),
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda node: _read(node, specs[node.name], options), plan.to_read)
        yield judge_all(plan, {evidence.node: evidence for evidence in answers})


def _read(node: PlannedNode, spec: str, options: dict[str, Any]) -> Evidence:
    name, nonce = node.name, new_nonce()
    try:
        answer = testinfra.get_host(spec, **{key: value for key, value in options.items() if value}).run(
            probe_program(nonce, sudo=False, model_directory=model_directory(node.site))
        )
    except Exception as error:  # whatever the backend can come up with: this node is unread
        return Evidence(name, problem=f"unreachable: {' '.join(str(error).split())[:300]}")
    if not answer.stdout_bytes.strip():
        return Evidence(name, problem=f"the probe printed nothing: {answer.stderr.strip()[:300] or 'no message'}")
    return parse_stream(answer.stdout_bytes, name, nonce)


def report(outcome: Outcome, record_property: Any) -> None:
    """An outcome as pytest's: not applicable is skipped with its reason, anything but a pass fails and says what."""
    requirement = outcome.requirement
    record_property("requirement", requirement.id)
    record_property("severity", requirement.severity.value)
    record_property("stage", requirement.stage.value)
    match outcome.status:
        case Status.PASS:
            return
        case Status.NOT_APPLICABLE:
            pytest.skip(outcome.reason)
        case Status.FAIL:
            text = f"FAIL {requirement.title}\n  observed: {outcome.observed}\n  expected: {outcome.expected}"
        case Status.BLOCKED:
            text = f"UNKNOWN, blocked by {outcome.blocked_by}: {outcome.reason}"
        case _:
            text = f"UNKNOWN {requirement.title}\n  reason: {outcome.reason}"
    text += f"\n  would break: {requirement.stage.value}\n  remedy: {requirement.remedy}"
    if outcome.decides:
        pytest.fail(text, pytrace=False)
    pytest.xfail(f"{requirement.severity.value}: {text}")  # decides no verdict, so it does not fail the run
