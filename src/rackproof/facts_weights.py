"""A model directory by names and sizes, and what it says about itself. Nothing is hashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing
from rackproof.facts_system import Filesystem

_UNREAD: Missing = Missing("not read")


@dataclass(frozen=True)
class Shard:
    """A file the index names, and its size against the size its own header tells."""

    name: str
    bytes: int
    expected_bytes: Fact[int]


@dataclass(frozen=True)
class ModelConfig:
    """config.json of a Hugging Face model."""

    architectures: Fact[tuple[str, ...]]
    model_type: Fact[str]
    quantization: Fact[str | None]  # quant_method; None where the model is not quantized


@dataclass(frozen=True)
class WeightsFacts:
    """One model directory. Where it does not exist, `exists` is False and everything else is missing for that reason."""

    path: str  # as it was asked for
    exists: bool = True
    resolved: Fact[str] = _UNREAD  # without links
    files: Fact[int] = _UNREAD
    bytes: Fact[int] = _UNREAD
    shards: Fact[int] = _UNREAD  # *.safetensors
    shard_bytes: Fact[int] = _UNREAD
    shard_sizes: Fact[Mapping[str, int]] = _UNREAD  # by file name
    index: Fact[bool] = _UNREAD  # model.safetensors.index.json is there and readable
    indexed: Fact[int] = _UNREAD  # shards the index names
    absent: Fact[tuple[str, ...]] = _UNREAD  # shards the index names that are not there
    indexed_bytes: Fact[int] = _UNREAD  # metadata.total_size of the index: bytes of tensors, without file headers
    empty: Fact[tuple[str, ...]] = _UNREAD  # files of size 0
    wrong_size: Fact[tuple[Shard, ...]] = _UNREAD  # shards whose size is not what their header says
    incomplete: Fact[int] = _UNREAD  # unfinished downloads beside them
    filesystem: Fact[Filesystem] = _UNREAD
    revision: Fact[str | None] = _UNREAD  # commit of the model repository; None where nothing records one
    revision_source: Fact[str] = _UNREAD  # .rackproof-revision | snapshot directory | download metadata
    config: Fact[ModelConfig] = _UNREAD
