"""What a node was doing: units, processes in state D, limits, sockets, its own name; NVMe health; the new driver reads."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from test_tool_scripts import SHELLS, command, run, tool
from tool_evidence import evidence, gpu_xml, healthy, reason, smi_xml
from tool_system import SMART, STATE, shown

from rackproof.evidence.tools import (
    amd,
    container,
    host,
    imex,
    kernel_events,
    kernel_log,
    lspci,
    node_state,
    nvidia_driver,
    nvidia_smi,
    nvidia_topo,
    nvme,
)
from rackproof.facts import Gpu, SmiFacts
from rackproof.facts_gpu import GpuDetail
from rackproof.facts_state import BlockedProcess, DaemonLimits, Listener, NodeState, ServingUnit
from rackproof.facts_system import Filesystem, KernelEvents, Limit, holding


def state(text: str = STATE) -> NodeState:
    found = node_state.state(evidence(node_state=text))
    assert isinstance(found, NodeState), found
    return found


def test_healthy_state() -> None:
    found = state()
    assert found.failed_units == ("foo.service",)
    assert found.serving_units == (ServingUnit("rackproof-gb300-tp8.service", "loaded", "active", "running"),)
    assert found.blocked == (BlockedProcess(77, "nvidia-smi", False),)
    assert found.daemons == {"dockerd": DaemonLimits(900, Limit(8388608, 8388608), Limit(1048576, 1048576))}
    assert found.listening == (Listener("0.0.0.0", 22), Listener("::", 22), Listener("127.0.0.1", 8080))
    assert node_state.own_addresses(healthy()) == ("10.0.0.1",)


@pytest.mark.parametrize(
    ("field", "old", "new", "words"),
    [
        ("failed_units", "units=212", "units=0", "systemctl list-units"),
        ("failed_units", "rc=0", "rc=1", "systemctl list-units"),
        ("failed_units", "foo.service loaded failed failed", "System has not been booted with systemd", "not been booted"),
        ("blocked", "processes=412 first=1", "processes=3 first=0", "only the processes of the user"),
        ("blocked", "processes=412 first=1", "", "cut off"),
        ("blocked", "D 77 0", "D x 0", "holds"),
        ("daemons", "/proc/900/limits", "/proc/9000/limits", "limits of dockerd could not be read"),
        ("listening", "0100007F:1F90", "0100007F1F90", "holds"),
        ("listening", "lines=9", "", "cut off"),
        ("listening", "= /proc/net/tcp\n", "- /proc/net/tcp\n= x\n", "does not exist"),
    ],
)
def test_what_was_not_read_whole_is_unknown(field: str, old: str, new: str, words: str) -> None:
    assert old in STATE
    assert words in reason(getattr(state(STATE.replace(old, new)), field))


def test_a_kernel_without_ipv6_and_a_node_without_daemons() -> None:
    quiet = STATE.replace("|P 900 dockerd\n", "").replace("|D 77 0 nvidia-smi\n", "")
    found = state(quiet[: quiet.index("= limits")] + shown("/proc/net/tcp", "lines=1") + "- /proc/net/tcp6\n.\n")
    assert (found.blocked, found.daemons, found.listening) == ((), {}, ())


def test_a_name_that_does_not_resolve() -> None:
    assert node_state.parse_own_name("rc=2") == ()
    assert "timed out" in reason(node_state.parse_own_name("timed out\nrc=3"))
    assert node_state.parse_own_name("fe80::1%eth0 STREAM a\n127.0.1.1 DGRAM\nrc=0") == ("fe80::1", "127.0.1.1")
    assert reason(node_state.parse_own_name("no address\nrc=0")) and reason(node_state.parse_own_name("rc=0"))


UNITS_OUT = r"""
printf 'a.service loaded active running A\n\342\227\217 b.service loaded failed failed B thing\n'
printf 'rackproof-mi355x-tp8.service loaded activating auto-restart Kimi\n'"""


@pytest.mark.parametrize("shell", SHELLS)
def test_this_machine(tmp_path: Path, shell: str) -> None:
    """A process that stays in state D cannot be made here; that one is looked for twice is the next test's."""
    tool(tmp_path, "systemctl", UNITS_OUT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = state(run(command("node_state").script, tmp_path, shell).text)
        assert Listener("127.0.0.1", server.getsockname()[1]) in (found.listening if isinstance(found.listening, tuple) else ())
    assert found.failed_units == ("b.service",)
    assert found.serving_units == (ServingUnit("rackproof-mi355x-tp8.service", "loaded", "activating", "auto-restart"),)
    assert isinstance(found.daemons, dict)
    tool(tmp_path, "systemctl", "echo 'System has not been booted with systemd as init system' >&2; exit 1")
    broken = state(run(command("node_state").script, tmp_path, shell).text)
    assert "not been booted" in reason(broken.failed_units)


@pytest.mark.parametrize("shell", SHELLS)
def test_only_a_process_that_stays_in_state_d_is_told(tmp_path: Path, shell: str) -> None:
    """`cat` stands in for /proc: at the second look one of the two is gone, and a third is new."""
    rows = {"first": "8 (a b) c) D 2 0\n9 (disk) D 1 0", "second": "8 (a b) c) D 2 0\n7 (new) D 1 0"}
    tool(tmp_path, "cat", (
        f"if [ -e {tmp_path}/again ]; then echo '1 (init) S 0 0'; echo '{rows['second']}'\n"
        f"else : >{tmp_path}/again; echo '1 (init) S 0 0'; echo '{rows['first']}'; fi"
    ))  # fmt: skip
    found = state(run(command("node_state").script, tmp_path, shell).text)
    assert found.blocked == (BlockedProcess(8, "a b) c", True),)


@pytest.mark.parametrize("shell", SHELLS)
def test_limits_of_a_running_daemon(tmp_path: Path, shell: str) -> None:
    tool(tmp_path, "cat", f"echo '1 (init) S 0 0'; echo '{os.getpid()} (dockerd) S 1 0'; echo '99999999 (containerd) S 1 0'")
    found = state(run(command("node_state").script, tmp_path, shell).text)
    assert "limits of containerd could not be read" in reason(found.daemons)  # it is gone
    tool(tmp_path, "cat", f"echo '1 (init) S 0 0'; echo '{os.getpid()} (dockerd) S 1 0'")
    found = state(run(command("node_state").script, tmp_path, shell).text)
    assert isinstance(found.daemons, dict) and found.daemons["dockerd"].pid == os.getpid()
    assert isinstance(found.daemons["dockerd"].open_files, Limit)


# --- disks


def test_nvme_health(tmp_path: Path) -> None:
    found = nvme.health(healthy())
    assert isinstance(found, tuple)
    assert (found[0].name, found[0].critical_warning, found[0].percent_used, found[0].media_errors) == ("nvme0", 0, 3, 0)
    assert nvme.health(evidence(nvme_health="- /dev/nvme*\n.\n")) == ()
    worn = nvme.parse_smart_log(SMART.replace('"critical_warning" : 0', '"critical_warning" : {"value": 4}'), "nvme1")
    assert (worn.critical_warning, worn.spare_percent) == (4, 100)
    refused = nvme.parse_smart_log("Permission denied")
    assert "Permission denied" in reason(refused.critical_warning)
    assert reason(nvme.parse_smart_log("{}").media_errors)


def test_the_filesystem_that_holds_a_path() -> None:
    listed = [Filesystem("d", mount, "ext4", (), 1, number) for number, mount in enumerate(("/", "/data", "/data", "/datasets"))]
    assert holding(listed, "/data/x").available_bytes == 2  # type: ignore[union-attr]
    assert holding(listed, "/data") == listed[2]
    assert holding(listed, "/database") == listed[0]
    assert reason(holding([], "/x"))


LOG = """\
[ 1.0] nvme nvme0: pci function 0000:01:00.0
[ 9.1] nvme nvme3: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 9 timeout, aborting req_op:READ(0) size:4096
[ 9.2] nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
[ 9.3] I/O error, dev nvme3n1, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0
[ 9.4] INFO: task kworker/u8:3:412 blocked for more than 120 seconds.
[ 9.5] pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error message received from 0000:01:00.0
[ 9.6] nvidia 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)
[ 9.7] pcieport 0000:00:01.0: AER: Corrected error message received from 0000:01:00.0
[ 9.8] nvme nvme0: 32/0/0 default/read/poll queues
"""


def test_disks_and_tasks_that_hang(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    tool(tmp_path, "journalctl", "exit 1")
    tool(tmp_path, "dmesg", f"cat {tmp_path}/log")
    for shell in SHELLS:
        found = kernel_events.events(evidence(kernel_log=run(command("kernel_log").script, tmp_path, shell)))
        assert isinstance(found, KernelEvents)
        assert found == kernel_events.parse_events(LOG, found.first, found.boots)
    found = kernel_events.parse_events(LOG)
    assert len(found.nvme_errors) == 3
    assert found.nvme_errors[1].endswith("controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff")
    assert found.hung_tasks == ("kworker/u8:3",)
    assert [line.split()[0] for line in found.pcie_fatal] == ["pcieport", "nvidia"]


def test_a_number_that_is_too_long_is_not_cut() -> None:
    """The first or last digits of a longer number are a number nobody printed."""
    assert kernel_log.parse_xids("NVRM: Xid (PCI:0000:01:00): 0000100000, x") == ()
    assert amd.parse_ras("amdgpu 0000:01:00.0: amdgpu: 1234567890123456789 correctable hardware errors detected") == ()
    assert reason(lspci.parse_links("LnkSta:\tSpeed 16GT/s, Width x160"))
    assert reason(nvidia_topo.parse_topo("\tGPU0001\nGPU1\t X \n"))


# --- the driver and the engine


def test_device_nodes_and_libraries() -> None:
    node = healthy()
    assert nvidia_driver.device_nodes(node) == ("nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl")
    libraries = nvidia_driver.libraries(node)
    assert isinstance(libraries, tuple)
    assert [(one.name, one.version, one.size_bytes) for one in libraries] == [
        ("libnvidia-ml.so.1", "580.126.20", 2293320), ("libcuda.so.1", "580.126.20", 96784232),
    ]  # fmt: skip
    assert imex.major(node) is True
    assert imex.major(evidence(imex_files="= /proc/devices\n|195 nvidia\n.\n")) is False


@pytest.mark.parametrize("shell", SHELLS)
def test_an_empty_library(tmp_path: Path, shell: str) -> None:
    (tmp_path / "libcuda.so.580.126.20").write_bytes(b"")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.580.126.20")
    (tmp_path / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.1.1")
    script = command("nvidia_library").script.replace("/usr/lib/x86_64-linux-gnu", str(tmp_path))
    found = nvidia_driver.libraries(evidence(nvidia_library=run(script, shell=shell)))
    assert isinstance(found, tuple)
    own = {one.name: one for one in found if one.path.startswith(str(tmp_path))}
    assert (own["libcuda.so.1"].size_bytes, own["libcuda.so.1"].version) == (0, "580.126.20")
    assert "broken link" in reason(own["libnvidia-ml.so.1"].size_bytes)


def test_dmi_and_uptime() -> None:
    assert host.uptime_s(healthy()) == 86400.25
    dmi = host.dmi(healthy())
    assert isinstance(dmi, dict) and (dmi["sys_vendor"], dmi["bios_version"]) == ("NVIDIA", "02.06.00")
    assert "could not be read" in reason(dmi["product_serial"]) and "does not exist" in reason(dmi["product_sku"])


def test_docker_settings() -> None:
    node = healthy()
    assert (container.cgroup_driver(node), container.data_root(node)) == ("systemd", "/var/lib/docker")
    assert (container.default_runtime(node), container.storage_driver(node)) == ("runc", "overlay2")
    assert container.security_options(node) == ("cgroupns", "seccomp")
    assert reason(container.security_options(evidence(docker_info='{"ServerVersion":"1"}')))


# --- one GPU in detail


def detail(**changes: str) -> GpuDetail:
    facts = nvidia_smi.parse_xml(smi_xml(gpu_xml(8, **changes)))
    assert isinstance(facts, SmiFacts)
    gpu: Gpu = facts.gpus[0]
    assert isinstance(gpu.detail, GpuDetail)
    return gpu.detail


def test_gpu_detail() -> None:
    found = detail()
    assert (found.pci_id, found.addressing_mode, found.c2c) == ("10de:31c2", "ATS", True)
    assert (found.memory_used_bytes, found.memory_reserved_bytes, found.protected_bytes) == (0, 947 * 2**20, 0)
    assert (found.sram_threshold_exceeded, found.sync_boost, found.fabric_route_unhealthy) == (False, False, False)
    assert (found.temperature_c, found.temperature_margin_c, found.pcie_replays) == (31.0, 56.0, 0)
    assert (found.fabric_bandwidth, found.fabric_incorrect_configuration) == ("Full", "None")
    assert "not printed" in reason(found.unrepairable_memory)


def test_gpu_detail_of_a_sick_gpu() -> None:
    found = detail(
        sram_threshold_exceeded="Yes", gpu_temp_tlimit="-2 C", bandwidth="Degraded", route_unhealthy="True",
        incorrect_configuration="Insufficient Nvlinks", c2c_mode="Disabled", sync_boost="Active", pci_device_id="31C2",
    )  # fmt: skip
    assert (found.sram_threshold_exceeded, found.temperature_margin_c, found.fabric_bandwidth) == (True, -2.0, "Degraded")
    assert (found.fabric_route_unhealthy, found.c2c, found.sync_boost) == (True, False, True)
    assert found.fabric_incorrect_configuration == "Insufficient Nvlinks"
    assert "31C2" in reason(found.pci_id)
    assert reason(detail(incorrect_configuration="N/A").fabric_incorrect_configuration)


@pytest.mark.parametrize("name", ["rackproof-serving.service", "rackproof-mi355x-tp8.service"])
def test_the_units_that_a_deploy_or_a_launch_makes_are_units_that_serve(name: str) -> None:
    found = state(STATE.replace("rackproof-gb300-tp8.service", name))
    assert isinstance(found.serving_units, tuple)
    assert [unit.name for unit in found.serving_units] == [name]
