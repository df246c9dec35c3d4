"""Cases whose fact lies in NVLink, its daemons or IMEX."""

from __future__ import annotations

from .edits import (
    Texts,
    first,
    gpus,
    hangs,
    logged,
    module,
    put,
    several,
    unit,
    without,
)
from .gpu_sections import CHANNEL, CHANNELS
from .machine import CLUSTER, NIL
from .table import B200, B300, GATE, GB300, H200, INFO, KUBERNETES, WARN, XID, Case

NO_CHANNEL = put("imex_files", f"+ {CHANNEL}\n= mode {CHANNEL}\n|666\n", f"- {CHANNELS}/*\n")
UNREGISTERED = several(
    gpus("<state>Completed</state>", "<state>In Progress</state>"),
    gpus("<status>Success</status>", "<status>N/A</status>"),
)


CASES = (
    Case(
        "aicr-host-imex-vs-dra-in-use",
        KUBERNETES,
        (unit("nvidia-imex", ActiveState="active", SubState="running", UnitFileState="enabled"),),
        {"nvlink.imex_owner": GATE},
        "reject",
    ),
    Case(
        "azure-fabric-insufficient-resources",
        GB300,
        (
            gpus("<status>Success</status>", "<status>Insufficient Resources</status>"),
            gpus("<cliqueId>32766</cliqueId>", "<cliqueId>0</cliqueId>"),
            gpus(CLUSTER, NIL),
        ),
        {"nvlink.fabric_state": GATE},
        "reject",
    ),
    Case(
        "b200-ib-umad-autoload-canvos",
        B200,
        (module("ib_umad", False), without("rdma", "/dev/infiniband/umad"), UNREGISTERED),
        {"nvlink.fabric_state": GATE, "nvlink.fabric_modules": GATE},
        "reject",
    ),
    Case(
        "b200-nvlsm-missing-talos",
        B200,
        (without("packages", "nvlsm"), UNREGISTERED),
        {"nvlink.fabric_state": GATE, "nvlink.subnet_manager": GATE},
        "reject",
    ),
    Case(
        "dlami-no-fabricmanager-802",
        H200,
        (
            without("packages", "nvidia-fabricmanager"),
            lambda texts: texts.__delitem__("fabric_manager"),
            UNREGISTERED,
            unit(
                "nvidia-fabricmanager", LoadState="not-found", ActiveState="inactive", SubState="dead", UnitFileState=""
            ),
        ),
        {"nvlink.fabric_state": GATE, "nvlink.fabric_manager": GATE, "fleet.fabric_manager": WARN},
        "reject",
    ),
    Case(
        "dra-fabric-unhealthy-silent-fallback",
        GB300,
        (gpus("<summary>Healthy</summary>", "<summary>Unhealthy</summary>", 2),),
        {"nvlink.rack_health": GATE},
        "reject",
    ),
    Case(
        "dra-imex-memory-reference-rc87",
        GB300,
        (
            first("imex_ctl", '"1": {"status": "READY"', '"1": {"status": "UNAVAILABLE"'),
            put("imex_ctl", '"status": "UP"', '"status": "DEGRADED"'),
        ),
        {"nvlink.imex_domain": GATE},
        "reject",
    ),
    Case(
        "dra-imex-no-interface",
        GB300,
        (put("imex_files", "|10.0.0.1\n|10.0.0.2\n", "|10.9.9.1\n|10.9.9.2\n"),),
        {"nvlink.imex_nodes": GATE, "nvlink.imex_member": GATE, "fleet.imex_nodes": GATE},
        "reject",
    ),
    Case(
        "dra-imex-stale-invalid-handle",
        GB300,
        (hangs("imex_ctl"),),
        {},
        "undetermined",
        unknown=("nvlink.imex_domain",),
    ),
    Case(
        "dstack-fabric-green-but-pcie",
        B300,
        (UNREGISTERED, put("nvidia_smi_p2p", "\tOK", "\tNS", 56)),
        {"nvlink.fabric_state": GATE, "nvlink.p2p": WARN},
        "reject",
    ),
    Case(
        "fluidstack-nvlink-lane-downtrained",
        B300,
        (first("nvidia_smi_nvlink", "Link 7: 53.125 GB/s", "Link 7: 26.562 GB/s"),),
        {"nvlink.links": GATE, "nvlink.link_rate": WARN},
        "reject",
    ),
    Case(
        "k25-gb200-nixl-err-backend",
        GB300,
        (NO_CHANNEL,),
        {"nvlink.imex_channel": GATE},
        "reject",
        "no channel",
    ),
    Case(
        "k25-gb200-nixl-err-backend",
        GB300,
        (gpus("<cliqueId>32766<", "<cliqueId>32767<"),),
        {"fleet.clique": GATE},
        "reject",
        "another clique",
    ),
    Case(
        "mscclpp-imex-channel-missing",
        GB300,
        (
            NO_CHANNEL,
            put("nvidia_proc", "CreateImexChannel0: 1", "CreateImexChannel0: 0"),
        ),
        {"gpu_driver.parameters": GATE, "nvlink.imex_channel": GATE, "fleet.driver_parameters": WARN},
        "reject",
    ),
    Case(
        "nvsentinel-fm-dead-20-days",
        H200,
        (
            unit("nvidia-fabricmanager", ActiveState="failed", SubState="failed", Result="exit-code"),
            gpus("<status>Success<", "<status>Unknown Error<", 1, 4),
            gpus("<state>Completed<", "<state>In Progress<", 4),
        ),
        {"nvlink.fabric_state": GATE, "nvlink.fabric_manager": GATE},
        "reject",
    ),
    Case(
        "ogkm-xid145-149-nvlink-inactive",
        B300,
        (
            lambda texts: inactive(texts, 3),
            logged(XID.format(bus="6c", rest="149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 0x00000000)")),
            logged(XID.format(bus="2e", rest="145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)")),
        ),
        {"gpus.nvlink_xid": GATE, "gpus.other_xids": INFO, "nvlink.links": GATE},
        "reject",
    ),
)


def inactive(texts: Texts, gpu: int) -> None:
    blocks = str(texts["nvidia_smi_nvlink"]).split("GPU ")
    assert "53.125 GB/s" in blocks[gpu + 1]
    blocks[gpu + 1] = blocks[gpu + 1].replace("53.125 GB/s", "<inactive>")
    texts["nvidia_smi_nvlink"] = "GPU ".join(blocks)
