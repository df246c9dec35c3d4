"""AMD GPUs: amd-smi, rocm-smi and rocminfo, amdgpu's own files, and what the kernel log says of them."""

from __future__ import annotations

import json

import pytest
from tool_evidence import evidence, healthy, reason, section
from tool_fabric import AMD, KFD_CPU, KFD_GPU, METRIC, STATIC, shown

from rackproof.evidence.read import read_facts
from rackproof.evidence.sections import Status
from rackproof.evidence.tools import amd, amd_values, modprobe, rocm_smi, rocminfo
from rackproof.evidence.tools.amd_smi import parse_amd_smi
from rackproof.facts import GpuProcess, Missing
from rackproof.facts_amd import AmdDriverFacts, AmdFacts, AmdGpu, DeviceAccess, KfdNode, RocmInfo, join

VRAM = 309220868096


def gpus(text: str) -> tuple[AmdGpu, ...]:
    found = parse_amd_smi(text)
    assert isinstance(found, tuple), found
    return found


def node(**sections: object) -> AmdFacts:
    found = read_facts(healthy(**sections)).amd  # type: ignore[arg-type]
    assert isinstance(found, AmdFacts)
    return found


def test_every_source_is_joined() -> None:
    found = node().gpus
    assert isinstance(found, tuple)
    (gpu,) = found
    assert (gpu.index, gpu.pci_address, gpu.product) == (0, "00000000:05:00.0", "AMD Instinct MI355X")
    assert (gpu.pci_id, gpu.architecture, gpu.compute_units) == ("1002:75a3", "gfx950", 256)
    assert (gpu.memory_bytes, gpu.memory_used_bytes) == (VRAM, 298119168)  # the latter from sysfs
    assert (gpu.compute_partition, gpu.memory_partition) == ("SPX", "NPS1")
    assert (gpu.ecc_uncorrectable_volatile, gpu.ecc_correctable_volatile, gpu.poison_enabled) == (0, 3, True)
    assert (gpu.bad_pages_retired, gpu.bad_pages_pending, gpu.bad_pages_unreservable) == (0, 0, 0)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_max_w, gpu.throttled) == (239.0, 1400.0, 1400.0, False)
    assert (gpu.pcie_speed, gpu.pcie_width, gpu.pcie_width_max) == (32e9, 16, 16)
    assert (gpu.firmware, gpu.driver_version, gpu.processes) == ({"CP_MEC1": "147"}, "6.16.13", ())


def test_a_subcommand_that_hangs_is_the_reason() -> None:
    late = section("amd_smi_metric", rc=None, status=Status.DEADLINE)
    found = node(amd_smi_metric=late).gpus
    assert isinstance(found, tuple)
    assert reason(found[0].ecc_uncorrectable_volatile) == "amd-smi did not end within 20 s"
    assert found[0].memory_bytes == VRAM


def test_a_driver_without_tools_still_lists_gpus() -> None:
    names = [f"amd_smi_{name}" for name in ("static", "metric", "process", "bad_pages", "firmware")]
    absent = {name: section(name, rc=None, status=Status.ABSENT) for name in [*names, "rocm_smi"]}
    found = node(**absent).gpus
    assert isinstance(found, tuple)
    assert (len(found), found[0].memory_bytes, found[0].pci_id) == (1, VRAM, "1002:75a3")
    assert "amd-smi is not installed" in reason(found[0].processes)


def test_no_amd_gpu() -> None:
    found = amd.driver(evidence(amd="- /sys/module/amdgpu\n- /dev/kfd\n.\n"))
    assert isinstance(found, AmdDriverFacts)
    assert (found.loaded, found.loaded_version, found.kfd_device, found.gpus) == (False, None, False, ())
    assert reason(found.kfd_nodes) == "amdgpu is not loaded"
    assert isinstance(join(), Missing)


def test_the_driver() -> None:
    found = amd.driver(healthy())
    assert isinstance(found, AmdDriverFacts)
    assert (found.loaded_version, found.loaded_srcversion, found.disk_srcversion) == ("6.16.13", "ABCD", "ABCD")
    assert found.disk_path == "/lib/modules/6.8.0/updates/dkms/amdgpu.ko.zst"
    assert (found.parameters, found.render_nodes, found.kfd_device) == ({"noretry": "-1"}, ("renderD128",), True)
    assert found.kfd_nodes == (KfdNode(1, "gfx950", 256, "00000000:05:00.0", "1002:75a3"),)
    path = "/sys/module/amdgpu/version"
    inbox = amd.driver(evidence(amd=AMD.replace(shown(path, "6.16.13"), f"- {path}\n")))
    assert isinstance(inbox, AmdDriverFacts) and inbox.loaded_version is None


def test_who_may_open_kfd() -> None:
    def access(text: str) -> object:
        found = amd.driver(evidence(amd=AMD.replace("|660 render", f"|{text}")))
        assert isinstance(found, AmdDriverFacts)
        return found.kfd_access

    assert access("660 render") == DeviceAccess("660", "render")
    assert [DeviceAccess(mode, "root").for_all for mode in ("666", "660", "664", "777")] == [True, False, False, True]
    assert reason(access("")) == "/dev/kfd: stat printed nothing"
    assert "/dev/kfd: rw render" in reason(access("rw render"))
    without = amd.driver(evidence(amd=AMD.replace("= kfd access\n|660 render\n", "")))
    assert isinstance(without, AmdDriverFacts) and "did not look" in reason(without.kfd_access)


def test_who_is_in_the_groups_of_the_devices() -> None:
    said = "|render:x:992:alice,bob\n= members video\n|video:x:44:alice"

    def members(render: str, video: str = "|video:x:44:alice") -> object:
        assert said in AMD
        found = amd.driver(evidence(amd=AMD.replace(said, f"{render}\n= members video\n{video}")))
        assert isinstance(found, AmdDriverFacts)
        return found.members

    assert members("|render:x:992:alice,bob") == {"render": ("alice", "bob"), "video": ("alice",)}
    assert members("|render:x:992:", "|") == {"render": ()}
    assert "getent knows no group render and no group video" in reason(members("|", "|"))
    for damaged in ("|render:x", "|render:x:992:a b", "|getent: command not found", "|render:x:992:a\n|x", "|video:x:44:a"):
        assert isinstance(members(damaged), Missing), damaged


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("= /proc/cmdline\n|ro modprobe.blacklist=nouveau,amdgpu quiet\n- /etc/modprobe.d/*.conf\n", True),
        ("= /proc/cmdline\n|ro\n= /etc/modprobe.d/a.conf\n|blacklist amdgpu \n", True),
        ("= /proc/cmdline\n|ro\n= /etc/modprobe.d/a.conf\n|blacklist nouveau \n|blacklist amdgpu_x \n", False),
        ("= /proc/cmdline\n|ro modprobe.blacklist=amdgpux\n- /etc/modprobe.d/*.conf\n", False),
    ],
)
def test_a_blacklist_of_amdgpu(lines: str, expected: bool) -> None:
    assert modprobe.amdgpu_blacklisted(evidence(modprobe=f"{lines}.\n")) is expected


def test_a_modprobe_file_that_nobody_could_read_hides_a_no() -> None:
    hidden = "= /proc/cmdline\n|ro\n! /etc/modprobe.d/secret.conf\n.\n"
    assert "secret.conf" in reason(modprobe.amdgpu_blacklisted(evidence(modprobe=hidden)))


def test_kfd() -> None:
    assert amd.parse_kfd(KFD_CPU) is None
    old = amd.parse_kfd(KFD_GPU.replace("90500", "90010"))
    assert isinstance(old, KfdNode) and old.architecture == "gfx90a"
    assert "without access" in reason(amd.parse_kfd(""))
    partial = amd.parse_kfd("simd_count 4\n")
    assert isinstance(partial, KfdNode)
    for field in ("architecture", "compute_units", "pci_address", "pci_id"):
        assert isinstance(getattr(partial, field), Missing), field
    path = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    hidden = AMD.replace(shown(path, KFD_GPU), f"! {path}\n")
    found = amd.driver(evidence(amd=hidden))
    assert isinstance(found, AmdDriverFacts) and "could not be read" in reason(found.kfd_nodes)


def test_sick_gpus() -> None:
    document = json.loads(METRIC)
    document["gpu_data"][0]["ecc"]["total_uncorrectable_count"] = 5
    document["gpu_data"][0]["power"]["throttle_status"] = "THROTTLED"
    document["gpu_data"][0]["pcie"] = "N/A"
    (gpu,) = gpus(json.dumps(document))
    assert (gpu.ecc_uncorrectable_volatile, gpu.throttled) == (5, True)
    assert (reason(gpu.pcie_width), reason(gpu.pcie_speed)) == ("pcie.width: N/A", "pcie.speed: N/A")
    pages = [{"page_address": "0x1000", "page_size": "4096", "status": "PENDING"}] * 2
    (bad,) = gpus(json.dumps([{"gpu": 3, "retired": pages, "pending": [], "un_res": "N/A"}]))
    assert (bad.index, bad.bad_pages_retired) == (3, 2)
    assert isinstance(bad.bad_pages_pending, Missing) and isinstance(bad.bad_pages_unreservable, Missing)


def test_forms() -> None:
    warned = f"User missing required groups: render\n{STATIC}"
    assert gpus(warned) == gpus(STATIC) == gpus(json.dumps({"gpu_data": json.loads(STATIC)}))
    two = '[{"gpu": 0, "bdf": "0000:05:00.0"}]\n[{"gpu": 1, "bdf": "0000:15:00.0"}]\nLegend:\n* = Current mode\n'
    assert [gpu.pci_address for gpu in gpus(two)] == ["00000000:05:00.0", "00000000:15:00.0"]
    (process,) = gpus("gpu,name,pid,vram_mem\n0,a,1,5\n0,b,2,N/A\n")
    assert process.processes == (GpuProcess(1, "a", 5), GpuProcess(2, "b", Missing("vram_mem: N/A B")))
    block = "    PROCESS_INFO:\n        NAME: a\n        PID: {}\n"
    (repeated,) = gpus("GPU: 0\n" + block.format(1) + block.format(2))
    assert isinstance(repeated.processes, tuple) and [item.pid for item in repeated.processes] == [1, 2]
    banner = gpus(STATIC.replace('"6.16.13"', '"Linuxversion6.14.0"'))[0]
    assert "has no version" in reason(banner.driver_version)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[{}]", '[{"gpu": true}]', '[{"gpu": -1}]', "GPU: x\n", "gpu,name\n0\n", 'gpu,name\n0,"a\n',
     "CPU: 0\n    SMU:\n", STATIC[:200], "amd-smi: command not found", "ERROR: driver not loaded", "[" * 90_000,
     '{"gpu_data": {"gpu": 0}}'],
)  # fmt: skip
def test_no_gpu_in_it(text: str) -> None:
    assert reason(parse_amd_smi(text)).startswith("amd-smi")


def test_values() -> None:
    assert amd_values.memory("7.3 GB", "x") == int(7 * 2**30 + 0.3 * 2**30)
    assert amd_values.memory({"value": 294896, "unit": "MB"}, "x") == VRAM
    assert isinstance(amd_values.memory("294896", "x"), Missing)
    assert isinstance(amd_values.memory({"value": {"value": 1}}, "x"), Missing)
    assert isinstance(amd_values.quantity({"value": "N/A", "unit": "W"}, "x", "W"), Missing)
    assert isinstance(amd_values.whole(True, "x"), Missing)
    assert amd_values.transfers("2500 MT/s", "x") == 2.5e9


def test_rocm_smi() -> None:
    found = rocm_smi.cards(healthy())
    assert isinstance(found, tuple)
    assert (found[0].pci_address, found[0].memory_bytes) == ("00000000:05:00.0", VRAM)
    assert found[0].driver_version == "6.16.13"
    assert reason(rocm_smi.cards(evidence(rocm_smi=section("rocm_smi", "", "amd-smi is asked instead")))) == (
        "rocm-smi: amd-smi is asked instead"
    )
    assert "lists no card" in reason(rocm_smi.parse_rocm_smi('{"system": {}}'))
    assert "cut off" in reason(rocm_smi.parse_rocm_smi("== ROCm System Management Interface ==\n0  1  0x75a3, 1"))
    assert "lists no GPU" in reason(rocm_smi.parse_rocm_smi("WARNING: No AMD GPUs specified\nEnd of ROCm SMI Log"))


def test_rocm_topo_is_whole_or_nothing() -> None:
    head = "== Link Type between two GPUs ==\n       GPU0         GPU1\n"
    assert rocm_smi.parse_rocm_topo(head + "GPU0   0    XGMI\nGPU1   XGMI 0\n") == {(0, 1): "XGMI", (1, 0): "XGMI"}
    assert "no complete matrix" in reason(rocm_smi.parse_rocm_topo(head + "GPU0   0    XGMI\n"))


def test_rocminfo() -> None:
    text = (
        "ROCk module version 6.16.13 is loaded\nHSA Agents\n==========\n*******\nAgent 1\n*******\n  Name:   gfx950\n"
        "  Device Type:  GPU\n  Compute Unit:  256\n  BDFID:  1280\n  Domain:   1\n*** Done ***\n"
    )
    found = rocminfo.parse_rocminfo(text)
    assert isinstance(found, RocmInfo)
    assert (found.complete, found.module_loaded, len(found.gpus)) == (True, True, 1)
    assert (found.gpus[0].pci_address, found.gpus[0].architecture) == ("00000001:05:00.0", "gfx950")
    assert isinstance(found.gpus[0].memory_bytes, Missing)
    absent = rocminfo.parse_rocminfo("ROCk module is NOT loaded, possibly no GPU devices\n")
    assert "NOT loaded" in reason(absent)


@pytest.mark.parametrize(
    ("line", "kind", "count"),
    [("amdgpu 0000:0b:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block", "uncorrectable", 2),
     ("amdgpu 0000:0b:00.0: amdgpu: socket: 0, die: 0, 1 new uncorrectable hardware errors detected in gfx block",
      "uncorrectable", 1),
     ("amdgpu 0000:0b:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1", "ring-timeout", None),
     ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, but soft recovered", "ring-timeout", None),
     ("amdgpu 0000:0b:00.0: amdgpu: GPU reset begin!", "reset", None),
     ("amdgpu 0000:0b:00.0: amdgpu: device lost from bus!", "fatal", None)],
)  # fmt: skip
def test_ras_lines(line: str, kind: str, count: int | None) -> None:
    (event,) = amd.parse_ras(f"2026-08-01T00:00:00+0000 node kernel: {line}")
    assert event.kind == kind
    assert event.count == count if count is not None else isinstance(event.count, Missing)


def test_quiet_lines_are_no_errors() -> None:
    assert amd.parse_ras(
        "amdgpu 0000:0b:00.0: 0 correctable hardware errors detected in umc block\n"
        "amdgpu 0000:0b:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0\n"
        "[drm] amdgpu kernel modesetting enabled.\nnvidia 0000:01:00.0: ring timeout\n"
    ) == ()  # fmt: skip
    assert amd.ras(healthy()) == ()
