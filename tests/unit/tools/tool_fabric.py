"""Healthy sections of RDMA, network, PCI and AMD: a GB300 tray with one ConnectX-8, and one MI355X beside it."""

from __future__ import annotations

import json

IB = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
NET = "/sys/class/net"
MODULES = ("ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib", "efa", "ionic",
           "ionic_rdma", "bnxt_en", "bnxt_re", "irdma", "rdma_rxe", "siw")  # fmt: skip


def shown(path: str, text: str) -> str:
    return f"= {path}\n" + "".join(f"|{line}\n" for line in text.splitlines())


def hca(name: str, **changes: str) -> str:
    """One RoCE device as the probe prints it; `changes` are files of its port 1."""
    port = {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "800 Gb/sec (4X XDR)", "link_layer": "Ethernet",
        "lid": "0x0", "sm_lid": "0x0",
    }  # fmt: skip
    tail = {
        "gids/0": "fe80:0000:0000:0000:0ac0:ebff:fe49:282a rdma0 IB/RoCE v1",
        "gids/3": "0000:0000:0000:0000:0000:ffff:c0a8:be6d rdma0 RoCE v2",
        "gids": "36", "pkeys": "1 0xffff", "counters": "symbol_error=0 link_downed=2 out_of_sequence=0",
    }  # fmt: skip
    uevent = "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1023\nPCI_SLOT_NAME=0000:03:00.0"
    own = {"fw_ver": "40.46.3008", "hca_type": "MT4131", "board_id": "NVD0000000001",
           "node_guid": "7425:5403:00f1:a4cd", "device/uevent": uevent, "device/numa_node": "0"}  # fmt: skip
    port.update({file: text for file, text in changes.items() if file in port})
    tail.update({file: text for file, text in changes.items() if file not in port})
    text = f"+ {IB}/{name}\n" + "".join(shown(f"{IB}/{name}/{file}", value) for file, value in own.items())
    text += f"- {IB}/{name}/parent\n+ {IB}/{name}/device/net/rdma0\n+ {IB}/{name}/ports/1\n"
    return text + "".join(shown(f"{IB}/{name}/ports/1/{file}", value) for file, value in {**port, **tail}.items())


def rdma(*hcas: str, rest: str = "") -> str:
    loaded = ("ib_core", "ib_uverbs", "rdma_cm", "mlx5_core", "mlx5_ib")
    modules = "".join(f"{'+' if name in loaded else '-'} /sys/module/{name}\n" for name in MODULES)
    devices = "+ /dev/infiniband/rdma_cm\n+ /dev/infiniband/uverbs0\n" if hcas else "- /dev/infiniband/*\n"
    return (
        ("".join(hcas) or f"- {IB}/*\n") + f"+ {NET}\n{devices}{modules}"
        + shown("/sys/module/mlx5_core/version", "25.10-1.0.0") + shown("ofed_info", "OFED-internal-25.10-1.0.0:")
        + rest + ".\n"
    )  # fmt: skip


ADDRESSES = [
    {"ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536, "operstate": "UNKNOWN",
     "link_type": "loopback", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "eth0", "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 9000, "operstate": "UP", "link_type": "ether",
     "addr_info": [{"family": "inet", "local": "10.0.0.1", "prefixlen": 24, "scope": "global"},
                   {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
                   {"family": "inet6", "local": "fd00::1", "prefixlen": 64, "scope": "global"}]},
]  # fmt: skip
ROUTES = [
    {"dst": "default", "gateway": "10.0.0.254", "dev": "eth9", "metric": 200, "flags": []},
    {"dst": "default", "gateway": "10.0.0.254", "dev": "eth0", "metric": 100, "flags": []},
]


def network(addresses: str = json.dumps(ADDRESSES), routes: str = json.dumps(ROUTES), **eth0: str) -> str:
    files = {"mtu": "9000", "operstate": "up", "carrier": "1", "carrier_changes": "2", "speed": "200000",
             "duplex": "full", **eth0}  # fmt: skip
    return (
        f"+ {NET}/eth0\n" + "".join(shown(f"{NET}/eth0/{file}", text) for file, text in files.items())
        + shown(f"{NET}/eth0/device/uevent", "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:03:00.0")
        + f"- {NET}/bonding_masters\n+ {NET}/lo\n" + shown(f"{NET}/lo/mtu", "65536")
        + shown("ip addr", addresses) + shown("ip route", routes) + shown("ip -6 route", "[]") + ".\n"
    )  # fmt: skip


def function(address: str, ids: str, path: str, **changes: str) -> str:
    files = {
        "numa_node": "0", "current_link_speed": "64.0 GT/s PCIe", "current_link_width": "16",
        "max_link_speed": "64.0 GT/s PCIe", "max_link_width": "16", "aer_dev_fatal": "0", "aer_dev_nonfatal": "0",
        "aer_dev_correctable": "7", **changes,
    }  # fmt: skip
    return shown(f"{PCI}/{address}", f"{ids} {path}") + "".join(
        shown(f"{PCI}/{address}/{file}", text) for file, text in files.items()
    )


def pci(*more: str) -> str:
    gpus = "".join(
        f"= {place}:06:00.0\n|0x31c2 0x10de 0x21f1\n"
        + function(f"{place}:06:00.0", "0x10de 0x31c2 0x030200",
                   f"/sys/devices/pci{place}:00/{place}:00:00.0/{place}:01:00.0/{place}:06:00.0")
        for place in ("0008", "0018")
    )  # fmt: skip
    return gpus + "".join(more) + "= devices\n|40\n.\n"


BRIDGES = """\
0000:82:00.0 PCI bridge: PMC-Sierra Inc. Device 4128 (prog-if 00 [Normal decode])
\t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
0008:00:00.0 PCI bridge: NVIDIA Corporation Device 22b8 (prog-if 00 [Normal decode])
0000:03:00.0 Infiniband controller: Mellanox Technologies CX8 Family [ConnectX-8]
\t\t\tMaxPayload 512 bytes, MaxReadReq 4096 bytes
.
"""
KFD_GPU = ("simd_count 1024\nsimd_per_cu 4\nlocation_id 1280\ndomain 0\nvendor_id 4098\ndevice_id 30115\n"
           "gfx_target_version 90500\n")  # fmt: skip
KFD_CPU = "cpu_cores_count 128\nsimd_count 0\ngfx_target_version 0\n"
AMD = (
    "+ /sys/module/amdgpu\n+ /dev/kfd\n+ /dev/dri/renderD128\n= kfd access\n|660 render\n"
    + shown("members render", "render:x:992:alice,bob") + shown("members video", "video:x:44:alice")
    + shown("/sys/module/amdgpu/version", "6.16.13") + shown("/sys/module/amdgpu/srcversion", "ABCD")
    + shown("/sys/module/amdgpu/parameters/noretry", "-1")
    + "! /sys/module/amdgpu/parameters/secret\n"
    + shown("/sys/class/kfd/kfd/topology/nodes/0/properties", KFD_CPU)
    + shown("/sys/class/kfd/kfd/topology/nodes/1/properties", KFD_GPU)
    + shown("modinfo srcversion", "ABCD")
    + shown("modinfo filename", "/lib/modules/6.8.0/updates/dkms/amdgpu.ko.zst")
    + shown("gpu 0000:05:00.0", "0x75a3") + shown("0000:05:00.0 unique_id", "6bff75a3")
    + shown("0000:05:00.0 mem_info_vram_total", "309220868096")
    + shown("0000:05:00.0 mem_info_vram_used", "298119168")
    + shown("0000:05:00.0 current_compute_partition", "SPX")
    + shown("0000:05:00.0 current_memory_partition", "NPS1") + ".\n"
)  # fmt: skip
STATIC = json.dumps(
    [{"gpu": 0, "bus": {"bdf": "0000:05:00.0", "max_pcie_width": 16, "max_pcie_speed": {"value": 32, "unit": "GT/s"}},
      "asic": {"market_name": "AMD Instinct MI355X", "vendor_id": "0x1002", "device_id": "0x75a3",
               "target_graphics_version": "gfx950", "num_compute_units": 256, "asic_serial": "0x1"},
      "vram": {"size": {"value": 294896, "unit": "MB"}}, "ras": {"poison_schema": "ENABLED"},
      "driver": {"name": "amdgpu", "version": "6.16.13"},
      "limit": {"ppt0": {"max_power_limit": {"value": 1400, "unit": "W"},
                         "socket_power_limit": {"value": 1400, "unit": "W"}}}}]
)  # fmt: skip
METRIC = json.dumps(
    {"gpu_data": [{"gpu": 0, "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 0,
                                     "total_deferred_count": 0},
                   "power": {"socket_power": {"value": 239, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
                   "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}},
                   "temperature": {"hotspot": {"value": 36, "unit": "C"}}}]}
)  # fmt: skip
CARDS = json.dumps(
    {"card0": {"Device ID": "0x75a3", "PCI Bus": "0000:05:00.0", "VRAM Total Memory (B)": "309220868096"},
     "system": {"Driver version": "6.16.13"}}
)  # fmt: skip

TEXTS = {
    "rdma": rdma(hca("mlx5_0")),
    "network": network(),
    "pci": pci(),
    "pci_bridges": BRIDGES,
    "amd": AMD,
    "amd_smi_static": STATIC,
    "amd_smi_metric": METRIC,
    "amd_smi_process": json.dumps([{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]}]),
    "amd_smi_bad_pages": json.dumps(
        [{"gpu": 0, **dict.fromkeys(("retired", "pending", "un_res"), "No bad pages found.")}]
    ),
    "amd_smi_firmware": json.dumps([{"gpu": 0, "fw_list": [{"fw_id": "CP_MEC1", "fw_version": "147"}]}]),
    "rocm_smi": CARDS,
}
