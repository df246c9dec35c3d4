"""Podman of the system: its own account, images, containers, CDI folders, hooks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tool_evidence import PODMAN_IMAGE, PODMAN_INFO, evidence, healthy, reason, section

from rackproof.evidence.sections import Status
from rackproof.evidence.tools import podman
from rackproof.facts import ImageFacts

ID = "1" * 64
CONFIG = "- /etc/containers/containers.conf\n"
HOOKS = "- /etc/containers/oci/hooks.d/*nvidia*.json\n.\n"


def test_what_it_says_of_itself() -> None:
    node = healthy()
    assert (podman.version(node), podman.cgroup_version(node), podman.cgroup_driver(node)) == ("5.4.2", "2", "systemd")
    assert (podman.oci_runtime(node), podman.log_driver(node)) == ("crun", "journald")
    assert (podman.data_root(node), podman.storage_driver(node)) == ("/var/lib/containers/storage", "overlay")
    assert podman.security_options(node) == ("seccomp",)


def test_rootless_and_remapped_users_are_named() -> None:
    said = PODMAN_INFO.replace('"rootless": false', '"rootless": true').replace('"uidmap": null', '"uidmap": [{"size": 1}]')
    assert podman.security_options(evidence(podman_info=said)) == ("rootless", "seccomp", "userns")
    assert "rootless" in reason(podman.security_options(evidence(podman_info=PODMAN_INFO.replace("rootless", "rooted"))))


def test_ids_are_written_as_digests_as_docker_writes_them() -> None:
    digests = ("docker.io/vllm/vllm-openai@sha256:54e6", "docker.io/vllm/vllm-openai@sha256:aa")
    expected = ImageFacts(f"sha256:{ID}", ("docker.io/vllm/vllm-openai:kimi-k3",), digests, "arm64", "13.0.2", {"a": "b"})
    assert podman.images(healthy()) == (expected,)
    found = podman.running(healthy())
    assert isinstance(found, tuple) and found[0].image == f"sha256:{ID}" and found[0].name == "rackproof-serving"


def test_a_podman_that_never_ran_has_nothing_and_says_nothing_else() -> None:
    node = healthy(podman_info="unused\n", podman_images="unused\n", podman_running="unused\n")
    assert podman.images(node) == () and podman.running(node) == ()
    assert "not been used" in reason(podman.cgroup_version(node)) and podman.version(node) == "5.4.2"


@pytest.mark.parametrize("text", ["", "end of it\n", PODMAN_IMAGE, "{}\nend\n", f"{PODMAN_IMAGE}unused\n", "[]\nend\n", "1,2\nend\n"])
def test_a_list_of_images_that_is_none(text: str) -> None:
    assert reason(podman.parse_images(text))


def test_an_absent_podman_and_one_that_fails() -> None:
    absent = evidence(podman_info=section("podman_info", status=Status.ABSENT), docker_config="- containerd\n- podman\n.\n")
    assert podman.version(absent) is None and "not installed" in reason(podman.oci_runtime(absent))
    root = evidence(podman_images=section("podman_images", status=Status.NEEDS_ROOT))
    assert "needs root" in reason(podman.images(root))
    broken = evidence(podman_images=section("podman_images", "end\n", "Error: database is locked\n", rc=125))
    assert "database is locked" in reason(podman.images(broken))


def test_cdi_folders() -> None:
    assert podman.cdi_folders(healthy()) == ("/etc/cdi",)
    assert podman.cdi_folders(evidence(podman_config=CONFIG + HOOKS)) == ("/etc/cdi", "/var/run/cdi")
    several = '= /etc/containers/containers.conf\n|cdi_spec_dirs = [\n|  "/etc/cdi", # ours\n|  "/opt/cdi",\n|]\n'
    assert podman.cdi_folders(evidence(podman_config=several + HOOKS)) == ("/etc/cdi", "/opt/cdi")
    for odd in ("cdi_spec_dirs = /etc/cdi", "cdi_spec_dirs = [1]", 'cdi_spec_dirs = ["relative"]', "cdi_spec_dirs = ["):
        assert reason(podman.cdi_folders(evidence(podman_config=f"= /etc/containers/containers.conf\n|{odd}\n{HOOKS}")))
    assert reason(podman.cdi_folders(evidence(podman_config=f"! /etc/containers/containers.conf\n{HOOKS}")))
    assert reason(podman.cdi_folders(evidence(podman_config=HOOKS)))


def test_hooks() -> None:
    assert podman.hooks(healthy()) == ("/etc/containers/oci/hooks.d/oci-nvidia-hook.json",)
    assert podman.hooks(evidence(podman_config=CONFIG + HOOKS)) == ()
    assert reason(podman.hooks(evidence(podman_config=f"{CONFIG}.\n")))
    assert reason(podman.hooks(evidence(podman_config=f"{CONFIG}! /etc/containers/oci/hooks.d/*nvidia*.json\n.\n")))


# --- the scripts, with a stand-in for podman ---

STAND_IN = f"""#!/bin/sh
case "$1 $2" in
  "image ls") echo sha256:{ID} ;;
  "image inspect") printf '%s\\n' '{{"Id":"{ID}","RepoTags":["a:b"],"RepoDigests":[],"Architecture":"amd64","Config":{{"Env":["HF_TOKEN=s3cr\\"et","A=b"],"Labels":{{}}}}}}' ;;
  "info --format") echo '{{}}' ;;
esac
"""


def _run(script: str, folder: Path) -> str:
    (folder / "podman").write_text(STAND_IN)
    (folder / "podman").chmod(0o755)
    text = script.replace(podman.STORAGE, str(folder / "storage"))
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})  # fmt: skip
    return done.stdout


def test_nothing_is_asked_of_a_podman_without_storage(tmp_path: Path) -> None:
    for command in podman.COMMANDS[:3]:
        assert _run(command.script, tmp_path) == "unused\n"
    assert not (tmp_path / "storage").exists()


def test_images_are_listed_and_secrets_stay_on_the_node(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    said = _run(podman.COMMANDS[1].script, tmp_path)
    assert "s3cr" not in said and '"HF_TOKEN=***"' in said and '"A=b"' in said
    found = podman.parse_images(said)
    assert isinstance(found, tuple) and found[0].id == f"sha256:{ID}" and found[0].tags == ("a:b",)
