"""Checks of layer weights: one model directory, and the disks of the node."""

from __future__ import annotations

from rackproof.baseline import Baseline
from rackproof.facts import NodeFacts
from rackproof.layers.readings import all_of, of, seen
from rackproof.layers.words import gib, yes_no
from rackproof.layers.words_weights import (
    below,
    disk_at,
    each_disk,
    model_filesystem,
    nvme_health,
    room_for,
    shard_words,
    within,
)
from rackproof.verdict.catalogue import check
from rackproof.verdict.model import Judgement


@check("weights.directory")
def directory(facts: NodeFacts, baseline: Baseline) -> Judgement:
    there = of(facts.weights, lambda found: found.exists)
    files = of(facts.weights, lambda found: found.files if found.exists else 0)
    readings = {
        "directory": seen(there, bool, lambda found: "there" if found else "does not exist"),
        "files": seen(files, lambda count: count > 0),
    }
    return all_of(f"{baseline.weights.directory}, not empty", readings)


@check("weights.index")
def index(facts: NodeFacts, baseline: Baseline) -> Judgement:
    there = of(facts.weights, lambda found: found.index)
    absent = seen(
        of(facts.weights, lambda found: found.absent if found.index is True else ()),
        lambda names: not names,
        lambda names: f"{', '.join(names)} missing" if names else "every shard is there",
    )
    return all_of("an index, and every shard it names", {"index": seen(there, bool, yes_no), "shards": absent})


@check("weights.shards")
def shards(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.weights.shards
    readings = {
        "files": seen(of(facts.weights, lambda found: found.shards), lambda count: count == wanted),
        "in the index": seen(of(facts.weights, lambda found: found.indexed), lambda count: count == wanted),
    }
    return all_of(f"{wanted} shards", readings)


@check("weights.size")
def size(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted, tolerance = baseline.weights.bytes, baseline.weights.bytes_tolerance
    found = seen(of(facts.weights, lambda found: found.shard_bytes), lambda there: within(there, wanted, tolerance))
    return all_of(f"{wanted} bytes of shards, within {tolerance:.1%}", {"bytes": found})


@check("weights.whole_shards")
def whole_shards(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wrong = of(facts.weights, lambda found: found.wrong_size)
    empty = of(facts.weights, lambda found: found.empty)
    readings = {
        "shards": seen(wrong, lambda found: not found, lambda found: shard_words(found) or "as long as they say"),
        "empty files": seen(empty, lambda names: not names, lambda names: ", ".join(names) or "none"),
    }
    return all_of("each shard as long as its own header says, no file empty", readings)


@check("weights.unfinished")
def unfinished(facts: NodeFacts, baseline: Baseline) -> Judgement:
    count = of(facts.weights, lambda found: found.incomplete)
    return all_of("no download is unfinished", {"unfinished downloads": seen(count, lambda found: found == 0)})


@check("weights.revision")
def revision(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.weights.revision
    recorded = of(facts.weights, lambda found: of(found.revision, lambda commit: commit or "not recorded"))
    return all_of(wanted, {"revision": seen(recorded, lambda commit: commit == wanted)})


@check("weights.config")
def config(facts: NodeFacts, baseline: Baseline) -> Judgement:
    names = of(facts.weights, lambda found: of(found.config, lambda config: config.architectures))
    return all_of("config.json names an architecture", {"architectures": seen(names, bool, ", ".join)})


@check("weights.filesystem")
def filesystem(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return _local(facts, baseline)


@check("weights.slow_filesystem")
def slow_filesystem(facts: NodeFacts, baseline: Baseline) -> Judgement:
    return _local(facts, baseline)


def _local(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.weights.local_filesystems
    kind = of(model_filesystem(facts), lambda found: found.kind)
    return all_of(f"local and lasting: {', '.join(wanted)}", {"file system": seen(kind, lambda found: found in wanted)})


@check("weights.room")
def room(facts: NodeFacts, baseline: Baseline) -> Judgement:
    wanted = baseline.weights.bytes
    return all_of(f"{gib(wanted)} of weights fit", {"room": room_for(facts, wanted, baseline.weights.bytes_tolerance)})


@check("weights.disk_size")
def disk_size(facts: NodeFacts, baseline: Baseline) -> Judgement:
    least = baseline.weights.disk_bytes
    total = of(model_filesystem(facts), lambda found: found.size_bytes)
    return all_of(f">= {gib(least)}", {"file system": seen(total, lambda found: found >= least, gib)})


@check("weights.lasting")
def lasting(facts: NodeFacts, baseline: Baseline) -> Judgement:
    rules = baseline.weights
    path = of(facts.weights, lambda found: found.resolved)
    kind = of(model_filesystem(facts), lambda found: found.kind)
    readings = {
        "directory": seen(path, lambda found: not below(found, rules.volatile_folders)),
        "file system": seen(kind, lambda found: found not in rules.volatile_filesystems),
    }
    return all_of("nothing that a reboot empties", readings)


@check("weights.own_filesystem")
def own_filesystem(facts: NodeFacts, baseline: Baseline) -> Judgement:
    mount = of(model_filesystem(facts), lambda found: found.mount)
    apart = seen(mount, lambda found: found not in baseline.weights.shared_mounts)
    return all_of("a file system of its own, not that of the system", {"mounted at": apart})


@check("weights.solid_disk")
def solid_disk(facts: NodeFacts, baseline: Baseline) -> Judgement:
    rotates = of(disk_at(facts), lambda disk: disk.rotational)
    kind = seen(rotates, lambda found: not found, lambda found: "rotates" if found else "solid state")
    return all_of("solid state", {"disk of the model directory": kind})


@check("weights.writable")
def writable(facts: NodeFacts, baseline: Baseline) -> Judgement:
    options = of(model_filesystem(facts), lambda found: found.options)
    readable = seen(
        options, lambda found: "ro" not in found, lambda found: "read-only" if "ro" in found else "writable"
    )
    return all_of("mounted for writing, as a disk without errors is", {"file system": readable})


@check("weights.nvme_warning")
def nvme_warning(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = each_disk(nvme_health(facts), lambda disk: seen(disk.critical_warning, lambda warning: warning == 0))
    return all_of("critical_warning 0", found)


@check("weights.nvme_errors")
def nvme_errors(facts: NodeFacts, baseline: Baseline) -> Judgement:
    found = each_disk(nvme_health(facts), lambda disk: seen(disk.media_errors, lambda errors: errors == 0))
    return all_of("no media error", found)


@check("weights.nvme_wear")
def nvme_wear(facts: NodeFacts, baseline: Baseline) -> Judgement:
    most, least = baseline.weights.nvme_used_max_percent, baseline.weights.nvme_spare_min_percent
    used = each_disk(nvme_health(facts), lambda disk: seen(disk.percent_used, lambda share: share <= most))
    spare = each_disk(nvme_health(facts), lambda disk: seen(disk.spare_percent, lambda share: share >= least))
    readings = {f"{name} used": reading for name, reading in used.items()}
    readings |= {f"{name} spare": reading for name, reading in spare.items()}
    return all_of(f"<= {most} % used, >= {least} % spare", readings)
