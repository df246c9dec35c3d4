"""Kernel state, CPUs, storage, time, kernels, package policy, engines, fabric daemons, kernel events, weights."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from test_tool_scripts import SHELLS, command, run, tool
from tool_evidence import evidence, healthy, reason, section
from tool_system import APT, FABRIC, KERNELS, LSCPU, NVLINK_ERRORS, P2P, STORAGE, SYSTEM, TRACKING, shown

from rackproof.evidence.sections import Status
from rackproof.evidence.tools import (
    cpu,
    engines,
    fabric_manager,
    imex,
    kernel_events,
    kernels,
    nvidia_nvlink,
    nvidia_topo,
    package_policy,
    packages,
    storage,
    system,
    systemd,
    time_sync,
    weights,
    weights_listing,
)
from rackproof.facts import Missing
from rackproof.facts_system import (
    AptFacts,
    Candidate,
    DkmsModule,
    FabricManagerFacts,
    Filesystem,
    GpuDirectFacts,
    KernelEvents,
    KernelFacts,
    KernelState,
    Limit,
    NumaNode,
    NvmeController,
)
from rackproof.facts_weights import ModelConfig, WeightsFacts


def state(text: str = SYSTEM) -> KernelState:
    found = system.kernel_state(evidence(system=text))
    assert isinstance(found, KernelState), found
    return found


def test_kernel_state() -> None:
    found = state()
    assert isinstance(found.sysctl, dict)
    assert (found.sysctl["vm.swappiness"], found.sysctl["net.ipv4.tcp_rmem"]) == ("1", "4096 131072 6291456")
    assert (found.memory_bytes, found.memory_available_bytes) == (940000000 * 1024, 900000000 * 1024)
    assert (found.hugepages, found.hugepage_bytes, found.transparent_hugepages) == (8192, 2 * 2**20, "madvise")
    assert (found.swap_bytes, found.swap_used_bytes) == (8388604 * 1024, 4096)
    assert (found.memlock, found.open_files) == (Limit(None, None), Limit(1048576, 1048576))
    assert (found.cpus_possible, found.cpus_online, found.governor) == ("0-143", "0-143", "performance")
    assert found.numa == (NumaNode(0, "0-71", 490000000 * 1024), NumaNode(2, "", 290000000 * 1024))
    assert (found.secure_boot, found.lockdown) == (True, "integrity")
    assert found.nvme == (NvmeController("nvme0", "KIOXIA", "1.0", "live"),)
    assert system.gpudirect(healthy()) == GpuDirectFacts(True, True, True, False)


def test_kernel_state_with_gaps() -> None:
    gone = SYSTEM.replace(shown(system.THP, "always [madvise] never"), f"! {system.THP}\n")
    assert "could not be read" in reason(state(gone).transparent_hugepages)
    odd = SYSTEM.replace("MemTotal:       9", "MemTotal: unknown 9").replace("|0-143", "|0-x")
    assert reason(state(odd).memory_bytes) and reason(state(odd).cpus_online)
    assert reason(state(SYSTEM.replace("Node 2 MemTotal: 290000000 kB", "")).numa[1].memory_bytes)  # type: ignore[union-attr,index]
    assert reason(state(SYSTEM.replace("|Max locked memory  ", "|Max locked")).memlock)
    no_symbols = SYSTEM.replace("symbol:ib_register_peer_memory_client ", "")
    found = system.gpudirect(evidence(system=no_symbols))
    assert isinstance(found, GpuDirectFacts)
    assert (found.peer_memory_symbol, found.dmabuf_symbol) == (False, True)


def test_secure_boot() -> None:
    variable = shown(system.SECURE_BOOT, "   6   0   0   0   1")
    assert variable in SYSTEM
    off = SYSTEM.replace(variable, variable.replace("   1\n", "   0\n"))
    assert state(off).secure_boot is False
    assert "SecureBoot" in reason(state(SYSTEM.replace(variable, variable.replace("   1\n", "   7\n"))).secure_boot)
    assert "no variable" in reason(state(SYSTEM.replace(variable, f"- {system.SECURE_BOOT}\n")).secure_boot)
    legacy = SYSTEM.replace(variable, f"- {system.SECURE_BOOT}\n").replace("+ /sys/firmware/efi\n", "- /sys/firmware/efi\n")
    assert state(legacy).secure_boot is False
    masked = legacy.replace("+ /sys/firmware/acpi\n", "- /sys/firmware/*\n")
    assert "empty" in reason(state(masked).secure_boot)
    assert (system.parse_mokutil("SecureBoot enabled\n"), system.parse_mokutil("SecureBoot disabled\nPlatform is in Setup Mode\n")) == (True, False)
    assert "EFI variables" in reason(system.parse_mokutil("EFI variables are not supported on this system\n"))


def test_limits_of_ulimit() -> None:
    text = "max locked memory       (kbytes, -l) 64\nopen files                      (-n) 1024\n"
    assert system.parse_limits(text) == {"memlock": Limit(65536, 65536), "nofile": Limit(1024, 1024)}


def test_lscpu() -> None:
    found = cpu.parse_lscpu(LSCPU)
    assert not isinstance(found, Missing)
    assert (found.cpus, found.sockets, found.cores_per_socket, found.model) == (144, 2, 72, "Neoverse-V2")
    assert found.numa_cpus == ("0-71", "72-143", "")
    excerpt = cpu.parse_lscpu(LSCPU.replace("NUMA node1 CPU(s)", "NUMA nodeX CPU(s)"))
    assert not isinstance(excerpt, Missing) and excerpt.numa_cpus == ()
    assert reason(cpu.parse_lscpu("lscpu: cannot open /proc/cpuinfo"))
    assert reason(cpu.cpu(evidence(system="- lscpu\n.\n"))) == "lscpu is not installed"
    assert reason(cpu.parse_numactl("node 1 size: 5 MB\n"))


def test_storage() -> None:
    found = storage.filesystems(evidence(storage=STORAGE))
    assert isinstance(found, tuple)
    assert found[0] == Filesystem("/dev/md0", "/", "ext4", ("rw", "relatime"), 934000000 * 1024, 834000000 * 1024)
    assert (found[1].mount, found[1].size_bytes) == ("/dev/shm", 470000000 * 1024)
    assert found[2].mount == "/data set" and "not in the output of df" in reason(found[2].size_bytes)
    assert found[3].kind == "nfs4" and "was not asked" in reason(found[3].size_bytes)
    assert reason(storage.parse_mounts("/dev/md0 / ext4\n", {}))
    assert storage.parse_df("df: /x: Stale file handle\n") == {}


def test_lsblk() -> None:
    disks = storage.disks(healthy())
    assert isinstance(disks, tuple)
    assert [disk.name for disk in disks] == ["nvme0n1", "nvme0n1p1"]
    assert (disks[0].size_bytes, disks[0].rotational, disks[0].model, disks[0].transport) == (3840755982336, False, "KIOXIA", "nvme")
    assert (disks[1].size_bytes, disks[1].rotational, disks[1].mounts) == (1024, False, ("/data",))
    odd = storage.parse_lsblk('{"blockdevices": [{"name": 1, "type": "disk", "size": -1, "rota": "x"}, 7, null]}')
    assert isinstance(odd, tuple) and reason(odd[0].size_bytes) and reason(odd[0].rotational)
    assert reason(storage.parse_lsblk('{"blockdevices": 3}'))


def test_clock() -> None:
    found = time_sync.clock(healthy())
    assert not isinstance(found, Missing)
    assert (found.synchronized, found.offset_s, found.reference, found.stratum) == (True, -0.000012345, "169.254.169.123", 4)
    lost = time_sync.parse_time("NTPSynchronized=no\n", TRACKING.replace("A9FEA97B,169.254.169.123,4", "00000000,,0"))
    assert (lost.synchronized, lost.stratum) == (False, 0)
    assert reason(lost.reference)
    down = time_sync.parse_time("Failed to connect to bus\n", "506 Cannot talk to daemon\n")
    assert "connect to bus" in reason(down.synchronized) and "506" in reason(down.offset_s)
    none = time_sync.parse_time(None, None)
    assert reason(none.synchronized) == "timedatectl is not installed"


def test_kernels() -> None:
    found = kernels.kernels(evidence(kernels=KERNELS))
    assert isinstance(found, KernelFacts)
    assert found.nvidia == {"6.8.0-1039-nvidia-64k": "580.126.20", "6.8.0-1040-nvidia-64k": None}
    assert found.next == "6.8.0-1040-nvidia-64k"
    assert found.dkms == (
        DkmsModule("nvidia", "580.126.20", "6.8.0-1039-nvidia-64k", "installed"), DkmsModule("gdrdrv", "2.5", "", "added"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (("= GRUB_DEFAULT\n|0", '= GRUB_DEFAULT\n|"1>Ubuntu, with Linux 6.8.0-1039-nvidia-64k"'), "6.8.0-1039-nvidia-64k"),
        (("= GRUB_DEFAULT\n|0", '= GRUB_DEFAULT\n|"1>2"'), None),
        (("= GRUB_DEFAULT\n|0", "= GRUB_DEFAULT\n|saved"), "6.8.0-1040-nvidia-64k"),
        (("|# GRUB Environment Block", "|saved_entry=gnulinux-6.8.0-1039-nvidia-64k-advanced"), "6.8.0-1040-nvidia-64k"),
        (("|# GRUB Environment Block", "|next_entry=gnulinux-6.8.0-1039-nvidia-64k-advanced"), "6.8.0-1039-nvidia-64k"),
        (("- /boot/grub2/grubenv", "= /boot/grub2/grubenv\n|saved_entry=0123-6.8.0-1039-nvidia-64k"), "6.8.0-1039-nvidia-64k"),
        (("- /boot/grub2/grubenv", "= /boot/grub2/grubenv\n|saved_entry=0123-5.14.0-1.el9"), None),
        (("- /boot/grub2/grubenv", "! /boot/grub2/grubenv"), None),
        (("/boot/vmlinuz-6.8.0-1040-nvidia-64k root", "/boot/xen.gz"), None),
    ],
)
def test_the_next_kernel(change: tuple[str, str], wanted: str | None) -> None:
    assert change[0] in KERNELS
    found = kernels.kernels(evidence(kernels=KERNELS.replace(*change)))
    assert isinstance(found, KernelFacts)
    assert found.next == wanted if wanted else isinstance(found.next, Missing)


def test_modinfo_that_fails_is_no_missing_module() -> None:
    broken = KERNELS.replace("modinfo: ERROR: Module nvidia-current not found.", "modinfo: ERROR: could not get modinfo: Key has expired")
    found = kernels.kernels(evidence(kernels=broken))
    assert isinstance(found, KernelFacts)
    assert "Key has expired" in reason(found.nvidia)


def test_dkms_status() -> None:
    text = "nvidia/580.1, 6.8.0-1, x86_64: installed (WARNING! Diff between built and installed module!)\nxpmem, 2.0: added\n"
    assert kernels.parse_dkms_status(text) == (
        DkmsModule("nvidia", "580.1", "6.8.0-1", "installed"), DkmsModule("xpmem", "2.0", "", "added"),
    )  # fmt: skip
    assert reason(kernels.parse_dkms_status("Error! Could not locate dkms.conf\n"))
    assert reason(kernels.parse_dkms_status(""))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ('APT::Periodic::Unattended-Upgrade "0";', False), ('APT::Periodic::Unattended-Upgrade "1";', True),
        ('APT::Periodic::Unattended-Upgrade "always";', True), ('apt::periodic::unattended-upgrade "7d";', True),
        ('APT::Periodic::Enable "0";\nAPT::Periodic::Unattended-Upgrade "1";', False),
        ('APT::Periodic::Update-Package-Lists "1";', False), ('APT::Periodic::Unattended-Upgrade "maybe";', None),
    ],
)  # fmt: skip
def test_apt_settings(settings: str, wanted: bool | None) -> None:
    found = package_policy.parse_apt_config(f'APT::Architecture "amd64";\n{settings}\n')
    assert isinstance(found, AptFacts)
    assert found.upgrades_itself is wanted if wanted is not None else reason(found.upgrades_itself)


def test_apt_blacklist_and_errors() -> None:
    text = 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "nvidia-";\n'
    found = package_policy.parse_apt_config(text)
    assert isinstance(found, AptFacts) and found.blacklist == ("nvidia-",)
    assert "E: Syntax" in reason(package_policy.parse_apt_config("E: Syntax error /etc/apt/apt.conf.d/x\n"))
    assert reason(package_policy.parse_apt_config(""))


def test_candidates_and_holds() -> None:
    found = package_policy.candidates(evidence(apt=APT))
    assert found == {"nvidia-imex": Candidate("580.126.20-1", "610.43.02-1ubuntu1")}
    assert "older" in reason(package_policy.candidates(evidence(apt=shown("settings", "x") + shown("policy", "stale") + ".\n")))
    assert reason(package_policy.parse_policy("E: Could not open lock file\n"))
    assert package_policy.parse_policy("x:\n  Installed: (none)\n  Candidate: 1\n") == {}
    assert packages.held(healthy()) == ("libnvidia-compute-580",)
    assert package_policy.versionlocks(healthy()) == ()
    assert package_policy.parse_versionlock("# a\nnvidia-open-3:580.1*\n\n") == ("nvidia-open-3:580.1*",)
    assert package_policy.parse_holds("nvidia-modprobe\n") == ("nvidia-modprobe",)


def test_engines() -> None:
    text = (
        shown("containerd", "containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da")
        + shown("podman", "podman version 5.4.0")
        + shown("/etc/containerd/config.toml", (
            'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
            'default_runtime_name = "runc"\nenable_cdi = true\n'
            '        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n'
            '            BinaryName = "/usr/bin/nvidia-container-runtime"\n            SystemdCgroup = true'
        ))
        + ".\n"
    )  # fmt: skip
    found = engines.engines(evidence(docker_config=text))
    assert not isinstance(found, Missing)
    assert (found.containerd, found.podman) == ("1.7.27", "5.4.0")
    assert isinstance(found.containerd_config, dict)
    assert found.containerd_config["nvidia.BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert (found.containerd_config["enable_cdi"], found.containerd_config["runtimes"]) == ("true", "nvidia")
    none = engines.engines(healthy())
    assert not isinstance(none, Missing)
    assert reason(none.containerd) == "containerd is not installed" and none.containerd_config is None
    assert engines.parse_version("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7") == "2.1.4"
    assert reason(engines.parse_version("containerd: error while loading shared libraries"))


def test_fabric_manager() -> None:
    found = fabric_manager.fabric_manager(evidence(fabric_manager=FABRIC))
    assert isinstance(found, FabricManagerFacts)
    assert (found.version, found.mode) == ("580.126.20", "0")
    assert isinstance(found.events, tuple) and [event.kind for event in found.events] == ["configured"]
    assert isinstance(found.nvlsm_events, tuple) and [event.kind for event in found.nvlsm_events] == ["subnet-manager"]
    no_log = FABRIC.replace("= /var/log/fabricmanager.log\n|", "! /var/log/fabricmanager.log\n= x\n|")
    hidden = fabric_manager.fabric_manager(evidence(fabric_manager=no_log))
    assert isinstance(hidden, FabricManagerFacts) and "could not be read" in reason(hidden.events)


def test_fabric_manager_bad_lines() -> None:
    lines = (
        "fabric manager NVIDIA GPU driver interface version 550.127.05 don't match with driver version 550.120.",
        "[ERROR] request to query NVSwitch device information from NVSwitch driver failed with error:NV_WARN_NOTHING_TO_DO",
        "detected NVSwitch non-fatal error 22013 on NodeId 0 on NVSwitch pci bus id 00000000:08:00.0 physical id 3 port 60",
        "[INFO] multicast group 0 is freed.",
        "[ERROR] [tid 1] failed to initialise",
    )
    assert [event.kind for event in fabric_manager.parse_log("\n".join(lines))] == [
        "version-mismatch", "no-devices", "switch-error", "error",
    ]  # fmt: skip
    assert reason(fabric_manager.parse_version("nv-fabricmanager: error while loading shared libraries"))


LOG = """\
2026-08-01T00:00:00+0000 n kernel: Linux version 6.8.0
2026-08-01T00:00:01+0000 n kernel: nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60 Minion
2026-08-01T00:00:01+0000 n kernel: nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Severity 0 Engine instance 60
2026-08-01T00:00:02+0000 n kernel: nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack
2026-08-01T00:00:03+0000 n kernel: nvidia-nvswitch0: SXid (PCI:0004:00:00.0): 26008, SOE Watchdog error
2026-08-01T00:00:04+0000 n kernel: mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092
2026-08-01T00:00:04+0000 n kernel: mce: CPU0: Thermal monitoring enabled (TM1)
2026-08-01T00:00:05+0000 n kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=77,uid=0
2026-08-01T00:00:05+0000 n kernel: Out of memory: Killed process 77 (python3) total-vm:1kB
2026-08-01T00:00:06+0000 n kernel: Memory cgroup out of memory: Killed process 78 (ray::x) total-vm:1kB
2026-08-01T00:00:07+0000 n kernel: NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE
2026-08-01T00:00:07+0000 n kernel: NVRM: Xid (PCI:0000:34:00): 79, GPU has fallen off the bus.
2026-08-01T00:00:08+0000 n kernel: NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.126.20
2026-08-01T00:00:09+0000 n kernel: nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context
"""


def test_kernel_events() -> None:
    found = kernel_events.parse_events(LOG)
    assert [(sxid.code, sxid.pci_address) for sxid in found.sxids] == [
        (22013, "00000000:08:00.0"), (24007, "00000000:c3:00.0"), (26008, "00000004:00:00.0"),
    ]  # fmt: skip
    assert [sxid.fatal for sxid in found.sxids[:2]] == [False, True]
    assert "severity" in reason(found.sxids[2].fatal)
    assert found.machine_checks == ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010092",)
    assert found.oom_kills == ("python3", "ray::x")
    assert found.nvidia == (
        "dma-buf attach failed: topology not supported for mapping type FORCE_PCIE",
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context",
    )
    assert kernel_events.parse_events("") == KernelEvents((), (), (), (), Missing("not told"), Missing("not told"))


@pytest.mark.parametrize("shell", SHELLS)
def test_how_far_back_the_log_goes(tmp_path: Path, shell: str) -> None:
    (tmp_path / "log").write_text(LOG + LOG.replace("2026-08-01", "2026-08-02"))
    tool(tmp_path, "journalctl", f"cat {tmp_path}/log")
    ran = run(command("kernel_log").script, tmp_path, shell)
    found = kernel_events.events(evidence(kernel_log=ran))
    assert isinstance(found, KernelEvents), found
    assert (found.first, found.boots) == ("2026-08-01T00:00:00+0000", 2)
    assert found.oom_kills == ("python3", "ray::x") * 2
    (tmp_path / "log").write_text("".join(f"2026-08-01T00:00:00+0000 n kernel: old {i}\n" for i in range(20)) + LOG)
    found = kernel_events.events(evidence(kernel_log=run(command("kernel_log").script, tmp_path, shell)))
    assert isinstance(found, KernelEvents) and found.boots == 2  # it starts within a boot
    tool(tmp_path, "journalctl", "exit 1")
    tool(tmp_path, "dmesg", "echo '[   12.5] NVRM: x'")
    found = kernel_events.events(evidence(kernel_log=run(command("kernel_log").script, tmp_path, shell)))
    assert isinstance(found, KernelEvents) and (found.first, found.boots) == ("12.5 s after boot", 1)
    older = kernel_events.events(evidence(kernel_log="source=dmesg lines=5 matched=0 kept=0\n.\n"))
    assert isinstance(older, KernelEvents) and "older" not in reason(older.first)


def test_a_flood_pushes_no_machine_check_out(tmp_path: Path) -> None:
    flood = "i=0; while [ $i -lt 4000 ]; do echo \"n kernel: nvidia-peermem ERROR detected invalid context $i\"; i=$((i + 1)); done"
    tool(tmp_path, "journalctl", f"{flood}; echo 'n kernel: mce: [Hardware Error]: x'; echo 'n kernel: Out of memory: Killed process 1 (a)'")
    found = kernel_events.events(evidence(kernel_log=run(command("kernel_log").script, tmp_path)))
    assert isinstance(found, KernelEvents)
    assert (len(found.machine_checks), found.oom_kills) == (1, ("a",))


def test_p2p_and_nvlink_errors() -> None:
    assert nvidia_topo.parse_p2p(P2P) == {(0, 1): "OK", (1, 0): "OK"}
    assert nvidia_topo.parse_p2p(P2P.replace("OK", "CNS")) == {(0, 1): "CNS", (1, 0): "CNS"}
    assert "NV18" in reason(nvidia_topo.parse_p2p(P2P.replace("OK", "NV18")))
    assert "exit code 255" in reason(nvidia_topo.p2p(evidence(nvidia_smi_p2p=section("x", "failed", rc=255))))
    found = nvidia_nvlink.parse_errors(NVLINK_ERRORS.replace("Replay Errors: 0", "Replay Errors: 7", 1))
    assert isinstance(found, tuple) and len(found) == 36
    assert (found[0].gpu, found[0].link, found[0].counters) == (0, 0, {"Replay Errors": 7, "CRC Errors": 0})
    assert "[...]" in reason(nvidia_nvlink.parse_errors(NVLINK_ERRORS + "[...]\n"))
    assert reason(nvidia_nvlink.parse_errors("GPU 0: NVIDIA L40S (UUID: GPU-0)\n"))


def test_imex_config_and_file_limits() -> None:
    assert imex.config(healthy()) == {"SERVER_PORT": "50000"}
    assert imex.parse_config("# a=b\nIMEX_WAIT_FOR_QUORUM = NONE\r\nBIND_INTERFACE_IP=\n") == {
        "IMEX_WAIT_FOR_QUORUM": "NONE", "BIND_INTERFACE_IP": "",
    }  # fmt: skip
    units = systemd.units(healthy())
    assert isinstance(units, dict) and units["docker"].nofile == "1048576"


# --- weights


def shard(tensors: int, payload: int = 24) -> bytes:
    """A safetensors file: the offsets of the last tensor need not come last."""
    step = payload // tensors
    rows = {f"t{i}": {"dtype": "U8", "shape": [step], "data_offsets": [i * step, (i + 1) * step]} for i in range(tensors)}
    header = json.dumps({"__metadata__": {"format": "pt"}, **dict(reversed(rows.items()))}).encode()
    return len(header).to_bytes(8, "little") + header + b"x" * payload


def read_weights(path: Path, shell: str = "sh") -> WeightsFacts:
    ran = {c.name: run(c.script, shell=shell) for c in weights.weights_commands(str(path))}
    found = weights.sized(weights.weights(evidence(**ran)), weights.headers(evidence(**ran)))
    assert isinstance(found, WeightsFacts), found
    return found


@pytest.mark.parametrize("shell", SHELLS)
def test_weights(tmp_path: Path, shell: str) -> None:
    commit = "a" * 40
    model, blobs = tmp_path / f"it's a/snapshots/{commit}", tmp_path / "it's a/blobs"
    model.mkdir(parents=True)
    blobs.mkdir()
    names = [f"model-0000{number}-of-00005.safetensors" for number in (1, 2, 3, 4, 5)]
    (model / weights.INDEX).write_text(
        '{"metadata": {"total_size": 1234}, "weight_map": {' + ", ".join(f'"t{i}": "{n}"' for i, n in enumerate(names)) + "}}"
    )  # fmt: skip
    (blobs / "1").write_bytes(shard(3))
    (blobs / "2.incomplete").write_bytes(b"x")
    (model / names[0]).symlink_to(blobs / "1")
    (model / names[1]).write_bytes(b"")
    (model / names[2]).symlink_to(blobs / "gone")
    (model / names[3]).write_bytes(shard(2)[:-5])
    (model / names[4]).write_bytes(b"\0" * 100)
    (model / "config.json").write_text(
        '{"architectures": ["KimiK3ForCausalLM"], "model_type": "kimi_k3",\n "text_config": {"quantization_config": {"quant_method": "fp8"}}}'
    )
    found = read_weights(model, shell)
    whole, cut = len(shard(3)), len(shard(2)) - 5
    assert (found.path, found.resolved, found.exists) == (str(model), str(model), True)
    assert (found.files, found.shards, found.shard_bytes) == (7, 4, whole + cut + 100)
    assert (found.index, found.indexed, found.absent, found.indexed_bytes) == (True, 5, (names[2],), 1234)
    assert (found.empty, found.incomplete) == ((names[1],), 1)
    assert isinstance(found.wrong_size, tuple)
    first, second = found.wrong_size
    assert (first.name, first.bytes, first.expected_bytes) == (names[3], cut, cut + 5)
    assert (second.name, second.bytes) == (names[4], 100) and "not one of safetensors" in reason(second.expected_bytes)
    assert (found.revision, found.revision_source) == (commit, "snapshot directory")
    assert found.config == ModelConfig(("KimiK3ForCausalLM",), "kimi_k3", "fp8")
    assert isinstance(found.filesystem, Filesystem)
    assert isinstance(found.filesystem.size_bytes, int)


def test_revisions(tmp_path: Path) -> None:
    found = read_weights(tmp_path)
    assert found.revision is None and "nothing" in reason(found.revision_source)
    metadata = tmp_path / ".cache/huggingface/download"
    metadata.mkdir(parents=True)
    for name in ("a", "b"):
        (metadata / f"{name}.metadata").write_text("b" * 40 + "\netag\n1.5\n")
    found = read_weights(tmp_path)
    assert (found.revision, found.revision_source) == ("b" * 40, "download metadata")
    (tmp_path / weights.REVISION).write_text("b" * 40 + "\n")
    assert read_weights(tmp_path).revision_source == ".rackproof-revision"
    (metadata / "b.metadata").write_text("c" * 40 + "\n")
    assert "download metadata 2 says ccc" in reason(read_weights(tmp_path).revision)
    (tmp_path / weights.REVISION).write_text("$(reboot)")
    assert "'$(reboot)'" in reason(read_weights(tmp_path).revision)


def test_configs(tmp_path: Path) -> None:
    assert "no config.json" in reason(read_weights(tmp_path).config)
    (tmp_path / "config.json").write_text('{"model_type": "x", "a": "' + "y" * 70_000 + '"}')
    assert "too large" in reason(read_weights(tmp_path).config)
    (tmp_path / "config.json").write_text("{")
    assert "JSON" in reason(read_weights(tmp_path).config)
    found = weights_listing.parse_config('{"architectures": ["A"], "quantization_config": {}}')
    assert isinstance(found, ModelConfig) and found.architectures == ("A",)
    assert reason(found.model_type) and "quant_method" in reason(found.quantization)
    assert weights_listing.parse_config('{"model_type": "b"}') == ModelConfig(
        Missing("config.json names no architectures"), "b", None
    )


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    gone = read_weights(tmp_path / "none")
    assert gone.exists is False and "does not exist" in reason(gone.shards) and "does not exist" in reason(gone.revision)
    (tmp_path / "empty").mkdir()
    found = read_weights(tmp_path / "empty")
    assert (found.files, found.shards, found.wrong_size, found.index) == (0, 0, (), False)
    assert "index" in reason(found.indexed)
    named = "asked /m\npath /m\nfile 3 ./a\nincomplete 0\n.\n"
    assert isinstance(weights.parse_weights(named), WeightsFacts)
    for text in (
        "", "path /m\nincomplete 0\n.\n", "asked /m\npath /m\nfile x ./a\nincomplete 0\n.\n", "asked /m\npath /m\n.\n",
        "sh: 1: df: not found\n", "asked /m\nunread\n.\n", named.replace("\n.\n", "\n"), named.replace("file", "revolver"),
    ):  # fmt: skip
        assert reason(weights.weights(evidence(weights=text)))


def test_a_header_that_was_not_read_leaves_sizes_unknown() -> None:
    text = "asked /m\npath /m\nfile 300 ./a.safetensors\nfile 9 ./b.safetensors\nincomplete 0\n.\n"
    for headers, words in (
        ("header 100 192 a.safetensors\nshards=1\n.\n", "header of b.safetensors"),
        ("header 100 192 a.safetensors\n", "cut off"), (".\n", "cut off"),
        ("header x 192 a.safetensors\nshards=1\n.\n", "holds"),
    ):  # fmt: skip
        given = evidence(weights=text, weights_headers=headers)
        found = weights.sized(weights.weights(given), weights.headers(given))
        assert isinstance(found, WeightsFacts) and words in reason(found.wrong_size)
    late = section("weights_headers", "", rc=None, status=Status.DEADLINE)
    given = evidence(weights=text, weights_headers=late)
    found = weights.sized(weights.weights(given), weights.headers(given))
    assert isinstance(found, WeightsFacts) and (found.shards, reason(found.wrong_size)) == (
        2, "reading the headers of the shards did not end within 20 s",
    )  # fmt: skip


def test_no_model_directory() -> None:
    (only,) = weights.weights_commands("")
    assert reason(weights.weights(evidence(weights=run(only.script)))) == "no model directory was named"


# --- noise


def test_noise_never_raises() -> None:
    """The parsers that take text, on healthy text with flipped bytes."""
    noise = random.Random(11)
    texts = {
        system.parse_limits: "Max open files 1 1 files\n", system.parse_meminfo: "MemTotal: 1 kB\n", cpu.parse_lscpu: LSCPU,
        storage.parse_lsblk: '{"blockdevices": [{"name":"a","type":"disk"}]}', storage.parse_df: STORAGE,
        kernels.parse_dkms_status: "a/1, k, x: installed\n", package_policy.parse_policy: APT,
        package_policy.parse_apt_config: 'A "b";\n', kernel_events.parse_events: LOG, fabric_manager.parse_log: LOG,
        nvidia_nvlink.parse_errors: NVLINK_ERRORS, nvidia_topo.parse_p2p: P2P, engines.parse_config: "a = b\n",
    }  # fmt: skip
    for parse, text in texts.items():
        for _ in range(100):
            data = bytearray(text.encode())
            for _ in range(noise.randint(1, 10)):
                data[noise.randrange(len(data))] = noise.randrange(256)
            parse(data.decode("utf-8", "replace"))  # type: ignore[operator]


def test_parse_lists_every_tool() -> None:
    from click.testing import CliRunner

    from rackproof.commands.parse import TOOLS, parse

    result = CliRunner().invoke(parse, ["--list"])
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()] == sorted(TOOLS)
