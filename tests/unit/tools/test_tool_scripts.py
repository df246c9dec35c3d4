"""The scripts themselves, run by the sh of this machine, with stand-ins for the tools it lacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tool_evidence import gpu_xml, reason, section, smi_xml

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.read import read_facts
from rackproof.evidence.sections import Command, Section, Status
from rackproof.evidence.tools import cdi, commands, container, group, host, kernel_log, nvidia_smi, packages
from rackproof.facts import KernelLogFacts, Missing, SmiFacts

SHELLS = [shell for shell in ("sh", "dash", "busybox") if shutil.which(shell)]
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
NOBODY = 65534


def run(script: str, tools: Path | None = None, shell: str = "sh", user: int | None = None) -> Section:
    argv = ["busybox", "sh", "-c", script] if shell == "busybox" else [shell, "-c", script]
    path = f"{tools}:{SYSTEM_PATH}" if tools else SYSTEM_PATH
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, user=user,
        env={"LC_ALL": "C", "PATH": path}, cwd="/",
    )  # fmt: skip
    return section("x", done.stdout, done.stderr.decode(), rc=done.returncode)


def tool(directory: Path, name: str, body: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def command(name: str) -> Command:
    return next(c for c in commands() if c.name == name)


def test_names_are_unique_and_scripts_are_read_only() -> None:
    names = [c.name for c in commands(["/etc/a"], "/models/k3")]
    assert len(set(names)) == len(names)
    for c in commands(["/etc/a"], "/models/k3"):
        unquoted = re.sub(r"'[^']*'|#.*", "", c.script)
        targets = {target.rstrip(";)") for target in re.findall(r">[>|]?\s*(\S+)", unquoted)}
        assert targets <= {"&1", "&2", "&3", "&4", "&-", "/dev/null"}, c.name


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("c", commands(["/etc/passwd", "/nowhere/it's"], "/etc"), ids=lambda c: c.name)
def test_every_script_is_valid_and_ends(c: Command, shell: str) -> None:
    ran = run(c.script, shell=shell)
    assert "yntax error" not in ran.error_text
    assert ran.seconds < c.deadline_s


def test_this_machine_can_be_read() -> None:
    sections = {}
    for c in commands(["/etc/passwd", "/nowhere/it's"], "/etc"):
        ran = run(c.script)
        absent = c.requires and not shutil.which(c.requires, path=SYSTEM_PATH)
        sections[c.name] = Section(c.name, Status.ABSENT, None, 0, b"", b"") if absent else ran
    facts = read_facts(Evidence("here", sections))
    assert facts.host.hostname == Path("/proc/sys/kernel/hostname").read_text().strip()
    assert facts.host.kernel == os.uname().release
    assert facts.host.architecture == os.uname().machine
    assert facts.host.page_size_bytes == os.sysconf("SC_PAGE_SIZE")
    assert facts.host.is_root is (os.geteuid() == 0)
    assert isinstance(facts.host.files, dict)
    assert facts.host.files["/nowhere/it's"].sha256 is None
    assert re.fullmatch("[0-9a-f]{64}", facts.host.files["/etc/passwd"].sha256 or "")
    assert not isinstance(facts.driver.loaded_modules, Missing)
    assert not isinstance(facts.runtime.cdi_specs, Missing)


# --- small files


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Files that `nobody` can and cannot read."""
    for parent in (tmp_path, *tmp_path.parents):
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (tmp_path / "empty").write_text("")
    (tmp_path / "tricky").write_bytes(b"= /etc/passwd\n.\n|x\n\\n %s\nlast")
    (tmp_path / "secret").write_text("https://user:pa55@host/a@b\nuser@host http://host/@x\n")
    (tmp_path / "locked").write_text("x")
    (tmp_path / "locked").chmod(0)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "unlisted").mkdir(mode=0o711)
    return tmp_path


def test_small_files(world: Path) -> None:
    user = NOBODY if os.geteuid() == 0 else None
    names = "empty tricky secret locked absent closed/x closed/y/z unlisted/x no/where"
    shown = " ".join(f"{world}/{name}" for name in names.split())
    globs = f"{world}/closed/* {world}/unlisted/* {world}/no/*"
    ran = run(group.script(f"show {shown} {world}\nmark {world} {globs}\nsay uname 'a b'"), user=user)
    found = group.parse_group(ran.text)
    assert isinstance(found, group.Group), found
    assert found.text(f"{world}/empty") == ""
    assert found.text(f"{world}/tricky") == "= /etc/passwd\n.\n|x\n\\n %s\nlast"
    assert found.text(f"{world}/secret") == "https://***@host/a@b\nuser@host http://host/@x"
    assert found.needed("uname") == "a b"
    for absent in ("absent", "unlisted/x", "no/where", "no/*"):
        assert found.text(f"{world}/{absent}") is None, absent
    for hidden in ("locked", "closed/x", "closed/y/z", "closed/*", "unlisted/*"):
        assert "could not be read" in reason(found.text(f"{world}/{hidden}")), hidden
    assert found.exists(str(world)) is True
    assert found.names(f"{world}/no") == ()
    assert reason(found.names(f"{world}/unlisted"))
    assert "did not look" in reason(found.text("/etc/passwd"))


def test_managed_files(world: Path) -> None:
    user = NOBODY if os.geteuid() == 0 else None
    paths = [f"{world}/{name}" for name in ("empty", "locked", "absent", "closed/x", "with 'quote")]
    Path(paths[-1]).write_text("x")
    found = host.parse_files(run(host.managed_files_command(paths).script, user=user).text)
    assert isinstance(found, dict)
    assert found[paths[0]].sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert found[paths[2]].sha256 is None
    assert found[paths[4]].sha256
    assert paths[1] not in found and paths[3] not in found
    assert host.parse_files(run(host.managed_files_command([]).script).text) == {}


def test_cdi_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: nvidia.com/gpu\ndevices:\n- name: '0'")  # no end of line
    (tmp_path / "b.yaml").write_text("kind: nvidia.com/gpu\ndevices: []\n" + "#" * 600_000)
    ran = run(command("cdi_specs").script.replace("/etc/cdi /run/cdi", str(tmp_path)))
    found = group.parse_group(ran.text)
    assert isinstance(found, group.Group), found
    first, second = (found.text(f"{tmp_path}/{name}.yaml") for name in "ab")
    assert isinstance(first, str) and isinstance(second, str)
    assert not isinstance(cdi.parse_spec("a", first), Missing)
    assert "larger" in reason(cdi.parse_spec("b", second))


# --- stand-ins


def test_nvidia_smi_keeps_its_exit_code_and_loses_its_clock_tables(tmp_path: Path) -> None:
    clocks = "<supported_clocks>\n<supported_mem_clock>\n</supported_mem_clock>\n</supported_clocks>\n"
    one_line = "<supported_clocks>N/A</supported_clocks>\n"
    text = smi_xml(gpu_xml(8) + "\n", gpu_xml(9) + "\n").replace("\n\t</gpu>", f"\n{one_line}</gpu>", 1)
    text = text.replace("\n\t</gpu>", f"\n{clocks}</gpu>", 1)
    assert text.count("supported_clocks") == 4
    (tmp_path / "out.xml").write_text(text)
    tool(tmp_path, "nvidia-smi", f"[ \"$*\" = '-q -x' ] || exit 2\ncat {tmp_path}/out.xml; echo odd >&2; exit 14")
    for shell in SHELLS:
        ran = run(command("nvidia_smi_xml").script, tmp_path, shell)
        assert (ran.rc, ran.error_text) == (14, "odd\n")
        assert "supported" not in ran.text
        facts = nvidia_smi.parse_xml(ran.text, ran.rc, ran.error_text)
        assert isinstance(facts, SmiFacts)
        assert [gpu.index for gpu in facts.gpus] == [0, 1]
        assert facts.warnings == ("odd", "nvidia-smi ended with exit code 14")


FLOOD = """\
echo '-- Boot 1 --'
i=0
while [ $i -lt 3000 ]; do
  echo "2026-08-01T00:00:00+0000 n kernel: NVRM: Xid (PCI:0008:01:00): 31, pid=1, name=python, MMU fault $i"
  echo "2026-08-01T00:00:00+0000 n kernel: nvidia-peermem ERROR detected invalid context, skipping $i"
  echo "2026-08-01T00:00:00+0000 n kernel: something else $i"
  i=$((i + 1))
done
echo '2026-08-01T00:00:00+0000 n kernel: NVRM: Xid (PCI:0009:01:00): 79, GPU has fallen off the bus.'"""


def test_a_flood_pushes_no_xid_out(tmp_path: Path) -> None:
    tool(tmp_path, "journalctl", FLOOD)
    ran = run(command("kernel_log").script, tmp_path)
    facts = kernel_log.parse_kernel_log(ran.text, ran.error_text)
    assert isinstance(facts, KernelLogFacts), facts
    assert (facts.lines_read, facts.source) == (9001, "journalctl -k")
    codes = [xid.code for xid in facts.xids]
    assert (codes.count(31), codes.count(79)) == (20, 1)
    assert len(ran.stdout) < 256 * 1024


def test_an_empty_journal_falls_back_to_dmesg(tmp_path: Path) -> None:
    tool(tmp_path, "journalctl", "echo '-- No entries --'")
    tool(tmp_path, "dmesg", "echo '[    0.0] NVRM: Xid (PCI:0000:34:00): 79, GPU has fallen off the bus.'")
    facts = kernel_log.parse_kernel_log(run(command("kernel_log").script, tmp_path).text)
    assert isinstance(facts, KernelLogFacts)
    assert (facts.lines_read, facts.source, facts.xids[0].code) == (1, "dmesg", 79)
    tool(tmp_path, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    ran = run(command("kernel_log").script, tmp_path)
    assert "Operation not permitted" in reason(kernel_log.parse_kernel_log(ran.text, ran.error_text))


def test_packages_by_dpkg_and_rpm(tmp_path: Path) -> None:
    listed = (
        r"printf 'ii \tnvidia-imex\t580.1-1\tarm64\nii \tbash\t5\tarm64\niF \tbroken\t1\tall\nrc \tgone\t1\tall\n"
        r"ii \tgpg\t2\tall\nii \tgpgv\t2\tall\nun \tnvidia-340\t\t\n'"
    )
    tool(tmp_path, "dpkg-query", listed)
    rows = packages.parse_packages(run(command("packages").script, tmp_path).text)
    assert isinstance(rows, list), rows
    assert packages.installed(rows) == {"nvidia-imex": "580.1-1", "gpg": "2"}
    assert packages.broken(rows) == ("broken",)
    tool(tmp_path, "dpkg-query", f"{listed}; exit 2")
    assert "rc=2" in reason(packages.parse_packages(run(command("packages").script, tmp_path).text))


def test_a_host_with_both_dpkg_and_rpm_is_read_by_the_one_that_has_packages(tmp_path: Path) -> None:
    rows = r"printf 'ii \tnvidia-imex\t580.1-1\tx86_64\nii \tnvidia-imex\t580.2-1\tx86_64\nii \tdocker-ce\t3:27-1\tx86_64\n'"
    tool(tmp_path, "rpm", rows)
    tool(tmp_path, "dpkg-query", "echo 'dpkg-query: no packages found matching *' >&2; exit 1")  # EPEL's, never used
    text = run(command("packages").script, tmp_path).text
    found = packages.parse_packages(text)
    assert text.startswith("source=rpm\n") and isinstance(found, list)
    assert packages.installed(found)["docker-ce"] == "3:27-1"
    assert packages.broken(found) == ("nvidia-imex",), "an rpm that was killed left both versions"
    tool(tmp_path, "dpkg-query", r"printf 'ii \tgpg\t2\tall\n'")
    assert run(command("packages").script, tmp_path).text.startswith("source=dpkg\n")


def test_docker_images(tmp_path: Path) -> None:
    tool(tmp_path, "docker", "[ \"$2\" = ls ] && exit 0; echo should not run >&2; exit 1")
    assert container.parse_images(run(command("docker_images").script, tmp_path).text) == ()
    inspected = '"Env": [\n    "HF_TOKEN=hf_abc",\n    "CUDA_VERSION=13.0.2"\n ]'
    answer = f'[{{"Id": "sha256:a", "RepoTags": [], "RepoDigests": [], "Config": {{{inspected}}}}}]'
    tool(tmp_path, "docker", f"if [ \"$2\" = ls ]; then echo sha256:a; echo sha256:a; else cat <<'E'\n{answer}\nE\nfi")
    ran = run(command("docker_images").script, tmp_path)
    assert "hf_abc" not in ran.text and "HF_TOKEN=***" in ran.text
    images = container.parse_images(ran.text)
    assert isinstance(images, tuple)
    assert images[0].cuda_version == "13.0.2"
    tool(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    ran = run(command("docker_images").script, tmp_path)
    assert (ran.rc, ran.text) == (1, "")
