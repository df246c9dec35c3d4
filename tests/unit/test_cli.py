"""The command line: exit codes, where output goes, and messages. Everything that reads or judges is a fake here."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rackproof.cli import main
from rackproof.commands import output, parse, progress
from rackproof.errors import InputError, RackproofError
from rackproof.evidence.evidence import Evidence
from rackproof.facts import Missing
from rackproof.plan import Plan, PlannedNode
from rackproof.site import Site
from rackproof.verdict.evaluate import NodeResult, Result
from rackproof.verdict.model import Outcome, Requirement, Severity, Stage, Status, Verdict

GATE = Requirement("host.os", "host", "The OS", "Why.", Stage.ENGINE_INIT, Severity.GATE, ("source",), "Mend it.")
Fake = Callable[..., dict[str, Any]]


def result(verdict: Verdict) -> Result:
    outcome = Outcome(GATE, Status.PASS if verdict is Verdict.ACCEPT else Status.FAIL, "this", "that")
    return Result(verdict, (NodeResult("tray01", "gb300", verdict, (outcome,), "ab", False, None),), ())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts fakes where the real modules would be imported from; returns what they were called with."""

    def install(
        verdict: Verdict = Verdict.ACCEPT, error: BaseException | None = None, problem: str | None = None
    ) -> dict[str, Any]:
        calls: dict[str, Any] = {}
        names = ("tray01", "tray02")
        plan = Plan(tuple(PlannedNode(name, Site()) for name in names))

        def load_targets(targets: Any, **rest: Any) -> Plan:
            calls["load"] = (targets, rest)
            if error:
                raise error
            return plan

        def collect(plan: Plan, *, on_event: Callable[[Any], None], **rest: Any) -> dict[str, Evidence]:
            calls["collect"] = rest
            for name in names:
                on_event(SimpleNamespace(kind="connecting", node=name, detail=""))
            on_event(SimpleNamespace(kind="read", node="tray01", detail=""))
            on_event(SimpleNamespace(kind="failed", node="tray02", detail="refused \x1b[2J"))
            on_event(SimpleNamespace(kind="done", node="", detail=""))
            return {name: Evidence(name, problem=problem) for name in names}

        def judge_all(plan: Plan, evidence: Any) -> Result:
            calls["evidence"] = evidence
            return result(verdict)

        def plan_for_evidence(evidence: Any, **rest: Any) -> Plan:
            calls["plan"] = rest
            return Plan(tuple(PlannedNode(item.node, Site()) for item in evidence))

        def read_bundle(path: Path, refuse: object = None) -> list[Evidence]:
            if error:
                raise error
            return [Evidence(path.name, nonce="nonce-1")]

        def write_bundle(path: Path, evidence: Evidence, sign: object = None) -> None:
            calls.setdefault("written", {})[path.name] = evidence.node

        modules: dict[str, dict[str, Any]] = {
            "rackproof.inventory": {"load_targets": load_targets},
            "rackproof.evidence.collect": {
                "collect": collect, "new_nonce": lambda: "random-nonce",
                "probe_program": lambda nonce, sudo, listed, model_directory: f"#!/bin/sh\n# {nonce} {sudo}\n",
            },
            "rackproof.evidence.bundle": {"read_bundle": read_bundle, "write_bundle": write_bundle},
            "rackproof.judging": {"judge_all": judge_all, "plan_for_evidence": plan_for_evidence},
        }  # fmt: skip
        for name, content in modules.items():
            module = ModuleType(name)
            module.__dict__.update(content)
            monkeypatch.setitem(sys.modules, name, module)
        return calls

    return install


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_exit_code_is_the_verdict(fake: Fake, verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    fake(verdict)
    assert main(["verify", "tray[01-02]"]) == verdict.exit_code
    assert main(["judge", "tray01.tar.gz"]) == verdict.exit_code
    out, err = capsys.readouterr()
    assert verdict.value.upper() in out
    assert err == ""


def test_options_arrive(fake: Fake, tmp_path: Path) -> None:
    calls = fake()
    arguments = "verify a b --hardware gb300 --layout gb300-tp8 --site s.yaml --limit a --sudo --timeout 5 -q"
    assert main(arguments.split()) == 0
    wanted = {"hardware": "gb300", "layout": "gb300-tp8", "site_file": Path("s.yaml"), "limit": "a"}
    assert calls["load"] == (("a", "b"), wanted)
    assert calls["collect"] == {"sudo": True, "timeout_s": 5, "nonce": None}
    main(["verify", "a"])
    assert calls["collect"] == {"sudo": None, "timeout_s": 60, "nonce": None}


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["nonsense"], ["--nonsense"], ["verify"], ["verify", "a", "--nonsense"], ["verify", "a", "--timeout", "x"],
        ["collect", "a"], ["parse", "nonsense"], ["explain", "a", "b"], ["verify", "a", "--json", "-", "--junit", "-"],
        ["judge", "a", "--inventory", "i.py", "--hardware", "gb300"],
    ],
)  # fmt: skip
def test_usage_errors_are_3(fake: Fake, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    fake()
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "--help" in err or "Usage" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["verify", "--help"], ["judge", "-h"]])
def test_help_is_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "rackproof" in capsys.readouterr().out


def test_an_error_of_ours_is_one_message(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake(error=InputError("site.yaml:3", "bad \x1b[2Jvalue", "a good one"))
    assert main(["verify", "a"]) == 3
    assert capsys.readouterr() == ("", "rackproof: site.yaml:3: bad value\n  accepted: a good one\n")


def test_an_unexpected_error_is_one_message_and_a_traceback_on_demand(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(error=ZeroDivisionError("x\x1b[2J"))
    assert main(["verify", "a"]) == 3
    err = capsys.readouterr().err
    assert "rackproof: unexpected ZeroDivisionError: x\n" in err
    assert "--debug" in err
    assert "Traceback" not in err
    for arguments in (["--debug", "verify", "a"], ["verify", "a", "--debug"]):
        assert main(arguments) == 3
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(0), SystemExit(1), MemoryError(), RackproofError("x")]
)
def test_nothing_else_ends_like_a_verdict(fake: Fake, error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    fake(error=error)
    assert main(["verify", "a"]) == 3
    if isinstance(error, KeyboardInterrupt):
        assert "rackproof: interrupted" in capsys.readouterr().err


def test_json_on_stdout_moves_the_report_to_stderr(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake(Verdict.REJECT)
    assert main(["verify", "a", "--json", "-"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "reject"
    assert "REJECT" in err


def test_report_files(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake(Verdict.REJECT)
    files = {"--json": tmp_path / "report.json", "--junit": tmp_path / "report.xml"}
    assert main(["judge", "a", *(str(word) for pair in files.items() for word in pair), "--quiet"]) == 1
    assert json.loads(files["--json"].read_text())["exit_code"] == 1
    assert files["--junit"].read_text().startswith("<?xml")
    assert sorted(tmp_path.iterdir()) == sorted(files.values())
    assert capsys.readouterr().out == "✘ REJECT  1 node: gates 0 pass, 1 fail, 0 unknown, 0 n.a.\n"


def test_a_place_that_cannot_be_written_is_refused_before_reading(fake: Fake, tmp_path: Path) -> None:
    calls = fake()
    assert main(["verify", "a", "--json", str(tmp_path / "no" / "x.json")]) == 3
    assert main(["verify", "a", "--junit", str(tmp_path)]) == 3
    assert "collect" not in calls


def test_write_is_atomic_and_keeps_links_and_modes(tmp_path: Path) -> None:
    target, link = tmp_path / "a.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    output.write(str(link), "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    mask = os.umask(0o022)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    output.write(os.devnull, "x")
    assert not Path(os.devnull).is_file()
    with pytest.raises(InputError, match="cannot be written"):
        output.write(str(tmp_path / "none" / "x"), "x")


def test_the_report_is_shown_though_a_file_cannot_be_written(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(Verdict.REJECT)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "replace", full)
    assert main(["verify", "a", "--json", str(tmp_path / "x.json")]) == 3
    out, err = capsys.readouterr()
    assert "REJECT" in out
    assert "No space left on device" in err
    assert not list(tmp_path.iterdir())


def test_collect(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = fake()
    assert main(["collect", "a", "--to", str(tmp_path)]) == 0
    assert calls["written"] == {"tray01.tar.gz": "tray01", "tray02.tar.gz": "tray02"}
    assert capsys.readouterr().out == f"evidence of tray[01-02] (2 nodes) is in {tmp_path}\n"
    (tmp_path / "tray02.tar.gz").touch()
    del calls["collect"]
    assert main(["collect", "a", "--to", str(tmp_path)]) == 3
    assert "collect" not in calls


def test_collect_says_what_it_did_not_get(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = fake(problem="refused")
    assert main(["collect", "a", "--to", str(tmp_path)]) == 3
    assert "no complete evidence of tray[01-02] (2 nodes): refused" in capsys.readouterr().err
    assert len(calls["written"]) == 2


def test_judge_limits_refuses_doubles_and_checks_the_nonce(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    calls = fake()
    assert main(["judge", "x/tray01", "x/tray02", "--limit", "tray02"]) == 0
    assert list(calls["evidence"]) == ["tray02"]
    assert main(["judge", "x/tray01", "y/tray01"]) == 3
    assert "x/tray01 and y/tray01: two pieces of evidence are of node 'tray01'" in capsys.readouterr().err
    main(["judge", "tray01", "--nonce", "nonce-1"])
    assert calls["evidence"]["tray01"].problem is None
    main(["judge", "tray01", "--nonce", "nonce-2"])
    assert calls["evidence"]["tray01"].problem == "the evidence carries nonce nonce-1, asked was nonce-2"


def test_judge_reads_standard_input(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake()
    stream = b"#@abcdefgh1 probe format=2 version=0 node=tray09 uid=0\n#@abcdefgh1 done sections=0 begin=1 finish=2\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stream)))
    assert main(["judge", "-"]) == 0
    assert list(calls["evidence"]) == ["tray09"]


def test_probe(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake()
    assert main(["probe"]) == 0
    assert main(["probe", "--nonce", "mine-1234", "--sudo"]) == 0
    assert capsys.readouterr().out == "#!/bin/sh\n# random-nonce False\n#!/bin/sh\n# mine-1234 True\n"


def test_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "os-release"
    file.write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    assert main(["parse", "os-release", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == {"ID": "ubuntu", "VERSION_ID": "24.04"}
    file.write_text("garbage\x1b[2J")
    assert main(["parse", "nvidia-smi-xml", str(file)]) == 3
    out = capsys.readouterr().out
    assert list(json.loads(out)) == ["missing"]
    assert "\x1b" not in out
    assert main(["parse", "os-release", str(tmp_path / "none")]) == 3


@pytest.mark.parametrize("tool", parse.TOOLS)
def test_every_tool_of_parse_exists(tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "output"
    file.write_text("")
    assert main(["parse", tool, str(file)]) in (0, 3)
    out, err = capsys.readouterr()
    json.loads(out)
    assert err == ""


def test_facts_as_data() -> None:
    facts = {(0, 1): "NV18", "set": frozenset({"b", "a"}), "evidence": Evidence("n"), "none": Missing("why")}
    data = parse.plain_data(facts)
    assert (data["0-1"], data["set"], data["none"]) == ("NV18", ["a", "b"], {"missing": "why"})
    assert data["evidence"]["node"] == "n"


def test_progress_lines_only_with_verbose(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake()
    main(["verify", "a"])
    assert capsys.readouterr().err == ""
    main(["verify", "a", "-v"])
    assert capsys.readouterr().err == "tray01: read\ntray02: failed: refused\n"


def test_tally() -> None:
    tally = progress.Tally(["tray01", "tray02", "tray03"])
    tally.note(SimpleNamespace(kind="connecting", node="tray01", detail=""))
    assert str(tally) == "0 read, waiting for tray[01-03]"
    tally.note(SimpleNamespace(kind="read", node="tray02", detail=""))
    tally.note(SimpleNamespace(kind="failed", node="tray01", detail="x"))
    tally.note(SimpleNamespace(kind="failed", node="tray01", detail="again"))
    assert str(tally) == "1 read, 1 failed, waiting for tray03"
    tally.note(SimpleNamespace(kind="read", node="tray03", detail=""))
    assert str(tally) == "2 read, 1 failed"


def test_the_bar_is_drawn_on_a_terminal_only(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fake()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["verify", "a"]) == 0
    assert "reading 2 nodes" in terminal.getvalue()
    assert "[2J" not in terminal.getvalue()


def test_explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    other = Requirement("gpus.count", "gpus", "All GPUs", "Why.", Stage.ENGINE_INIT, Severity.WARN, ("s",), "Mend.",
                        needs=("host.os",), applies={"nvlink.kind": "nvl72"}, otherwise="not a rack")  # fmt: skip
    known = {item.id: item for item in (GATE, other)}
    monkeypatch.setattr("rackproof.verdict.catalogue.requirements", lambda: known)
    assert main(["explain"]) == 0
    assert main(["explain", "gpus"]) == 0
    out = capsys.readouterr().out
    assert "  host.os        gate  engine-init      The OS\n" in out
    assert "  host.hardware  gate  provisioning     The product" in out
    assert main(["explain", "gpus.count"]) == 0
    out = capsys.readouterr().out
    assert "  rests on     host.os\n" in out
    assert "  applies when nvlink.kind = nvl72\n  otherwise    not a rack\n" in out
    assert main(["explain", "gpus.cuont"]) == 3
    assert "accepted: gpus.count" in capsys.readouterr().err
    assert main(["explain", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "\n## gpus\n\n### gpus.count\n\nAll GPUs\n\n- **severity**: warn\n" in out


def test_a_reader_that_goes_away_changes_no_exit_code() -> None:
    code = "import sys; from rackproof.commands.output import say; [say('x' * 9000) for _ in range(99)]; sys.exit(0)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.read(10)
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")


def test_help_does_not_load_what_it_does_not_need() -> None:
    code = (
        "import sys; from rackproof.cli import main; main(['--help']);"
        "print(sorted(set(sys.modules) & {'rich', 'pyinfra', 'yaml', 'jsonschema', 'ClusterShell'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
