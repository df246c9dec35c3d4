"""Checks of layer container_runtime: the engine, how it is set up, where it keeps its data, what it gives containers."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of, either, of, seen
from rackproof.layers.words import absence, gib, on_off, service, service_words, yes_no
from rackproof.layers.words_storage import (
    CONTAINERD,
    at_least,
    config,
    default_limit,
    engines,
    filesystem_at,
    image_data,
    inherited,
    limit_reading,
    said_twice,
    setting,
)
from rackproof.layers.words_system import limit_words, reaches
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement

UNLIMITED = "infinity"
ROTATING = ("local", "journald", "none")  # log drivers that keep files small by themselves


@check("container_runtime.engine_at_boot")
def engine_at_boot(facts: NodeFacts, baseline: Baseline) -> Judgement:
    name = baseline.runtime.engine
    unit = seen(service(facts, name), lambda found: found.installed and found.enabled == "enabled", service_words)
    return all_of("its service is enabled", {name: unit})


@check("container_runtime.engine_steady")
def engine_steady(facts: NodeFacts, baseline: Baseline) -> Judgement:
    unit = service(facts, baseline.runtime.engine)
    readings = {
        "last result": seen(of(unit, lambda found: found.result), lambda result: result == "success"),
        "restarts": seen(of(unit, lambda found: found.restarts), lambda restarts: restarts == 0),
    }
    return all_of("no restart and no failure since it was started", readings)


@check("container_runtime.containerd")
def containerd(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.runtime.rules.containerd_min
    readings = {
        "service": seen(service(facts, CONTAINERD), lambda unit: unit.installed and unit.running, service_words),
        "version": at_least(of(engines(facts), lambda found: found.containerd), least, CONTAINERD),
    }
    return all_of(f"{CONTAINERD} >= {least}, its service active", readings)


@check("container_runtime.podman")
def podman(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.runtime.rules.podman_min
    found = either(absence(facts, "podman"), at_least(of(engines(facts), lambda found: found.podman), least, "podman"))
    return all_of(f"not installed, or >= {least}", {"podman": found})


@check("container_runtime.cgroup_version")
def cgroup_version(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.runtime.rules.cgroup_version
    return all_of(f"version {wanted}", {"cgroup": seen(facts.runtime.cgroup_version, lambda found: found == wanted)})


@check("container_runtime.daemon_config")
def daemon_config(facts: NodeFacts, baseline: Baseline) -> Judgement:
    unit = service(facts, baseline.runtime.engine)
    twice = of(config(facts), lambda found: of(unit, lambda started: said_twice(found, started.exec_start)))
    words = seen(
        twice,
        lambda found: not found,
        lambda found: f"also on the command line: {', '.join(found)}" if found else "sound",
    )
    return all_of("valid JSON, with no setting that the service's command line gives too", {"daemon.json": words})


@check("container_runtime.privileges")
def privileges(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = seen(
        facts.runtime.security_options,
        lambda options: not {"rootless", "userns"} & set(options),
        lambda options: ", ".join(options) or "no option",
    )
    return all_of("neither rootless nor with remapped users", {"security options": found})


@check("container_runtime.data_space")
def data_space(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.runtime.rules.data_free_bytes
    free = of(filesystem_at(facts, image_data(facts, baseline)), lambda found: found.available_bytes)
    return all_of(f">= {gib(least)} free", {"where images lie": seen(free, lambda found: found >= least, gib)})


@check("container_runtime.data_filesystem")
def data_filesystem(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.runtime.rules.data_filesystems
    kind = of(filesystem_at(facts, image_data(facts, baseline)), lambda found: found.kind)
    return all_of(f"one of: {', '.join(wanted)}", {"where images lie": seen(kind, lambda found: found in wanted)})


@check("container_runtime.storage_driver")
def storage_driver(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.runtime.rules.storage_drivers
    driver = seen(facts.runtime.storage_driver, lambda found: found in wanted)
    return all_of(f"one of: {', '.join(wanted)}", {"storage driver": driver})


@check("container_runtime.memlock")
def memlock(facts: NodeFacts, baseline: Baseline) -> Judgement:
    """What the daemons have now, and what their units give them at the next start."""
    engine = baseline.runtime.engine
    default = limit_reading(default_limit(facts, "memlock", "Hard"), lambda _: False)
    now = inherited(facts, engine, "memlock")
    found = {name: seen(limit, lambda found: reaches(found, None), limit_words) for name, limit in now.items()}
    for name in (engine, *({CONTAINERD} & set(now))):
        then = of(service(facts, name), lambda unit: unit.memlock)
        found[f"{name}.service"] = seen(then, lambda limit: limit == UNLIMITED)
    wanted = "unlimited, of the daemons and in their units, or by default-ulimits"
    return all_of(wanted, {name: either(default, limit) for name, limit in found.items()})


@check("container_runtime.open_files")
def open_files(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.runtime.rules.open_files_min
    default = limit_reading(default_limit(facts, "nofile", "Soft"), lambda found: found >= least)
    found = {
        name: either(default, seen(limit, lambda found: reaches(found, least), limit_words))
        for name, limit in inherited(facts, baseline.runtime.engine, "open_files").items()
    }
    return all_of(f">= {least}, of the daemons or by default-ulimits", found)


@check("container_runtime.live_restore")
def live_restore(facts: NodeFacts, baseline: Baseline) -> Judgement:
    kept = of(config(facts), lambda found: setting(found, "live-restore") is True)
    return all_of("live-restore is on", {"live-restore": seen(kept, bool, on_off)})


@check("container_runtime.log_size")
def log_size(facts: NodeFacts, baseline: Baseline) -> Judgement:
    limited = of(
        config(facts),
        lambda found: setting(found, "log-driver") in ROTATING or bool(setting(found, "log-opts", "max-size")),
    )
    found = seen(limited, bool, yes_no)
    if baseline.runtime.engine == "podman":
        found = seen(facts.runtime.log_driver, lambda driver: driver in ROTATING)
    return all_of("max-size, or a log driver that rotates", {"container logs are limited": found})
