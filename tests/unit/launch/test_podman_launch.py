"""The launch of a site whose engine is podman: its command and unit, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from launch_builders import launched, site_of

from rackproof.cli import main
from rackproof.errors import InputError
from rackproof.evidence.tools.serving import parse_unit
from rackproof.facts_serving import DockerRun
from rackproof.launch import Launch, plan_launch, render
from rackproof.launch.install import unit_files

SITE = """
container: {engine: podman}
serving: {model_directory: /models/k3, interface: eth0, addresses: [10.0.0.1, 10.0.0.2]}
"""
LAYOUTS = ("gb300-tp8", "gb300-pd", "b300-tp8", "mi355x-tp8")


def podman(layout: str = "gb300-tp8") -> Launch:
    addresses = [f"10.0.0.{number}" for number in range(1, len(launched(layout).processes) + 1)]
    more = {"addresses": addresses} if len(addresses) > 1 else {}
    return plan_launch(layout, site_of(**more).overlaid({"container": {"engine": "podman"}}, "site.yaml"))


def run_of(launch: Launch) -> DockerRun:
    found = parse_unit(unit_files(launch, launch.processes[0])[0][1])
    assert isinstance(found, DockerRun)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_container_is_the_same_but_for_what_podman_alone_is_given(layout: str) -> None:
    docker, own = run_of(launched(layout)), run_of(podman(layout))
    extra = {name: own.options[name] for name in own.options if own.options[name] != docker.options.get(name)}
    security = ("seccomp=unconfined", "label=disable") if layout.startswith("mi355x") else ("label=disable",)
    assert extra == {
        "--pids-limit": ("-1",), "--security-opt": security, "--cgroups": ("split",), "--log-driver": ("passthrough",),
    }  # fmt: skip
    assert not set(docker.options) - set(own.options)
    assert (own.image, own.arguments, own.env) == (docker.image, docker.arguments, docker.env)


def test_gpus_reach_the_container_by_cdi() -> None:
    assert run_of(podman()).options["--device"][0] == "nvidia.com/gpu=all"


def test_the_unit_waits_for_no_daemon_and_keeps_the_container_in_its_cgroup() -> None:
    text = unit_files(podman(), podman().processes[0])[0][1]
    assert "docker.service" not in text and "/usr/bin/docker" not in text and "/usr/bin/podman run --rm --name rackproof-serving" in text
    assert "\nDelegate=yes\n" in text and "Requires=" not in text.replace("RequiresMountsFor=", "")
    assert "After=nvidia-cdi-refresh.service network-online.target nvidia-imex.service\n" in text
    assert "ExecStartPre=-/usr/bin/podman rm --force rackproof-serving\n" in text
    assert "ExecStop=-/usr/bin/podman stop -t 120 rackproof-serving\n" in text
    amd = unit_files(podman("mi355x-tp8"), podman("mi355x-tp8").processes[0])[0][1]
    assert "After=network-online.target\n" in amd and "nvidia" not in amd.split("[Service]")[0]
    docker = unit_files(launched("gb300-tp8"), launched("gb300-tp8").processes[0])[0][1]
    assert "podman" not in docker and "Requires=docker.service\n" in docker and "Delegate" not in docker


def test_systemd_itself_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "rackproof-serving.service"
    file.write_text(unit_files(podman(), podman().processes[0])[0][1])
    try:
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("systemd-analyze is not installed")
    ours = [line for line in done.stderr.splitlines() if "rackproof-serving.service:" in line]
    assert not [line for line in ours if "podman" not in line], done.stderr  # podman itself is not installed here


def test_the_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.yaml").write_text(SITE)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["launch", "gb300-tp8", "--site", str(tmp_path / "site.yaml"), "--node-rank", "0", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    code, out, _ = run()
    assert code == 0 and "\npodman run --rm" in out and "--cgroups" not in out, "a terminal is no unit"
    assert "podman: podman stops a container at 2048 tasks" in out, "what upstream's docker command does not say"
    assert run("--format", "podman") == (0, out, "")
    code, out, _ = run("--format", "systemd")
    assert code == 0 and "ExecStart=/usr/bin/podman run" in out
    for format_ in ("docker", "compose"):
        code, _, err = run("--format", format_)
        assert code == 3 and "it is for docker, and the site says container.engine: podman" in err


def test_podman_is_refused_where_the_site_has_docker() -> None:
    with pytest.raises(InputError, match=r"container.engine: docker"):
        render(launched("gb300-tp8"), "podman")
