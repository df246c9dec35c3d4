"""The files a deploy keeps on a node, rendered from the baseline alone.

The deploy writes them and the checks compare hashes, so skipping an unchanged file is safe and a hand edit shows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rackproof.baseline import Baseline

STAMP = "/etc/rackproof/baseline.json"  # written by the deploy, but not compared byte by byte: it holds the time
HISTORY = "/etc/rackproof/history"  # earlier stamps, one file each; names sort by time
LOCK = "/var/lib/rackproof/lock"
BUSY = "/var/lib/rackproof/busy"  # flock is held while a step runs
JOURNAL = "/var/lib/rackproof/journal.jsonl"
SELFBUILD_RECORD = "/var/lib/rackproof/selfbuild.record"  # a line for each self-build and each conversion; never cut
KEYRING = "/etc/apt/keyrings/rackproof-nvidia.asc"
APT_SOURCE = "/etc/apt/sources.list.d/rackproof-nvidia.sources"
UPGRADES = "/etc/apt/apt.conf.d/52rackproof-unattended-upgrades"
MODPROBE = "/etc/modprobe.d/rackproof-nvidia.conf"
PERSISTENCED = "/etc/systemd/system/nvidia-persistenced.service.d/rackproof.conf"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
SERVING_UNIT = "/etc/systemd/system/rackproof-serving.service"
SERVING_ENVIRONMENT = "/etc/rackproof/serving.env"

PATHS = (KEYRING, APT_SOURCE, UPGRADES, MODPROBE, PERSISTENCED, IMEX_NODES, SERVING_UNIT, SERVING_ENVIRONMENT)

_HEADER = "# Managed by rackproof; changes here are reported as drift and undone by the next deploy.\n"

# What an automatic upgrade must leave alone: the driver stack, the kernel it was built for, the container engine.
_FROZEN = ("nvidia-", "libnvidia-", "cuda-", "nvlsm", "linux-image-", "linux-headers-", "linux-modules-", "docker",
           "containerd", "runc")


@dataclass(frozen=True)
class File:
    """One managed file. `content` is text that is written as UTF-8."""

    layer: str
    path: str
    content: str
    mode: str = "644"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()


def managed_files(baseline: Baseline) -> tuple[File, ...]:
    """Every file this baseline wants on a node, in the order of the layers."""
    return (*_host_files(baseline), *(File("serving", path, text) for path, text in baseline.serving.files))


def _host_files(baseline: Baseline) -> tuple[File, ...]:
    if baseline.packages is None:
        return ()
    files = [
        File("host", UPGRADES, _upgrades()),
        File("gpu_driver", APT_SOURCE, _apt_source(baseline.packages.repository)),
        File("gpu_driver", MODPROBE, _modprobe(baseline)),
        File("gpu_driver", PERSISTENCED, _persistenced()),
    ]
    if baseline.nvlink.domain is not None and baseline.nvlink.across_nodes:
        files.append(File("nvlink", IMEX_NODES, "".join(f"{address}\n" for address in baseline.nvlink.domain)))
    return tuple(files)


def _upgrades() -> str:
    # A list in apt's configuration grows with every file that names it, so this adds to what a site already has.
    names = "".join(f'  "^{name}";\n' for name in _FROZEN)
    return f"// Managed by rackproof\nUnattended-Upgrade::Package-Blacklist {{\n{names}}};\n"


def _apt_source(repository: str) -> str:
    return f"{_HEADER}Types: deb\nURIs: {repository}\nSuites: /\nSigned-By: {KEYRING}\n"


def _modprobe(baseline: Baseline) -> str:
    lines = ["blacklist nouveau", "options nouveau modeset=0"]
    lines += [f"options nvidia NVreg_{name}={value}" for name, value in baseline.driver.parameters]
    return _HEADER + "".join(f"{line}\n" for line in lines)


def _persistenced() -> str:
    # Ubuntu's packaged unit passes --no-persistence-mode, so an active service alone leaves persistence off.
    start = "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose"
    return f"{_HEADER}[Service]\nExecStart=\n{start}\n"
