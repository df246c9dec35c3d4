"""Sections of the container engine, the network, PCI and AMD's tools of a healthy node."""

from __future__ import annotations

import json
from itertools import permutations

from rackproof import recipes
from rackproof.baseline import Baseline

from .machine import NVIDIA_DRIVER, Machine, gone, shown, there

IB, PCI, NET = "/sys/class/infiniband", "/sys/bus/pci/devices", "/sys/class/net"
RDMA_MODULES = ("ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib", "efa", "ionic",
                "ionic_rdma", "bnxt_en", "bnxt_re", "irdma", "rdma_rxe", "siw")  # fmt: skip
KFD = "/sys/class/kfd/kfd/topology/nodes"


def sections(machine: Machine, wanted: Baseline) -> dict[str, str]:
    found = {
        "docker_info": docker_info(machine),
        "docker_images": images(wanted),
        "docker_running": "end\n",
        "docker_config": (
            shown("/etc/docker/daemon.json", '{"live-restore": true, "log-driver": "json-file", "log-opts": {"max-size": "100m"}}')
            + shown("containerd", "containerd github.com/containerd/containerd 1.7.28") + gone("podman", "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml") + ".\n"
        ),
        "image_chain": gone("/etc/rackproof/image/*") + ".\n",
        "rdma": rdma(machine),
        "network": network(machine),
        "pci": pci(machine),
        "pci_bridges": bridges(machine),
        "amd": amd(machine),
    }  # fmt: skip
    if machine.vendor == "nvidia":
        found["nvidia_ctk"] = "NVIDIA Container Toolkit CLI version 1.19.1\ncommit: 5505e2f9\n\n"
        found["cdi_specs"] = gone("/etc/cdi/*.yaml") + shown("/var/run/cdi/nvidia.yaml", cdi(machine)) + ".\n"
    else:
        found |= amd_smi(machine)
        found["cdi_specs"] = gone("/etc/cdi/*.yaml", "/var/run/cdi/*.yaml") + ".\n"
    return found


def docker_info(machine: Machine) -> str:
    nvidia = machine.vendor == "nvidia"
    devices = [str(index) for index in range(len(machine.gpus))] + ["all"] if nvidia else []
    return json.dumps({
        "ServerVersion": "28.2.2", "CgroupVersion": "2", "CgroupDriver": "systemd",
        "Runtimes": {"runc": {}, "nvidia" if nvidia else "amd": {}}, "DefaultRuntime": "runc",
        "DockerRootDir": "/var/lib/docker", "Driver": "overlay2",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
        "DiscoveredDevices": [{"Source": "cdi", "ID": f"nvidia.com/gpu={device}"} for device in devices],
    }) + "\n"  # fmt: skip


def images(wanted: Baseline) -> str:
    image = wanted.image
    name = image.repository.removeprefix("docker.io/")
    earlier = next(one for one in recipes.load().images.values() if one.index != image.index)
    described = [
        (f"{name}:{image.tag}", image.index, "sha256:" + "1" * 64),
        (f"{name}:earlier", earlier.index, "sha256:" + "2" * 64),
    ]
    env = ["PATH=/usr/bin:/bin"] + (["CUDA_VERSION=13.0.2"] if wanted.vendor == "nvidia" else [])
    return json.dumps([
        {"Id": id, "RepoTags": [tag], "RepoDigests": [f"{name}@{digest}"], "Architecture": image.architecture, "Os": "linux",
         "Config": {"Env": env, "Labels": {}}}
        for tag, digest, id in described
    ]) + "\n"  # fmt: skip


def cdi(machine: Machine) -> str:
    folder = f"/usr/lib/{machine.tag}"
    mounts = "".join(
        f"  - containerPath: {path}\n    hostPath: {path}\n    options: [ro, nosuid, nodev, bind]\n"
        for path in (f"{folder}/libcuda.so.{NVIDIA_DRIVER}", f"{folder}/libnvidia-ml.so.{NVIDIA_DRIVER}")
    )
    devices = "".join(
        f'- name: "{index}"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{index}\n'
        for index in range(len(machine.gpus))
    )
    every = "".join(f"    - path: /dev/nvidia{index}\n" for index in range(len(machine.gpus)))
    return (
        f"---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n{mounts}devices:\n{devices}"
        f"- name: all\n  containerEdits:\n    deviceNodes:\n{every}"
    )


def hca(machine: Machine, index: int) -> str:
    name, address = f"mlx5_{index}", machine.nics[index]
    layer = "InfiniBand" if machine.infiniband else "Ethernet"
    net = f"{'ib' if machine.infiniband else 'rdma'}{index}"
    model, device = ("MT4131", "1023") if machine.rate_gbit == 800 else ("MT4129", "1021")
    rate = "800 Gb/sec (4X XDR)" if machine.rate_gbit == 800 else "400 Gb/sec (4X NDR)"
    mac = f"{machine.number:02x}{index:02x}"
    own = {
        "fw_ver": "40.46.3048" if model == "MT4131" else "28.43.8002", "hca_type": model, "board_id": "NVD0000000001",
        "node_guid": f"7425:5403:00f1:{mac}",
        "device/uevent": f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:{device}\nPCI_SLOT_NAME={address}",
        "device/numa_node": str(index * 2 // len(machine.gpus)),
    }  # fmt: skip
    gids = {
        "gids/0": f"fe80:0000:0000:0000:0000:00ff:fe00:{mac} {net} IB/RoCE v1",
        "gids/1": f"fe80:0000:0000:0000:0000:00ff:fe00:{mac} {net} RoCE v2",
        "gids/2": f"0000:0000:0000:0000:0000:ffff:0a02:{index:02x}{machine.number:02x} {net} IB/RoCE v1",
        "gids/3": f"0000:0000:0000:0000:0000:ffff:0a02:{index:02x}{machine.number:02x} {net} RoCE v2",
    }
    if machine.infiniband:
        gids = {"gids/0": f"fe80:0000:0000:0000:0000:00ff:fe00:{mac} {net} IB/RoCE v1"}
    port = {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": rate, "link_layer": layer,
        "lid": "0x7" if machine.infiniband else "0x0", "sm_lid": "0x1" if machine.infiniband else "0x0",
        **gids, "gids": "256", "pkeys": "1 0xffff", "counters": "symbol_error=0 link_downed=0 port_rcv_errors=0",
    }  # fmt: skip
    text = there(f"{IB}/{name}") + "".join(shown(f"{IB}/{name}/{file}", value) for file, value in own.items())
    text += gone(f"{IB}/{name}/parent") + there(f"{IB}/{name}/device/net/{net}", f"{IB}/{name}/ports/1")
    return text + "".join(shown(f"{IB}/{name}/ports/1/{file}", value) for file, value in port.items())


def rdma(machine: Machine) -> str:
    loaded = ("ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "mlx5_core", "mlx5_ib")
    modules = "".join((there if name in loaded else gone)(f"/sys/module/{name}") for name in RDMA_MODULES)
    size = range(len(machine.gpus))
    return (
        "".join(hca(machine, index) for index in size) + there(NET, "/dev/infiniband/rdma_cm")
        + there(*(f"/dev/infiniband/uverbs{index}" for index in size), *(f"/dev/infiniband/umad{index}" for index in size))
        + modules + shown("/sys/module/mlx5_core/version", "25.10-1.0.0") + shown("ofed_info", "OFED-internal-25.10-1.0.0:") + ".\n"
    )  # fmt: skip


def network(machine: Machine) -> str:
    rails = [f"{'ib' if machine.infiniband else 'rdma'}{index}" for index in range(len(machine.gpus))]

    def address(name: str, mtu: int, local: str, link: str = "ether") -> dict[str, object]:
        flags = ["LOOPBACK", "UP", "LOWER_UP"] if name == "lo" else ["BROADCAST", "UP", "LOWER_UP"]
        info = [{"family": "inet", "local": local, "prefixlen": 24, "scope": "global"}]
        state = "UNKNOWN" if name == "lo" else "UP"
        return {"ifname": name, "flags": flags, "mtu": mtu, "operstate": state, "link_type": link, "addr_info": info}

    links = [address("lo", 65536, "127.0.0.1", "loopback"), address("eth0", 1500, machine.address)]
    links += [address(name, 9000, f"10.2.{index}.{machine.number}") for index, name in enumerate(rails)]
    routes = [{"dst": "default", "gateway": "10.0.0.254", "dev": "eth0", "metric": 100, "flags": []}]
    text = ""
    for name, slot, speed in [
        ("eth0", "0000:01:00.0", 25000),
        *((n, machine.nics[i], machine.rate_gbit * 1000) for i, n in enumerate(rails)),
    ]:
        files = {
            "mtu": 1500 if name == "eth0" else 9000,
            "operstate": "up",
            "carrier": 1,
            "carrier_changes": 2,
            "speed": speed,
            "duplex": "full",
        }
        text += there(f"{NET}/{name}") + "".join(shown(f"{NET}/{name}/{file}", value) for file, value in files.items())
        text += shown(f"{NET}/{name}/device/uevent", f"DRIVER=mlx5_core\nPCI_SLOT_NAME={slot}")
    return (
        text + gone(f"{NET}/bonding_masters") + there(f"{NET}/lo") + shown(f"{NET}/lo/mtu", 65536)
        + shown("ip addr", json.dumps(links)) + shown("ip route", json.dumps(routes)) + shown("ip -6 route", "[]") + ".\n"
    )  # fmt: skip


def _function(address: str, ids: str, path: str, numa: int, speed: str) -> str:
    files = {
        "numa_node": numa, "current_link_speed": speed, "current_link_width": 16, "max_link_speed": speed, "max_link_width": 16,
        "aer_dev_fatal": 0, "aer_dev_nonfatal": 0, "aer_dev_correctable": 7,
    }  # fmt: skip
    return shown(f"{PCI}/{address}", f"{ids} {path}") + "".join(
        shown(f"{PCI}/{address}/{file}", value) for file, value in files.items()
    )


def _switch(machine: Machine, index: int) -> str:
    """The bridges above a GPU and its NIC: a root port and a switch."""
    domain, bus = machine.gpus[index].split(":")[:2]
    if machine.tray:
        return f"/sys/devices/pci{domain}:00/{domain}:00:00.0/{domain}:01:00.0"
    return f"/sys/devices/pci{domain}:{int(bus, 16) - 2:02x}/{domain}:{int(bus, 16) - 2:02x}:01.0/{domain}:{int(bus, 16) - 1:02x}:00.0"


def pci(machine: Machine) -> str:
    vendor, kind = ("0x10de", "0x030200") if machine.vendor == "nvidia" else ("0x1002", "0x120000")
    text = (
        "".join(f"= {address}\n|0x{machine.device} {vendor} 0x0000\n" for address in machine.gpus)
        if vendor == "0x10de"
        else ""
    )
    nic = "0x1023" if machine.rate_gbit == 800 else "0x1021"
    nic_class = "0x020700" if machine.infiniband else "0x020000"
    for index, address in enumerate(machine.gpus):
        above, numa = _switch(machine, index), index * 2 // len(machine.gpus)
        text += _function(address, f"{vendor} 0x{machine.device} {kind}", f"{above}/{address}", numa, "32.0 GT/s PCIe")
        text += _function(
            machine.nics[index], f"0x15b3 {nic} {nic_class}", f"{above}/{machine.nics[index]}", numa, "64.0 GT/s PCIe"
        )
    return text + "= devices\n|" + str(40) + "\n.\n"


def bridges(machine: Machine) -> str:
    text = ""
    for index, nic in enumerate(machine.nics):
        for bridge in _switch(machine, index).split("/")[4:]:
            text += f"{bridge} PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (prog-if 00 [Normal decode])\n"
            text += "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"
        text += f"{nic} Infiniband controller: Mellanox Technologies CX8 Family [ConnectX-8]\n\t\t\tMaxPayload 512 bytes, MaxReadReq 4096 bytes\n"
    return text + ".\n"


def amd(machine: Machine) -> str:
    if machine.vendor != "amd":
        return gone("/sys/module/amdgpu", "/dev/kfd") + ".\n"
    size = len(machine.gpus)
    text = there("/sys/module/amdgpu", "/dev/kfd", *(f"/dev/dri/renderD{128 + index}" for index in range(size)))
    text += shown("kfd access", "660 render") + shown("/sys/module/amdgpu/version", "6.19.14")
    text += shown("/sys/module/amdgpu/srcversion", "0123456789ABCDEF0123456") + shown(
        "/sys/module/amdgpu/parameters/noretry", "-1"
    )
    for node in range(2):
        text += shown(f"{KFD}/{node}/properties", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0")
    for index, address in enumerate(machine.gpus):
        place = int(address.split(":")[1], 16) << 8
        text += shown(f"{KFD}/{index + 2}/properties", (
            f"simd_count 1024\nsimd_per_cu 4\nlocation_id {place}\ndomain 0\nvendor_id 4098\n"
            f"device_id {int(machine.device, 16)}\ngfx_target_version 90500"
        ))  # fmt: skip
    text += shown("modinfo srcversion", "0123456789ABCDEF0123456")
    text += shown("modinfo filename", f"/lib/modules/{machine.kernel}/updates/dkms/amdgpu.ko.zst")
    text += shown("xgmi", "\n".join(f"{one} {two}" for one, two in permutations(range(2, 2 + size), 2)))
    for index, address in enumerate(machine.gpus):
        text += shown(f"gpu {address}", f"0x{machine.device}") + shown(
            f"{address} unique_id", f"6bff75a3{machine.number}{index}"
        )
        text += shown(f"{address} mem_info_vram_total", "309220868096") + shown(
            f"{address} mem_info_vram_used", "298119168"
        )
        text += shown(f"{address} current_compute_partition", "SPX") + shown(
            f"{address} current_memory_partition", "NPS1"
        )
        text += shown(f"{address} vbios_version", "113-M355-X")
    return text + ".\n"


def amd_smi(machine: Machine) -> dict[str, str]:
    static, metric, processes, pages, firmware = [], [], [], [], []
    for index, address in enumerate(machine.gpus):
        static.append({
            "gpu": index, "bus": {"bdf": address, "max_pcie_width": 16, "max_pcie_speed": {"value": 32, "unit": "GT/s"}},
            "asic": {"market_name": machine.product, "vendor_id": "0x1002", "device_id": f"0x{machine.device}",
                     "target_graphics_version": "gfx950", "num_compute_units": 256, "asic_serial": f"0x6BFF75A3{machine.number}{index}"},
            "vram": {"size": {"value": machine.memory_mib, "unit": "MB"}}, "ras": {"poison_schema": "ENABLED"},
            "driver": {"name": "amdgpu", "version": "6.19.14"},
            "limit": {"ppt0": {"max_power_limit": {"value": machine.power_w, "unit": "W"},
                               "socket_power_limit": {"value": machine.power_w, "unit": "W"}}},
        })  # fmt: skip
        metric.append({
            "gpu": index,
            "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 0, "total_deferred_count": 0},
            "power": {"socket_power": {"value": 239, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
            "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}},
            "temperature": {"hotspot": {"value": 36 + index, "unit": "C"}},
        })  # fmt: skip
        processes.append({"gpu": index, "process_list": [{"process_info": "No running processes detected"}]})
        pages.append({"gpu": index, **dict.fromkeys(("retired", "pending", "un_res"), "No bad pages found.")})
        firmware.append(
            {
                "gpu": index,
                "fw_list": [
                    {"fw_id": "CP_MEC1", "fw_version": "180"},
                    {"fw_id": "PSP_SOSDRV", "fw_version": "00.36.02.4A"},
                ],
            }
        )
    documents = {
        "amd_smi_static": static, "amd_smi_metric": {"gpu_data": metric}, "amd_smi_process": processes,
        "amd_smi_bad_pages": pages, "amd_smi_firmware": firmware,
    }  # fmt: skip
    return {name: json.dumps(document, indent=1) for name, document in documents.items()}
