"""The scripts of RDMA, network, PCI and AMD, run by real shells on trees that look like sysfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tool_evidence import evidence, reason
from tool_fabric import BRIDGES, KFD_CPU, KFD_GPU

from rackproof.evidence.tools import amd, commands, lspci
from rackproof.evidence.tools.network import network
from rackproof.evidence.tools.pci import devices
from rackproof.evidence.tools.rdma import rdma
from rackproof.facts_amd import AmdDriverFacts
from rackproof.facts_network import NetworkFacts
from rackproof.facts_rdma import RdmaFacts

SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
PORT = {
    "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
    "lid": "0x4b", "sm_lid": "0x14e", "counters/link_downed": "1", "hw_counters/out_of_sequence": "0",
    "pkeys/0": "0x7fff", "pkeys/1": "0x0000", "pkeys/2": "0x8001", "pkeys/3": "0x0000",
    "gids/0": "fe80:0000:0000:0000:0ac0:ebff:fe49:282a", "gid_attrs/types/0": "IB/RoCE v1",
    "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
    "gids/2": "fe80:0000:0000:0000:0000:0000:0000:0000",
    "gids/3": "0000:0000:0000:0000:0000:ffff:c0a8:be6d", "gid_attrs/types/3": "RoCE v2", "gid_attrs/ndevs/3": "rdma0",
}  # fmt: skip


def files(top: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(shell: str, name: str, tools: Path | None = None, **replaced: str) -> str:
    """What the section prints with some of its absolute paths below a directory of ours, named as before."""
    script = next(command.script for command in commands() if command.name == name)
    for old, new in replaced.items():
        script = script.replace(f"/{old}/", f"{new}/{old}/")
    argv = ["busybox", "sh", "-c", script] if shell == "busybox" else [shell, "-c", script]
    path = f"{tools}:{os.environ['PATH']}" if tools else os.environ["PATH"]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, env={"PATH": path, "LC_ALL": "C"}
    )
    text = done.stdout.decode()
    for new in set(replaced.values()):
        text = text.replace(new, "")
    return text


def tool(directory: Path, name: str, body: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{body}\n")
    (directory / name).chmod(0o755)
    return directory


def test_rdma_sysfs(shell: str, tmp_path: Path) -> None:
    top = tmp_path / "sys/class/infiniband/mlx5_0"
    files(top / "ports/1", PORT)
    files(top / "ports/1/gids", {str(index): "0000:0000:0000:0000:0000:0000:0000:0000" for index in range(4, 256)})
    files(top, {"fw_ver": "28.39.1002", "node_guid": "946d:ae03:00c9:9adc", "device/numa_node": "-1",
                "device/uevent": "DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:1a:00.0"})  # fmt: skip
    (top / "device/net/ib0").mkdir(parents=True)
    files(tmp_path / "sys/class/net", {"ib0/mtu": "2044"})
    files(tmp_path / "dev/infiniband", {"uverbs0": "", "umad0": ""})
    text = run(shell, "rdma", sys=str(tmp_path), dev=str(tmp_path)).replace("/dev/null", "")
    node = rdma(evidence(rdma=text))
    assert isinstance(node, RdmaFacts), node
    assert node.devices == ("umad0", "uverbs0")
    assert isinstance(node.hcas, tuple)
    (hca,) = node.hcas
    assert (hca.pci_id, hca.pci_address, hca.fw_version) == ("15b3:1021", "00000000:1a:00.0", "28.39.1002")
    assert "numa_node: -1" in reason(hca.numa_node)
    assert "board_id" in reason(hca.board_id)
    (port,) = hca.ports
    assert (port.rate_bits_per_s, port.lid, port.sm_lid) == (400 * 10**9, 0x4B, 0x14E)
    assert port.pkeys == (0x7FFF, 0x8001)
    assert port.errors == {"link_downed": 1, "out_of_sequence": 0}
    assert isinstance(port.gids, tuple)
    assert [(gid.index, gid.scope) for gid in port.gids] == [(0, "link-local"), (3, "ipv4")]
    assert reason(port.gids[0].netdev)
    assert text.count("\n|36\n") == 1  # 4 entries, and 32 empty ones after them


def test_no_rdma(shell: str, tmp_path: Path) -> None:
    files(tmp_path / "sys/class/net", {"eth0/mtu": "1500"})
    tools = tool(tmp_path / "bin", "rdma", "echo 'Failed to open NETLINK_RDMA socket' >&2; exit 1")
    node = rdma(evidence(rdma=run(shell, "rdma", tools, sys=str(tmp_path), dev=str(tmp_path))))
    assert isinstance(node, RdmaFacts), node
    assert (node.hcas, node.devices, node.modules) == ((), (), frozenset())
    shutil.rmtree(tmp_path / "sys")
    assert "not mounted" in reason(rdma(evidence(rdma=run(shell, "rdma", sys=str(tmp_path), dev=str(tmp_path)))))


def test_network_sysfs(shell: str, tmp_path: Path) -> None:
    files(tmp_path / "sys/class/net", {"eth0/mtu": "9000", "eth0/carrier": "1", "eth0/speed": "100000",
                                       "eth0/device/uevent": "DRIVER=efa", "bonding_masters": "bond0"})  # fmt: skip
    tools = tool(tmp_path / "bin", "ip", "case $* in *addr*) echo '[{\"ifname\":\"eth0\",\"addr_info\":[]}]' ;; esac")
    node = network(evidence(network=run(shell, "network", tools, sys=str(tmp_path))))
    assert isinstance(node, NetworkFacts), node
    assert isinstance(node.interfaces, tuple)
    (eth0,) = node.interfaces
    assert (eth0.name, eth0.mtu_bytes, eth0.speed_bits_per_s, eth0.driver) == ("eth0", 9000, 10**11, "efa")
    assert (eth0.ipv4, node.default_routes) == ((), ())
    tool(tmp_path / "bin", "ip", "echo 'ip: unrecognized option: json' >&2; exit 1")  # busybox
    node = network(evidence(network=run(shell, "network", tools, sys=str(tmp_path))))
    assert isinstance(node, NetworkFacts), node
    assert "ip ended with exit code 1" in reason(node.default_routes)


def test_pci_sysfs(shell: str, tmp_path: Path) -> None:
    real = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/0000:1a:00.0"
    files(real, {"vendor": "0x15b3", "device": "0x1021", "class": "0x020700", "current_link_speed": "32.0 GT/s PCIe",
                 "current_link_width": "8", "max_link_width": "16",
                 "aer_dev_fatal": "Undefined 0\nDLP 2\nTOTAL_ERR_FATAL 2"})  # fmt: skip
    disk = tmp_path / "sys/devices/pci0000:00/0000:00:02.0"
    files(disk, {"vendor": "0x8086", "device": "0x1", "class": "0x010802"})
    virtual = tmp_path / "sys/devices/pci0000:00/0000:00:03.0"
    files(virtual, {"vendor": "0x15b3", "device": "0x1018", "class": "0x020700", "physfn": ""})
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for path in (real, disk, virtual):
        (bus / path.name).symlink_to(path)
    found = devices(evidence(pci=run(shell, "pci", sys=str(tmp_path))))
    assert isinstance(found, tuple), found
    (nic,) = found
    assert (nic.address, nic.id, nic.class_code) == ("00000000:1a:00.0", "15b3:1021", "0207")
    assert (nic.link_speed, nic.link_width, nic.link_width_max, nic.aer_fatal) == (32e9, 8, 16, 2)
    assert nic.bridges == ("00000000:00:01.0",)


def test_lspci(shell: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text(BRIDGES.removesuffix(".\n"))
    tools = tool(tmp_path / "bin", "lspci", f"[ \"$3 $4\" = '-d ::0604' ] || exit 0; cat {tmp_path}/out; echo Noise")
    found = lspci.bridge_acs(evidence(pci_bridges=run(shell, "pci_bridges", tools)))
    assert found == {"00000000:82:00.0": ("SrcValid", "ReqRedir")}
    tool(tmp_path / "bin", "lspci", "echo 'lspci: Unknown option' >&2; exit 1")
    assert reason(lspci.bridge_acs(evidence(pci_bridges=run(shell, "pci_bridges", tools))))


def test_amd_sysfs(shell: str, tmp_path: Path) -> None:
    module = tmp_path / "sys/module/amdgpu"
    files(module, {"version": "6.16.13", "srcversion": "ABCD", "parameters/noretry": "-1"})
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    files(nodes, {"0/properties": KFD_CPU.strip(), "1/properties": KFD_GPU.strip()})
    device = tmp_path / "sys/devices/pci0000:00/0000:05:00.0"
    files(device, {"vendor": "0x1002", "device": "0x75a3", "mem_info_vram_total": "309220868096",
                   "current_compute_partition": "SPX"})  # fmt: skip
    for card in ("card1", "card1-DP-1"):
        (tmp_path / "sys/class/drm" / card).mkdir(parents=True)
        (tmp_path / "sys/class/drm" / card / "device").symlink_to(device)
    files(tmp_path / "dev", {"kfd": "", "dri/renderD128": ""})
    answers = "case $1 in -n) echo /lib/modules/x/updates/amdgpu.ko ;; *) echo ABCD ;; esac"
    tools = tool(tmp_path / "bin", "modinfo", answers)
    found = amd.driver(evidence(amd=run(shell, "amd", tools, sys=str(tmp_path), dev=str(tmp_path))))
    assert isinstance(found, AmdDriverFacts), found
    assert (found.loaded_version, found.loaded_srcversion, found.disk_srcversion) == ("6.16.13", "ABCD", "ABCD")
    assert (found.render_nodes, found.kfd_device) == (("renderD128",), True)
    assert isinstance(found.kfd_nodes, tuple) and len(found.kfd_nodes) == 1
    (gpu,) = found.gpus
    assert (gpu.pci_address, gpu.memory_bytes, gpu.compute_partition) == ("00000000:05:00.0", 309220868096, "SPX")
    assert isinstance(found.parameters, dict) and found.parameters == {"noretry": "-1"}
