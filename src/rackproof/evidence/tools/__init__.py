"""One module a command-line tool or file family: what to run on the node, and how to read what comes back.

To add a tool, write a module with `COMMANDS` and functions from Evidence to a Fact, list it here, and give read.py the
fact it fills.
"""

from __future__ import annotations

from collections.abc import Sequence

from rackproof.evidence.sections import Command
from rackproof.evidence.tools import (
    amd,
    amd_smi,
    cdi,
    container,
    control,
    cpu,
    engines,
    fabric_manager,
    gpu_holders,
    host,
    image_chain,
    imex,
    kernel_events,
    kernel_log,
    kernels,
    lspci,
    modprobe,
    network,
    node_state,
    nvidia_driver,
    nvidia_nvlink,
    nvidia_smi,
    nvidia_topo,
    nvme,
    package_policy,
    packages,
    pci,
    podman,
    rdma,
    rocm_smi,
    running,
    serving,
    storage,
    system,
    systemd,
    time_sync,
    weights,
)

MODULES = (
    host, control, systemd, packages, nvidia_driver, modprobe, gpu_holders, nvidia_smi, nvidia_topo, nvidia_nvlink, imex,
    kernel_log, container, podman, image_chain, cdi, system, cpu, storage, time_sync, kernels, kernel_events, package_policy, engines,
    fabric_manager, node_state, nvme,
    rdma, network, pci, lspci, amd, amd_smi, rocm_smi, serving, running, weights,
)  # fmt: skip


def commands(managed: Sequence[str] = (), model_directory: str = "") -> tuple[Command, ...]:
    """All that the probe runs. `managed` are the paths of the files a deploy writes; the probe reads their hashes.

    `model_directory`: absolute path of the weights to look at; "" where the asker named none.
    """
    return (
        *(command for module in MODULES for command in module.COMMANDS),
        host.managed_files_command(managed),
        *weights.weights_commands(model_directory),
    )
