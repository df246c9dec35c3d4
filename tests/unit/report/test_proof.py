"""The raw evidence behind an outcome is found by what decides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_builders import BASELINE, COUNT, fail, unknown

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import Kept, read_again, read_facts
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.tools import commands
from rackproof.verdict.evaluate import NodeResult, judge_node
from rackproof.verdict.report.proof import MAX_LINES, cat, command_of, excerpt, proofs

RELEASE = b'ID=slackware\nVERSION_ID="15.0"\nPRETTY_NAME="Slackware 15.0"\n'


def section(name: str, out: bytes, errors: bytes = b"", rc: int | None = 0, status: Status = Status.RAN) -> Section:
    return Section(name, status, rc, 0.31, out, errors, 20)


def evidence(**outputs: bytes) -> Evidence:
    return Evidence("tray01", {name: section(name, out) for name, out in outputs.items()}, sha256="ab" * 32)


def judged(found: Evidence) -> NodeResult:
    return judge_node(read_facts(found), BASELINE)


def test_the_section_that_decides_and_the_line_that_says_so() -> None:
    found = evidence(os_release=RELEASE, cmdline=b"ro quiet slackware\n")
    (one,) = proofs(judged(found), found, {"host.os"})["host.os"]
    assert (one.section, one.state) == ("os_release", "exit 0 after 0.3 s")
    assert "ID=slackware" in one.lines and 'VERSION_ID="15.0"' in one.lines


def test_an_unknown_is_explained_by_the_section_that_failed() -> None:
    late = {"nvidia_smi_xml": section("nvidia_smi_xml", b"", rc=None, status=Status.DEADLINE)}
    found = Evidence("tray01", late, sha256="ab" * 32)
    (one,) = proofs(judged(found), found, {"gpus.query"})["gpus.query"]
    assert (one.command, one.state, one.lines) == ("nvidia-smi -q", "did not end within 20 s", ())


def test_nothing_decides_what_nothing_was_read_of() -> None:
    found = evidence(cmdline=b"ro quiet\n")
    assert proofs(judged(found), found, {"host.os"}) == {"host.os": ()}
    assert proofs(replace(judged(found), baseline=None), found, {"host.os"}) == {}


def test_lines_are_few_and_carry_the_head_of_their_file() -> None:
    lines = [f"= /proc/{number}\n|value {number}" for number in range(100)]
    found = excerpt(section("group", "\n".join(lines).encode()), fail(COUNT, "value 77", "value 1"))
    assert "= /proc/77" in found.lines and "|value 77" in found.lines
    assert len(found.lines) <= MAX_LINES and found.left_out == 200 - len(found.lines)
    assert cat(found.lines).startswith("cat /proc/")


def test_only_what_is_said_of_the_gpu_that_is_named() -> None:
    xml = "".join(
        f'<gpu id="0000000{index}:06:00.0">\n<ecc_errors>\n<count>{index}</count>\n</ecc_errors>\n'
        for index in range(4)
    )
    found = excerpt(section("smi", xml.encode()), fail(COUNT, "GPU 2 (00000002:06:00.0): 2 errors", "0"))
    assert found.lines == ('<gpu id="00000002:06:00.0">', "<count>2</count>")


def test_errors_come_first_where_a_command_failed() -> None:
    found = excerpt(section("docker_info", b"{}", b"Cannot connect to the daemon", 1), unknown(COUNT, "daemon"))
    assert found.lines[0] == "Cannot connect to the daemon"


@pytest.mark.parametrize("out", [b"", b"\xff\xfe\x00", b"\x1b]0;x\x07", b"a" * 3_000_000, b"\n" * 100_000])
def test_any_bytes_can_be_quoted(out: bytes) -> None:
    found = excerpt(section("x", out), fail(COUNT, "a b", "c"))
    assert all(line.isprintable() and len(line) < 300 for line in found.lines)


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_every_section_can_be_seen_again(name: str) -> None:
    assert command_of(name) and "\n" not in command_of(name)


def test_reading_again_gives_what_reading_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was kept, evidence that lacks one section gives the same facts as read from the start."""
    found = evidence(os_release=RELEASE, cmdline=b"ro quiet\n", identity=b"junk", nvidia_proc=b"+ /x\n.\n")
    kept = Kept()
    assert read_again(found, kept) == read_facts(found)
    for name in found.sections:
        less = replace(found, sections={key: item for key, item in found.sections.items() if key != name})
        assert read_again(less, kept) == read_facts(less)


def test_reading_again_parses_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    from rackproof.evidence.tools import host

    calls: list[str] = []
    original = host.os_id

    def counted(found: Evidence) -> Any:
        calls.append(found.node)
        return original(found)

    counted.__module__ = original.__module__
    monkeypatch.setattr(host, "os_id", counted)
    found = evidence(os_release=RELEASE, cmdline=b"ro\n")
    kept = Kept()
    read_again(found, kept)
    read_again(replace(found, sections={"os_release": found.sections["os_release"]}), kept)
    assert len(calls) == 1
    read_again(replace(found, sections={}), kept)
    assert len(calls) == 2
