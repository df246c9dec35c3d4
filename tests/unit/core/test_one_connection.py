"""What reading a node costs: one connection, one command, and about the time of its slowest command."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from core_builders import NONCE, Probe

from rackproof.evidence.bundle import write_bundle
from rackproof.evidence.collect import collect
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command
from rackproof.evidence.stream import parse_stream
from rackproof.inventory import load_targets
from rackproof.judging import judge_all, plan_for_evidence

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
from loopback import SSHD, LoopbackNodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackNodes]:
    if SSHD is None:
        pytest.skip("there is no sshd on this machine")
    try:
        started = LoopbackNodes(tmp_path_factory.mktemp("sshd"), 2).__enter__()
    except RuntimeError as error:  # a sandbox that lets no sshd run
        pytest.skip(str(error))
    yield started
    started.__exit__(None, None, None)


@pytest.fixture(scope="module")
def collected(nodes: LoopbackNodes) -> tuple[dict[str, Evidence], str]:
    """Evidence of both nodes, and what sshd logged meanwhile."""
    before = nodes.log.stat().st_size
    found = collect(load_targets(nodes.targets(), site_file=nodes.site()), timeout_s=300)
    return found, nodes.log.read_bytes()[before:].decode()  # bytes, since sshd ends its lines with CR LF


def test_a_node_costs_one_connection_and_one_command(
    nodes: LoopbackNodes, collected: tuple[dict[str, Evidence], str]
) -> None:
    found, log = collected
    assert {name: item.problem for name, item in found.items()} == dict.fromkeys(nodes.addresses)
    for address in nodes.addresses:
        assert len(re.findall(rf"Connection from \S+ port \d+ on {re.escape(address)} ", log)) == 1
    assert len(re.findall("Accepted publickey", log)) == len(nodes.addresses)
    assert len(re.findall("Starting session:", log)) == len(nodes.addresses)
    assert len(re.findall("Starting session: command for", log)) == len(nodes.addresses)


def test_a_file_from_the_node_is_judged_as_its_collection_is(
    collected: tuple[dict[str, Evidence], str], tmp_path: Path
) -> None:
    """The stand-alone way: what the probe printed, kept as a file; and the bundle that collection makes of the same."""
    from rackproof.evidence.bundle import read_bundle
    from rackproof.evidence.collect import probe_program

    item = next(iter(collected[0].values()))
    program = tmp_path / "probe.sh"
    program.write_text(probe_program(NONCE, False, listed=True))
    probe = Probe(["sh"], tmp_path, [])
    probe.argv = ["sh", str(program)]
    (tmp_path / "node.txt").write_bytes(probe.run())
    (alone,) = read_bundle(tmp_path / "node.txt")
    assert alone.problem is None and alone.nonce == NONCE
    assert list(alone.sections) == list(item.sections)
    write_bundle(tmp_path / "node.tar.gz", item)
    (kept,) = read_bundle(tmp_path / "node.tar.gz")
    assert _outcomes(alone) == _outcomes(kept) == _outcomes(item)


def _outcomes(item: Evidence) -> list[tuple[str, str]]:
    result = judge_all(plan_for_evidence([item], hardware="gb300"), {item.node: item})
    return [(outcome.requirement.id, outcome.status.value) for node in result.nodes for outcome in node.outcomes]


def test_commands_run_side_by_side(shell: Sequence[str], tmp_path: Path) -> None:
    """All commands wait until every other one has started: one after the other, none would ever end."""
    count = 30
    wait = f'echo x >>{tmp_path}/started; while [ "$(wc -l <{tmp_path}/started)" -lt {count} ]; do sleep 0.1; done'
    commands = [Command(f"c{number}", f"{wait}; sleep 1", deadline_s=90) for number in range(count)]
    found = parse_stream(Probe(shell, tmp_path, commands).run(), nonce=NONCE)
    assert found.problem is None
    assert {section.rc for section in found.sections.values()} == {0}
    slowest = max(section.seconds for section in found.sections.values())
    assert slowest >= 1
    assert found.seconds < sum(section.seconds for section in found.sections.values()) / 3
