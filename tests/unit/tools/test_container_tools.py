"""Docker, its images, CDI specs, the toolkit."""

from __future__ import annotations

import json

import pytest
from tool_evidence import CDI_SPEC, IMAGE, evidence, healthy, reason, section

from rackproof.evidence.tools import cdi, container
from rackproof.facts import CdiSpec, ImageFacts, Missing

DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
LOCKED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
    'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.50/version": '
    "dial unix /var/run/docker.sock: connect: permission denied\n"
)
CLIENT_ONLY = '{"Client":{"Version":"28.2.2"},"Server":null}\n'


def test_docker() -> None:
    node = healthy()
    assert (container.engine(node), container.engine_version(node), container.cgroup_version(node)) == (
        "docker", "28.2.2", "2",
    )  # fmt: skip
    assert container.runtimes(node) == ("nvidia", "runc")
    assert container.cdi_devices(node) == ("nvidia.com/gpu=0",)
    assert container.daemon_config(node) == {"features": {"cdi": True}}
    assert container.toolkit_version(node) == "1.20.0"


@pytest.mark.parametrize(
    ("errors", "words"),
    [(DOWN, "not running"), (LOCKED, "needs root or the docker group"), ("something new\n", "something new")],
)
def test_a_daemon_that_does_not_answer(errors: str, words: str) -> None:
    node = evidence(
        docker_version=section("docker_version", CLIENT_ONLY, errors, rc=1),
        docker_info=section("docker_info", '{"ServerVersion":"","Runtimes":null,"CgroupVersion":""}', errors, rc=1),
        docker_images=section("docker_images", "", errors, rc=1),
    )
    assert container.engine(node) == "docker"
    for fact in (container.engine_version, container.runtimes, container.cdi_devices, container.images):
        assert words in reason(fact(node))


def test_server_errors_inside_the_json() -> None:
    node = evidence(docker_info='{"ServerErrors":["a server error occurred"],"ClientErrors":[]}')
    assert "a server error occurred" in reason(container.runtimes(node))


def test_a_docker_that_lists_no_discovered_devices_gives_no_answer() -> None:
    assert "28.2" in reason(container.cdi_devices(evidence(docker_info='{"ServerVersion":"27.0.1"}')))
    assert "no runtimes" in reason(container.runtimes(evidence(docker_info='{"Runtimes":null}')))


def test_daemon_config() -> None:
    assert container.daemon_config(evidence(docker_config="- /etc/docker/daemon.json\n.\n")) is None
    assert container.daemon_config(evidence(docker_config="= /etc/docker/daemon.json\n.\n")) == {}
    assert "not JSON" in reason(container.daemon_config(evidence(docker_config="= /etc/docker/daemon.json\n|{,\n.\n")))
    locked = evidence(docker_config="! /etc/docker/daemon.json\n.\n")
    assert "could not be read" in reason(container.daemon_config(locked))


def test_images() -> None:
    labels = {"org.opencontainers.image.version": "k3"}
    digest = ("vllm/vllm-openai@sha256:54e6",)
    expected = ImageFacts("sha256:54e6", ("vllm/vllm-openai:kimi-k3",), digest, "arm64", "13.0.2", labels)
    assert container.parse_images(IMAGE) == (expected,)
    assert container.parse_images("[]") == ()
    bare = '[{"Id": "", "RepoTags": null, "RepoDigests": null, "Config": null, "Architecture": ""}]'
    images = container.parse_images(bare)
    assert isinstance(images, tuple)
    assert (images[0].tags, images[0].digests, images[0].labels) == ((), (), {})
    assert reason(images[0].architecture) and reason(images[0].cuda_version)


def test_cdi() -> None:
    spec = cdi.parse_spec("/run/cdi/nvidia.yaml", CDI_SPEC)
    assert spec == CdiSpec("/run/cdi/nvidia.yaml", ("580.126.20",), ("0", "all"))
    assert cdi.parse_spec("/x.json", '{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}') == CdiSpec(
        "/x.json", (), ("0",)
    )
    assert cdi.parse_spec("/x.yaml", "kind: intel.com/gpu\n") is None


@pytest.mark.parametrize(
    "text",
    ["kind: nvidia.com/gpu\n", "kind: nvidia.com/gpu\ndevices: [", "kind: nvidia.com/gpu\ndevices: [1]",
     "a: &a [x]\nb: [*a, *a]\nkind: nvidia.com/gpu\ndevices: []", "- nvidia.com/gpu", "!!python/name:os nvidia.com/gpu",
     CDI_SPEC + "#" * cdi.MAX_BYTES],
)  # fmt: skip
def test_a_spec_that_cannot_be_read_is_not_skipped(text: str) -> None:
    assert "/run/cdi/n.yaml" in reason(cdi.parse_spec("/run/cdi/n.yaml", text))


def test_no_cdi_directory_is_no_spec() -> None:
    assert cdi.cdi_specs(evidence(cdi_specs="- /etc/cdi/*.yaml\n- /run/cdi/*.yaml\n.\n")) == ()
    assert "could not be read" in reason(cdi.cdi_specs(evidence(cdi_specs="! /etc/cdi/*.yaml\n.\n")))


AMD_SPEC = {
    "cdiVersion": "0.6.0", "kind": "amd.com/gpu", "containerEdits": {},
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/dri/renderD128"}, {"path": "/dev/kfd"}]}},
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/dri/renderD128"}, {"path": "/dev/kfd"}]}},
    ],
}  # fmt: skip


def amd_specs(text: str) -> object:
    listed = "".join(f"|{line}\n" for line in text.splitlines())
    return cdi.amd_cdi_specs(evidence(cdi_specs=f"= /etc/cdi/amd.json\n{listed}- /run/cdi/*.yaml\n.\n"))


def test_specs_of_amd_are_told_from_those_of_nvidia() -> None:
    wanted = CdiSpec("/etc/cdi/amd.json", (), ("0", "all"), ("/dev/dri/renderD128", "/dev/kfd"))
    assert amd_specs(json.dumps(AMD_SPEC, indent=2)) == (wanted,)
    listed = "".join(f"|{line}\n" for line in json.dumps(AMD_SPEC).splitlines())
    assert cdi.cdi_specs(evidence(cdi_specs=f"= /etc/cdi/amd.json\n{listed}.\n")) == ()
    assert amd_specs(CDI_SPEC) == () and amd_specs("") == ()


@pytest.mark.parametrize("edits", [None, [], "x", {"deviceNodes": "x"}, {"deviceNodes": [None, {"path": 3}, "y"]}])
def test_a_spec_of_another_form_hands_over_nothing(edits: object) -> None:
    odd = {**AMD_SPEC, "devices": [{"name": "0", "containerEdits": edits}]}
    found = amd_specs(json.dumps(odd))
    assert isinstance(found, tuple) and found[0].nodes == ()
    assert "lists no devices" in reason(amd_specs(json.dumps({**AMD_SPEC, "devices": 3})))
    assert isinstance(amd_specs('{"kind": "amd.com/gpu", "devices": ['), Missing)
