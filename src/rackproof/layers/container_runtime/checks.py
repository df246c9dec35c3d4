"""Checks of layer container_runtime."""

from __future__ import annotations

from collections.abc import Mapping

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import Reading, all_of, either, of, seen
from rackproof.layers.words import driver_version, packages, service, service_words, upstream, version
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

CDI_KIND = "nvidia.com/gpu"
TOOLKIT_PACKAGES = ("nvidia-container-toolkit", "libnvidia-container")  # how the names of all of them start


@check("container_runtime.engine")
def engine(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, least = baseline.runtime.engine, version(baseline.runtime.engine_min, "the baseline")
    readings = {
        "engine": seen(facts.runtime.engine, lambda found: found == wanted, lambda found: found or "none installed"),
        "service": seen(service(facts, wanted), lambda unit: unit.installed and unit.running, service_words),
        "version": seen(facts.runtime.engine_version, lambda found: version(found, "the engine") >= least),
    }
    return all_of(f"{wanted} >= {baseline.runtime.engine_min}, its service active", readings)


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
