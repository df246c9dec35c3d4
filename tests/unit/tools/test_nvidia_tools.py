"""Topology, NVLink, IMEX, the driver's witnesses, modprobe.d."""

from __future__ import annotations

import pytest
from tool_evidence import (
    IMEX_JSON,
    IMEX_TABLE,
    NO_DRIVER,
    NVIDIA_PROC,
    NVLINK,
    TOPO,
    evidence,
    healthy,
    reason,
    section,
)

from rackproof.evidence.tools import imex, modprobe, nvidia_driver, nvidia_nvlink, nvidia_topo
from rackproof.evidence.tools.group import Group, parse_group
from rackproof.facts import Missing
from rackproof.facts_nvlink import ImexDomain, ImexPeer, NvlinkPort


def group(text: str) -> Group:
    found = parse_group(text)
    assert isinstance(found, Group), found
    return found


# --- topology


def test_topo() -> None:
    assert nvidia_topo.parse_topo(TOPO) == {(0, 1): "NV18", (1, 0): "NV18"}
    assert nvidia_topo.parse_topo(TOPO.expandtabs()) == {(0, 1): "NV18", (1, 0): "NV18"}
    assert nvidia_topo.parse_topo("\tGPU0\tCPU Affinity\nGPU0\t X \t0-19\n") == {}


def test_topo_sick() -> None:
    assert nvidia_topo.parse_topo(TOPO.replace("NV18", "SYS", 1)) == {(0, 1): "SYS", (1, 0): "NV18"}
    assert "2 GPU columns and 1 GPU rows" in reason(nvidia_topo.parse_topo(TOPO.replace("GPU1\tNV18", "NIC9\tNV18")))
    assert "row of GPU 0" in reason(nvidia_topo.parse_topo(TOPO.replace(" X \tNV18", "NV18\t X ")))
    lost = section("nvidia_smi_topo", "Unable to determine the device handle\n", rc=255)
    assert "Unable to determine" in reason(nvidia_topo.gpu_paths(evidence(nvidia_smi_topo=lost)))


# --- NVLink


def test_nvlink() -> None:
    ports = nvidia_nvlink.parse_nvlink(NVLINK)
    assert isinstance(ports, tuple)
    assert len(ports) == 36
    assert ports[35] == NvlinkPort(1, 17, 53.125, True)


def test_nvlink_inactive() -> None:
    ports = nvidia_nvlink.parse_nvlink(NVLINK.replace("Link 3: 53.125 GB/s", "Link 3: <inactive>", 1))
    assert isinstance(ports, tuple)
    assert ports[3] == NvlinkPort(0, 3, Missing("the link is inactive"), False)
    dead = "GPU 2: NVIDIA B200 (UUID: x)\nNVML: Unable to retrieve Nvlink information as all links are inActive\n"
    ports = nvidia_nvlink.parse_nvlink(NVLINK + dead)
    assert isinstance(ports, tuple)
    assert (ports[-1].gpu, ports[-1].link, ports[-1].active) == (2, nvidia_nvlink.ALL_LINKS, False)


@pytest.mark.parametrize(
    "line",
    ["Nvlink queries are not supported for Devices in MIG mode", "Device does not have or support Nvlink",
     "\t C2C Link 0: 44.712 GB/s", "\t Link 4: 53.125 GB", "[...]"],
)  # fmt: skip
def test_a_line_that_hides_ports_hides_the_fact(line: str) -> None:
    assert line.strip() in reason(nvidia_nvlink.parse_nvlink(f"{NVLINK}GPU 2: NVIDIA B200 (UUID: x)\n{line}\n"))


def test_a_gpu_without_a_link_line() -> None:
    assert "no link of GPU 2" in reason(nvidia_nvlink.parse_nvlink(NVLINK + "GPU 2: NVIDIA B200 (UUID: x)\n"))
    assert "no link of GPU 5" in reason(nvidia_nvlink.parse_nvlink("GPU 5: NVIDIA B200 (UUID: x)\n" + NVLINK))


# --- IMEX


def test_imex_json() -> None:
    version = "580.126.20"
    peers = (ImexPeer("10.0.0.1", "READY", version), ImexPeer("10.0.0.2", "READY", version))
    assert imex.parse_domain(IMEX_JSON) == ImexDomain("UP", peers, ())
    sick = IMEX_JSON.replace("CONNECTED", "NEVER_CONNECTED", 1).replace('"UP"', '"DEGRADED"')
    domain = imex.parse_domain(sick.replace("READY", "ASLEEP", 1))
    assert isinstance(domain, ImexDomain)
    assert (domain.status, domain.peers[0].status) == ("DEGRADED", "ASLEEP")
    assert domain.bad_links == ("0 -> 0: NEVER_CONNECTED",)


def test_imex_json_without_connections_is_not_connected() -> None:
    domain = imex.parse_domain('{"nodes": {"0": {"status": "READY", "host": "a"}}, "status": "UP"}')
    assert isinstance(domain, ImexDomain)
    assert domain.bad_links == ("0 -> 0: not reported",)
    assert reason(domain.peers[0].version) == "version of a: not printed"
    assert reason(imex.parse_domain('{"nodes": {}, "status": "UP"}'))


def test_imex_table() -> None:
    domain = imex.parse_domain(IMEX_TABLE)
    assert isinstance(domain, ImexDomain)
    assert domain.status == "DEGRADED"
    assert domain.peers[0] == ImexPeer("10.0.0.1", "READY", "580.126.20")
    assert (domain.peers[1].status, isinstance(domain.peers[1].version, Missing)) == ("UNAVAILABLE", True)
    assert domain.bad_links == ("0 -> 1: NEVER_CONNECTED", "1 -> 0: VERSION_MISMATCH")


def test_imex_table_cut() -> None:
    assert "1 rows" in reason(imex.parse_domain(IMEX_TABLE.replace("       1        !V! C\n", "")))
    assert "row 1" in reason(imex.parse_domain(IMEX_TABLE.replace("!V! C", "C")))
    assert "no complete table" in reason(imex.parse_domain(IMEX_TABLE.replace("Domain State: DEGRADED", "")))
    refused = section("imex_ctl", "", "Error connecting to the IMEX daemon: connection refused\n", rc=1)
    assert "connection refused" in reason(imex.domain(evidence(imex_ctl=refused)))


def test_imex_files() -> None:
    assert imex.nodes(healthy()) == ("10.0.0.1", "10.0.0.2")
    assert imex.channels(healthy()) == ("/dev/nvidia-caps-imex-channels/channel0",)
    assert imex.channel_modes(healthy()) == {"/dev/nvidia-caps-imex-channels/channel0": "666"}
    unread = "- /etc/nvidia-imex/config.cfg\n+ /dev/nvidia-caps-imex-channels/channel0\n.\n"
    assert "did not read the permissions" in reason(imex.channel_modes(evidence(imex_files=unread)))
    nothing = f"- {imex.NODES_FILE}\n- {imex.CHANNELS}/*\n.\n"
    assert imex.nodes(evidence(imex_files=nothing)) is None
    assert imex.channels(evidence(imex_files=nothing)) == ()
    locked = f"! {imex.NODES_FILE}\n! {imex.CHANNELS}/*\n.\n"
    assert "could not be read" in reason(imex.nodes(evidence(imex_files=locked)))
    assert "could not be read" in reason(imex.channels(evidence(imex_files=locked)))


# --- the driver


def test_driver() -> None:
    node = healthy()
    assert nvidia_driver.loaded_version(node) == "580.126.20"
    assert nvidia_driver.flavour(node) == "open"
    assert nvidia_driver.disk_version(node) == "580.126.20"
    assert nvidia_driver.library_version(node) == "580.126.20"
    assert nvidia_driver.loaded_modules(node) == frozenset({"nvidia", "nvidia_uvm", "mlx5_core", "mlx5_ib", "ib_umad"})
    params = {"CreateImexChannel0": "1", "RegistryDwords": "", "CoherentGPUMemoryMode": "driver"}
    assert nvidia_driver.parameters(node) == params
    assert nvidia_driver.proc_gpus(node) == ("00000008:06:00.0", "00000018:06:00.0")
    assert nvidia_driver.pci_gpus(node) == ("00000008:06:00.0", "00000018:06:00.0")
    assert nvidia_driver.pci_ids(node) == ("10de:31c2", "10de:31c2")


def test_no_driver_is_none_only_when_everything_says_so() -> None:
    node = evidence(nvidia_proc=NO_DRIVER)
    assert nvidia_driver.loaded_version(node) is None
    assert nvidia_driver.loaded_modules(node) == frozenset()
    assert reason(nvidia_driver.flavour(node)) == "no NVIDIA module is loaded"
    assert reason(nvidia_driver.proc_gpus(node)) == "no NVIDIA module is loaded"
    half = NO_DRIVER.replace("- /sys/module/nvidia_uvm", "+ /sys/module/nvidia_uvm")
    assert "does not say its version" in reason(nvidia_driver.loaded_version(evidence(nvidia_proc=half)))
    locked = NO_DRIVER.replace("- /proc/driver/nvidia/version", "! /proc/driver/nvidia/version")
    assert "could not be read" in reason(nvidia_driver.loaded_version(evidence(nvidia_proc=locked)))
    debian = NO_DRIVER.replace("- /sys/module/nvidia_current", "= /sys/module/nvidia_current/version\n|550.163.01")
    assert nvidia_driver.loaded_version(evidence(nvidia_proc=debian)) == "550.163.01"


def test_proprietary() -> None:
    text = NVIDIA_PROC.replace("Open Kernel Module for aarch64", "x86_64 Kernel Module")
    assert nvidia_driver.flavour(evidence(nvidia_proc=text)) == "proprietary"
    assert nvidia_driver.loaded_version(evidence(nvidia_proc=text)) == "580.126.20"
    assert reason(nvidia_driver.parse_flavour("NVRM version: NVIDIA UNIX something else"))


def test_library() -> None:
    two = "= /a/libnvidia-ml.so.1\n|/a/libnvidia-ml.so.580.1\n= /b/libnvidia-ml.so.1\n|/b/libnvidia-ml.so.590.2\n.\n"
    assert "590.2" in reason(nvidia_driver.library_version(evidence(nvidia_library=two)))
    dangling = "= /a/libnvidia-ml.so.1\n|/a/libnvidia-ml.so.1\n.\n"
    assert "leads to" in reason(nvidia_driver.library_version(evidence(nvidia_library=dangling)))
    nothing = evidence(nvidia_library="- /a/libnvidia-ml.so.1\n.\n")
    assert "there is no" in reason(nvidia_driver.library_version(nothing))


def test_pci() -> None:
    assert nvidia_driver.pci_gpus(evidence(pci="= devices\n|40\n.\n")) == ()
    assert "no device at all" in reason(nvidia_driver.pci_gpus(evidence(pci="= devices\n|0\n.\n")))
    assert nvidia_driver.pci_ids(evidence(pci="= 0000:01:00.0\n|? ? ?\n= devices\n|1\n.\n")) == ("10de:?",)


def test_modinfo_of_a_missing_module() -> None:
    gone = section("nvidia_modinfo", "", "modinfo: ERROR: Module nvidia not found.\n", rc=1)
    assert "Module nvidia not found" in reason(nvidia_driver.disk_version(evidence(nvidia_modinfo=gone)))


# --- modprobe.d

BLACKLIST = "= /usr/lib/modprobe.d/nv.conf\n|blacklist nouveau \n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BLACKLIST, True),
        ("= /etc/modprobe.d/nv.conf\n" + BLACKLIST, False),  # an empty file of the same name masks it
        ("+ /etc/modprobe.d/nv.conf\n" + BLACKLIST, False),  # and so does a link to /dev/null
        ("= /etc/modprobe.d/a.conf\n|install nouveau /bin/false\n", True),
        ("= /etc/modprobe.d/a.conf\n|blacklist nouveau_other\n", False),
        ("= /proc/cmdline\n|ro module_blacklist=foo,nouveau quiet\n", True),
        ("= /proc/cmdline\n|ro modprobe.blacklist=nouveau\n", True),
        ("= /proc/cmdline\n|ro rd.driver.blacklist=nouveau\n", False),  # only keeps it out of the initramfs
    ],
)
def test_nouveau(text: str, expected: bool) -> None:
    assert modprobe.parse_blacklist(group(text + ".\n")) is expected


def test_a_file_nobody_could_read_makes_a_no_unknown() -> None:
    text = "! /etc/modprobe.d/secret.conf\n"
    assert "secret.conf" in reason(modprobe.parse_blacklist(group(text + ".\n")))
    assert modprobe.parse_blacklist(group(text + BLACKLIST + ".\n")) is True
