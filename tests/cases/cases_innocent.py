"""Cases that must not be blamed on the host: a node that shows what its reporters saw is accepted, if with a warning."""

from __future__ import annotations

from rackproof.evidence.tools.system import FIRMWARE, NODES

from .edits import (
    gpus,
    logged,
    put,
)
from .machine import shown
from .table import B200, B300, GB300, INFO, KUBERNETES, MI355X, WARN, XID, Case


def memory_node(number: int) -> str:
    """GPU memory as a NUMA node without CPUs."""
    return f"= {NODES}/node{number}/cpulist\n|\n" + shown(
        f"{NODES}/node{number}/meminfo", f"Node {number} MemTotal: 291028992 kB"
    )


CASES = (
    Case("aicr-idle-gb300-imex-false-alarm", KUBERNETES, (), {}, "accept"),
    Case(
        "aiter-fake-sram-ecc-mi300x",
        MI355X,
        (logged("amdgpu 0000:15:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32774)"),),
        {},
        "accept",
    ),
    Case(
        "b200-sustained-throttle-benchmark",
        B200,
        (gpus("sw_power_cap>Not Active<", "sw_power_cap>Active<"),),
        {},
        "accept",
    ),
    Case(
        "gb200-numa-hbm-nodes-numactl",
        GB300,
        (
            put("nvidia_proc", 'CoherentGPUMemoryMode: "driver"', 'CoherentGPUMemoryMode: ""'),
            put("system", f"+ {FIRMWARE}/acpi", "".join(map(memory_node, (2, 10, 18, 26))) + f"+ {FIRMWARE}/acpi"),
        ),
        {"gpus.memory_nodes": WARN, "fleet.processors": WARN, "fleet.driver_parameters": WARN},
        "accept",
    ),
    Case(
        "k3-ima-b300-concurrent-load",
        B300,
        (
            logged(
                XID.format(bus="0f", rest="31, pid=4242, name=VLLM::Worker_TP0, Ch 0000000e, intr 00000000. MMU Fault")
            ),
        ),
        {},
        "accept",
    ),
    Case(
        "k3-sglang-dspark-xid13-218k",
        B300,
        (
            logged(
                XID.format(
                    bus="0f", rest="13, pid=4242, name=sglang, Graphics SM Warp Exception on (GPC 1, TPC 0, SM 0)"
                )
            ),
        ),
        {},
        "accept",
    ),
    Case("k25-mi355x-aiter-mla-heads", MI355X, (), {}, "accept"),
    Case("k3-aiter-topk-renorm-mi355x", MI355X, (), {}, "accept"),
    Case("k3-mi355x-hip700-aiter-mla", MI355X, (), {}, "accept"),
    Case(
        "mi325x-hsa-1016-all-queues",
        MI355X,
        (logged("amdgpu 0000:05:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2"),),
        {"gpus.ras_other": INFO},
        "accept",
    ),
    *(
        Case(name, B300, (), {}, "accept")
        for name in (
            "fastsafetensors-tp-vram-2x",
            "graph-capture-underreserve-0.98",
            "qwen235-v1-oom-tp8",
            "mistral119-azure-maxlen-overestimate",
            "club3090-serving-oom-50mib",
            "v0-serving-oom-long-prompt",
        )
    ),
)
