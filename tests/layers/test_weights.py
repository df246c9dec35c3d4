"""Layer weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rackproof.facts import Missing, NodeFacts
from rackproof.facts_system import NvmeHealth
from rackproof.facts_weights import ModelConfig, Shard, WeightsFacts
from rackproof.verdict.model import Status

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, node
from .fixtures_storage import (
    BYTES,
    DISKS,
    GIB,
    MODEL,
    MODELS,
    NVME,
    REVISION,
    keeps,
    on_filesystem,
    system,
    weights,
)

GB300 = node()
NONE = baseline("gb300")  # its site names no directory
KEEPS = keeps()
SLOW = keeps(storage="slow")
ABSENT = replace(GB300, weights=WeightsFacts(MODEL, exists=False, **dict.fromkeys(
    ("resolved", "files", "bytes", "shards", "shard_bytes", "index", "indexed", "absent", "indexed_bytes", "empty",
     "wrong_size", "incomplete", "filesystem", "revision", "revision_source", "config"),
    Missing(f"{MODEL} does not exist"))))  # fmt: skip
UNREAD = [replace(GB300, weights=GONE), replace(GB300, weights=Missing("no model directory was named"))]
NFS = on_filesystem(GB300, kind="nfs4", device="filer:/m", size_bytes=GONE, available_bytes=GONE)


def disk(**changes: Any) -> NodeFacts:
    return system(GB300, disks=tuple(replace(one, **changes) if one.name == "nvme1n1" else one for one in DISKS))


def nvme(**changes: Any) -> NodeFacts:
    return system(GB300, nvme_health=(NVME[0], replace(NVME[1], **changes)))


def case(green: list[NodeFacts], red: list[tuple[NodeFacts, str]], garbage: list[NodeFacts]) -> Cases:
    """Of a requirement that applies where the site names a local directory."""
    return Cases(
        green=[(facts, KEEPS) for facts in green],
        red=[Red(facts, says, KEEPS) for facts, says in red],
        garbage=[*UNREAD, *garbage],
        not_applicable=NONE,
        garbage_baseline=KEEPS,
    )


NO_HEALTH = [system(GB300, nvme_health=GONE), system(GB300, nvme_health=()), replace(GB300, system=GONE)]

TABLE = {
    "weights.directory": case(
        [GB300],
        [(ABSENT, "does not exist"), (weights(GB300, files=0), "files: 0")],
        [weights(GB300, files=GONE), weights(GB300, files=-1)],
    ),
    "weights.index": case(
        [GB300],
        [
            (weights(GB300, index=False, absent=GONE), "index: no"),
            (weights(GB300, absent=("model-00007-of-00096.safetensors",)), "model-00007-of-00096.safetensors missing"),
        ],
        [ABSENT, weights(GB300, index=GONE), weights(GB300, absent=GONE)],
    ),
    "weights.shards": case(
        [GB300],
        [
            (weights(GB300, shards=95), "files: 95"),
            (weights(GB300, shards=192), "192"),
            (weights(GB300, indexed=163), "163"),
        ],
        [
            ABSENT,
            weights(GB300, shards=GONE),
            weights(GB300, indexed=GONE),
            weights(GB300, shards=0),
            weights(GB300, shards=-96),
        ],
    ),
    "weights.size": case(
        [GB300, weights(GB300, shard_bytes=BYTES + 30_000_000)],
        [
            (weights(GB300, shard_bytes=BYTES - 10_000_000_000), "1550998998830"),
            (weights(GB300, shard_bytes=1_645_900_000_000), "1645900000000"),
        ],
        [ABSENT, weights(GB300, shard_bytes=GONE), weights(GB300, shard_bytes=0), weights(GB300, shard_bytes=-BYTES)],
    ),
    "weights.whole_shards": case(
        [GB300],
        [
            (weights(GB300, wrong_size=(Shard("a.safetensors", 17, 99),)), "a.safetensors has 17 bytes"),
            (weights(GB300, empty=("tokenizer.json",)), "empty files: tokenizer.json"),
            (weights(GB300, wrong_size=GONE, empty=("b.safetensors",)), "b.safetensors"),
        ],
        [ABSENT, weights(GB300, wrong_size=GONE), weights(GB300, empty=GONE)],
    ),
    "weights.unfinished": case(
        [GB300],
        [(weights(GB300, incomplete=2), "unfinished downloads: 2")],
        [ABSENT, weights(GB300, incomplete=GONE), weights(GB300, incomplete=-1)],
    ),
    "weights.revision": case(
        [GB300],
        [(weights(GB300, revision="0" * 40), "0" * 40), (weights(GB300, revision=None), "not recorded")],
        [ABSENT, weights(GB300, revision=GONE), weights(GB300, revision=""), weights(GB300, revision=REVISION[:8])],
    ),
    "weights.config": case(
        [GB300],
        [(weights(GB300, config=ModelConfig((), "kimi", None)), "architectures: nothing")],
        [ABSENT, weights(GB300, config=GONE), weights(GB300, config=ModelConfig(GONE, GONE, GONE))],
    ),
    "weights.filesystem": case(
        [GB300, on_filesystem(GB300, kind="ext4")],
        [
            (NFS, "nfs4"),
            (on_filesystem(GB300, kind="lustre"), "lustre"),
            (on_filesystem(GB300, kind="tmpfs", size_bytes=15 * GIB), "tmpfs"),
            (on_filesystem(GB300, kind="fuse.s3fs"), "fuse.s3fs"),
        ],
        [ABSENT, weights(GB300, filesystem=GONE), on_filesystem(GB300, kind="")],
    ),
    "weights.slow_filesystem": Cases(
        green=[(GB300, SLOW)],
        red=[Red(NFS, "nfs4", SLOW), Red(on_filesystem(GB300, kind="virtiofs"), "virtiofs", SLOW)],
        garbage=[*UNREAD, ABSENT, weights(GB300, filesystem=GONE)],
        not_applicable=KEEPS,
        garbage_baseline=SLOW,
    ),
    "weights.room": case(
        [
            GB300,
            on_filesystem(GB300, available_bytes=0),
            weights(on_filesystem(GB300, available_bytes=BYTES), shard_bytes=0),
            weights(on_filesystem(GB300, available_bytes=BYTES // 2 + 1), shard_bytes=BYTES // 2),
        ],
        [
            (
                weights(on_filesystem(GB300, available_bytes=9_500_000_000), shard_bytes=BYTES - 16_000_000_000),
                "8.8 GiB free",
            )
        ],
        [
            ABSENT,
            weights(GB300, shard_bytes=GONE),
            weights(GB300, filesystem=GONE, shard_bytes=0),
            weights(on_filesystem(GB300, available_bytes=GONE), shard_bytes=0),
            weights(on_filesystem(GB300, available_bytes=-1), shard_bytes=0),
        ],
    ),
    "weights.disk_size": case(
        [GB300],
        [(on_filesystem(GB300, size_bytes=1_800_000_000_000), "1676.4 GiB")],
        [
            ABSENT,
            on_filesystem(GB300, size_bytes=GONE),
            on_filesystem(GB300, size_bytes=-1),
            weights(GB300, filesystem=GONE),
        ],
    ),
    "weights.lasting": case(
        [GB300],
        [
            (weights(GB300, resolved="/dev/shm/Kimi-K3"), "/dev/shm/Kimi-K3"),
            (weights(GB300, resolved="/tmp"), "/tmp"),
            (on_filesystem(GB300, kind="overlay"), "overlay"),
        ],
        [ABSENT, weights(GB300, resolved=GONE), weights(GB300, filesystem=GONE)],
    ),
    "weights.own_filesystem": case(
        [GB300],
        [(on_filesystem(GB300, mount="/"), "mounted at: /"), (on_filesystem(GB300, mount="/var/lib"), "/var/lib")],
        [ABSENT, weights(GB300, filesystem=GONE)],
    ),
    "weights.solid_disk": case(
        [GB300],
        [(disk(rotational=True), "rotates")],
        [ABSENT, disk(rotational=GONE), disk(mounts=()), system(GB300, disks=GONE), system(GB300, disks=())],
    ),
    "weights.writable": case(
        [GB300],
        [(on_filesystem(GB300, options=("ro", "relatime")), "read-only")],
        [ABSENT, weights(GB300, filesystem=GONE)],
    ),
    "weights.nvme_warning": Cases(
        green=[GB300],
        red=[Red(nvme(critical_warning=4), "nvme1: 4"), Red(nvme(critical_warning=8), "nvme1: 8")],
        garbage=[*NO_HEALTH, nvme(critical_warning=GONE), nvme(critical_warning=-1)],
    ),
    "weights.nvme_errors": Cases(
        green=[GB300],
        red=[Red(nvme(media_errors=12), "nvme1: 12")],
        garbage=[*NO_HEALTH, nvme(media_errors=GONE), nvme(media_errors=-1)],
    ),
    "weights.nvme_wear": Cases(
        green=[GB300],
        red=[
            Red(nvme(percent_used=104), "nvme1 used: 104"),
            Red(nvme(spare_percent=9, percent_used=GONE), "nvme1 spare: 9"),
        ],
        garbage=[*NO_HEALTH, nvme(percent_used=GONE), nvme(spare_percent=GONE), nvme(spare_percent=-1)],
    ),
}
SOFT = {
    f"weights.{name}"
    for name in (
        "unfinished", "revision", "config", "slow_filesystem", "disk_size", "lasting", "own_filesystem", "solid_disk",
        "writable", "nvme_state", "nvme_warning", "nvme_errors", "nvme_wear", "disk_log",
    )
}  # fmt: skip


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_what_cannot_be_told_of_an_absent_directory_is_blocked_by_its_absence() -> None:
    for name in ("index", "shards", "size", "whole_shards", "filesystem", "room"):
        found = outcome(f"weights.{name}", ABSENT, KEEPS)
        assert (found.status, found.blocked_by) == (Status.BLOCKED, "weights.directory"), found


def test_a_slow_site_is_not_refused_for_its_file_server() -> None:
    assert outcome("weights.filesystem", NFS, SLOW).status is Status.NOT_APPLICABLE
    assert outcome("weights.room", NFS, SLOW).status is Status.NOT_APPLICABLE


def test_a_disk_model_of_the_weights_is_found_by_its_mount() -> None:
    assert MODELS.mount in DISKS[1].mounts
    assert isinstance(NVME[0], NvmeHealth)
