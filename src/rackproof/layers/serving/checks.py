"""Checks of layer serving: the unit that serves, its environment, and what is in its way."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts, known
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import as_rendered, pinned_images, plain_name, yes_no
from rackproof.layers.words_storage import (
    contradictions,
    engines_running,
    environment,
    filesystem_at,
    flag,
    gpu_subset,
    in_container,
    lasts,
    listening,
    memlock_words,
    one_unit,
    option,
    run,
    serving_files,
    units,
    used_share,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement, judge

READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
SHM = "/dev/shm"
UNLIMITED = ("-1", "-1:-1")


@check("serving.unit")
def unit(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = [unit.name for unit in known(units(facts))]
    starts = baseline.serving.start
    expected = f"one serving unit, as rendered, that the next boot {'starts' if starts else 'does not start'}"
    if len(names) != 1:
        return judge(False, f"several: {', '.join(names)}" if names else "no rackproof-*.service", expected)
    enabled = of(one_unit(facts), lambda found: found.enabled)
    started = seen(of(run(facts), lambda found: found.image), bool)
    rendered = as_rendered(facts, serving_files(baseline))
    return all_of(
        expected, {"enabled": seen(enabled, lambda on: on == starts, yes_no), "starts": started, **rendered}
    )


@check("serving.state")
def state(facts: NodeFacts, baseline: Baseline) -> Judgement:
    loaded = of(of(facts.system, lambda system: system.state), lambda found: found.serving_units)
    readings = {found.name: seen(found.active, lambda active: active != "failed") for found in known(loaded)}
    return all_of("no serving unit has failed", readings)


@check("serving.image")
def image(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.image.reference
    started = of(run(facts), lambda found: found.image)
    return all_of(wanted, {"started image": seen(started, lambda name: plain_name(name) == plain_name(wanted))})


@check("serving.weights")
def weights(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = str(baseline.weights.directory)
    words = of(run(facts), lambda found: found.arguments)
    return all_of(f"serves {wanted}", {"arguments": seen(words, lambda found: wanted in found, " ".join)})


@check("serving.environment")
def environment_fits(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = of(environment(facts), lambda env: contradictions(env, baseline))
    words = seen(found, lambda names: not names, lambda names: ", ".join(names) or "no contradiction")
    return all_of(f"nothing that contradicts fabric {baseline.layout.fabric}", {"environment": words})


@check("serving.gpus")
def gpus(facts: NodeFacts, baseline: Baseline) -> Judgement:
    devices = option(facts, "--device", "--gpus")
    hidden = of(environment(facts), lambda env: gpu_subset(env, baseline))
    wanted = baseline.serving.gpu_devices
    readings = {
        "devices": seen(devices, lambda found: set(wanted) <= set(found), lambda found: ", ".join(found) or "none"),
        "environment": seen(hidden, lambda names: not names, lambda names: ", ".join(names) or "hides no GPU"),
    }
    return all_of(f"{', '.join(wanted)}, and no variable that hides one", readings)


@check("serving.ready_timeout")
def ready_timeout(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.serving.ready_timeout_s
    found = seen(
        environment(facts),
        lambda env: lasts(env, READY_TIMEOUT, least),
        lambda env: env.get(READY_TIMEOUT) or "not set",
    )
    return all_of(f">= {least} s for {baseline.weights.storage} storage", {READY_TIMEOUT: found})


@check("serving.network")
def network(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = option(facts, "--network", "--net")
    return all_of(
        "host", {"network": seen(found, lambda names: names == ("host",), lambda names: ", ".join(names) or "bridge")}
    )


@check("serving.memlock")
def memlock(facts: NodeFacts, baseline: Baseline) -> Judgement:
    limits = of(option(facts, "--ulimit"), memlock_words)
    unlimited = seen(
        limits, lambda found: bool(found) and set(found) <= set(UNLIMITED), lambda found: ", ".join(found) or "not set"
    )
    return all_of("unlimited", {"memlock": unlimited})


@check("serving.rdma_devices")
def rdma_devices(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.serving.infiniband
    given = option(facts, "--device", "--volume", "-v")
    verbs = seen(
        given, lambda found: any(one.startswith(wanted) for one in found), lambda found: ", ".join(found) or "none"
    )
    return all_of(wanted, {"devices": verbs})


@check("serving.imex_channel")
def imex_channel(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = f"{baseline.serving.imex_channels}/{baseline.nvlink.imex_channel}"
    given = option(facts, "--device")
    return all_of(
        wanted, {"devices": seen(given, lambda found: wanted in found, lambda found: ", ".join(found) or "none")}
    )


@check("serving.privileged")
def privileged(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return all_of("not privileged", {"privileged": seen(flag(facts, "--privileged"), lambda found: not found, yes_no)})


@check("serving.secrets")
def secrets(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = of(facts.serving, lambda found: found.secrets)
    words = seen(names, lambda found: not found, lambda found: ", ".join(found) or "none")
    return all_of("no variable that looks like a secret", {"unit and environment file": words})


@check("serving.cache")
def cache(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = str(baseline.serving.cache_directory)
    mounts = option(facts, "--mount", "--volume", "-v")
    kept = seen(mounts, lambda found: any(wanted in one for one in found), lambda found: ", ".join(found) or "none")
    return all_of(f"{wanted} mounted", {"mounts": kept})


@check("serving.ports")
def ports(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.serving.ports
    taken = of(listening(facts), lambda found: sorted({one.port for one in found} & set(wanted)))
    words = seen(taken, lambda found: not found, lambda found: ", ".join(map(str, found)) or "free")
    return all_of(f"nobody listens on {', '.join(map(str, wanted))}", {"ports": words})


@check("serving.segments")
def segments(facts: NodeFacts, baseline: Baseline) -> Judgement:
    left = of(facts.serving, lambda found: found.segments)
    readings = {f"{SHM}/{kind}*": seen(count, lambda found: found == 0) for kind, count in known(left).items()}
    return all_of("nothing is left of an engine that is gone", readings)


@check("serving.shared_memory")
def shared_memory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most = baseline.serving.shm_used_max
    used = of(filesystem_at(facts, SHM), used_share)
    return all_of(
        f"<= {most:.0%} of {SHM} used", {"used": seen(used, lambda share: share <= most, lambda share: f"{share:.0%}")}
    )


@check("serving.nccl_conf")
def nccl_conf(facts: NodeFacts, baseline: Baseline) -> Judgement:
    said = of(of(facts.serving, lambda found: found.nccl_conf), lambda env: contradictions(env or {}, baseline))
    words = seen(said, lambda names: not names, lambda names: ", ".join(names) or "no contradiction")
    return all_of(f"nothing that contradicts fabric {baseline.layout.fabric}", {"/etc/nccl.conf": words})


@check("serving.preload")
def preload(facts: NodeFacts, baseline: Baseline) -> Judgement:
    libraries = of(facts.serving, lambda found: found.preload)
    words = seen(libraries, lambda found: not found, lambda found: ", ".join(found) or "none")
    return all_of("no library is loaded before all others", {"/etc/ld.so.preload": words})


@check("serving.running")
def running(facts: NodeFacts, baseline: Baseline) -> Judgement:
    containers = known(engines_running(facts, baseline))
    pinned = {image.id for image in known(pinned_images(facts, baseline))}
    strays = [f"{one.name} runs {one.named} ({one.image})" for one in containers if one.image not in pinned]
    observed = "; ".join(strays) or f"{len(containers)} engines run, all of them this image"
    return judge(not strays, observed, f"every engine runs {baseline.image.reference}")


@check("serving.holders")
def holders(facts: NodeFacts, baseline: Baseline) -> Judgement:
    pinned = {image.id for image in known(pinned_images(facts, baseline))}
    ours = [one for one in known(engines_running(facts, baseline)) if one.image in pinned]
    strays = [holder for holder in known(facts.driver.holders) if not in_container(holder, ours)]
    return judge(not strays, "; ".join(strays) or "none but engines of this image", "GPUs are held by the engine alone")
