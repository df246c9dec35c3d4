"""What layers decide on other platforms than the one most tests play: dnf hosts, Ubuntu's archive, Secure Boot, mixed
origins, RDMA between nodes, kernel settings. Facts are recorded ones of healthy nodes, changed in one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_layers import CONSENT, Recorder, driver, files, fixtures, healthy, packages

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.deploy import node as deploy_node
from rackproof.deploy.node import Node, _other_platform
from rackproof.deploy.onhost import Run
from rackproof.facts import ManagedFile, Missing, NodeFacts
from rackproof.facts_rdma import RdmaFacts
from rackproof.facts_state import DaemonLimits
from rackproof.facts_system import GpuDirectFacts, KernelState, Limit, SystemFacts, TimeFacts
from rackproof.layers.container_runtime import deploy as container_runtime
from rackproof.layers.gpu_driver import deploy as gpu_driver
from rackproof.layers.host import deploy as host_layer
from rackproof.layers.nvlink import deploy as nvlink_layer
from rackproof.layers.rdma import deploy as rdma
from rackproof.managed import (
    CONTAINERD_LIMITS,
    ENGINE_LIMITS,
    FABRIC_MODULES,
    PEERMEM,
    RDMA_KEY,
    RPM_KEY,
    managed_files,
)
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Status

URL = "https://developer.download.nvidia.com/compute/cuda/repos"
ABSENT: Any = Missing("not in this test")
VALUES: dict[str, Any] = {
    "hardware": "b300", "driver": {"version": fixtures.DRIVER}, "container": {"toolkit_version": "1.19.1"},
    "packages": fixtures.PACKAGES, **CONSENT,
}  # fmt: skip


def chosen(**over: Any) -> site.Site:
    values = {**VALUES, **over}
    for key in ("packages", "driver"):
        values[key] = {**VALUES[key], **over.get(key, {})}
    return site.shipped().overlaid(values, "test")


def rhel(**over: Any) -> site.Site:
    return chosen(packages={"repository": f"{URL}/rhel9/x86_64/", **over.pop("packages", {})}, **over)


def run(monkeypatch: pytest.MonkeyPatch, facts: NodeFacts, of: site.Site) -> tuple[Recorder, Node]:
    recorder = Recorder()
    monkeypatch.setattr(deploy_node, "operations", recorder)
    monkeypatch.setattr(deploy_node, "rebooting", recorder)
    monkeypatch.setattr(deploy_node, "current_host", type("Host", (), {"print_prefix": ""}))
    node = Node("n1", of, resolve(of), facts, Run("run", "me@here", 1, ""))
    host_layer.bring_about(node)
    rdma.before_driver(node)
    gpu_driver.bring_about(node)
    nvlink_layer.bring_about(node)
    container_runtime.bring_about(node)
    rdma.bring_about(node)
    return recorder, node


def of_baseline(facts: NodeFacts, wanted: Baseline, **versions: str) -> NodeFacts:
    """The node as it is when this baseline has been brought about, as far as files and packages go."""
    assert wanted.packages is not None
    names = wanted.packages.names
    there = dict.fromkeys((*names.driver, *names.fabric), f"3:{fixtures.DRIVER}-1.el9")
    there |= dict.fromkeys(names.fabric_unversioned, "1-1") | dict.fromkeys(names.toolkit, "1.19.1-1")
    rendered = {file.path: ManagedFile(file.path, file.sha256) for file in managed_files(wanted)}
    rendered |= {key: ManagedFile(key, "f" * 64) for key in (RPM_KEY, RDMA_KEY)}
    host = replace(facts.host, packages={**there, "gnupg2": "2.3.3-4.el9", **versions}, files=rendered)
    return replace(facts, host=host)


def locks(version: str = fixtures.DRIVER) -> SystemFacts:
    names = resolve(rhel()).packages.names  # type: ignore[union-attr]
    return SystemFacts(versionlocks=tuple(f"{name}-3:{version}-1.el9.*" for name in (*names.driver, *names.fabric)))


def on_rhel(system: SystemFacts | None = None) -> NodeFacts:
    return replace(of_baseline(healthy("b300"), resolve(rhel())), system=system or locks())


# --- dnf ---


def test_a_dnf_host_in_place_gets_no_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = run(monkeypatch, on_rhel(), rhel())
    assert recorder.names == [] and not node.stopped and node.manager == "dnf"


def test_a_bare_dnf_host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = on_rhel(SystemFacts(versionlocks=()))
    bare = replace(facts, host=replace(facts.host, packages={"gnupg2": "1"}, files={}))
    recorder, node = run(monkeypatch, driver(bare, loaded_version=None), rhel())
    assert recorder.names[:3] == [
        f"NVIDIA repository key, checked by fingerprint {'A' * 8}", "NVIDIA repository", "Pin and install driver 580.126.20",
    ]  # fmt: skip
    assert not any("automatic upgrades" in name for name in recorder.names), "apt's settings are no file of a dnf host"
    key, script = (dict(recorder.steps)[name] for name in (recorder.names[0], recorder.names[2]))
    assert "curl -fsSL" in key and "apt" not in key.replace("captured", "")
    lines = script.splitlines()
    order = [lines.index(word) for word in ("refresh", "stream nvidia-driver:580-open")]
    order.append(next(n for n, line in enumerate(lines) if line.startswith("pin 580.126.20 - kmod-nvidia-open-dkms ")))
    order += [
        lines.index(word)
        for word in ("headers", "want 580.126.20 nvidia-fabricmanager", "also nvlsm infiniband-diags", "go")
    ]
    assert order == sorted(order) and not node.stopped


@pytest.mark.parametrize("system", [SystemFacts(versionlocks=()), locks("580.95.05"), SystemFacts()])
def test_a_driver_without_its_lock_is_locked(monkeypatch: pytest.MonkeyPatch, system: SystemFacts) -> None:
    recorder, _ = run(monkeypatch, on_rhel(system), rhel())
    assert recorder.names[0] == "Pin and install driver 580.126.20"


@pytest.mark.parametrize("disk", ["580.95.05", Missing("modinfo nvidia gives no version: Module nvidia not found")])
def test_a_module_that_no_script_has_built_is_built_again(monkeypatch: pytest.MonkeyPatch, disk: Any) -> None:
    """rpm calls a package installed before its script has run: that of an interrupted transaction never did."""
    recorder, _ = run(monkeypatch, driver(on_rhel(), disk_version=disk), rhel())
    assert recorder.names[0] == "Pin and install driver 580.126.20"
    lines = dict(recorder.steps)[recorder.names[0]].splitlines()
    assert lines.index("go") < next(n for n, line in enumerate(lines) if line.startswith("rebuilt 580.126.20 kmod-nvidia-open-dkms "))


def test_release_ten_has_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    values = rhel(packages={"repository": f"{URL}/rhel10/x86_64/"})
    recorder, _ = run(monkeypatch, on_rhel(SystemFacts(versionlocks=())), values)
    assert "stream" not in dict(recorder.steps)["Pin and install driver 580.126.20"]


def test_dnf_automatic_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = on_rhel()
    assert not isinstance(facts.host.units, Missing)
    timer = replace(facts.host.units["docker"], name="dnf-automatic.timer")
    facts = replace(facts, host=replace(facts.host, units={**facts.host.units, "dnf-automatic.timer": timer}))
    recorder, _ = run(monkeypatch, facts, rhel())
    assert recorder.names == ["Switch dnf-automatic off"]


@pytest.mark.parametrize(
    ("os_id", "release", "says"),
    [("rocky", "9.6", ""), ("rhel", "9.4", ""), ("rocky", "10.0", "runs rocky 10.0"), ("ubuntu", "24.04", "runs ubuntu 24.04"),
     (ABSENT, "9", "cannot be told")],
)  # fmt: skip
def test_packages_of_another_release_are_refused(os_id: Any, release: str, says: str) -> None:
    facts = on_rhel()
    why = _other_platform(resolve(rhel()), replace(facts, host=replace(facts.host, os_id=os_id, os_version=release)))
    assert (says in why) if says else not why


# --- origins and Secure Boot ---

MIXED = packages(healthy("b300"), nvidia_fabricmanager_580="580.126.20-0ubuntu0.24.04.1")


def test_mixed_origins_are_refused_with_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = run(monkeypatch, MIXED, chosen())
    assert "nvidia-fabricmanager-580 (of ubuntu)" in node.stopped and "packages.replace_origin" in node.stopped
    assert [name for name in recorder.names if not name.startswith("Stop")] == []


def test_with_consent_they_go_in_the_same_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, node = run(monkeypatch, MIXED, chosen(packages={"replace_origin": True}))
    assert not node.stopped
    assert "drop nvidia-fabricmanager-580" in dict(recorder.steps)["Pin and install driver 580.126.20"].splitlines()


def secure(facts: NodeFacts, on: Any) -> NodeFacts:
    state = KernelState(**{**dict.fromkeys(KernelState.__dataclass_fields__, ABSENT), "secure_boot": on})
    assert not isinstance(facts.system, Missing)
    return replace(facts, system=replace(facts.system, kernel=state))


def test_secure_boot_refuses_what_nobody_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, node = run(monkeypatch, secure(healthy("b300"), True), chosen())
    assert "Secure Boot" in node.stopped and "mokutil --import" in node.stopped


@pytest.mark.parametrize(("on", "enrolled"), [(False, False), (True, True), (ABSENT, False)])
def test_secure_boot_off_or_enrolled_goes_on(monkeypatch: pytest.MonkeyPatch, on: Any, enrolled: bool) -> None:
    recorder, node = run(monkeypatch, secure(healthy("b300"), on), chosen(driver={"module_key_enrolled": enrolled}))
    assert recorder.names == [] and not node.stopped


def archive() -> site.Site:
    over = {"origin": "ubuntu", "repository": f"{URL}/ubuntu2404/x86_64/"}
    return chosen(hardware="h200", layout="h200-tp8pp2", allow_derived=True, packages=over)


def test_canonicals_signed_modules_under_secure_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = resolve(archive())
    assert wanted.packages is not None
    ours = dict.fromkeys((*wanted.packages.names.driver, *wanted.packages.names.fabric), "580.126.20-0ubuntu0.24.04.1")
    module = {f"{wanted.packages.names.kernel}-6.8.0-1028-nvidia-64k": "6.8.0-1028.30"}
    facts = of_baseline(healthy("b300"), wanted, gpg="2")
    assert not isinstance(facts.host.packages, Missing)
    there = {**facts.host.packages, **ours, **module}
    signed = secure(replace(facts, host=replace(facts.host, packages=there)), True)
    recorder, node = run(monkeypatch, signed, archive())
    assert not node.stopped and not any("driver" in name for name in recorder.names)
    without = replace(signed, host=replace(signed.host, packages={**facts.host.packages, **ours}))
    recorder, node = run(monkeypatch, without, archive())
    script = dict(recorder.steps)["Pin and install driver 580.126.20"]
    assert "signed_modules linux-modules-nvidia-580-server-open" in script and "\nheaders\n" not in script


# --- HGX ---


def test_hopper_needs_no_modules_for_its_fabric_and_blackwell_two() -> None:
    b300, h200 = resolve(chosen()), resolve(chosen(hardware="h200", layout="h200-tp8pp2", allow_derived=True))
    assert FABRIC_MODULES in {file.path for file in managed_files(b300)}
    assert FABRIC_MODULES not in {file.path for file in managed_files(h200)}


def test_modules_of_the_fabric_are_loaded_before_its_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, _ = run(monkeypatch, files(healthy("b300"), FABRIC_MODULES), chosen())
    assert recorder.names == ["Kernel modules of the NVLink fabric, at every boot"]
    script = recorder.steps[-1][1]
    assert script.index("modprobe mlx5_ib") < script.index("modprobe ib_umad")


def test_a_missing_subnet_manager_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = healthy("b300")
    assert not isinstance(facts.host.packages, Missing)
    there = {name: version for name, version in facts.host.packages.items() if name != "nvlsm"}
    recorder, _ = run(monkeypatch, replace(facts, host=replace(facts.host, packages=there)), chosen())
    assert recorder.names == ["Install nvidia-fabricmanager, libnvidia-nscq 580.126.20", "Start nvidia-fabricmanager"]
    assert "also nvlsm infiniband-diags" in dict(recorder.steps)[recorder.names[0]]


# --- RDMA between nodes ---


def over_rdma(**over: Any) -> site.Site:
    return chosen(hardware="b200", layout="b200-tp8pp2", allow_derived=True, **over)


def direct(facts: NodeFacts, symbol: Any, ofed: str | None = None) -> NodeFacts:
    assert not isinstance(facts.system, Missing)
    facts = driver(facts, loaded_modules=frozenset({"nvidia", "mlx5_ib", "ib_umad"}))
    system = replace(facts.system, gpudirect=GpuDirectFacts(ABSENT, symbol, ABSENT, ABSENT))
    return replace(facts, system=system, rdma=RdmaFacts((), "sysfs", (), frozenset(), ofed, ABSENT))


def test_within_one_node_nothing_of_rdma_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, _ = run(monkeypatch, direct(healthy("b300"), True), chosen(rdma={"stack": "inbox"}))
    assert recorder.names == []


def test_peer_memory_at_every_boot_and_lockable_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = over_rdma()
    recorder, _ = run(monkeypatch, direct(of_baseline(healthy("b300"), resolve(wanted)), True), wanted)
    assert [name for name in recorder.names if "peermem" in name or "memory" in name or "docker" in name] == [
        "nvidia_peermem at every boot", "Load nvidia_peermem", "Containers may lock memory",
    ]  # fmt: skip
    assert PEERMEM in dict(recorder.steps)["nvidia_peermem at every boot"]
    assert all(path in dict(recorder.steps)["Containers may lock memory"] for path in (CONTAINERD_LIMITS, ENGINE_LIMITS))


@pytest.mark.parametrize("symbol", [False, ABSENT])
def test_without_the_interface_peer_memory_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, symbol: Any) -> None:
    wanted = over_rdma()
    recorder, node = run(monkeypatch, direct(of_baseline(healthy("b300"), resolve(wanted)), symbol), wanted)
    assert not any("peermem" in name for name in recorder.names) and "nvidia_peermem is left out" in node.notes[0]


def limited(facts: NodeFacts, unit: str, daemon: str) -> NodeFacts:
    """Services whose units give 8 MiB of lockable memory, and processes that run with it."""
    small = "8388608"
    assert not isinstance(facts.host.units, Missing) and not isinstance(facts.system, Missing)
    assert not isinstance(facts.system.state, Missing)
    units = {name: replace(one, memlock=small if name == unit else one.memlock) for name, one in facts.host.units.items()}
    daemons = {
        name: DaemonLimits(1, Limit(8388608, 8388608) if name == daemon else Limit(None, None), Limit(None, None))
        for name in ("containerd", "dockerd")
    }
    state = replace(facts.system.state, daemons=daemons)
    return replace(facts, host=replace(facts.host, units=units), system=replace(facts.system, state=state))


@pytest.mark.parametrize(
    ("unit", "daemon", "restarted"),
    [
        ("docker", "", "docker"), ("containerd", "", "containerd"), ("", "", ""),
        ("", "dockerd", "docker"),  # a deploy ended between the file and the restart
        ("", "containerd", "containerd"), ("docker", "containerd", "containerd and docker"),
    ],
)  # fmt: skip
def test_what_gives_containers_another_limit_is_restarted(
    monkeypatch: pytest.MonkeyPatch, unit: str, daemon: str, restarted: str
) -> None:
    wanted = over_rdma()
    facts = limited(direct(of_baseline(healthy("b300"), resolve(wanted)), False), unit, daemon)
    recorder, _ = run(monkeypatch, facts, wanted)
    steps = ["Containers may lock memory", *([f"Restart {restarted} with the new limit"] if restarted else [])]
    assert [name for name in recorder.names if "memory" in name or "limit" in name] == steps


def test_the_network_stack_comes_before_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = over_rdma(rdma={"stack": "inbox"})
    facts = direct(of_baseline(healthy("b300"), resolve(over_rdma())), False)
    facts = replace(facts, host=replace(facts.host, packages={"gpg": "2"}))
    recorder, _ = run(monkeypatch, facts, wanted)
    names = recorder.names
    assert names.index("Install the network stack (inbox)") < names.index("Pin and install driver 580.126.20")


def test_doca_comes_from_its_own_repository_by_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    doca = {"stack": "doca", "repository": "https://linux.mellanox.com/public/repo/doca/3.2.0/ubuntu24.04/x86_64/",
            "key_url": "https://linux.mellanox.com/public/repo/doca/GPG-KEY-Mellanox.pub", "key_fingerprint": "B" * 40}  # fmt: skip
    wanted = over_rdma(rdma=doca)
    facts = direct(of_baseline(healthy("b300"), resolve(over_rdma())), False)
    recorder, _ = run(monkeypatch, facts, wanted)
    assert recorder.names[-6:-3] == [
        "Key of the network stack's repository", "Repository of the network stack", "Install the network stack (doca)",
    ] or recorder.names[1:4] == [
        "Key of the network stack's repository", "Repository of the network stack", "Install the network stack (doca)",
    ]  # fmt: skip
    assert "B" * 40 in dict(recorder.steps)["Key of the network stack's repository"]
    assert "nvidia_peermem at every boot" in recorder.names, "DOCA's ib_core has the interface"


def test_two_network_stacks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = over_rdma(rdma={"stack": "inbox"})
    _, node = run(
        monkeypatch, direct(of_baseline(healthy("b300"), resolve(wanted)), True, "OFED-internal-25.10"), wanted
    )
    assert "has OFED OFED-internal-25.10 installed" in node.stopped


# --- kernel and clock ---


def test_kernel_arguments_only_where_the_site_asks_and_with_a_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, tuned = healthy("b300"), chosen(kernel={"tune": True})
    facts = replace(facts, host=replace(facts.host, cmdline=("ro", "quiet")))
    assert run(monkeypatch, facts, chosen())[0].names == []
    recorder, _ = run(monkeypatch, facts, tuned)
    assert recorder.names[:2] == ["Kernel command line: iommu=pt", "Reboot, 2 at a time"]
    assert dict(recorder.steps)["Kernel command line: iommu=pt"] == "kernel_arguments iommu=pt"
    done = replace(facts, host=replace(facts.host, cmdline=("ro", "iommu=pt")))
    assert run(monkeypatch, done, tuned)[0].names == []
    _, node = run(monkeypatch, facts, chosen(kernel={"tune": True}, reboot={"allow": False}))
    assert "the kernel was not started with iommu=pt" in node.stopped


def test_grace_and_amd_arguments() -> None:
    grace = resolve(site.shipped().overlaid({**VALUES, "hardware": "gb300", "kernel": {"tune": True}}, "test"))
    assert grace.kernel.arguments == ("init_on_alloc=0", "iommu.passthrough=1")
    assert grace.kernel.sysctl == (("kernel.numa_balancing", "0"),)
    release = {"driver": {"version": "30.30.3"}, "allow_derived": True}
    amd = resolve(site.shipped().overlaid({**release, "hardware": "mi355x", "kernel": {"tune": True}}, "test"))
    assert amd.kernel.arguments == ("pci=realloc=off,bfsort", "iommu=pt")
    assert "kernel.numa_balancing = 0\n" in next(f.content for f in managed_files(grace) if "sysctl" in f.path)


@pytest.mark.parametrize("hardware", ["gb300", "b300", "mi355x"])
def test_what_tuning_sets_is_what_the_host_s_requirements_ask(hardware: str) -> None:
    """A node that was started with it, and has its settings, passes; without it, it does not."""
    values = {"hardware": hardware, "kernel": {"tune": True}, "allow_derived": True}
    wanted = resolve(site.shipped().overlaid(values, "test"))
    given = of_tuned(healthy("b300"), wanted.kernel.arguments, dict(wanted.kernel.sysctl))
    bare = of_tuned(healthy("b300"), ("ro", "quiet"), {"kernel.numa_balancing": "1"})
    asked = {"host.cmdline_required", "host.iommu", "host.numa_balancing", "gpu_driver.kernel_arguments", "gpu_driver.pci_options"}
    for facts, status in ((given, Status.PASS), (bare, Status.FAIL)):
        found = {one.requirement.id: one.status for one in evaluate_node(facts, wanted) if one.requirement.id in asked}
        assert {name: found[name] for name in found if found[name] is not Status.NOT_APPLICABLE} == {
            name: status for name in found if found[name] is not Status.NOT_APPLICABLE
        }
        assert found["host.iommu"] is status


def of_tuned(facts: NodeFacts, cmdline: tuple[str, ...], sysctl: dict[str, str]) -> NodeFacts:
    assert not isinstance(facts.system, Missing) and not isinstance(facts.system.kernel, Missing)
    kernel = facts.system.kernel
    assert not isinstance(kernel.sysctl, Missing)
    kernel = replace(kernel, sysctl={**kernel.sysctl, **sysctl})
    return replace(facts, system=replace(facts.system, kernel=kernel), host=replace(facts.host, cmdline=("ro", *cmdline)))


@pytest.mark.parametrize(("hardware", "modules"), [("b300", ("mlx5_core", "mlx5_ib", "ib_umad")), ("h200", ()), ("gb300", ())])
def test_the_fabric_s_modules_are_loaded_as_the_requirement_lists_them(hardware: str, modules: tuple[str, ...]) -> None:
    wanted = resolve(site.shipped().overlaid({**VALUES, "hardware": hardware, "allow_derived": True}, "test"))
    assert wanted.nvlink.fabric_modules == modules
    files = [file.content.splitlines()[1:] for file in managed_files(wanted) if file.path == FABRIC_MODULES]
    assert files == ([list(modules)] if modules else [])


def test_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = healthy("b300")
    assert not isinstance(facts.host.units, Missing) and not isinstance(facts.system, Missing)
    off = {
        name: replace(facts.host.units[name], active="inactive", sub="dead") for name in ("chrony", "systemd-timesyncd")
    }
    unset = replace(facts.system, clock=TimeFacts(False, ABSENT, ABSENT, ABSENT))
    facts = replace(facts, system=unset, host=replace(facts.host, units={**facts.host.units, **off}))
    recorder, _ = run(monkeypatch, facts, chosen())
    assert recorder.names == ["Install chrony, so that the clock is set"]
