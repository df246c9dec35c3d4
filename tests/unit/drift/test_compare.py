"""What is drift and what is not, class by class; each case has its counterpart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drift_builders import changes, drifted, fixtures, with_rdma

from rackproof.drift.attribution import attributed
from rackproof.drift.classes import classes
from rackproof.drift.compare import Kind
from rackproof.drift.findings import findings
from rackproof.drift.place import ABSENT, put
from rackproof.facts import ImageFacts, KernelLogFacts, Missing, NodeFacts, Xid
from rackproof.facts_network import Interface, NetworkFacts
from rackproof.facts_system import NvlinkErrors

NODE: NodeFacts = fixtures.node()
BASELINE = fixtures.baseline("gb300")
GPU = fixtures.PCI["gb300"][1]


def one(before: NodeFacts, after: NodeFacts, **how: Any) -> Any:
    found = drifted(before, after, **how)
    assert len(found) == 1, [finding.subject for finding in found]
    return found[0]


def test_the_same_node_has_not_drifted() -> None:
    assert changes(NODE, fixtures.node()) == ()


def test_a_reboot_and_new_kernel_log_lines_are_not_drift() -> None:
    log = KernelLogFacts(9000, "dmesg", (Xid(43, GPU, "Xid 43"),))
    assert changes(NODE, replace(fixtures.host(NODE, boot_id="another"), kernel_log=log), rebooted=True) == ()


def test_a_swapped_gpu_is_one_finding() -> None:
    after = fixtures.gpu(NODE, 1, uuid="GPU-new", serial="1999", vbios="97.10.4A.00.06", ecc_uncorrectable_aggregate=3)
    found = one(NODE, after)
    assert (found.subject, found.kind, found.fact_class.value) == (f"GPU {GPU}", "replaced", "identity")
    assert {change.what: (change.before, change.after) for change in found.changes} == {
        "uuid": ("GPU-tray01-1", "GPU-new"), "serial": ("161", "1999"), "vbios": ("97.10.4A.00.05", "97.10.4A.00.06"),
    }  # fmt: skip


def test_a_gpu_that_is_gone_is_found_by_its_place() -> None:
    after = fixtures.smi(NODE, gpus=NODE.smi.gpus[:1] + NODE.smi.gpus[2:])  # type: ignore[union-attr]
    found = one(NODE, after)
    assert (found.subject, found.kind) == (f"GPU {GPU}", "removed")


def test_gpus_listed_in_another_order_are_the_same_gpus() -> None:
    again = tuple(replace(gpu, index=3 - gpu.index) for gpu in reversed(NODE.smi.gpus))  # type: ignore[union-attr]
    assert changes(NODE, fixtures.smi(NODE, gpus=again)) == ()


def test_a_driver_moved_by_an_upgrade_is_drift_and_its_packages_are_one_finding() -> None:
    moved = dict.fromkeys(("nvidia-utils-580", "libnvidia-compute-580"), "580.178.04-1")
    after = fixtures.driver(fixtures.host(NODE, packages={**NODE.host.packages, **moved}), library_version="580.178.04")
    found = drifted(NODE, after, baseline=BASELINE)
    assert [finding.subject for finding in found] == ["driver.library_version", "host.packages"]
    assert {change.what for change in found[1].changes} == set(moved)


def test_a_change_to_what_the_baseline_asks_is_explained() -> None:
    old = fixtures.driver(NODE, loaded_version="580.95.05", library_version="580.95.05")
    old = fixtures.host(old, packages={**old.host.packages, "nvidia-utils-580": "580.95.05-1"})
    seen = changes(old, NODE, baseline=BASELINE)
    assert {change.kind for change in seen} == {Kind.EXPLAINED} and len(seen) == 3
    assert drifted(old, NODE) and not drifted(old, NODE, baseline=BASELINE)


def test_health_for_the_worse_is_drift_and_for_the_better_is_not() -> None:
    sick = fixtures.gpu(NODE, 1, fabric_state="In Progress", memory_bytes=1)
    assert {change.what for change in one(NODE, sick).changes} == {"fabric_state", "memory_bytes"}
    better = changes(sick, NODE)
    assert [change.kind for change in better] == [Kind.BETTER] * 2 and not drifted(sick, NODE)


def test_links_at_half_their_rate_are_one_finding() -> None:
    ports = tuple(replace(p, rate_gb_per_s=26.562) if p.gpu == 1 else p for p in NODE.nvlink.ports)  # type: ignore[union-attr]
    found = one(NODE, fixtures.nvlink(NODE, ports=ports))
    assert found.subject == "NVLink 0 of GPU 1" and found.more == 17 and found.fact_class.value == "health"
    assert (found.changes[0].before, found.changes[0].after) == ("53.125", "26.562")


def test_a_cable_fallen_to_half_rate_and_a_port_that_went_down() -> None:
    whole = with_rdma(NODE)
    found = one(whole, with_rdma(NODE, rate=200 * 10**9))
    assert found.subject == "HCA mlx5_0" and found.changes[0].what == "port 1 rate_bits_per_s"
    assert (found.changes[0].before, found.changes[0].after) == ("400000000000", "200000000000")
    assert one(whole, with_rdma(NODE, state="DOWN")).fact_class.value == "health"
    assert one(whole, with_rdma(NODE, guid="b" * 16)).kind == "replaced"


@pytest.mark.parametrize(
    ("before", "after", "rebooted", "drift"),
    [(0, 4, False, True), (7, 7, False, False), (7, 2, False, True), (7, 0, False, False), (0, 0, True, False),
     (5, 6, True, True)],
)  # fmt: skip
def test_a_counter_grows_and_starts_again_and_never_shrinks(
    before: int, after: int, rebooted: bool, drift: bool
) -> None:
    old = fixtures.gpu(NODE, 0, ecc_uncorrectable_volatile=before)
    new = fixtures.gpu(NODE, 0, ecc_uncorrectable_volatile=after)
    assert bool(drifted(old, new, rebooted=rebooted)) is drift


def test_growth_within_the_policy_is_no_drift() -> None:
    def with_errors(count: int) -> NodeFacts:
        return fixtures.nvlink(NODE, errors=(NvlinkErrors(0, 3, {"Link replay errors": count}),))

    assert not drifted(with_errors(10), with_errors(210), days=2)
    found = one(with_errors(10), with_errors(211), days=2)
    assert found.subject == "NVLink 3 of GPU 0" and found.kind == "grew"
    assert not drifted(with_errors(10), with_errors(211), days=2, nvlink_errors={"grow": 1})


def test_the_tag_of_an_image_moved() -> None:
    def tagged(id_: str, digest: str, *more: ImageFacts) -> NodeFacts:
        image = ImageFacts(id_, ("vllm/vllm-openai:v0.28.0",), (f"vllm/vllm-openai@{digest}",), "arm64", "13.0.2", {})
        return fixtures.runtime(NODE, images=(image, *more))

    first, second = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    found = one(tagged("sha256:aaaa", first), tagged("sha256:bbbb", second), baseline=BASELINE)
    assert found.subject == "image vllm/vllm-openai:v0.28.0"
    assert [change.what for change in found.changes] == ["id", "digests"]
    assert found.changes[0].after == "sha256:bbbb" and found.changes[1].before != found.changes[1].after
    other = ImageFacts("sha256:cccc", ("busybox:1",), (), "arm64", Missing("none"), {})
    assert not drifted(tagged("sha256:aaaa", first), tagged("sha256:aaaa", first, other))


def test_what_can_no_longer_be_read_is_drift_of_its_own_kind() -> None:
    gone = replace(NODE, smi=Missing("nvidia-smi did not end within 20 s"))
    found = one(NODE, gone)
    assert found.subject == "smi" and found.unreadable
    assert found.changes[0].after == "cannot be read: nvidia-smi did not end within 20 s"
    back = changes(gone, NODE)
    assert [change.kind for change in back] == [Kind.READABLE] and not drifted(gone, NODE)
    assert changes(gone, replace(gone, smi=Missing("another reason"))) == ()


def test_what_may_change_at_any_time_may_also_be_unreadable() -> None:
    assert changes(NODE, replace(NODE, kernel_log=Missing("no root"))) == ()


def test_interfaces_of_containers_are_passed_over() -> None:
    eth0 = Interface("eth0", up=True, speed_bits_per_s=25 * 10**9)
    before = replace(NODE, network=NetworkFacts((eth0,), ()))
    assert not drifted(before, replace(NODE, network=NetworkFacts((eth0, Interface("veth12ab")), ())))
    assert one(before, replace(NODE, network=NetworkFacts((eth0, Interface("eth1")), ()))).subject == "interface eth1"


def test_a_fact_nobody_classified_is_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {name: rule for name, rule in classes().rules.items() if name != "host.boot_id"}
    monkeypatch.setattr("drift_builders.classes", lambda: replace(classes(), rules=rules))
    assert one(NODE, fixtures.host(NODE, boot_id="another")).kind == "unclassified"


def test_systemd_telling_when_a_command_ran_is_not_another_command() -> None:
    def started(text: str) -> NodeFacts:
        units = {**NODE.host.units, "docker": replace(NODE.host.units["docker"], exec_start=text)}  # type: ignore[arg-type]
        return fixtures.host(NODE, units=units)

    line = (
        "{ path=/usr/sbin/dockerd ; argv[]=/usr/sbin/dockerd -H fd:// ; ignore_errors=no ; start_time=[%s] ; pid=%s }"
    )
    assert changes(started(line % ("Mon", 4)), started(line % ("Tue", 5))) == ()
    assert drifted(started(line % ("Mon", 4)), started(line.replace("fd://", "tcp://") % ("Mon", 4)))


def test_putting_every_change_back_gives_the_first_facts_again() -> None:
    after = fixtures.gpu(fixtures.driver(NODE, library_version="1"), 2, uuid="GPU-x")
    after = fixtures.host(after, packages={"only": "1"})
    after = fixtures.smi(after, gpus=after.smi.gpus[:-1])
    facts = after
    for change in changes(NODE, after):
        facts = put(facts, change.place.steps, change.before, classes())
    assert facts.host.packages == NODE.host.packages and facts.driver == NODE.driver
    assert sorted(facts.smi.gpus, key=lambda gpu: gpu.index) == list(NODE.smi.gpus)  # type: ignore[union-attr]
    assert put(NODE, changes(after, NODE)[0].place.steps, ABSENT, classes()) is not None


def test_a_finding_says_which_gates_fail_because_of_it() -> None:
    after = fixtures.gpu(fixtures.driver(NODE, flavour="proprietary"), 0, vbios="other")
    found = {
        f.subject: f.requirements for f in attributed(findings(changes(NODE, after)), NODE, after, BASELINE, classes())
    }
    assert found["driver.flavour"] and all(name.startswith("gpu_driver.") for name in found["driver.flavour"])
    assert found[f"GPU {fixtures.PCI['gb300'][0]}"] == ()


def test_the_same_finding_has_the_same_fingerprint_and_a_growing_counter_keeps_it() -> None:
    def ecc(count: int) -> str:
        return str(one(NODE, fixtures.gpu(NODE, 0, ecc_uncorrectable_aggregate=count)).fingerprint)

    def uuid(text: str) -> str:
        return str(one(NODE, fixtures.gpu(NODE, 0, uuid=text)).fingerprint)

    assert ecc(1) == ecc(2) and uuid("GPU-a") == uuid("GPU-a") and uuid("GPU-a") != uuid("GPU-b")
