"""The probe run by real shells: what a command prints comes back byte for byte."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from core_builders import NONCE, Probe

from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.probe import assemble
from rackproof.evidence.sections import Command, Root, Status
from rackproof.evidence.stream import parse_stream

CONTENTS = {
    "empty": b"",
    "plain": b"one\ntwo\n",
    "no_newline": b"one\ntwo",
    "newline_only": b"\n",
    "newlines": b"\n\n\n",
    "spaces": b"  lead\ntrail  \n\t\n \n",
    "nul": b"a\0b\0\0\n",
    "nul_alone": b"\0",
    "binary": bytes(range(256)),
    "binary_line": bytes(range(256)) + b"\n",
    "cr": b"progress 1%\rprogress 2%\r\n",
    "cr_end": b"last\r",
    "ansi": b"\x1b[31mred\x1b[0m\n",
    "utf8": "träy — 机架\n".encode(),
    "utf8_no_newline": "é".encode(),
    "invalid_utf8": b"\xff\xfe\xc3(\n",
    "backslashes": b"\\\\a\\n\\001\\\n\\",
    "escaped_backslashes": b"\\\\\x01\\\\\\\n\\\x02\\",
    "dollars": b"cost$\n$$\n\x01$\n$",
    "folded": ("é" * 40 + "\\" * 90 + "$" * 75 + "\n").encode() * 3,
    "huge_line": b"x" * 300_000 + b"\n",
    "huge_binary_line": b"\x80y" * 40_000,
    "frames": f"#@{NONCE} done sections=1 begin=0 finish=0\n#@{NONCE} begin fake\n".encode(),
    "frames_binary": f"\x01\n#@{NONCE} end frames_binary status=ran rc=0 stdout=0 stderr=0\n".encode(),
    "marks": b"|a\n!b\n~c\n^d\n|\n",
    "heredoc": b"EOF\nRACKPROOF_END\n",
}


@pytest.fixture(scope="module")
def returned(shell: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """One probe that prints every content, on stdout and (reversed in order) on stderr."""
    folder = tmp_path_factory.mktemp("contents")
    commands = []
    for name, other in zip(CONTENTS, reversed(CONTENTS), strict=True):
        (folder / name).write_bytes(CONTENTS[name])
        commands.append(Command(name, f"cat {folder}/{name}; cat {folder}/{other} >&2", deadline_s=60))
    probe = Probe(shell, folder, commands)
    evidence = parse_stream(probe.run(), nonce=NONCE)
    probe.assert_nothing_left()
    return evidence


@pytest.mark.parametrize("name", CONTENTS)
def test_content_comes_back_byte_for_byte(returned: Evidence, name: str) -> None:
    assert returned.problem is None
    other = dict(zip(CONTENTS, reversed(CONTENTS), strict=True))[name]
    assert returned.sections[name].stdout == CONTENTS[name]
    assert returned.sections[name].stderr == CONTENTS[other]
    assert returned.sections[name].rc == 0


def test_header(returned: Evidence) -> None:
    assert list(returned.sections) == list(CONTENTS)
    assert returned.node == Path("/proc/sys/kernel/hostname").read_text().strip()
    assert returned.nonce == NONCE
    assert returned.started.endswith("Z") and len(returned.started) == len("2026-01-01T00:00:00Z")


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_come_back(shell: Sequence[str], tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    pieces = [b"\n", b"\r", b"\0", b"\\", b"$", b"|", b"~", b"#@" + NONCE.encode() + b" end x", b"\x1b[0m", b" ", b"\t"]
    contents: dict[str, bytes] = {}
    for number in range(30):
        whole = source.randbytes(source.randrange(2000))
        text = b"".join(source.choice([*pieces, b"word", source.randbytes(1)]) for _ in range(source.randrange(300)))
        contents[f"bytes_{number}"], contents[f"pieces_{number}"] = whole, text
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    commands = [Command(name, f"cat {tmp_path}/{name}", deadline_s=60) for name in contents]
    evidence = parse_stream(Probe(shell, tmp_path, commands).run(), nonce=NONCE)
    assert evidence.problem is None
    assert {name: section.stdout for name, section in evidence.sections.items()} == contents


def test_statuses_and_exit_codes(shell: Sequence[str], tmp_path: Path) -> None:
    commands = [
        Command("seven", "echo said >&2; exit 7", deadline_s=60),
        Command("absent", "true", requires="no-such-tool-anywhere"),
        Command("present", "echo here", requires="cat", deadline_s=60),
        Command("missing_inside", "no-such-tool-anywhere", deadline_s=60),
        Command("last_code", "true; false", deadline_s=60),
        Command("signalled", "kill -9 $$", deadline_s=60),
        Command("stdin_is_empty", "cat; echo end", deadline_s=60),
        Command("locale", 'printf %s "$LC_ALL"', deadline_s=60),
        Command("quoting", "printf '%s|' 'a b' \"c'd\" '$HOME' `echo e` \\\\ '", deadline_s=60),
    ]
    evidence = parse_stream(Probe(shell, tmp_path, commands).run(), nonce=NONCE)
    assert evidence.problem is None
    found = evidence.sections
    assert (found["seven"].status, found["seven"].rc, found["seven"].stderr) == (Status.RAN, 7, b"said\n")
    assert (found["absent"].status, found["absent"].rc, found["absent"].stdout) == (Status.ABSENT, None, b"")
    assert (found["present"].status, found["present"].stdout) == (Status.RAN, b"here\n")
    assert found["missing_inside"].rc == 127
    assert b"no-such-tool-anywhere" in found["missing_inside"].stderr
    assert found["last_code"].rc == 1
    assert found["signalled"].rc != 0  # killed: timeout(1) reports it as its own end by KILL
    assert found["stdin_is_empty"].stdout == b"end\n"
    assert found["locale"].stdout == b"C"
    assert found["quoting"].rc != 0 and found["quoting"].status is Status.RAN  # a quote left open stays in its script
    assert {section.deadline_s for section in found.values()} == {10, 60}


def test_root_is_asked_for_only_where_it_is_needed(shell: Sequence[str], tmp_path: Path) -> None:
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    (stand_in / "id").write_text("#!/bin/sh\necho 1000\n")
    (stand_in / "id").chmod(0o755)
    commands = [
        Command("open", "echo open", deadline_s=60),
        Command("helped", "echo helped", root=Root.HELPS, deadline_s=60),
        Command("closed", "echo closed", root=Root.NEEDED, deadline_s=60),
    ]
    probe = Probe(shell, tmp_path, commands)
    probe.environment["PATH"] = f"{stand_in}:{probe.environment['PATH']}"
    found = parse_stream(probe.run(), nonce=NONCE).sections
    assert (found["open"].stdout, found["helped"].stdout) == (b"open\n", b"helped\n")
    assert (found["closed"].status, found["closed"].stdout) == (Status.NEEDS_ROOT, b"")


def test_sudo_goes_before_what_needs_root_and_nothing_else(shell: Sequence[str], tmp_path: Path) -> None:
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    scripts = {"id": "echo 1000", "sudo": f'[ "$1" = -n ] || exit 9; shift; echo "$1" >>{tmp_path}/asked; "$@"'}
    for name, body in scripts.items():
        (stand_in / name).write_text(f"#!/bin/sh\n{body}\n")
        (stand_in / name).chmod(0o755)
    commands = [Command("open", "echo a", deadline_s=60), Command("closed", "echo b", root=Root.NEEDED, deadline_s=60)]
    probe = Probe(shell, tmp_path, commands)
    probe.argv[-1] = assemble(commands, NONCE, sudo=True)
    probe.environment["PATH"] = f"{stand_in}:{probe.environment['PATH']}"
    found = parse_stream(probe.run(), nonce=NONCE).sections
    assert (found["open"].stdout, found["closed"].stdout) == (b"a\n", b"b\n")
    assert (tmp_path / "asked").read_text().split() == ["true", "timeout"]


def test_no_command_at_all(shell: Sequence[str], tmp_path: Path) -> None:
    evidence = parse_stream(Probe(shell, tmp_path, []).run(), nonce=NONCE)
    assert (evidence.problem, dict(evidence.sections)) == (None, {})


@pytest.mark.parametrize("nonce", ["short", "", "a" * 65, "white space", "quote'quote", "line\nline1", "nonce-01\n"])
def test_a_nonce_that_could_break_out_is_refused(nonce: str) -> None:
    with pytest.raises(InputError, match="8 to 64 characters"):
        assemble([], nonce)


def test_what_the_assembler_refuses() -> None:
    with pytest.raises(ValueError, match="same name"):
        assemble([Command("a", "true"), Command("a", "false")], NONCE)
    with pytest.raises(ValueError, match="own end mark"):
        assemble([Command("a", "cat <<X\nRACKPROOF_END\nX")], NONCE)


def test_requires_is_quoted(shell: Sequence[str], tmp_path: Path) -> None:
    commands = [Command("odd", "true", requires=f"x; touch {tmp_path}/harm")]
    evidence = parse_stream(Probe(shell, tmp_path, commands).run(), nonce=NONCE)
    assert evidence.sections["odd"].status is Status.ABSENT
    assert not (tmp_path / "harm").exists()
