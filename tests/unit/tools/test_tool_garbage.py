"""Whatever a section holds, no parser raises, and nothing that is not health is taken for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tool_evidence import all_facts, evidence, fact_functions, healthy, reason, section

from rackproof.evidence import read
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Status
from rackproof.evidence.tools import MODULES, commands
from rackproof.facts import Missing

SECTIONS = sorted(command.name for command in commands(model_directory="/models/k3"))
# A list of words without a form of its own: any text is some kernel command line.
FORMLESS = {"host.cmdline"}
# One value a line, each complete in itself: half of the text can hold the whole value.
LINE_WISE = FORMLESS | {
    "host.os_id", "host.os_version", "host.addresses", "nvidia_driver.disk_version", "container.toolkit_version",
    "nvidia_topo.gpu_paths", "nvidia_topo.p2p",  # a legend follows the matrix
}  # fmt: skip

GOOD = all_facts(healthy())


def _facts_of(name: str) -> dict[str, Callable[[Evidence], Any]]:
    """The facts that come from a section: those that are not the same without it."""
    rest = evidence(**{other: part.stdout for other, part in healthy().sections.items() if other != name})
    without = all_facts(rest)
    functions = {fact: function for module in MODULES for fact, function in fact_functions(module)}
    return {fact: functions[fact] for fact in GOOD if without[fact] != GOOD[fact]}


FACTS = {name: _facts_of(name) for name in SECTIONS}

_NOISE = random.Random(3)
GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "blank lines": b"\n \n\t\n",
    "random bytes": _NOISE.randbytes(4096),
    "zero bytes": b"\0" * 512,
    "html": b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
    "localised": "FEHLER: Ger\u00e4t fehlt\n\u041d\u0435\u0442 \u0433\u043f\u0443\n\u9519\u8bef".encode(),
    "ansi colour": b"\x1b[31mError:\x1b[0m \x1b[1mno such device\x1b[0m\n",
    "deep json": b"[" * 200_000,
    "deep object": b'{"a":' * 200_000,
    "json of another kind": b'{"nodes": [], "status": 3, "Server": 7, "Client": [], "Runtimes": "nvidia"}',
    "json array": b"[1, null, {}, []]",
    "huge number": b"9" * 5000,
    "only the end mark": b".\n",
    "not found": b"sh: 1: nvidia-smi: not found\n",
    "traceback": b"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: 1\n",
    "carriage returns": b"\r\r\r\n\r",
    "xml of another kind": b"<?xml version='1.0'?><nvidia_smi_log></nvidia_smi_log2>",
    "unicode digits": "GPU \u0660: x\n Link \u0661: \u0662 GB/s\ntotal=\u0663 rc=0\n".encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_everywhere_gives_no_value(kind: str) -> None:
    """Every section of the node holds the same garbage: every fact is missing, with a reason of one line."""
    given = evidence(**dict.fromkeys(SECTIONS, GARBAGE[kind]))
    for name, fact in all_facts(given).items():
        if name in FORMLESS or (kind == "only the end mark" and name == "host.files"):
            continue
        assert "\n" not in reason(fact), name
        assert reason(fact), name


@pytest.mark.parametrize("name", SECTIONS)
def test_one_bad_section_gives_no_value(name: str) -> None:
    for kind, data in GARBAGE.items():
        given = healthy(**{name: data})
        for fact, function in FACTS[name].items():
            if fact not in FORMLESS and not (kind == "only the end mark" and fact == "host.files"):
                assert isinstance(function(given), Missing), (fact, kind)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_cut_off_section_does_not_look_whole(name: str) -> None:
    data = healthy().sections[name].stdout
    for percent in range(0, 100, 10):
        given = healthy(**{name: data[: len(data) * percent // 100]})
        for fact, function in FACTS[name].items():
            cut = function(given)
            assert isinstance(cut, Missing) or fact in LINE_WISE or cut != GOOD[fact], (fact, percent)


@pytest.mark.parametrize("name", SECTIONS)
def test_flipped_bytes_never_raise(name: str) -> None:
    noise = random.Random(name)
    for _ in range(30):
        data = bytearray(healthy().sections[name].stdout)
        for _ in range(noise.randint(1, 30)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        given = healthy(**{name: bytes(data)})
        for function in FACTS[name].values():
            function(given)


def test_every_section_but_evidence_for_people_gives_a_fact() -> None:
    assert [name for name in SECTIONS if not FACTS[name]] == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.DEADLINE, "did not end within 20 s"),
        (Status.NEEDS_ROOT, "needs root"),
        (Status.ABSENT, "is not installed"),
    ],
)
def test_a_command_that_did_not_run(status: Status, words: str) -> None:
    given = evidence(**{name: section(name, "x", rc=None, status=status) for name in SECTIONS})
    for name, fact in all_facts(given).items():
        if status is Status.ABSENT and name in ("container.engine", "container.toolkit_version"):
            assert fact is None  # the only two for which a missing command is an answer
        else:
            assert words in reason(fact), name


def test_no_evidence_at_all() -> None:
    for fact in all_facts(Evidence("tray01", problem="ssh: connection refused")).values():
        assert fact == Missing("ssh: connection refused")


def test_crlf_changes_nothing() -> None:
    given = healthy()
    crlf = {name: part.stdout.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for name, part in given.sections.items()}
    assert all_facts(evidence(**crlf)) == all_facts(given)


def test_read_facts_survives_a_broken_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(evidence: Evidence) -> None:
        raise RecursionError

    monkeypatch.setattr("rackproof.evidence.tools.nvidia_smi.smi", broken)
    assert "RecursionError" in reason(read.read_facts(healthy()).smi)


def test_read_facts_asks_every_fact_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact function that nobody asks, or a field filled twice, would be a fact that silently stays away."""
    asked: list[str] = []

    def record(parse: object, given: Evidence) -> Missing:
        asked.append(f"{parse.__module__.rsplit('.', 1)[1]}.{parse.__name__}")  # type: ignore[attr-defined]
        return Missing("not asked")

    monkeypatch.setattr(read, "_read", record)
    read.read_facts(healthy())
    assert sorted(asked) == sorted(all_facts(healthy()))


def test_the_healthy_node_misses_nothing() -> None:
    assert [name for name, fact in all_facts(healthy()).items() if isinstance(fact, Missing)] == []
