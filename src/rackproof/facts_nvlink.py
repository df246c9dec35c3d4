"""Facts of NVLink: its ports and errors, and the IMEX domain by which trays share memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rackproof.facts import Fact, Missing
from rackproof.facts_system import NvlinkErrors

_UNREAD: Missing = Missing("not read")


@dataclass(frozen=True)
class NvlinkPort:
    gpu: int
    link: int
    rate_gb_per_s: Fact[float]  # GB/s as nvidia-smi prints it; Missing when the link is inactive
    active: bool


@dataclass(frozen=True)
class ImexPeer:
    host: str
    status: str  # READY | UNAVAILABLE | INITIALIZING ...
    version: Fact[str]


@dataclass(frozen=True)
class ImexDomain:
    """What the local IMEX daemon says about the whole domain (`nvidia-imex-ctl -N -j`, or the text table)."""

    status: str  # UP | DEGRADED | DOWN
    peers: tuple[ImexPeer, ...]
    bad_links: tuple[str, ...]  # "0 -> 3: DISCONNECTED", each pair that is not connected


@dataclass(frozen=True)
class NvlinkFacts:
    ports: Fact[tuple[NvlinkPort, ...]]
    gpu_paths: Fact[Mapping[tuple[int, int], str]]  # (GPU, GPU) -> "NV18" from `nvidia-smi topo -m`
    imex_nodes: Fact[tuple[str, ...] | None]  # lines of nodes_config.cfg; None where there is no such file
    imex_domain: Fact[ImexDomain]
    imex_channels: Fact[tuple[str, ...]]  # device nodes under /dev/nvidia-caps-imex-channels
    imex_config: Fact[Mapping[str, str] | None] = _UNREAD  # config.cfg; None where there is none
    p2p: Fact[Mapping[tuple[int, int], str]] = _UNREAD  # (GPU, GPU) -> OK | CNS | ... (topo -p2p r)
    errors: Fact[tuple[NvlinkErrors, ...]] = _UNREAD  # counters since the driver was loaded
    imex_channel_modes: Fact[Mapping[str, str]] = _UNREAD  # full path of each channel -> "666"
    imex_major: Fact[bool] = _UNREAD  # /proc/devices lists nvidia-caps-imex-channels: the driver has them
