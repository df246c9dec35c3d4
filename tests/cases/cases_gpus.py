"""Cases whose fact lies in the GPUs, their driver, NVLink or IMEX."""

from __future__ import annotations

from rackproof.evidence.tools.system import FIRMWARE, NODES

from .edits import Edit, Texts, everywhere, first, gpu_lost, gpus, hangs, logged, module, process, put, several, unit, whole, without
from .gpu_sections import CHANNEL, CHANNELS
from .machine import CLUSTER, NIL, NVIDIA_DRIVER, shown
from .table import B200, B300, DETECTED, GATE, GB300, H200, INFO, MI355X, WARN, Case, Context

XID = "NVRM: Xid (PCI:0000:{bus}:00): {rest}"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"
KUBERNETES = Context(
    "gb300",
    site={"imex": {"owner": "kubernetes"}},
    prepare=(
        unit("nvidia-imex", ActiveState="inactive", SubState="dead", UnitFileState="disabled"),
        lambda texts: texts.__delitem__("imex_ctl"),
        without("imex_files", "nodes_config|10\\.0\\.0"),
        put("imex_files", "= /etc/nvidia-imex/config.cfg", "- /etc/nvidia-imex/nodes_config.cfg\n= /etc/nvidia-imex/config.cfg"),
    ),
)


def memory_node(number: int) -> str:
    """GPU memory as a NUMA node without CPUs."""
    return f"= {NODES}/node{number}/cpulist\n|\n" + shown(f"{NODES}/node{number}/meminfo", f"Node {number} MemTotal: 291028992 kB")


def driver(version: str, cuda: str) -> tuple[Edit, ...]:
    return (everywhere(NVIDIA_DRIVER, version), put("nvidia_smi_xml", "<cuda_version>13.0<", f"<cuda_version>{cuda}<"))


NO_CHANNEL = put("imex_files", f"+ {CHANNEL}\n= mode {CHANNEL}\n|666\n", f"- {CHANNELS}/*\n")
UNREGISTERED = several(
    gpus("<state>Completed</state>", "<state>In Progress</state>"), gpus("<status>Success</status>", "<status>N/A</status>")
)

CASES = (
    Case(
        "aicr-host-imex-vs-dra-in-use", KUBERNETES,
        (unit("nvidia-imex", ActiveState="active", SubState="running", UnitFileState="enabled"),),
        {}, "reject",
    ),
    Case("aicr-idle-gb300-imex-false-alarm", KUBERNETES, (), {}, "accept"),
    Case(
        "akash-rented-gpu-off-bus", B300,
        (gpu_lost(5), logged(XID.format(bus="aa", rest="79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))),
        {}, "reject",
    ),
    Case(
        "azure-fabric-insufficient-resources", GB300,
        (
            gpus("<status>Success</status>", "<status>Insufficient Resources</status>"),
            gpus("<cliqueId>32766</cliqueId>", "<cliqueId>0</cliqueId>"),
            gpus(CLUSTER, NIL),
        ),
        {}, "reject",
    ),
    Case(
        "b200-ib-umad-autoload-canvos", B200,
        (module("ib_umad", False), without("rdma", "/dev/infiniband/umad"), UNREGISTERED), {}, "reject",
    ),
    Case("b200-nvlsm-missing-talos", B200, (without("packages", "nvlsm"), UNREGISTERED), {}, "reject"),
    Case(
        "b300-xid145-nvlink-rlw", B300,
        (logged(XID.format(bus="2e", rest="145, pid=11436, name=VLLM::Worker_TP0, RLW_RXPIPE Fatal XC0 i0 Link 13 (0x0409a0c2)")),),
        {}, "reject",
    ),
    Case(
        "b300-xid145-nvlink-rlw", B300, (logged(XID.format(bus="2e", rest="145")),), {}, "undetermined", "no word of severity",
    ),
    Case("cuda13-binary-silent-cpu-hpc", H200, driver("570.133.20", "12.8"), {}, "reject"),
    Case(
        "dlami-no-fabricmanager-802", H200,
        (
            without("packages", "nvidia-fabricmanager"), lambda texts: texts.__delitem__("fabric_manager"), UNREGISTERED,
            unit("nvidia-fabricmanager", LoadState="not-found", ActiveState="inactive", SubState="dead", UnitFileState=""),
        ),
        {}, "reject",
    ),
    Case(
        "dra-fabric-unhealthy-silent-fallback", GB300,
        (gpus("<summary>Healthy</summary>", "<summary>Unhealthy</summary>", 2),), {}, "reject",
    ),
    Case(
        "dra-imex-memory-reference-rc87", GB300,
        (
            first("imex_ctl", '"1": {"status": "READY"', '"1": {"status": "UNAVAILABLE"'),
            put("imex_ctl", '"status": "UP"', '"status": "DEGRADED"'),
        ),
        {}, "reject",
    ),
    Case(
        "dra-imex-no-interface", GB300,
        (put("imex_files", "|10.0.0.1\n|10.0.0.2\n", "|10.9.9.1\n|10.9.9.2\n"),), {}, "reject",
    ),
    Case("dra-imex-stale-invalid-handle", GB300, (hangs("imex_ctl"),), {}, "undetermined"),
    Case(
        "dstack-fabric-green-but-pcie", B300,
        (UNREGISTERED, put("nvidia_smi_p2p", "\tOK", "\tNS", 56)), {}, "reject",
    ),
    Case(
        "ecc-uncorrectable-vllm-5222", B300,
        (gpus("<dram_uncorrectable>0<", "<dram_uncorrectable>2<", 3),), {}, "reject",
    ),
    Case(
        "fluidstack-nvlink-lane-downtrained", B300,
        (first("nvidia_smi_nvlink", "Link 7: 53.125 GB/s", "Link 7: 26.562 GB/s"),), {}, "reject",
    ),
    Case(
        "gb10-proprietary-modules-rminit", B300,
        (
            put("nvidia_proc", "Open Kernel Module for x86_64", "x86_64 Kernel Module"),
            put("nvidia_modinfo", "Dual MIT/GPL", "NVIDIA"),
        ),
        {}, "reject",
    ),
    Case("h200-dsv32-ready-timeout-deepgemm", H200, (process("VLLM::EngineCore", 612, 0),), {}, "reject"),
    Case(
        "hbm-failing-a100-engine-hang", H200,
        (
            gpus("<remapped_row_unc>0<", "<remapped_row_unc>11<", 2),
            gpus("<remapped_row_pending>No<", "<remapped_row_pending>Yes<", 2),
            logged(XID.format(bus="4d", rest="63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping")),
        ),
        {}, "reject",
    ),
    Case(
        "k25-gb200-nixl-err-backend", GB300, (NO_CHANNEL,), {}, "reject", "no channel",
    ),
    Case(
        "k25-gb200-nixl-err-backend", GB300, (gpus("<cliqueId>32766<", "<cliqueId>32767<"),), {}, "reject", "another clique",
    ),
    Case("mig-no-p2p-nvls", H200, (gpus("<current_mig>Disabled<", "<current_mig>Enabled<", 6),), {}, "reject"),
    Case(
        "mscclpp-imex-channel-missing", GB300,
        (
            NO_CHANNEL,
            put("nvidia_proc", "CreateImexChannel0: 1", "CreateImexChannel0: 0"),
        ),
        {}, "reject",
    ),
    Case(
        "nvsentinel-fm-dead-20-days", H200,
        (
            unit("nvidia-fabricmanager", ActiveState="failed", SubState="failed", Result="exit-code"),
            gpus("<status>Success<", "<status>Unknown Error<", 1, 4),
            gpus("<state>Completed<", "<state>In Progress<", 4),
        ),
        {}, "reject",
    ),
    Case(
        "ogkm-xid145-149-nvlink-inactive", B300,
        (
            lambda texts: inactive(texts, 3),
            logged(XID.format(bus="6c", rest="149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 0x00000000)")),
            logged(XID.format(bus="2e", rest="145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)")),
        ),
        {}, "reject",
    ),
    Case("omni-two-stages-one-gpu-free-memory", H200, (process("python3", 26624, 0),), {}, "reject"),
    Case("vllm-enginecore-orphan-holds-vram", B300, (process("VLLM::EngineCore", 254000, 0), put("gpu_holders", "end", "4242 VLLM::EngineCor\nend")), {}, "reject"),
    Case(
        "runpod-gptoss-init-device-fail", H200, (*driver("570.133.20", "12.8"), gpus("<used>0 MiB<", "<used>18250 MiB<", 0)), {}, "reject",
    ),
    Case("sglang-ci-driver-too-old-cu13", H200, driver("550.54.15", "12.4"), {}, "reject"),
    Case(
        "unattended-upgrade-driver-lib-mismatch", B300,
        (
            put("nvidia_library", NVIDIA_DRIVER, "580.178.04", 2), put("packages", NVIDIA_DRIVER, "580.178.04", 0),
            *(whole(name, MISMATCH, 18) for name in ("nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_p2p", "nvidia_smi_nvlink")),
        ),
        {}, "reject",
    ),
    Case(
        "v100-rma-single-bit-ecc-misdiagnosis", H200,
        tuple(logged(XID.format(bus="8b", rest=rest)) for rest in ("62, pid=1, name=x", "79, pid=1, name=x, GPU has fallen off the bus.")),
        {}, "reject",
    ),
    *(
        Case(name, DETECTED, (gpus("NVIDIA B300 SXM6 AC", product), gpus("275040 MiB", f"{mib} MiB")), {}, "undetermined")
        for name, product, mib in (
            ("v0-load-model-oom-tp", "Tesla T4", 15360),
            ("dsv2-ray-profile-oom-44g", "NVIDIA L40S", 46068),
            ("gptoss120-h100-no-cache-blocks", "NVIDIA H100 80GB HBM3", 81559),
            ("dgx-spark-cma-and-nccl-conf", "NVIDIA GB10", 124610),
        )
    ),
    # --- not the host's fault ---
    Case(
        "aiter-fake-sram-ecc-mi300x", MI355X,
        (logged("amdgpu 0000:15:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32774)"),), {}, "accept",
    ),
    Case("b200-sustained-throttle-benchmark", B200, (gpus("sw_power_cap>Not Active<", "sw_power_cap>Active<"),), {}, "accept"),
    Case(
        "gb200-numa-hbm-nodes-numactl", GB300,
        (
            put("nvidia_proc", 'CoherentGPUMemoryMode: "driver"', 'CoherentGPUMemoryMode: ""'),
            put("system", f"+ {FIRMWARE}/acpi", "".join(map(memory_node, (2, 10, 18, 26))) + f"+ {FIRMWARE}/acpi"),
        ),
        {}, "accept",
    ),
    Case(
        "k3-ima-b300-concurrent-load", B300,
        (logged(XID.format(bus="0f", rest="31, pid=4242, name=VLLM::Worker_TP0, Ch 0000000e, intr 00000000. MMU Fault")),), {}, "accept",
    ),
    Case(
        "k3-sglang-dspark-xid13-218k", B300,
        (logged(XID.format(bus="0f", rest="13, pid=4242, name=sglang, Graphics SM Warp Exception on (GPC 1, TPC 0, SM 0)")),), {}, "accept",
    ),
    Case("k25-mi355x-aiter-mla-heads", MI355X, (), {}, "accept"),
    Case("k3-aiter-topk-renorm-mi355x", MI355X, (), {}, "accept"),
    Case("k3-mi355x-hip700-aiter-mla", MI355X, (), {}, "accept"),
    Case(
        "mi325x-hsa-1016-all-queues", MI355X,
        (logged("amdgpu 0000:05:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=2"),), {}, "accept",
    ),
)


def inactive(texts: Texts, gpu: int) -> None:
    blocks = str(texts["nvidia_smi_nvlink"]).split("GPU ")
    assert "53.125 GB/s" in blocks[gpu + 1]
    blocks[gpu + 1] = blocks[gpu + 1].replace("53.125 GB/s", "<inactive>")
    texts["nvidia_smi_nvlink"] = "GPU ".join(blocks)
