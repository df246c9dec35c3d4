"""What each layer decides to do, from facts alone: nothing where all is in place, the right step for one thing that is
not, and a stop where somebody would be disrupted or nobody can tell."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackproof import site
from rackproof.deploy import node as deploy_node
from rackproof.deploy.image_preflight import Room
from rackproof.deploy.node import Node
from rackproof.deploy.onhost import Run
from rackproof.deploy.stamp import finish, stamp_of
from rackproof.facts import CdiSpec, ManagedFile, Missing, NodeFacts
from rackproof.facts_nvlink import ImexDomain
from rackproof.layers.container_runtime import deploy as container_runtime
from rackproof.layers.gpu_driver import deploy as gpu_driver
from rackproof.layers.host import deploy as host_layer
from rackproof.layers.image import deploy as image_layer
from rackproof.layers.nvlink import deploy as nvlink_layer
from rackproof.managed import APT_SOURCE, IMEX_NODES, KEYRING, MODPROBE, PERSISTENCED, UPGRADES

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
fixtures = importlib.import_module("layers.fixtures")  # the healthy nodes that the checks are tested with

LAYERS = (host_layer, gpu_driver, nvlink_layer, container_runtime, image_layer)
ROOM = Room(1000, "a test")
CONSENT = {"reboot": {"allow": True}, "disrupt": {"gpu_processes": False}}


class Recorder:
    """Stands in for rackproof.deploy.operations: notes what would have been done."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def Terms(self, *terms: Any) -> Any:
        return terms

    def __getattr__(self, operation: str) -> Any:
        def call(*, name: str, **arguments: Any) -> None:
            text = arguments.get("script") or arguments.get("reason") or ""
            if "wanted" in arguments:
                text = " ".join(file.path for file in arguments["wanted"]) + arguments.get("then", "")
            self.steps.append((name, str(text)))

        return call

    @property
    def names(self) -> list[str]:
        """All steps but the lock, which goes before the first one."""
        return [name for name, _ in self.steps if name != "Lock the node"]


def healthy(hardware: str = "gb300") -> NodeFacts:
    """A node on which everything the deploy manages is in place, and nobody uses the GPUs."""
    facts: NodeFacts = fixtures.node(hardware)
    assert not isinstance(facts.host.files, Missing)
    files = {**facts.host.files, KEYRING: ManagedFile(KEYRING, "f" * 64)}
    wanted = fixtures.baseline(hardware)
    stamp = stamp_of(wanted, site.shipped())
    config = {"features": {"cdi": True}, "runtimes": {"nvidia": {}}}
    tags = (f"{wanted.image.repository}:{wanted.image.tag}",)
    images = tuple(replace(image, tags=tags) for image in facts.runtime.images[:1])  # type: ignore[union-attr,index]
    return replace(
        facts,
        host=replace(facts.host, files=files, stamp=stamp, packages={**facts.host.packages, "gpg": "2.4", "infiniband-diags": "50.0-2"}),  # type: ignore[dict-item]
        driver=replace(facts.driver, holders=()),
        runtime=replace(facts.runtime, daemon_config=config, images=images),
    )


def recording(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """In place of pyinfra, and of what the machine at hand would be asked."""
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "rebooting", recorder)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": "[tray01] "}))
    monkeypatch.setattr(image_layer, "room_for", lambda *_: ROOM)
    monkeypatch.setattr(image_layer.credentials, "find", lambda _: None)
    return recorder


def deploy(monkeypatch: pytest.MonkeyPatch, facts: NodeFacts, hardware: str = "gb300", **over: Any) -> tuple[Recorder, Node]:
    recorder = recording(monkeypatch)
    chosen = site.shipped().overlaid({**CONSENT, **over}, "test")
    node = Node("tray01", chosen, fixtures.baseline(hardware), facts, Run("run", "me@here", 1, ""))
    for layer in LAYERS:
        layer.bring_about(node)
    finish(node)
    return recorder, node


def driver(facts: NodeFacts, **changes: Any) -> NodeFacts:
    return replace(facts, driver=replace(facts.driver, **changes))


def files(facts: NodeFacts, *paths: str) -> NodeFacts:
    """The node without these managed files."""
    assert not isinstance(facts.host.files, Missing)
    there = {**facts.host.files, **{path: ManagedFile(path, None) for path in paths}}
    return replace(facts, host=replace(facts.host, files=there))


def packages(facts: NodeFacts, **versions: str) -> NodeFacts:
    assert not isinstance(facts.host.packages, Missing)
    there = {**facts.host.packages, **{name.replace("_", "-"): version for name, version in versions.items()}}
    return replace(facts, host=replace(facts.host, packages=there))


OLD = driver(packages(healthy(), libnvidia_compute_580="580.95.05-1"), loaded_version="580.95.05")


@pytest.mark.parametrize("hardware", ["gb300", "b300"])
def test_a_node_in_place_gets_no_operation(monkeypatch: pytest.MonkeyPatch, hardware: str) -> None:
    recorder, node = deploy(monkeypatch, healthy(hardware), hardware)
    assert recorder.names == [] and not node.stopped


def test_an_old_driver_is_replaced_in_one_transaction_and_everything_that_hangs_on_it_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder, _ = deploy(monkeypatch, packages(OLD, nvidia_utils_575="575.57.08-1"))
    assert recorder.names == [
        "Pin and install driver 580.126.20", "Reboot, 2 at a time", "Start nvidia-persistenced", "Start nvidia-imex",
        "CDI spec for the loaded driver", "Stamp the host with its baseline",
    ]  # fmt: skip
    script = dict(recorder.steps)["Pin and install driver 580.126.20"]
    lines = script.splitlines()
    assert lines[-1] == "go" and "drop nvidia-utils-575" in lines, "of another branch: removed in the same transaction"
    assert "want 580.126.20 nvidia-imex nvidia-imex-580" in lines and "want 580.126.20 libnvidia-compute-580" in lines
    pin = next(number for number, line in enumerate(lines) if line.startswith("pin 580.126.20 nvidia-driver-pinning-580.126.20 "))
    assert lines.index("refresh") < pin < lines.index("headers") < lines.index("go"), "pinned before anything is installed"


STEPS = [
    (files(healthy(), UPGRADES), ["Keep automatic upgrades off the GPU stack"]),
    (files(healthy(), APT_SOURCE), ["NVIDIA repository key, checked by fingerprint AAAAAAAA", "NVIDIA repository"]),
    (files(healthy(), KEYRING), ["NVIDIA repository key, checked by fingerprint AAAAAAAA"]),
    (files(healthy(), MODPROBE), ["Module options, nouveau blacklisted, initramfs rebuilt"]),
    (files(healthy(), PERSISTENCED), ["Persistence mode by the daemon", "Start nvidia-persistenced"]),
    (files(healthy(), IMEX_NODES), ["IMEX node list of the NVLink domain", "Start nvidia-imex"]),
    (packages(healthy(), nvidia_imex="580.178.04-1"), ["Install nvidia-imex 580.126.20", "Start nvidia-imex"]),
    (driver(healthy(), flavour="proprietary"), ["Reboot, 2 at a time", "Start nvidia-imex"]),
    (driver(healthy(), parameters={"CreateImexChannel0": "0"}), ["Reboot, 2 at a time", "Start nvidia-imex"]),
    (packages(healthy(), nvidia_container_toolkit_base="1.18.2-1"),
     ["Install NVIDIA Container Toolkit 1.19.1", "Container engine knows the NVIDIA runtime and CDI",
      "CDI spec for the loaded driver"]),
    (replace(healthy(), runtime=replace(healthy().runtime, cdi_specs=())), ["CDI spec for the loaded driver"]),
    (replace(healthy(), runtime=replace(healthy().runtime, images=())), ["Pull vllm-openai by digest 61fc8a896b0a"]),
    (replace(healthy(), host=replace(healthy().host, broken_packages=("nvidia-dkms-580-open",))),
     ["Finish what was left half installed: nvidia-dkms-580-open", "Pin and install driver 580.126.20",
      "Start nvidia-persistenced", "Start nvidia-imex", "Install NVIDIA Container Toolkit 1.19.1",
      "Container engine knows the NVIDIA runtime and CDI", "CDI spec for the loaded driver"]),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "steps"), STEPS, ids=[steps[0][:40] + str(n) for n, (_, steps) in enumerate(STEPS)])
def test_one_thing_out_of_place_is_what_is_done(
    monkeypatch: pytest.MonkeyPatch, facts: NodeFacts, steps: list[str]
) -> None:
    recorder, _ = deploy(monkeypatch, facts)
    assert recorder.names == [*steps, "Stamp the host with its baseline"]


def test_a_stale_spec_made_by_hand_is_moved_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = healthy()
    stale = CdiSpec("/etc/cdi/nvidia.yaml", ("575.57.08",), ("0", "1", "2", "3", "all"))
    facts = replace(facts, runtime=replace(facts.runtime, cdi_specs=(*facts.runtime.cdi_specs, stale)))  # type: ignore[misc]
    recorder, _ = deploy(monkeypatch, facts)
    assert "mv -f '/etc/cdi/nvidia.yaml'" in dict(recorder.steps)["CDI spec for the loaded driver"]


def test_a_daemon_with_an_older_node_list_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = healthy()
    domain = ImexDomain("DEGRADED", (), ("0 -> 1: Node map mismatch",))
    recorder, _ = deploy(monkeypatch, replace(facts, nvlink=replace(facts.nvlink, imex_domain=domain)))
    assert recorder.names[0] == "Start nvidia-imex"


# --- consent ---


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (driver(OLD, holders=("python3 (4711)",)), "its GPUs are in use by python3 (4711)"),
        (driver(OLD, holders=Missing("it needs root")), "cannot tell whether its GPUs are in use (it needs root)"),
        (driver(healthy(), flavour="proprietary", holders=("vllm (1)",)), "its GPUs are in use by vllm (1)"),
    ],
)
def test_whoever_uses_the_gpus_is_not_disrupted(monkeypatch: pytest.MonkeyPatch, facts: NodeFacts, says: str) -> None:
    recorder, node = deploy(monkeypatch, facts)
    assert node.stopped and recorder.names[-1].startswith("Stop: ") and says in recorder.names[-1]
    assert not [name for name in recorder.names if name.startswith(("Pin and install", "Reboot", "Stamp"))]


def test_with_consent_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = driver(OLD, holders=("python3 (4711)",))
    recorder, node = deploy(monkeypatch, facts, disrupt={"gpu_processes": True})
    assert not node.stopped and "Pin and install driver 580.126.20" in recorder.names


def test_without_consent_a_reboot_is_reported_and_nothing_after_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = deploy(monkeypatch, OLD, reboot={"allow": False})
    assert node.stopped and recorder.names == ["Pin and install driver 580.126.20", recorder.names[-1]]
    assert "needs a reboot (driver 580.95.05 is loaded, 580.126.20 is wanted)" in recorder.names[-1]
