"""What a deploy decides where the site names podman: its package, no daemon.json, the image into its storage."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_apt import Machine
from test_image_steps import IMAGE, INDEX
from test_image_steps import Node as ImageNode
from test_layers import CONSENT, LAYERS, Recorder, files, packages, recording

from rackproof import site
from rackproof.baseline import resolve
from rackproof.deploy import image_scripts, rollback, selfbuild
from rackproof.deploy import node as deploy_node
from rackproof.deploy.image_archive import archive_of
from rackproof.deploy.node import Node
from rackproof.deploy.onhost import Run, Watch, step
from rackproof.deploy.packages import APT, MANAGERS
from rackproof.deploy.stamp import stamp_of
from rackproof.errors import InputError
from rackproof.facts import ManagedFile, Missing, NodeFacts
from rackproof.layers.rdma import deploy as rdma_layer
from rackproof.managed import KEYRING, UPGRADES, managed_files
from rackproof.serve import scripts as serving

fixtures = importlib.import_module("layers.fixtures")
podmans = importlib.import_module("layers.fixtures_podman")
VALUES: dict[str, Any] = {
    "hardware": "gb300", "driver": {"version": fixtures.DRIVER}, "packages": fixtures.PACKAGES,
    "container": {"engine": "podman", "toolkit_version": "1.19.1"},
}  # fmt: skip
FRESH = {"version": None, "images": Missing("podman is not installed"), "running": Missing("podman is not installed")}


def healthy(**changes: Any) -> NodeFacts:
    """A node in place; `changes` are fields of PodmanFacts."""
    facts: NodeFacts = podmans.podman_node(**changes)
    assert not isinstance(facts.host.files, Missing)
    there = {**facts.host.files, KEYRING: ManagedFile(KEYRING, "f" * 64)}
    facts = packages(files(facts), gpg="2.4", infiniband_diags="50.0-2")
    stamp = stamp_of(podmans.podman_baseline(), site.shipped())
    return replace(facts, host=replace(facts.host, files=there, stamp=stamp), driver=replace(facts.driver, holders=()))


def deploy(monkeypatch: pytest.MonkeyPatch, facts: NodeFacts, **over: Any) -> tuple[Recorder, Node]:
    recorder = recording(monkeypatch)
    chosen = site.shipped().overlaid({**VALUES, **CONSENT, **over}, "test")
    node = Node("tray01", chosen, podmans.podman_baseline(), facts, Run("run", "me@here", 1, ""))
    for layer in LAYERS:
        layer.bring_about(node)
    return recorder, node


# --- the site, the baseline ---


def test_a_site_names_the_engine_and_the_package_follows() -> None:
    runtime = podmans.podman_baseline().runtime
    assert (runtime.engine, runtime.engine_package, runtime.engine_min) == ("podman", "podman", "5.1.0")
    assert runtime.rules.storage_drivers == ("overlay",)
    docker = fixtures.baseline("gb300").runtime
    assert (docker.engine, docker.engine_package) == ("docker", "docker.io")
    assert docker.rules.storage_drivers == ("overlay2", "overlayfs")
    own = site.shipped().overlaid({**VALUES, "container": {"engine": "podman", "engine_package": "podman-next"}}, "t")
    assert resolve(own).runtime.engine_package == "podman-next"


@pytest.mark.parametrize(("engine", "package"), [("podman", "docker.io"), ("docker", "podman")])
def test_the_package_of_another_engine_is_refused(engine: str, package: str) -> None:
    wrong = site.shipped().overlaid({**VALUES, "container": {"engine": engine, "engine_package": package}}, "site.yaml")
    with pytest.raises(InputError, match=f"container.engine_package is {package}, and container.engine is {engine}"):
        resolve(wrong)


def test_automatic_upgrades_leave_podman_alone_too() -> None:
    text = {engine: next(f.content for f in managed_files(found) if f.path == UPGRADES)
            for engine, found in (("podman", podmans.podman_baseline()), ("docker", fixtures.baseline("gb300")))}  # fmt: skip
    assert '"^podman"' in text["podman"] and '"^docker"' in text["podman"] and "podman" not in text["docker"]


# --- steps ---


def test_a_node_in_place_gets_no_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = deploy(monkeypatch, healthy())
    assert recorder.names == [] and not node.stopped


def test_podman_is_installed_and_nothing_is_configured_or_started(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, _ = deploy(monkeypatch, packages(healthy(**FRESH), nvidia_container_toolkit_base="1.18.2-1"))
    assert recorder.names == [
        "Install podman", "Install NVIDIA Container Toolkit 1.19.1", "CDI spec for the loaded driver",
        "Pull vllm-openai by digest 61fc8a896b0a",
    ]  # fmt: skip
    assert dict(recorder.steps)["Install podman"] == "refresh\nat_least 5.1.0 podman\ninstall podman"
    said = "\n".join(text for _, text in recorder.steps)
    assert "daemon.json" not in said.split("server gave HTTP")[0] and "systemctl restart docker" not in said
    assert "runtime configure" not in said


@pytest.mark.parametrize(("version", "steps"), [("4.9.3", ["Install podman"]), ("5.1.0", []), ("5.4.2+ds1", []), ("odd!", ["Install podman"])])
def test_a_podman_that_does_not_understand_the_specs_is_upgraded(monkeypatch: pytest.MonkeyPatch, version: str, steps: list[str]) -> None:
    assert deploy(monkeypatch, healthy(version=version))[0].names == steps


@pytest.mark.parametrize(("enabled", "load"), [("disabled", "loaded"), ("masked", "masked")])
def test_the_toolkits_own_units_write_the_spec_again(monkeypatch: pytest.MonkeyPatch, enabled: str, load: str) -> None:
    facts = fixtures.units(healthy(), nvidia_cdi_refresh__path={"enabled": enabled, "load": load})
    recorder, _ = deploy(monkeypatch, facts)
    assert recorder.names == ["The CDI spec is refreshed at boot"]
    assert "systemctl enable -q nvidia-cdi-refresh.path" in dict(recorder.steps)["The CDI spec is refreshed at boot"]


def test_podman_has_no_daemon_whose_limits_rdma_would_set(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": ""}))
    baseline = podmans.podman_baseline()
    baseline = replace(baseline, vendor="amd", rdma=replace(baseline.rdma, needed=True))
    node = Node("tray01", site.shipped(), baseline, healthy(), Run("run", "me@here", 1, ""))
    rdma_layer.bring_about(node)
    assert recorder.names == []


def test_ca_certificate_of_a_mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    recorder, _ = deploy(monkeypatch, healthy(images=()), image={"ca_file": str(tmp_path / "ca.pem")})
    step = dict(recorder.steps)["Trust the CA of the image's registry"]
    assert step == "/etc/containers/certs.d/docker.io/rackproof-ca.crt", "podman asks there for Docker Hub as well"


def test_a_self_build_is_docker_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**VALUES, "selfbuild": {"commit": "1" * 40, "base": f"r.example/a@sha256:{'2' * 64}", "accept_unsupported": True}}
    node = Node("tray01", site.shipped().overlaid(values, "site.yaml"), podmans.podman_baseline(), healthy(), Run("r", "me", 1, ""))
    said: list[str] = []
    monkeypatch.setattr(selfbuild, "refuse", lambda error: said.append(str(error)))
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": ""}))
    monkeypatch.setattr(selfbuild, "current_host", type("Host", (), {"print_prefix": ""}))
    selfbuild.bring_about(node)
    assert len(said) == 1 and "a self-build is made by docker build, and container.engine is podman" in said[0]
    assert not node.steps


# --- programs ---


class PodmanNode(ImageNode):
    """The stand-in of docker under podman's name."""

    def pull(self, monkeypatch: pytest.MonkeyPatch, room: int = 1, login: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "podman").write_text((self.folder / "docker").read_text().replace("DockerRootDir", "GraphRoot"))
        (self.folder / "podman").chmod(0o755)
        (self.folder / "docker").write_text("#!/bin/sh\necho 'docker was called' >&2\nexit 9\n")
        original = image_scripts.pull
        monkeypatch.setattr(image_scripts, "pull", lambda *words, **more: original(*words, **more, engine="podman"))
        return super().pull(monkeypatch, room, login, **env)


@pytest.fixture
def machine(tmp_path: Path) -> PodmanNode:
    return PodmanNode(tmp_path)


def test_the_image_comes_into_podmans_storage(machine: PodmanNode, monkeypatch: pytest.MonkeyPatch) -> None:
    done = machine.pull(monkeypatch)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert f"pull r.example/vllm@{INDEX}" in machine.log
    assert machine.log[-1] == f"tag r.example/vllm@{INDEX} r.example/vllm:v1"


# What podman 5.4 says.
REFUSALS = {
    "Error: writing blob: storing blob to file: write /var/tmp/x: no space left on device": "the disk of the engine ran full",
    "Error: writing blob: Digest did not match, expected sha256:1, got sha256:2": "does not have the pinned digest",
    "Error: copying system image from manifest list: parsing image configuration: Download config.json digest sha256:2 does not match expected sha256:1":
        "does not have the pinned digest",
    "Error: initializing source docker://r: reading manifest sha256:1 in r: manifest unknown": "the registry does not have",
    'Error: choosing an image from manifest list docker://r: no image found in image index for architecture "arm64", variant "v8"':
        "has no linux/arm64, which this host needs",
    "Error: pinging container registry r: tls: failed to verify certificate: x509: certificate signed by unknown authority":
        "is not trusted on this host (image.ca_file)",
    "Error: pinging container registry r: http: server gave HTTP response to HTTPS client": "insecure in registries.conf",
    "Error: reading manifest sha256:1 in r: unauthorized: authentication required": "the registry wants a login: podman login",
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_is_final_and_clear(machine: PodmanNode, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    machine.says(f"echo '{said}' >&2; exit 125")
    done = machine.pull(monkeypatch)
    assert done.returncode == 1 and REFUSALS[said] in done.stderr and len(done.stderr.splitlines()) == 1
    assert len([line for line in machine.log if line.startswith("pull")]) == 1


def test_a_login_is_where_podman_looks_for_it(machine: PodmanNode, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.says(f'grep -q s3cret "$REGISTRY_AUTH_FILE" && echo r.example/vllm@{INDEX} >$THERE')
    assert machine.pull(monkeypatch, login='{"auths": {"r.example": {"auth": "s3cret"}}}').returncode == 0
    assert not list((machine.folder / "secrets").iterdir())


def test_an_archive_is_loaded_by_podman() -> None:
    named = site.shipped().overlaid({"image": {"archive": {"host": "/a.tar"}}}, "t")
    found = archive_of(IMAGE, named, 1, "", "podman")
    assert found is not None and found.engine == "podman"
    assert "engine=podman\n" in image_scripts.load(IMAGE, "/a.tar", [INDEX], "", 1, "", "podman")


def test_what_a_step_changed_is_read_from_the_same_engine() -> None:
    for engine in ("docker", "podman"):
        text = step(Run("r", "me", 1, ""), "image", "Pull", ":", Watch(images=("a:b",), engine=engine))
        assert f"$({engine} image inspect" in text


@pytest.mark.parametrize(("offered", "code"), [("5.4.2+ds1-2", 0), ("5.1.0-1", 0), ("4.9.3+ds1-1ubuntu0.2", 1), ("", 1)])
def test_a_distribution_with_an_older_podman_is_refused_before_anything_is_installed(tmp_path: Path, offered: str, code: int) -> None:
    machine = Machine(tmp_path)
    machine.answers("apt-cache", (0, f" podman | {offered} | http://deb trixie/main amd64 Packages" if offered else ""))
    machine.answers("apt-get", (0, ""))
    functions = MANAGERS["apt"].prelude.removeprefix(APT)
    done = machine.run(f"{functions}at_least 5.1.0 podman\ninstall podman")
    assert done.returncode == code
    if code:
        assert f"podman must be 5.1.0 or newer, and the repositories of this host offer {offered.partition('+')[0] or 'none'}" in done.stderr
        assert machine.calls("apt-get") == []


# --- serving, rollback ---


def test_serving_asks_the_engine_of_the_baseline() -> None:
    run = Run("r", "me", 1, "")
    for engine, other in (("docker", "podman"), ("podman", "docker")):
        texts = [serving.start(run, {}, engine), serving.stop(run, engine), serving.look(8000, None, 0, engine)]
        assert all(f"{engine} " in text and f"{other} " not in text for text in texts)
    assert "sha256:{{.Image}}" in serving.look(8000, None, 0, "podman"), "podman leaves that out"


def test_the_way_back_looks_for_the_image_where_that_baseline_keeps_it() -> None:
    text = rollback._CHECK.format(offers="", packages="", image="r@sha256:1", engine="podman")
    assert "podman image inspect r@sha256:1" in text and "podman pull -q r@sha256:1" in text and "docker" not in text
