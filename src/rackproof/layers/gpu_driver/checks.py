"""Checks of layer gpu_driver."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import Fact, NodeFacts, known
from rackproof.layers.readings import Reading, all_of, of, same, seen
from rackproof.layers.words import (
    as_rendered,
    asked,
    driver_version,
    packages,
    some,
    sound_version,
    upstream,
    version,
    yes_no,
)
from rackproof.layers.words_driver import libraries
from rackproof.layers.words_packages import pins
from rackproof.managed import managed_files
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge


@check("gpu_driver.loaded")
def loaded(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(facts.driver.loaded_version)
    if found is None:
        return judge(False, "no NVIDIA kernel module is loaded", "a loaded NVIDIA kernel module")
    return judge(True, sound_version(found, "the loaded kernel module"), "a loaded NVIDIA kernel module")


@check("gpu_driver.nouveau")
def nouveau(facts: NodeFacts, baseline: Baseline) -> Judgement:
    modules = known(some(facts.driver.loaded_modules, "loaded kernel module was listed"))
    return judge("nouveau" not in modules, "loaded" if "nouveau" in modules else "not loaded", "nouveau not loaded")


@check("gpu_driver.nouveau_blacklisted")
def nouveau_blacklisted(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("yes", {"nouveau is blacklisted": seen(facts.driver.nouveau_blacklisted, bool, yes_no)})


@check("gpu_driver.branch")
def branch(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(driver_version(facts))
    wanted = baseline.driver.branch_min
    return judge(version(found, "the loaded kernel module").major >= wanted, found, f"branch R{wanted} or newer")


@check("gpu_driver.hardware_floor")
def hardware_floor(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found, floor = known(driver_version(facts)), asked(baseline.driver.floor)
    ok = version(found, "the loaded kernel module") >= version(floor, "the baseline")
    return judge(ok, found, f">= {floor}, the first driver that knows {baseline.gpus.product}")


@check("gpu_driver.version")
def exact_version(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(driver_version(facts))
    return judge(found == baseline.driver.version, found, f"{baseline.driver.version}, as the site pins it")


@check("gpu_driver.cuda")
def cuda(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = asked(baseline.image.cuda_major)
    found = known(of(facts.smi, lambda smi: smi.cuda_version))
    return judge(version(found, "nvidia-smi").major >= wanted, found, f"CUDA {wanted} or newer")


@check("gpu_driver.libraries")
def driver_libraries(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = libraries(facts, driver_version(facts))
    return all_of("libcuda and libnvidia-ml, not empty, at the version of the loaded driver", readings)


@check("gpu_driver.device_nodes")
def device_nodes(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(some(facts.driver.device_nodes, "device of NVIDIA is in /dev"))
    wanted = (*(f"nvidia{index}" for index in range(baseline.gpus.count)), *baseline.driver.device_nodes)
    lost = [name for name in wanted if name not in found]
    return judge(not lost, f"missing: {', '.join(lost)}" if lost else "all there", f"in /dev: {', '.join(wanted)}")


@check("gpu_driver.module_flavour")
def module_flavour(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(facts.driver.flavour)
    return judge(found == baseline.driver.flavour, f"{found} module", f"{baseline.driver.flavour} module")


@check("gpu_driver.lockstep")
def lockstep(facts: NodeFacts, baseline: Baseline) -> Judgement:
    versions = {"loaded module": driver_version(facts), "user-space library": facts.driver.library_version}
    return same("loaded module and user-space library at one version", versions)


@check("gpu_driver.next_boot")
def next_boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    versions = {"loaded module": driver_version(facts), "module on disk": facts.driver.disk_version}
    return same("the module that the next boot will load is the loaded one", versions)


@check("gpu_driver.packages")
def driver_packages(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names, wanted = asked(baseline.packages).names, baseline.driver.version
    found = known(packages(facts))
    readings: dict[str, Fact[Reading]] = {
        name: Reading(upstream(found.get(name, "")) == wanted, found.get(name, "not installed"))
        for name in (names.installed(found, name) for name in names.driver)
    }
    readings |= pins(facts, asked(baseline.packages), str(wanted))
    broken = seen(facts.host.broken_packages, lambda names: not names, lambda names: ", ".join(names) or "none")
    return all_of(f"each at {wanted}, pinned, none broken", {**readings, "broken packages": broken})


@check("gpu_driver.configuration")
def configuration(facts: NodeFacts, baseline: Baseline) -> Judgement:
    files = [file for file in managed_files(baseline) if file.layer == "gpu_driver"]
    return all_of("every file as the baseline renders it", as_rendered(facts, files))


@check("gpu_driver.parameters")
def parameters(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = known(some(facts.driver.parameters, "module parameter was listed"))
    wanted = baseline.driver.parameters
    if not wanted:
        return judge(True, "no parameter is asked", "no parameter is asked")
    readings = {name: Reading(found.get(name) == value, found.get(name, "not listed")) for name, value in wanted}
    return all_of(", ".join(f"{name}: {value}" for name, value in wanted), dict(readings))
