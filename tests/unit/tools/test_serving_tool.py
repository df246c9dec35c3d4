"""Serving units, their environment, NCCL's file, preloaded libraries, shared memory, and the hypervisor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tool_evidence import evidence

from rackproof.evidence.tools import serving
from rackproof.evidence.tools.serving import ENV, MASK, NCCL, PRELOAD, UNITS, WANTS, parse_unit
from rackproof.facts import Missing
from rackproof.facts_serving import DockerRun, ServingFacts

UNIT = "rackproof-gb300-tp8.service"
TEXT = """\
# Kimi K3 on vLLM; ExecStart= of a comment says nothing
[Service]
ExecStartPre=-/usr/bin/docker rm --force x
ExecStart=/usr/bin/docker run --rm --name x \\
  --network host --ipc=host \\
  --privileged \\
  --env NCCL_CUMEM_ENABLE=1 --env HF_TOKEN=*** \\
  --env "PATTERN=a b%%c$$d" \\
  docker.io/vllm/vllm-openai@sha256:1 \\
  serve /models/Kimi-K3 --env NOT_OURS=1
"""
SEGMENTS = "= segments\n|nccl- 3\n|psm_ 0\n|sem.mp- 0\n"


def shown(path: str, text: str) -> str:
    return f"= {path}\n" + "".join(f"|{line}\n" for line in text.splitlines())


def group(unit: str = shown(f"{UNITS}/{UNIT}", TEXT), env: str = f"- {ENV}\n", wants: str = f"+ {WANTS}/{UNIT}\n",
          conf: str = f"- {NCCL}\n", preload: str = f"- {PRELOAD}\n", segments: str = SEGMENTS) -> str:  # fmt: skip
    return unit + env + wants + conf + preload + segments + ".\n"


def facts(text: str) -> ServingFacts:
    found = serving.serving(evidence(serving=text))
    assert isinstance(found, ServingFacts)
    return found


def test_a_unit_is_taken_apart() -> None:
    found = facts(group())
    assert isinstance(found.units, tuple) and len(found.units) == 1
    unit = found.units[0]
    assert (unit.name, unit.enabled) == (UNIT, True)
    assert isinstance(unit.run, DockerRun)
    assert unit.run.image == "docker.io/vllm/vllm-openai@sha256:1"
    assert unit.run.arguments == ("serve", "/models/Kimi-K3", "--env", "NOT_OURS=1")
    assert unit.run.env == {"NCCL_CUMEM_ENABLE": "1", "HF_TOKEN": MASK, "PATTERN": "a b%c$d"}
    assert unit.run.options == {
        "--rm": (), "--name": ("x",), "--network": ("host",), "--ipc": ("host",), "--privileged": (),
    }  # fmt: skip
    assert found.secrets == ("HF_TOKEN",)
    assert (found.env_file, found.nccl_conf, found.preload) == (None, None, ())
    assert found.segments == {"nccl-": 3, "psm_": 0, "sem.mp-": 0}


def test_nothing_there_is_told_from_nothing_seen() -> None:
    none = f"- {UNITS}/rackproof-*.service\n"
    found = facts(group(unit=none, wants=f"- {WANTS}/rackproof-*.service\n"))
    assert found.units == () and found.secrets == ()
    hidden = facts(group(unit=f"! {UNITS}/rackproof-*.service\n", env=f"! {ENV}\n", conf=f"! {NCCL}\n", preload=f"! {PRELOAD}\n",
                         segments="! /dev/shm/x\n"))  # fmt: skip
    assert all(
        isinstance(getattr(hidden, name), Missing)
        for name in ("units", "env_file", "secrets", "nccl_conf", "preload", "segments")
    )
    unread = facts(group(unit=f"! {UNITS}/{UNIT}\n"))
    assert (
        isinstance(unread.units, tuple)
        and isinstance(unread.units[0].run, Missing)
        and isinstance(unread.secrets, Missing)
    )
    off = facts(group(wants=f"- {WANTS}/rackproof-*.service\n"))
    assert isinstance(off.units, tuple) and off.units[0].enabled is False
    unlisted = facts(group(wants=f"! {WANTS}/rackproof-*.service\n"))
    assert isinstance(unlisted.units, tuple) and isinstance(unlisted.units[0].enabled, Missing)


@pytest.mark.parametrize(
    "text",
    ["", "[Service]\n", "ExecStart=/usr/bin/docker run a\nExecStart=/usr/bin/docker run b\n", "ExecStart=/bin/vllm serve x\n",
     "ExecStart=/usr/bin/docker run --rm\n", 'ExecStart=/usr/bin/docker run "a\n', "ExecStart=/usr/bin/docker pull a\n"],
)  # fmt: skip
def test_a_unit_that_starts_no_container_says_why(text: str) -> None:
    found = parse_unit(text)
    assert isinstance(found, Missing) and found.reason


def test_files_of_variables() -> None:
    found = facts(
        group(env=shown(ENV, 'A=1\n# no\n\nB="two words"\nVLLM_API_KEY=***'), conf=shown(NCCL, "NCCL_P2P_DISABLE=1\n"))
    )
    assert found.env_file == {"A": "1", "B": "two words", "VLLM_API_KEY": MASK}
    assert found.secrets == ("HF_TOKEN", "VLLM_API_KEY")
    assert found.nccl_conf == {"NCCL_P2P_DISABLE": "1"}
    for text in ("words without an equals sign", "=1", "1A=2", "\x1b[31mA=1"):
        assert isinstance(facts(group(conf=shown(NCCL, text))).nccl_conf, Missing), text


def test_preloaded_libraries_and_segments() -> None:
    assert facts(group(preload=shown(PRELOAD, "/a.so:/b.so # c\n\n/d.so"))).preload == ("/a.so", "/b.so", "/d.so")
    for segments in ("", "= segments\n", "= segments\n|nccl- 3\n", "= segments\n|nccl- x\n|psm_ 0\n|sem.mp- 0\n"):
        assert isinstance(facts(group(segments=segments)).segments, Missing), segments


def test_what_is_cut_off_proves_nothing() -> None:
    for text in (group()[:-2], "", "garbage\n"):
        assert isinstance(serving.serving(evidence(serving=text)), Missing)


@pytest.mark.parametrize("text, wanted", [("none\n.\n", "none"), ("kvm\n.\n", "kvm"), ("vm-other\n.\n", "vm-other")])
def test_the_hypervisor(text: str, wanted: str) -> None:
    assert serving.virtual_machine(evidence(virtualization=text)) == wanted


@pytest.mark.parametrize(
    "text", ["", ".\n", "none\n", "Failed to check\n.\n", "none\nkvm\n.\n", "\x1b[31mkvm\n.\n", "k" * 60 + "\n.\n"]
)
def test_no_hypervisor_is_read_out_of_noise(text: str) -> None:
    assert isinstance(serving.virtual_machine(evidence(virtualization=text)), Missing)


def test_the_script_keeps_what_is_secret_on_the_node(tmp_path: Path) -> None:
    """The real script on files of this machine, its directories moved to a folder of the test."""
    units, wants, shm = tmp_path / "system", tmp_path / "system/multi-user.target.wants", tmp_path / "shm"
    for folder in (units, wants, shm):
        folder.mkdir()
    (units / UNIT).write_text(
        TEXT.replace("HF_TOKEN=***", "HF_TOKEN=hf_hidden1")
        .replace("NCCL_CUMEM_ENABLE=1", '"S3_SECRET=b hidden6" --env A=1')
        .replace("/models/Kimi-K3 ", "/models/Kimi-K3 --api-key hidden2 --hf-token=hidden3 ")
    )
    (wants / UNIT).symlink_to(units / UNIT)
    (tmp_path / "serving.env").write_text('VLLM_API_KEY="a hidden4"\nNCCL_DEBUG=WARN\nMY_PASSWORD=hidden5\n')
    (tmp_path / "nccl.conf").write_text("NCCL_DEBUG=INFO\n")
    for number in range(3):
        (shm / f"nccl-{number}").touch()
    body = (
        serving.COMMANDS[0]
        .script.replace(WANTS, str(wants))
        .replace(UNITS, str(units))
        .replace(ENV, str(tmp_path / "serving.env"))
    )
    body = (
        body.replace(NCCL, str(tmp_path / "nccl.conf"))
        .replace(PRELOAD, str(tmp_path / "none"))
        .replace("/dev/shm", str(shm))
    )
    printed = subprocess.run(["sh", "-c", body], capture_output=True, text=True, check=True).stdout
    assert "hidden" not in printed
    back = printed.replace(str(wants), WANTS).replace(str(units), UNITS).replace(str(tmp_path / "serving.env"), ENV)
    found = facts(back.replace(str(tmp_path / "nccl.conf"), NCCL).replace(str(tmp_path / "none"), PRELOAD))
    assert isinstance(found.units, tuple) and [(unit.name, unit.enabled) for unit in found.units] == [(UNIT, True)]
    assert found.secrets == ("--api-key", "--hf-token", "HF_TOKEN", "MY_PASSWORD", "S3_SECRET", "VLLM_API_KEY")
    assert (found.nccl_conf, found.preload) == ({"NCCL_DEBUG": "INFO"}, ())
    assert isinstance(found.segments, dict) and found.segments["nccl-"] == 3
