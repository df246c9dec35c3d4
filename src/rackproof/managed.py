"""The files a deploy keeps on a node, rendered from the baseline alone.

The deploy writes them and the checks compare hashes, so skipping an unchanged file is safe and a hand edit shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from rackproof.baseline import Baseline
from rackproof.baseline_parts import PackageBaseline

STAMP = "/etc/rackproof/baseline.json"  # written by the deploy, but not compared byte by byte: it holds the time
HISTORY = "/etc/rackproof/history"  # earlier stamps, one file each; names sort by time
LOCK = "/var/lib/rackproof/lock"
BUSY = "/var/lib/rackproof/busy"  # flock is held while a step runs
JOURNAL = "/var/lib/rackproof/journal.jsonl"
SELFBUILD_RECORD = "/var/lib/rackproof/selfbuild.record"  # a line for each self-build and each conversion; never cut
KEYRING = "/etc/apt/keyrings/rackproof-nvidia.asc"
RPM_KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-rackproof-nvidia"
DNF_SOURCE = "/etc/yum.repos.d/rackproof-nvidia.repo"
PREFERENCES = "/etc/apt/preferences.d/rackproof-nvidia.pref"
APT_SOURCE = "/etc/apt/sources.list.d/rackproof-nvidia.sources"
UPGRADES = "/etc/apt/apt.conf.d/52rackproof-unattended-upgrades"
MODPROBE = "/etc/modprobe.d/rackproof-nvidia.conf"
PERSISTENCED = "/etc/systemd/system/nvidia-persistenced.service.d/rackproof.conf"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
FABRIC_MODULES = "/etc/modules-load.d/rackproof-fabric.conf"
AMD_KEYRING = "/etc/apt/keyrings/rackproof-amd.asc"
AMD_SOURCE = "/etc/apt/sources.list.d/rackproof-amd.sources"
AMD_PREFERENCES = "/etc/apt/preferences.d/rackproof-amd.pref"
AMD_TOOLKIT = "/etc/apt/sources.list.d/rackproof-amd-toolkit.sources"
SYSCTL = "/etc/sysctl.d/90-rackproof.conf"
PEERMEM = "/etc/modules-load.d/rackproof-nvidia-peermem.conf"
CONTAINERD_LIMITS = "/etc/systemd/system/containerd.service.d/rackproof.conf"
ENGINE_LIMITS = "/etc/systemd/system/docker.service.d/rackproof.conf"
RDMA_KEY = "/etc/pki/rackproof-rdma.asc"
RDMA_SOURCE = "/etc/apt/sources.list.d/rackproof-rdma.sources"
RDMA_DNF_SOURCE = "/etc/yum.repos.d/rackproof-rdma.repo"

SERVING_UNIT = "/etc/systemd/system/rackproof-serving.service"
SERVING_ENVIRONMENT = "/etc/rackproof/serving.env"

PATHS = (
    KEYRING, APT_SOURCE, UPGRADES, MODPROBE, PERSISTENCED, IMEX_NODES, RPM_KEY, DNF_SOURCE, PREFERENCES, FABRIC_MODULES,
    AMD_KEYRING, AMD_SOURCE, AMD_PREFERENCES, AMD_TOOLKIT, SYSCTL, PEERMEM, ENGINE_LIMITS, RDMA_KEY, RDMA_SOURCE, RDMA_DNF_SOURCE,
    CONTAINERD_LIMITS, SERVING_UNIT, SERVING_ENVIRONMENT,
)  # fmt: skip

_HEADER = "# Managed by rackproof; changes here are reported as drift and undone by the next deploy.\n"

# What an automatic upgrade must leave alone: the driver stack, the kernel it was built for, the container engine.
_FROZEN = ("nvidia-", "libnvidia-", "cuda-", "nvlsm", "linux-image-", "linux-headers-", "linux-modules-", "docker",
           "containerd", "runc", "amdgpu")
_FROZEN_PODMAN = ("podman", "crun", "conmon", "netavark", "golang-github-containers-")


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
        *([File("host", UPGRADES, _upgrades(baseline.runtime.engine))] if baseline.packages.platform.manager == "apt" else []),
        *([File("host", SYSCTL, _sysctl(baseline))] if baseline.kernel.sysctl else []),
        *_rdma_source(baseline),
        source_file(baseline.packages),
    ]
    if baseline.packages.origin == "amd":
        return (*files, *_amd_files(baseline.packages))
    if baseline.packages.origin == "ubuntu":
        names = baseline.packages.names
        files.append(File("gpu_driver", PREFERENCES, _pinned((*names.driver, *names.fabric), baseline.driver.version)))
    files += [
        File("gpu_driver", MODPROBE, _modprobe(baseline)),
        File("gpu_driver", PERSISTENCED, _persistenced()),
    ]
    if baseline.nvlink.fabric_modules:
        modules = "".join(f"{name}\n" for name in baseline.nvlink.fabric_modules)
        files.append(File("nvlink", FABRIC_MODULES, _HEADER + modules))
    if baseline.nvlink.domain is not None and baseline.nvlink.host_imex:
        files.append(File("nvlink", IMEX_NODES, "".join(f"{address}\n" for address in baseline.nvlink.domain)))
    return tuple(files)


def _amd_files(packages: PackageBaseline) -> list[File]:
    names = packages.names
    pin = File("gpu_driver", AMD_PREFERENCES, _pinned(names.held, f".{names.code}"))
    if not packages.toolkit_repository:
        return [pin]
    text = _apt_source(packages.toolkit_repository, AMD_KEYRING, names.suite)
    return [pin, File("container_runtime", AMD_TOOLKIT, f"{text}Components: main\n")]


def keyring(packages: PackageBaseline) -> str:
    """Where the signing key of the package repository stands on a node."""
    if packages.origin == "amd":
        return AMD_KEYRING
    return {"apt": KEYRING, "dnf": RPM_KEY}[packages.platform.manager]


def source_file(packages: PackageBaseline) -> File:
    """The file that tells the package manager of the vendor's repository."""
    if packages.origin == "amd":
        text = _apt_source(packages.repository, AMD_KEYRING, packages.names.suite)
        return File("gpu_driver", AMD_SOURCE, f"{text}Components: main\n")
    if packages.platform.manager == "dnf":
        return File("gpu_driver", DNF_SOURCE, _dnf_source("nvidia", packages.repository, RPM_KEY))
    return File("gpu_driver", APT_SOURCE, _apt_source(packages.repository, KEYRING))


def _rdma_source(baseline: Baseline) -> list[File]:
    packages = baseline.packages
    if packages is None or packages.rdma is None or not packages.rdma.repository or not baseline.rdma.needed:
        return []
    if packages.platform.manager == "dnf":
        return [File("rdma", RDMA_DNF_SOURCE, _dnf_source("rdma", packages.rdma.repository, RDMA_KEY))]
    return [File("rdma", RDMA_SOURCE, _apt_source(packages.rdma.repository, RDMA_KEY, "./"))]


def _sysctl(baseline: Baseline) -> str:
    return _HEADER + "".join(f"{name} = {value}\n" for name, value in baseline.kernel.sysctl)


def _dnf_source(name: str, repository: str, key: str) -> str:
    return (
        f"{_HEADER}[rackproof-{name}]\nname=NVIDIA ({name}), by rackproof\nbaseurl={repository}\nenabled=1\ngpgcheck=1\n"
        f"gpgkey=file://{key}\n"
    )


def _pinned(names: Sequence[str], version: str | None) -> str:
    # What a pin package of NVIDIA's does, for an origin that has none: this version of the stack and no other. The first
    # star stands for an epoch.
    return f"{_HEADER}Package: {' '.join(names)}\nPin: version *{version}-*\nPin-Priority: 1000\n"


def _upgrades(engine: str) -> str:
    # A list in apt's configuration grows with every file that names it, so this adds to what a site already has.
    names = "".join(f'  "^{name}";\n' for name in (*_FROZEN, *(_FROZEN_PODMAN if engine == "podman" else ())))
    return f"// Managed by rackproof\nUnattended-Upgrade::Package-Blacklist {{\n{names}}};\n"


def _apt_source(repository: str, key: str, suite: str = "/") -> str:
    return f"{_HEADER}Types: deb\nURIs: {repository}\nSuites: {suite}\nSigned-By: {key}\n"


def _modprobe(baseline: Baseline) -> str:
    lines = ["blacklist nouveau", "options nouveau modeset=0"]
    lines += [f"options nvidia NVreg_{name}={value}" for name, value in baseline.driver.parameters]
    return _HEADER + "".join(f"{line}\n" for line in lines)


def _persistenced() -> str:
    # Ubuntu's packaged unit passes --no-persistence-mode, so an active service alone leaves persistence off.
    start = "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose"
    return f"{_HEADER}[Service]\nExecStart=\n{start}\n"
