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
from rackproof.facts import CdiSpec, ManagedFile, NodeFacts
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, AmdGpu
from rackproof.managed import (
    AMD_KEYRING,
    AMD_PREFERENCES,
    AMD_SOURCE,
    AMD_TOOLKIT,
    MODPROBE,
    PERSISTENCED,
    UPGRADES,
    managed_files,
)

RELEASE, PACKAGE, MODULE = "30.30.3", "1:6.16.13.30300300-2327507.24.04", "6.16.13"
FIRMWARE = "1:30.30.3.0.30300300-2327507.24.04"  # it names the release, and no module
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


HEALTHY = {"amdgpu_dkms": PACKAGE, "amdgpu_dkms_firmware": FIRMWARE}


def test_what_is_kept_on_such_a_host() -> None:
    files = {file.path: file.content for file in managed_files(resolve(chosen()))}
    assert set(files) == {UPGRADES, AMD_SOURCE, AMD_PREFERENCES} and not {MODPROBE, PERSISTENCED} & set(files)
    assert (
        f"URIs: {PACKAGES['repository']}\nSuites: noble\nSigned-By: {AMD_KEYRING}\nComponents: main\n"
        in files[AMD_SOURCE]
    )
    assert "Package: amdgpu-dkms amdgpu-dkms-firmware\nPin: version *.30300300-*\n" in files[AMD_PREFERENCES]
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
    assert lines == [
        "refresh", "headers", "extra_modules", "want 6.16.13.30300300 amdgpu-dkms", "also amdgpu-dkms-firmware", "go",
    ]  # fmt: skip


@pytest.mark.parametrize("firmware", ["", "1:31.40.0.0.31400000-2364437.24.04", "1:130300300-1"])
def test_firmware_of_another_release_is_replaced(monkeypatch: pytest.MonkeyPatch, firmware: str) -> None:
    recorder, _ = run(monkeypatch, node(**{**HEALTHY, "amdgpu_dkms_firmware": firmware}), chosen())
    assert "Pin and install amdgpu 30.30.3" in recorder.names


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


def test_a_blacklist_is_said_before_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_out = replace(node(), amd=replace(amd(loaded=False), blacklisted=True))
    recorder, found = run(monkeypatch, kept_out, chosen())
    assert "has amdgpu blacklisted" in found.stopped and not any("amdgpu 30.30.3" in name for name in recorder.names)
    late = replace(node(**HEALTHY), amd=replace(amd(), blacklisted=True))  # a unit loaded it
    assert run(monkeypatch, late, chosen())[0].names == []
    unread = replace(node(**HEALTHY), amd=replace(amd(loaded=False), blacklisted=ABSENT))
    assert run(monkeypatch, unread, chosen())[0].names == ["Reboot, 2 at a time"]


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


def test_debian_gets_what_is_made_for_ubuntu() -> None:
    for platform, suite in {"debian12": "jammy", "debian13": "noble"}.items():
        files = {file.path: file.content for file in managed_files(resolve(chosen(packages={"platform": platform})))}
        assert f"Suites: {suite}\n" in files[AMD_SOURCE]


def test_users_whom_the_site_names(monkeypatch: pytest.MonkeyPatch) -> None:
    named = chosen(gpus={"users": ["alice", "bob"]})
    facts = replace(node(**HEALTHY), amd=amd(members={"render": ("alice",), "video": ("alice", "root")}))
    recorder, _ = run(monkeypatch, facts, named)
    assert recorder.names == ["Into the groups render and video: bob"]
    script = dict(recorder.steps)[recorder.names[0]]
    assert "for user in bob; do" in script and "for group in render video; do gpasswd -a" in script
    inside = replace(facts, amd=amd(members={"render": ("alice", "bob"), "video": ("bob", "alice")}))
    assert run(monkeypatch, inside, named)[0].names == [] and run(monkeypatch, facts, chosen())[0].names == []
    unread = replace(facts, amd=amd(members=ABSENT))
    assert run(monkeypatch, unread, named)[0].names == ["Into the groups render and video: alice, bob"]


# --- AMD's container toolkit ---

NODES = ("/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd")
CONFIG = {"features": {"cdi": True}, "runtimes": {"amd": {}}}
STEPS = ["Install AMD Container Toolkit 1.3.0", "Container engine knows the AMD runtime and CDI",
         "CDI spec for the devices of this boot"]  # fmt: skip


def asking() -> site.Site:
    return chosen(container={"amd_toolkit": {"version": "1.3.0"}})


def equipped(version: str = "1.3.0~24.04", nodes: tuple[str, ...] = NODES, config: Any = CONFIG) -> NodeFacts:
    """A node with the toolkit, as a deploy leaves it."""
    facts = node(**HEALTHY, amd_container_toolkit=version)
    files = {file.path: ManagedFile(file.path, file.sha256) for file in managed_files(resolve(asking()))}
    specs = (CdiSpec("/etc/cdi/amd.json", (), ("0", "1", "all"), nodes),)
    return replace(
        facts,
        host=replace(facts.host, files={**facts.host.files, **files}),  # type: ignore[dict-item]
        runtime=replace(facts.runtime, daemon_config=config, amd_cdi_specs=specs),
        amd=amd(render_nodes=("renderD128", "renderD129")),
    )


def test_the_toolkit_is_nobody_s_unless_the_site_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AMD_TOOLKIT not in {file.path for file in managed_files(resolve(chosen()))}
    text = {file.path: file.content for file in managed_files(resolve(asking()))}[AMD_TOOLKIT]
    assert "URIs: https://repo.radeon.com/amd-container-toolkit/apt/\nSuites: noble\n" in text
    mirror = chosen(container={"amd_toolkit": {"version": "1.3.0", "repository": "https://mirror.example/ctk/"}})
    assert "https://mirror.example/ctk/" in {f.path: f.content for f in managed_files(resolve(mirror))}[AMD_TOOLKIT]


def test_the_toolkit_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, _ = run(monkeypatch, node(**HEALTHY), asking())
    assert recorder.names == ["AMD container toolkit repository", *STEPS]
    assert dict(recorder.steps)[STEPS[0]].split() == ["refresh", "want", "1.3.0", "amd-container-toolkit", "go"]
    assert run(monkeypatch, equipped(), asking())[0].names == []


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"version": "1.2.0~24.04"}, STEPS),
        ({"version": "1.3.0"}, []),
        ({"config": {"runtimes": {"amd": {}}}}, STEPS[1:2]),
        ({"config": None}, STEPS[1:2]),
        ({"nodes": NODES[1:]}, STEPS[2:]),
        ({"nodes": (*NODES, "/dev/dri/renderD130")}, STEPS[2:]),
    ],
)
def test_what_of_the_toolkit_is_done_again(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], steps: list[str]
) -> None:
    assert run(monkeypatch, equipped(**changes), asking())[0].names == steps


def test_a_reboot_makes_the_spec_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = equipped()
    rebooting = replace(facts, amd=amd(render_nodes=("renderD128", "renderD129"), loaded_version="6.14.14"))
    assert run(monkeypatch, rebooting, asking())[0].names == ["Reboot, 2 at a time", STEPS[2]]


def test_secure_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Secure Boot" in run(monkeypatch, secure(node(**HEALTHY), True), chosen())[1].stopped


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"driver": {"version": "30.30.9"}}, "driver.version is 30.30.9\n  accepted: a release of amdgpu: 30.10.2"),
        (
            {"packages": {"platform": "rhel9"}},
            "AMD's packages for rhel9 are not known\n  accepted: ubuntu2204, ubuntu2404, debian12, debian13",
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
