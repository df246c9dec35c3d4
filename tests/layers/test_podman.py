"""A node whose engine is podman: judged as such, and never by the other engine."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from rackproof.facts import CdiSpec, Missing, NodeFacts
from rackproof.facts_image import ImageChain
from rackproof.facts_podman import PodmanFacts
from rackproof.facts_serving import RunningContainer
from rackproof.verdict.evaluate import evaluate_node, judge_node
from rackproof.verdict.model import Severity, Status, Verdict, verdict_of

from .cases import outcome
from .fixtures import DRIVER, GONE, baseline, node, runtime
from .fixtures_podman import podman_baseline, podman_node

PODMAN = podman_baseline()
DOCKER_ONLY = {
    f"container_runtime.{name}"
    for name in ("engine_at_boot", "engine_steady", "containerd", "podman", "daemon_config", "memlock", "open_files",
                 "live_restore", "nvidia_runtime")
}  # fmt: skip
DEVICES = ("0", "1", "2", "3", "all")


def of(requirement: str, facts: NodeFacts) -> tuple[Status, str]:
    found = outcome(requirement, facts, PODMAN)
    return found.status, found.observed or found.reason


def test_a_healthy_node_is_accepted() -> None:
    outcomes = evaluate_node(podman_node(), PODMAN)
    assert not [one for one in outcomes if one.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert verdict_of(outcomes) is Verdict.ACCEPT


def test_what_is_of_docker_alone_does_not_apply_and_says_why() -> None:
    outcomes = {one.requirement.id: one for one in evaluate_node(podman_node(), PODMAN)}
    found = {name for name, one in outcomes.items() if one.requirement.layer == "container_runtime" and one.status is Status.NOT_APPLICABLE}
    amd = {name for name in found if name.startswith("container_runtime.amd_")}
    assert found == DOCKER_ONLY | amd
    assert all("podman" in outcomes[name].reason for name in DOCKER_ONLY)


def test_a_node_with_the_other_engine_only_is_rejected_both_ways() -> None:
    assert judge_node(node(), PODMAN).verdict is not Verdict.ACCEPT
    docker_only = replace(node(), podman=podman_node(version=None, **_absent("version")).podman)
    found = judge_node(docker_only, PODMAN)
    assert found.verdict is Verdict.REJECT
    assert of("container_runtime.engine", docker_only) == (Status.FAIL, "engine: none installed")
    assert of("image.digest", docker_only)[0] is Status.BLOCKED
    other = judge_node(podman_node(), baseline("gb300"))
    assert other.verdict is Verdict.REJECT
    assert "container_runtime.engine" in {one.requirement.id for one in other.outcomes if one.status is Status.FAIL}


def _absent(*but: str) -> dict[str, Any]:
    gone = Missing("podman is not installed")
    return {field.name: gone for field in fields(PodmanFacts) if field.name not in but}


@pytest.mark.parametrize(
    ("requirement", "changes", "says"),
    [
        ("container_runtime.engine", {"version": "4.9.3"}, "version: 4.9.3"),
        ("container_runtime.configuration", {"cdi_folders": ("/etc/containers/cdi",)}, "0 CDI devices discovered"),
        ("container_runtime.cgroup_version", {"cgroup_version": "1"}, "cgroup: 1"),
        ("container_runtime.privileges", {"security_options": ("rootless", "seccomp")}, "rootless"),
        ("container_runtime.storage_driver", {"storage_driver": "vfs"}, "vfs"),
        ("container_runtime.log_size", {"log_driver": "k8s-file"}, "k8s-file"),
        ("container_runtime.default_runtime", {"oci_runtime": "nvidia"}, "nvidia"),
        ("container_runtime.default_runtime", {"hooks": ("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",)}, "oci-nvidia-hook"),
        ("image.digest", {"images": ()}, "no such image on the node"),
    ],
)  # fmt: skip
def test_red(requirement: str, changes: dict[str, Any], says: str) -> None:
    status, said = of(requirement, podman_node(**changes))
    assert status is Status.FAIL and says in said


@pytest.mark.parametrize("name", ["version", "images", "running", "cdi_folders"])
def test_garbage_satisfies_no_gate_that_reads_it(name: str) -> None:
    def gates(value: Any) -> dict[str, Status]:
        found = evaluate_node(podman_node(**{name: value}), PODMAN)
        return {one.requirement.id: one.status for one in found if one.requirement.severity is Severity.GATE}

    lost = {found for found, status in gates(GONE).items() if status in (Status.UNKNOWN, Status.BLOCKED)}
    assert lost
    for nonsense in ("", "ERR!", -1, {}, object(), 5.4, ("",)):
        assert not [found for found in lost if gates(nonsense)[found] is Status.PASS], nonsense


@pytest.mark.parametrize("name", [field.name for field in fields(PodmanFacts) if field.name != "cgroup_driver"])
def test_without_a_fact_something_is_not_known(name: str) -> None:
    """But for the cgroup driver, which nobody asks of a toolkit that injects by CDI."""
    found = {one.status for one in evaluate_node(podman_node(**{name: GONE}), PODMAN)}
    assert found & {Status.UNKNOWN, Status.BLOCKED} and Status.FAIL not in found


def test_nothing_read_of_podman_passes_nothing_of_it() -> None:
    unread = replace(podman_node(), podman=Missing("not read"))
    assert judge_node(unread, PODMAN).verdict is Verdict.UNDETERMINED
    assert of("container_runtime.engine", unread)[0] is Status.UNKNOWN


def test_specs_that_podman_does_not_look_at_do_not_count() -> None:
    elsewhere = CdiSpec("/opt/cdi/nvidia.yaml", (DRIVER,), DEVICES)
    assert of("container_runtime.configuration", runtime(podman_node(), cdi_specs=(elsewhere,)))[0] is Status.FAIL
    there = podman_node(cdi_folders=("/opt/cdi/",))
    assert of("container_runtime.configuration", runtime(there, cdi_specs=(elsewhere,)))[0] is Status.PASS
    run = CdiSpec("/run/cdi/nvidia.yaml", (DRIVER,), DEVICES)  # /var/run is /run
    assert of("container_runtime.configuration", runtime(podman_node(), cdi_specs=(run,)))[0] is Status.PASS


def test_an_image_from_an_archive_is_known_by_its_chain_whatever_digest_podman_gave_it() -> None:
    facts = podman_node()
    assert not isinstance(facts.podman, Missing) and not isinstance(facts.podman.images, Missing)
    loaded = replace(facts.podman.images[0], digests=("docker.io/vllm/vllm-openai@sha256:77",))
    bare = podman_node(images=(loaded,))
    assert of("image.digest", bare)[0] is Status.FAIL
    chain = ImageChain("sha256:m", (PODMAN.image.index,), loaded.id)
    assert of("image.digest", runtime(bare, image_chains=(chain,)))[0] is Status.PASS
    assert of("image.digest", runtime(bare, image_chains=(replace(chain, config="sha256:9"),)))[0] is Status.FAIL
    assert of("image.digest", runtime(bare, image_chains=(replace(chain, indexes=()),)))[0] is Status.FAIL


def test_an_engine_that_docker_still_runs_is_seen() -> None:
    stray = RunningContainer("a" * 64, "old", "sha256:77", "vllm/vllm-openai:old", True, {})
    both = runtime(podman_node(), engine="docker", running=(stray,))
    status, said = of("serving.running", both)
    assert status is Status.FAIL and "old runs vllm/vllm-openai:old" in said
    unread = runtime(podman_node(), engine="docker", running=Missing("the Docker daemon is not running"))
    assert of("serving.running", unread)[0] is Status.UNKNOWN
