"""Checks of layer gpu_driver for AMD: the module amdgpu, its devices, and what the kernel is started with."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, of, same, seen
from rackproof.layers.words import asked, some, yes_no
from rackproof.layers.words_driver import amd_at_least, amd_release, dkms, in_groups, unbuilt
from rackproof.layers.words_gpu import amd_driver
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpu_driver.amdgpu")
def amdgpu(facts: NodeFacts, baseline: Baseline) -> Judgement:
    loaded = seen(amd_driver(facts), lambda driver: driver.loaded, lambda driver: yes_no(driver.loaded))
    return all_of("yes", {"amdgpu is loaded": loaded})


@check("gpu_driver.amdgpu_next_boot")
def amdgpu_next_boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    driver = amd_driver(facts)
    builds = {
        "loaded module": of(driver, lambda found: found.loaded_srcversion),
        "module on disk": of(driver, lambda found: found.disk_srcversion),
    }
    return same("the module that the next boot will load is the loaded one", builds)


@check("gpu_driver.amdgpu_packaged")
def amdgpu_packaged(facts: NodeFacts, baseline: Baseline) -> Judgement:
    path = of(amd_driver(facts), lambda driver: driver.disk_path)
    place = seen(path, lambda found: "/updates/" in found or "/extra/" in found)
    return all_of("AMD's packaged module (/updates/ or /extra/), not the kernel's own", {"amdgpu": place})


@check("gpu_driver.amdgpu_dkms")
def amdgpu_dkms(facts: NodeFacts, baseline: Baseline) -> Judgement:
    running, entries = known(facts.host.kernel), known(dkms(facts, "amdgpu"))
    waiting = unbuilt(entries, running)
    observed = "; ".join(waiting) or ("installed" if entries else "DKMS builds no amdgpu here")
    return judge(not waiting, observed, f"installed for {running}, where DKMS builds the module")


@check("gpu_driver.amdgpu_release")
def amdgpu_release(facts: NodeFacts, baseline: Baseline) -> Judgement:
    releases = asked(baseline.amd).releases
    found = of(amd_driver(facts), lambda driver: of(amd_release(driver, releases), lambda release: (driver, release)))
    module = seen(found, lambda one: bool(one[1]), lambda one: f"module {one[0].loaded_version}, release {one[1] or 'unknown'}")
    return all_of(f"the module of a release: {', '.join(release for _, release in releases)}", {"amdgpu": module})


@check("gpu_driver.amdgpu_secure")
def amdgpu_secure(facts: NodeFacts, baseline: Baseline) -> Judgement:
    floor = asked(baseline.amd).secure_module
    return all_of(f"module {floor} or newer", {"amdgpu": of(amd_driver(facts), lambda driver: amd_at_least(driver, floor))})


@check("gpu_driver.kfd")
def kfd(facts: NodeFacts, baseline: Baseline) -> Judgement:
    there = of(amd_driver(facts), lambda driver: driver.kfd_device)
    return all_of("yes", {"/dev/kfd exists": seen(there, bool, yes_no)})


@check("gpu_driver.render_nodes")
def render_nodes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.gpus.count
    found = of(amd_driver(facts), lambda driver: driver.render_nodes)
    enough = seen(found, lambda names: len(set(names)) >= wanted, lambda names: f"{len(set(names))} of {wanted}")
    return all_of(f"{wanted} render nodes in /dev/dri, or more", {"render nodes": enough})


@check("gpu_driver.kfd_access")
def kfd_access(facts: NodeFacts, baseline: Baseline) -> Judgement:
    mode = of(amd_driver(facts), lambda driver: driver.kfd_access)
    open_to = seen(mode, lambda found: found.group == "render" or found.for_all, lambda found: found.words)
    return all_of("group render, or open to everybody", {"/dev/kfd": open_to})


@check("gpu_driver.gpu_users")
def gpu_users(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.amd)
    members = of(amd_driver(facts), lambda driver: driver.members)
    readings = {user: in_groups(user, wanted.device_groups, members) for user in wanted.users}
    return all_of(f"in the groups {' and '.join(wanted.device_groups)}, each", readings)


@check("gpu_driver.kernel_arguments")
def kernel_arguments(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, found = asked(baseline.amd).kernel_arguments, known(some(facts.host.cmdline, "kernel argument was read"))
    readings = {word: Reading(word in found, "set" if word in found else "not set") for word in wanted}
    return all_of(f"on the kernel command line: {' '.join(wanted)}", dict(readings))


@check("gpu_driver.pci_options")
def pci_options(facts: NodeFacts, baseline: Baseline) -> Judgement:
    words = known(some(facts.host.cmdline, "kernel argument was read"))
    found = {option for word in words if word.startswith("pci=") for option in word.removeprefix("pci=").split(",")}
    wanted = asked(baseline.amd).pci_options
    readings = {option: Reading(option in found, "set" if option in found else "not set") for option in wanted}
    return all_of(f"of the kernel argument pci=: {', '.join(wanted)}", dict(readings))
