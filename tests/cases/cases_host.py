"""Cases whose fact lies in the host, its NICs, its container engine, the image, the weights or what serves."""

from __future__ import annotations

import re

from .edits import Edit, Texts, module, put, text_of, without
from .healthy import MODEL, Context, baseline
from .table import (
    B200,
    B300,
    B300_RDMA,
    B300_RDMA_SERVES,
    B300_SERVES,
    B300_WEIGHTS,
    GATE,
    GB300,
    H200,
    INFO,
    MI355X,
    MI355X_RDMA,
    MI355X_SERVES,
    WARN,
    Case,
)

DMABUF_BROKEN = Context(
    "b300", "b300-tp16", site={"serving": {"model_directory": MODEL, "rdma": {"dmabuf": "broken"}}},
    prepare=(module("nvidia_peermem", True), put("system", "- /sys/kernel/mm/memory_peers/nv_mem", "+ /sys/kernel/mm/memory_peers/nv_mem")),
)  # fmt: skip
GID_INDEX = Context("b300", "b300-tp16", site={"serving": {"model_directory": MODEL, "rdma": {"gid_index": 3}}})
NO_PEERMEM = (
    module("nvidia_peermem", False),
    put("system", "+ /sys/kernel/mm/memory_peers/nv_mem", "- /sys/kernel/mm/memory_peers/nv_mem"),
)


def other_image(hardware: str) -> Edit:
    """The recipe's tag names an image of another digest."""
    return put("docker_images", f"@{baseline(hardware).image.index}", f"@sha256:{'9' * 64}")


def no_gids(texts: Texts) -> None:
    """The first NIC has no GID any more."""
    text, device = text_of(texts, "rdma"), "/sys/class/infiniband/mlx5_0/ports/1/gids/"
    changed = re.sub(rf"= {device}[0-9]+\n\|.*\n", "", text)
    assert changed != text
    texts["rdma"] = changed


def lost_gpus(texts: Texts) -> None:
    """Four of eight GPUs are not there: for no tool, on no bus."""
    import json

    for name, text in list(texts.items()):
        if name.startswith("amd_smi"):
            document = json.loads(str(text))
            listed = document["gpu_data"] if isinstance(document, dict) else document
            del listed[4:]
            texts[name] = json.dumps(document)
    for address in ("85", "95", "e5", "f5"):
        for name in ("amd", "pci"):
            texts[name] = re.sub(rf"= [^\n]*0000:{address}:00\.0[^\n]*\n(\|.*\n)*", "", text_of(texts, name))
    for node in range(6, 10):
        texts["amd"] = re.sub(rf"= [^\n]*/nodes/{node}/properties\n(\|.*\n)*", "", text_of(texts, "amd"))
        texts["amd"] = re.sub(rf"(?m)^\|(?:{node} \d+|\d+ {node})\n", "", text_of(texts, "amd"))
        texts["amd"] = text_of(texts, "amd").replace(f"+ /dev/dri/renderD{126 + node}\n", "")


EFA = put("rdma", "|DRIVER=mlx5_core", "|DRIVER=efa", 8)
SHM_FULL = put(
    "storage", "tmpfs 1056440320 0 1056440320 0% /dev/shm", "tmpfs 1056440320 1050000000 6440320 100% /dev/shm"
)

CASES = (
    Case(
        "b300-nvshmem-ibgda-ah",
        B300_RDMA,
        (no_gids,),
        {"rdma.gids": GATE, "fleet.gid_family": GATE, "fleet.gid_index": WARN},
        "reject",
    ),
    Case("deepep-hybrid-no-peermem-segfault", DMABUF_BROKEN, NO_PEERMEM, {"rdma.peermem": GATE}, "reject"),
    Case("nccl-dmabuf-not-supported-778", DMABUF_BROKEN, NO_PEERMEM, {"rdma.peermem": GATE}, "reject"),
    Case("dgx-os-peermem-rename-gdr-off", B300_SERVES, (other_image("b300"),), {"image.digest": GATE}, "reject"),
    Case("gb10-cold-jit-600s", B300_SERVES, (without("serving", "/models/cache"),), {"serving.cache": WARN}, "accept"),
    Case(
        "gb200-ibgda-unprivileged-container",
        B300_RDMA_SERVES,
        (without("serving", "--device /dev/infiniband"),),
        {"serving.rdma_devices": GATE},
        "reject",
    ),
    Case(
        "vllm-multinode-socket-fallback-privileged",
        B300_RDMA_SERVES,
        (without("serving", "--device /dev/infiniband"),),
        {"serving.rdma_devices": GATE},
        "reject",
    ),
    Case(
        "h20-oom-load-0130-regression",
        B300,
        (other_image("b300"),),
        {"image.pulled": WARN, "image.tag": WARN},
        "accept",
    ),
    Case(
        "h20-roce-dmabuf-invalid-arg-cu13",
        B300_RDMA,
        (without("system", "ib_umem_dmabuf_get"),),
        {"rdma.gpudirect": GATE},
        "reject",
    ),
    Case(
        "hami-vllm025-tp2-hang",
        B300,
        (put("serving", "- /etc/ld.so.preload\n", "= /etc/ld.so.preload\n|/usr/local/vgpu/libvgpu.so\n"),),
        {"serving.preload": WARN},
        "accept",
    ),
    Case(
        "k2-trtllm-moe-stuck-gb200",
        GB300,
        (other_image("gb300"), put("docker_images", "CUDA_VERSION=13.0.2", "CUDA_VERSION=12.9.1", 2)),
        {"image.pulled": WARN, "image.tag": WARN},
        "accept",
    ),
    Case(
        "k2thinking-mi300x-1p6tb-ram",
        MI355X,
        (other_image("mi355x"), put("system", "MemTotal:       2112880640 kB", "MemTotal:       1677721600 kB")),
        {"image.pulled": WARN, "image.tag": WARN},
        "accept",
    ),
    Case(
        "k3-b300-image-gone-efa-vs-roce",
        B300_RDMA,
        (EFA, other_image("b300")),
        {"rdma.reliable_connections": GATE, "image.pulled": WARN, "image.tag": WARN},
        "reject",
    ),
    Case(
        "k3-gb300-host-ram-cgroup-oom",
        GB300,
        (put("system", "MemTotal:       1002438656 kB", "MemTotal:       503316480 kB"),),
        {"host.memory": WARN, "fleet.memory": WARN},
        "accept",
    ),
    Case("k3-mi355x-no-mxfp4-backend", MI355X_SERVES, (other_image("mi355x"),), {"image.digest": GATE}, "reject"),
    Case("mi355x-no-kernel-image-014", MI355X_SERVES, (other_image("mi355x"),), {"image.digest": GATE}, "reject"),
    Case(
        "k3-mi355x-tp4-does-not-fit",
        MI355X,
        (lost_gpus,),
        {
            "gpu_driver.render_nodes": GATE,
            "gpus.count": GATE,
            "nvlink.xgmi": GATE,
            "container_runtime.amd_devices": GATE,
            "fleet.gpu_count": GATE,
        },
        "reject",
    ),
    Case(
        "llmd-480b-cache-too-small",
        B300_WEIGHTS,
        (
            without("weights", "^file .*model-0008|^file .*model-0009"),
            put(
                "weights",
                "df /dev/nvme1n1 3700000000 1600000000 2100000000 44% /models",
                "df /dev/nvme1n1 1400000000 1390000000 10000000 99% /models",
            ),
            without("weights_headers", "model-0008|model-0009"),
            put("weights_headers", "shards=96", "shards=79"),
        ),
        {
            "weights.index": GATE,
            "weights.shards": GATE,
            "weights.size": GATE,
            "weights.room": GATE,
            "weights.disk_size": WARN,
        },
        "reject",
    ),
    Case(
        "llmd-dp16-shm-leak",
        B300,
        (SHM_FULL, put("serving", "|nccl- 0", "|nccl- 214")),
        {"serving.segments": WARN, "serving.shared_memory": WARN},
        "accept",
    ),
    Case(
        "load-slow-600s-timeout-163-shards",
        B300_SERVES,
        (put("serving", "VLLM_ENGINE_READY_TIMEOUT_S=3600", "VLLM_ENGINE_READY_TIMEOUT_S=600"),),
        {"serving.ready_timeout": GATE},
        "reject",
    ),
    Case(
        "mi355x-peermem-less-mori-abort",
        MI355X_RDMA,
        (without("system", "ib_umem_dmabuf_get"),),
        {"rdma.gpudirect_amd": GATE},
        "reject",
    ),
    Case(
        "minimax01-h200-rented-shm",
        H200,
        (put("storage", "tmpfs 1056440320 0 1056440320 0% /dev/shm", "tmpfs 65536 0 65536 0% /dev/shm"),),
        {"host.shared_memory": GATE, "host.shared_memory_roomy": WARN},
        "reject",
    ),
    Case(
        "mmap-lustre-gke-slow-load",
        B300_WEIGHTS,
        (
            put(
                "weights", "mount /dev/nvme1n1 /models xfs rw,noatime", "mount 10.0.0.9@tcp:/fs /models lustre rw,flock"
            ),
        ),
        {"weights.filesystem": GATE},
        "reject",
    ),
    Case(
        "sglang-mmap-542gb-tens-of-minutes",
        B300_WEIGHTS,
        (put("weights", "mount /dev/nvme1n1 /models xfs rw,noatime", "mount filer:/models /models nfs4 ro,hard"),),
        {"weights.filesystem": GATE, "weights.writable": INFO},
        "reject",
    ),
    Case(
        "nccl-memlock-8192",
        B300_RDMA_SERVES,
        (put("serving", "--ulimit memlock=-1:-1", "--ulimit memlock=8388608:8388608"),),
        {"serving.memlock": GATE},
        "reject",
        "in the unit",
    ),
    Case(
        "nccl-memlock-8192",
        B300_RDMA,
        (
            put(
                "node_state",
                "unlimited            unlimited            bytes",
                "8388608              8388608              bytes",
            ),
        ),
        {"container_runtime.memlock": WARN},
        "accept",
        "of the engine",
    ),
    Case(
        "nct-cdi-spec-without-uuid", B300, (lambda texts: only_all(texts),), {"container_runtime.cdi": GATE}, "reject"
    ),
    Case(
        "nct-daemon-reload-loses-gpus",
        B300,
        (put("nvidia_ctk", "1.19.1", "1.17.8"), put("packages", "1.19.1-1", "1.17.8-1", 0)),
        {"container_runtime.toolkit": GATE, "container_runtime.reload_safe": WARN},
        "reject",
    ),
    Case(
        "omni-incomplete-weights-timeout",
        B300_WEIGHTS,
        (
            without("weights", "^file .*model-00042"),
            without("weights_headers", "model-00042"),
            put("weights_headers", "shards=96", "shards=95"),
        ),
        {"weights.index": GATE, "weights.shards": GATE, "weights.size": GATE},
        "reject",
    ),
    Case(
        "rccl-missing-iommu-pt",
        MI355X,
        (put("cmdline", "amd_iommu=on iommu=pt ", ""),),
        {"host.iommu": WARN, "gpu_driver.kernel_arguments": WARN},
        "accept",
    ),
    Case("rocr-vmem-numa-node0", MI355X, (), {}, "accept"),
    Case(
        "rtxpro6000-iommu-hang-tp2",
        B200,
        (put("cmdline", " iommu=pt", ""), put("pci_bridges", "ReqRedir- CmpltRedir-", "ReqRedir+ CmpltRedir+", 0)),
        {"host.iommu": WARN, "rdma.acs": WARN, "fleet.cmdline": WARN},
        "accept",
    ),
    Case(
        "vllm-pynccl-stuck-roce-gid",
        GID_INDEX,
        (put("rdma", "mlx5_2/ports/1/gids/3\n", "mlx5_2/ports/1/gids/5\n"),),
        {"rdma.gid_index": GATE, "fleet.gid_index": WARN},
        "reject",
    ),
)


def only_all(texts: Texts) -> None:
    """The CDI spec names no single GPU any more."""
    text = text_of(texts, "cdi_specs")
    changed = re.sub(r'\|- name: "\d+"\n\|  containerEdits:\n\|    deviceNodes:\n\|    - path: .*\n', "", text)
    assert changed != text
    texts["cdi_specs"] = changed
