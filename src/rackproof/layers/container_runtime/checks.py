"""Checks of layer container_runtime."""

from __future__ import annotations

from collections.abc import Mapping

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, either, of, seen
from rackproof.layers.words import driver_version, packages, service, service_words, upstream, version
from rackproof.layers.words_storage import DAEMONS, at_least, by_hand, conflicts, hooks
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

CDI_KIND = "nvidia.com/gpu"
TOOLKIT_PACKAGES = ("nvidia-container-toolkit", "libnvidia-container")  # how the names of all of them start


@check("container_runtime.engine")
def engine(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, least = baseline.runtime.engine, version(baseline.runtime.engine_min, "the baseline")
    running = seen(service(facts, wanted), lambda unit: unit.installed and unit.running, service_words)
    readings = {
        "engine": seen(facts.runtime.engine, lambda found: found == wanted, lambda found: found or "none installed"),
        **({"service": running} if wanted in DAEMONS else {}),  # podman is none
        "version": seen(facts.runtime.engine_version, lambda found: version(found, "the engine") >= least),
    }
    said = ", its service active" if wanted in DAEMONS else ""
    return all_of(f"{wanted} >= {baseline.runtime.engine_min}{said}", readings)


@check("container_runtime.toolkit")
def toolkit(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least, exact = version(baseline.runtime.toolkit_min, "the baseline"), baseline.runtime.toolkit_version
    versions = of(
        packages(facts),
        lambda found: {upstream(found[name]) for name in found if name.startswith(TOOLKIT_PACKAGES)},
    )
    readings = {
        "nvidia-ctk": seen(
            facts.runtime.toolkit_version,
            lambda found: found is not None and version(found, "nvidia-ctk") >= least and found == (exact or found),
            lambda found: found or "not installed",
        ),
        "packages": seen(versions, lambda found: len(found) <= 1, lambda found: " and ".join(sorted(found)) or "none"),
    }
    return all_of(f"{exact or f'>= {least}'}, all its packages at one version", readings)


@check("container_runtime.cdi")
def cdi(facts: NodeFacts, baseline: Baseline) -> Judgement:
    specs = known(facts.runtime.cdi_specs)
    wanted = {str(index) for index in range(baseline.gpus.count)}
    expected = f"specs of {CDI_KIND} for the loaded driver only, with devices {', '.join(sorted(wanted))}"
    if not specs:
        return judge(False, f"no CDI spec of {CDI_KIND}", expected)
    driver = known(driver_version(facts))
    absent = wanted.difference(*(spec.devices for spec in specs))
    readings = {
        spec.path: Reading(spec.driver_versions == (driver,), f"driver {', '.join(spec.driver_versions) or 'unnamed'}")
        for spec in specs
    }
    devices = Reading(not absent, f"no {', '.join(sorted(absent))}" if absent else f"{len(wanted)} GPUs")
    return all_of(expected, {**readings, "devices": devices})


@check("container_runtime.configuration")
def configuration(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = either(
        seen(
            facts.runtime.cdi_devices,
            lambda devices: any(name.startswith(f"{CDI_KIND}=") for name in devices),
            lambda devices: f"{len(devices)} CDI devices discovered",
        ),
        seen(facts.runtime.daemon_config, _cdi_is_on, lambda config: f"features.cdi {_cdi_is_on(config)}".lower()),
    )
    return all_of(f"the engine discovers CDI devices of {CDI_KIND}, or features.cdi is true", {"CDI": found})


def _cdi_is_on(config: Mapping[str, object] | None) -> bool:
    features = (config or {}).get("features")
    return isinstance(features, Mapping) and features.get("cdi") is True


@check("container_runtime.toolkit_escape")
def toolkit_escape(facts: NodeFacts, baseline: Baseline) -> Judgement:
    fixed = baseline.runtime.rules.toolkit_escape_fixed
    least = version(fixed, "the baseline")
    found = seen(
        facts.runtime.toolkit_version,
        lambda found: found is None or version(found, "nvidia-ctk") >= least,
        lambda found: found or "not installed",
    )
    return all_of(f"not installed, or >= {fixed}", {"nvidia-ctk": found})


@check("container_runtime.cdi_conflict")
def cdi_conflict(facts: NodeFacts, baseline: Baseline) -> Judgement:
    specs = known(facts.runtime.cdi_specs)
    twice = conflicts(specs)
    observed = f"given twice: {', '.join(twice)}" if twice else f"{len(specs)} specs without a conflict"
    return judge(not twice, observed, "no two specs of one directory give the same device")


@check("container_runtime.cdi_all")
def cdi_all(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = set(baseline.serving.gpu_devices)
    names = {f"{CDI_KIND}={name}" for spec in known(facts.runtime.cdi_specs) for name in spec.devices}
    absent = sorted(wanted - names)
    return judge(not absent, f"no {', '.join(absent)}" if absent else "there", f"devices {', '.join(sorted(wanted))}")


@check("container_runtime.cdi_by_hand")
def cdi_by_hand(facts: NodeFacts, baseline: Baseline) -> Judgement:
    specs = known(facts.runtime.cdi_specs)
    paths = by_hand(specs)
    observed = ", ".join(paths) or f"{len(specs)} specs, none of them in /etc"
    return judge(not paths, observed, f"no spec of {CDI_KIND} in /etc/cdi")


@check("container_runtime.cdi_refresh")
def cdi_refresh(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")
    readings = {
        name: seen(service(facts, name), lambda unit: unit.installed and unit.enabled == "enabled", service_words)
        for name in names
    }
    return all_of("both enabled", readings)


@check("container_runtime.reload_safe")
def reload_safe(facts: NodeFacts, baseline: Baseline) -> Judgement:
    rules = baseline.runtime.rules
    toolkit = of(facts.runtime.toolkit_version, lambda found: found or "0.0")
    found = either(
        at_least(toolkit, rules.cdi_runtime_from, "nvidia-ctk"),
        seen(
            facts.runtime.cgroup_driver, lambda driver: driver == "cgroupfs", lambda driver: f"cgroup driver {driver}"
        ),
    )
    return all_of(f"toolkit >= {rules.cdi_runtime_from}, or cgroup driver cgroupfs", {"GPU access": found})


@check("container_runtime.nvidia_runtime")
def nvidia_runtime(facts: NodeFacts, baseline: Baseline) -> Judgement:
    listed = seen(facts.runtime.runtimes, lambda found: "nvidia" in found, ", ".join)
    return all_of("nvidia is one of them", {"runtimes": listed})


@check("container_runtime.default_runtime")
def default_runtime(facts: NodeFacts, baseline: Baseline) -> Judgement:
    readings = {"default runtime": seen(facts.runtime.default_runtime, lambda name: "nvidia" not in name)}
    if baseline.runtime.engine == "podman":
        readings["hooks"] = seen(hooks(facts), lambda found: not found, lambda found: ", ".join(found) or "none")
    return all_of("one that adds no GPU by itself", readings)


@check("container_runtime.obsolete_packages")
def obsolete_packages(facts: NodeFacts, baseline: Baseline) -> Judgement:
    old = of(packages(facts), lambda found: sorted(set(baseline.runtime.rules.obsolete_packages) & set(found)))
    return all_of(
        "none of them",
        {"obsolete packages": seen(old, lambda names: not names, lambda names: ", ".join(names) or "none")},
    )


@check("container_runtime.amd_devices")
def amd_devices(facts: NodeFacts, baseline: Baseline) -> Judgement:
    driver, wanted = of(facts.amd, lambda amd: amd.driver), baseline.gpus.count
    nodes = of(driver, lambda found: of(found.render_nodes, len))
    readings = {
        "/dev/kfd": seen(
            of(driver, lambda found: found.kfd_device), bool, lambda there: "there" if there else "not there"
        ),
        "render nodes": seen(nodes, lambda count: count >= wanted),
    }
    return all_of(f"/dev/kfd and {wanted} render nodes in /dev/dri", readings)


@check("container_runtime.amd_runtime")
def amd_runtime(facts: NodeFacts, baseline: Baseline) -> Judgement:
    listed = seen(facts.runtime.runtimes, lambda found: "amd" in found, ", ".join)
    return all_of("amd is one of them", {"runtimes": listed})
