"""Cases whose fact lies in the GPUs or in their driver."""

from __future__ import annotations

from .edits import (
    Edit,
    everywhere,
    gpu_lost,
    gpus,
    logged,
    process,
    put,
    whole,
)
from .machine import NVIDIA_DRIVER
from .table import B300, DETECTED, GATE, H200, INFO, WARN, XID, Case

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"


def driver(version: str, cuda: str) -> tuple[Edit, ...]:
    return (everywhere(NVIDIA_DRIVER, version), put("nvidia_smi_xml", "<cuda_version>13.0<", f"<cuda_version>{cuda}<"))


CASES = (
    Case(
        "akash-rented-gpu-off-bus",
        B300,
        (
            gpu_lost(5),
            logged(XID.format(bus="aa", rest="79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")),
        ),
        {"gpus.count": GATE, "gpus.xid": GATE, "fleet.gpu_count": GATE},
        "reject",
    ),
    Case(
        "b300-xid145-nvlink-rlw",
        B300,
        (
            logged(
                XID.format(
                    bus="2e", rest="145, pid=11436, name=VLLM::Worker_TP0, RLW_RXPIPE Fatal XC0 i0 Link 13 (0x0409a0c2)"
                )
            ),
        ),
        {"gpus.nvlink_xid": GATE, "gpus.other_xids": INFO},
        "reject",
    ),
    Case(
        "b300-xid145-nvlink-rlw",
        B300,
        (logged(XID.format(bus="2e", rest="145")),),
        {"gpus.other_xids": INFO},
        "undetermined",
        "no word of severity",
        unknown=("gpus.nvlink_xid",),
    ),
    Case(
        "cuda13-binary-silent-cpu-hpc",
        H200,
        driver("570.133.20", "12.8"),
        {
            "gpu_driver.branch": GATE,
            "gpu_driver.cuda": GATE,
            "image.driver_cuda": WARN,
            "fleet.driver": GATE,
            "fleet.cuda": GATE,
            "fleet.firmware": WARN,
            "fleet.fabric_manager": WARN,
        },
        "reject",
    ),
    Case(
        "ecc-uncorrectable-vllm-5222",
        B300,
        (gpus("<dram_uncorrectable>0<", "<dram_uncorrectable>2<", 3),),
        {"gpus.ecc_errors": GATE},
        "reject",
    ),
    Case(
        "gb10-proprietary-modules-rminit",
        B300,
        (
            put("nvidia_proc", "Open Kernel Module for x86_64", "x86_64 Kernel Module"),
            put("nvidia_modinfo", "Dual MIT/GPL", "NVIDIA"),
        ),
        {"gpu_driver.module_flavour": GATE},
        "reject",
    ),
    Case(
        "h200-dsv32-ready-timeout-deepgemm",
        H200,
        (process("VLLM::EngineCore", 612, 0),),
        {"gpus.idle": GATE, "gpus.memory_idle_tight": GATE},
        "reject",
    ),
    Case(
        "hbm-failing-a100-engine-hang",
        H200,
        (
            gpus("<remapped_row_unc>0<", "<remapped_row_unc>11<", 2),
            gpus("<remapped_row_pending>No<", "<remapped_row_pending>Yes<", 2),
            logged(
                XID.format(
                    bus="4d", rest="63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping"
                )
            ),
        ),
        {"gpus.row_remap": GATE, "gpus.remapped_rows": INFO, "gpus.other_xids": INFO},
        "reject",
    ),
    Case(
        "mig-no-p2p-nvls",
        H200,
        (gpus("<current_mig>Disabled<", "<current_mig>Enabled<", 6),),
        {"gpus.mig": GATE},
        "reject",
    ),
    Case(
        "omni-two-stages-one-gpu-free-memory",
        H200,
        (process("python3", 26624, 0),),
        {"gpus.idle": GATE, "gpus.memory_idle": WARN, "gpus.memory_idle_tight": GATE},
        "reject",
    ),
    Case(
        "vllm-enginecore-orphan-holds-vram",
        B300,
        (process("VLLM::EngineCore", 254000, 0), put("gpu_holders", "end", "4242 VLLM::EngineCor\nend")),
        {"gpus.idle": GATE, "gpus.memory_idle": WARN, "gpus.holders": WARN},
        "reject",
    ),
    Case(
        "runpod-gptoss-init-device-fail",
        H200,
        (*driver("570.133.20", "12.8"), gpus("<used>0 MiB<", "<used>18250 MiB<", 0)),
        {
            "gpu_driver.branch": GATE,
            "gpu_driver.cuda": GATE,
            "gpus.memory_idle": WARN,
            "gpus.memory_idle_tight": GATE,
            "image.driver_cuda": WARN,
            "fleet.driver": GATE,
            "fleet.cuda": GATE,
            "fleet.firmware": WARN,
            "fleet.fabric_manager": WARN,
        },
        "reject",
    ),
    Case(
        "sglang-ci-driver-too-old-cu13",
        H200,
        driver("550.54.15", "12.4"),
        {
            "gpu_driver.branch": GATE,
            "gpu_driver.cuda": GATE,
            "image.driver_cuda": WARN,
            "fleet.driver": GATE,
            "fleet.cuda": GATE,
            "fleet.firmware": WARN,
            "fleet.fabric_manager": WARN,
        },
        "reject",
    ),
    Case(
        "unattended-upgrade-driver-lib-mismatch",
        B300,
        (
            put("nvidia_library", NVIDIA_DRIVER, "580.178.04", 2),
            put("packages", NVIDIA_DRIVER, "580.178.04", 0),
            *(
                whole(name, MISMATCH, 18)
                for name in ("nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_p2p", "nvidia_smi_nvlink")
            ),
        ),
        {"gpu_driver.lockstep": GATE, "gpu_driver.libraries": GATE, "nvlink.fabric_manager": GATE},
        "reject",
    ),
    Case(
        "v100-rma-single-bit-ecc-misdiagnosis",
        H200,
        tuple(
            logged(XID.format(bus="8b", rest=rest))
            for rest in ("62, pid=1, name=x", "79, pid=1, name=x, GPU has fallen off the bus.")
        ),
        {"gpus.xid": GATE},
        "reject",
    ),
    *(
        Case(
            name,
            DETECTED,
            (gpus("NVIDIA B300 SXM6 AC", product), gpus("275040 MiB", f"{mib} MiB")),
            {},
            "undetermined",
            unknown=("host.hardware",),
        )
        for name, product, mib in (
            ("v0-load-model-oom-tp", "Tesla T4", 15360),
            ("dsv2-ray-profile-oom-44g", "NVIDIA L40S", 46068),
            ("gptoss120-h100-no-cache-blocks", "NVIDIA H100 80GB HBM3", 81559),
            ("dgx-spark-cma-and-nccl-conf", "NVIDIA GB10", 124610),
        )
    ),
)
