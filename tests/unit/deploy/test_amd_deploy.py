"""What the deploy decides on hosts with AMD GPUs: one release of amdgpu, its reboot, and partition modes left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_layers import Recorder, healthy
from test_platforms import ABSENT, VALUES, run, secure

from rackproof import resolving, site
from rackproof.baseline import resolve
from rackproof.errors import InputError
from rackproof.facts import ManagedFile, NodeFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, AmdGpu
from rackproof.managed import AMD_KEYRING, AMD_PREFERENCES, AMD_SOURCE, MODPROBE, PERSISTENCED, UPGRADES, managed_files

RELEASE, PACKAGE, MODULE = "30.30.3", "1:6.16.13.30300300-2327507.24.04", "6.16.13"
PACKAGES = {
    "repository": f"https://repo.radeon.com/amdgpu/{RELEASE}/ubuntu/", "platform": "ubuntu2404",
    "key_url": "https://repo.radeon.com/rocm/rocm.gpg.key", "key_fingerprint": "C" * 40,
}  # fmt: skip


@pytest.fixture(autouse=True)
def supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where checks of AMD GPUs are part of the version."""
    monkeypatch.setattr(resolving, "unsupported", lambda *_: None)


def chosen(**over: Any) -> site.Site:
    packages = {**PACKAGES, **over.pop("packages", {})}
    values = {**VALUES, "hardware": "mi355x", "driver": {"version": RELEASE}, "packages": packages, **over}
    return site.shipped().overlaid(values, "test")


def amd(**over: Any) -> AmdFacts:
    fields = {**dict.fromkeys(AmdDriverFacts.__dataclass_fields__, ABSENT), "gpus": (), "loaded": True}
    driver = AmdDriverFacts(
        **{**fields, "loaded_version": MODULE, "loaded_srcversion": "A1", "disk_srcversion": "A1", **over}
    )
    gpus = tuple(AmdGpu(index, compute_partition="SPX", memory_partition="NPS1") for index in range(8))
    return AmdFacts(driver, gpus, ())


def node(**packages: str) -> NodeFacts:
    facts = healthy("b300")
    there = {"gpg": "2", "docker.io": "28", **{name.replace("_", "-"): version for name, version in packages.items()}}
    files = {file.path: ManagedFile(file.path, file.sha256) for file in managed_files(resolve(chosen()))}
    files[AMD_KEYRING] = ManagedFile(AMD_KEYRING, "f" * 64)
    return replace(facts, host=replace(facts.host, packages=there, files=files), amd=amd())


HEALTHY = {"amdgpu_dkms": PACKAGE}


def test_what_is_kept_on_such_a_host() -> None:
    files = {file.path: file.content for file in managed_files(resolve(chosen()))}
    assert set(files) == {UPGRADES, AMD_SOURCE, AMD_PREFERENCES} and not {MODPROBE, PERSISTENCED} & set(files)
    assert (
        f"URIs: {PACKAGES['repository']}\nSuites: noble\nSigned-By: {AMD_KEYRING}\nComponents: main\n"
        in files[AMD_SOURCE]
    )
    assert "Package: amdgpu-dkms amdgpu-dkms-firmware\nPin: version *6.16.13.30300300-*\n" in files[AMD_PREFERENCES]
    assert '"^amdgpu"' in files[UPGRADES]


def test_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, found = run(monkeypatch, node(**HEALTHY), chosen())
    assert recorder.names == [] and not found.stopped and not found.notes


def test_a_bare_host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = node()
    facts = replace(facts, host=replace(facts.host, files={}), amd=amd(loaded_version=None))
    recorder, _ = run(monkeypatch, facts, chosen())
    assert recorder.names == [
        "Keep automatic upgrades off the GPU stack", "AMD repository key, checked by fingerprint CCCCCCCC", "AMD repository",
        "Pin of the driver", "Pin and install amdgpu 30.30.3", "Reboot, 2 at a time",
    ]  # fmt: skip
    lines = dict(recorder.steps)["Pin and install amdgpu 30.30.3"].splitlines()
    assert lines == ["refresh", "headers", "extra_modules", "want 6.16.13.30300300 amdgpu-dkms", "go"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loaded": False}, "module amdgpu none is loaded, 6.16.13 is wanted"),
        ({"loaded_version": None}, "module amdgpu the kernel's own is loaded"),
        ({"loaded_version": "6.14.14"}, "module amdgpu 6.14.14 is loaded"),
        ({"disk_srcversion": "B2"}, "another build of amdgpu"),
    ],
)
def test_reasons_for_a_reboot(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], says: str) -> None:
    facts = replace(node(**HEALTHY), amd=amd(**changes))
    assert run(monkeypatch, facts, chosen())[0].names == ["Reboot, 2 at a time"]
    _, stopped = run(monkeypatch, facts, chosen(reboot={"allow": False}))
    assert "needs a reboot" in stopped.stopped and says in stopped.stopped


def test_another_known_release_is_replaced_and_an_unknown_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    known = run(monkeypatch, node(amdgpu_dkms="1:6.14.14.30100200-2226257.24.04"), chosen())[0]
    assert "Pin and install amdgpu 30.30.3" in known.names
    recorder, found = run(monkeypatch, node(amdgpu_dkms="1:6.9.9.1-2.24.04"), chosen())
    assert "of no release that is known here" in found.stopped
    assert [name for name in recorder.names if not name.startswith("Stop")] == []


def test_who_uses_the_gpus_is_not_disrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = node()
    facts = replace(facts, driver=replace(facts.driver, holders=("vllm (4711)",)))
    recorder, found = run(monkeypatch, facts, chosen())
    assert "in use by vllm (4711)" in found.stopped and not any("amdgpu" in name for name in recorder.names[:-1])


def test_partitions_are_said_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = node(**HEALTHY)
    gpus = tuple(AmdGpu(index, compute_partition="CPX", memory_partition="NPS1") for index in range(8))
    recorder, found = run(monkeypatch, replace(facts, amd=replace(amd(), gpus=gpus)), chosen())
    assert recorder.names == [] and "GPUs are partitioned (CPX)" in found.notes[0]


def test_kernel_arguments_with_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, tuned = node(**HEALTHY), chosen(kernel={"tune": True})
    facts = replace(facts, host=replace(facts.host, cmdline=("ro", "pci=bfsort")))
    recorder, _ = run(monkeypatch, facts, tuned)
    assert (
        "Kernel command line: pci=realloc=off,bfsort iommu=pt" in recorder.names
        and "Reboot, 2 at a time" in recorder.names
    )
    given = replace(facts, host=replace(facts.host, cmdline=("pci=bfsort", "pci=realloc=off", "iommu=pt")))
    assert not any("command line" in name for name in run(monkeypatch, given, tuned)[0].names)


def test_secure_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Secure Boot" in run(monkeypatch, secure(node(**HEALTHY), True), chosen())[1].stopped


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"driver": {"version": "30.30.9"}}, "driver.version is 30.30.9\n  accepted: a release of amdgpu: 30.10.2"),
        (
            {"packages": {"platform": "debian12"}},
            "AMD's packages for debian12 are not known\n  accepted: ubuntu2204, ubuntu2404",
        ),
        (
            {"packages": {"repository": "https://repo.radeon.com/amdgpu/31.40/ubuntu"}},
            "packages.repository serves release 31.40",
        ),
    ],
)
def test_what_a_site_may_ask_for(over: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(chosen(**over))
    assert message in str(caught.value)


def test_recorder_knows_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before a reboot looks for amdgpu, not for a driver of NVIDIA's."""
    seen: list[Any] = []
    monkeypatch.setattr(Recorder, "Terms", lambda self, *terms: seen.append(terms) or terms)
    run(monkeypatch, replace(node(**HEALTHY), amd=amd(loaded=False)), chosen())
    assert seen[0][2] == MODULE and seen[0][4] == "amdgpu"
