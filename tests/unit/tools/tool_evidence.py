"""Evidence made of small texts in the tools' own formats: a healthy GB300 tray, and ways to spoil it."""

from __future__ import annotations

import base64
import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import tool_fabric
import tool_system

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.tools import MODULES
from rackproof.facts import Missing


def section(
    name: str, text: str | bytes = "", errors: str = "", rc: int | None = 0, status: Status = Status.RAN
) -> Section:
    data = text.encode() if isinstance(text, str) else text
    return Section(name, status, rc, 0.1, data, errors.encode(), deadline_s=20)


def evidence(**texts: str | bytes | Section) -> Evidence:
    sections = {n: t if isinstance(t, Section) else section(n, t) for n, t in texts.items()}
    return Evidence("tray01", sections, sha256="ab" * 32)


def fact_functions(module: ModuleType) -> Iterator[tuple[str, Callable[[Evidence], Any]]]:
    """The public functions from Evidence to a fact that a tool module defines."""
    for name, function in inspect.getmembers(module, inspect.isfunction):
        own = function.__module__ == module.__name__ and not name.startswith("_")
        if own and list(inspect.signature(function).parameters) == ["evidence"]:
            yield f"{module.__name__.rsplit('.', 1)[1]}.{name}", function


def all_facts(given: Evidence) -> dict[str, Any]:
    return {name: function(given) for module in MODULES for name, function in fact_functions(module)}


def reason(fact: object) -> str:
    assert isinstance(fact, Missing), fact
    return fact.reason


def gpu_xml(number: int, **changes: str) -> str:
    """One GPU as R580 prints it, shortened to what we read. Keys of `changes` are element names."""
    v = {
        "product_name": "NVIDIA GB300", "persistence_mode": "Enabled", "current_mig": "Disabled",
        "pending_mig": "Disabled", "serial": f"165000000000{number}", "uuid": f"GPU-{number:08d}-0000-0000-0000-0",
        "vbios_version": "97.10.4A.00.01", "gpu_recovery_action": "None", "current_link_gen": "6",
        "max_link_width": "16x", "current_link_width": "16x", "total": "284208 MiB", "compute_mode": "Default",
        "current_ecc": "Enabled", "pending_ecc": "Enabled", "parity": "0", "secded": "0", "dram_uncorrectable": "0",
        "remapped_row_unc": "0", "remapped_row_pending": "No", "remapped_row_failure": "No",
        "current_power_limit": "1400.00 W", "default_power_limit": "1400.00 W", "hw_slowdown": "Not Active",
        "sw_thermal": "Not Active", "state": "Completed", "status": "Success", "cliqueId": "32766",
        "clusterUuid": "b2daed23-0000-4000-8000-000000000001", "summary": "Healthy", "processes": "", "sram_threshold_exceeded": "No", "addressing_mode": "ATS", "c2c_mode": "Enabled",
        "used": "0 MiB", "gpu_temp": "31 C", "gpu_temp_tlimit": "56 C", "bandwidth": "Full",
        "incorrect_configuration": "None", "pci_device_id": "31C210DE", "replay_counter": "0", "sync_boost": "Not Active",
        "route_unhealthy": "False", "protected": "0 MiB",
    }  # fmt: skip
    v.update(changes)
    e = {name: f"<{name}>{value}</{name}>" for name, value in v.items()}
    reasons = "clocks_event_reason"
    counts = (
        f"<sram_correctable>0</sram_correctable><sram_uncorrectable_parity>{v['parity']}</sram_uncorrectable_parity>"
        f"<sram_uncorrectable_secded>{v['secded']}</sram_uncorrectable_secded>{e['dram_uncorrectable']}"
    )
    return f"""
	<gpu id="0000000{number}:06:00.0">
		{e["product_name"]}{e["persistence_mode"]}
		<mig_mode>{e["current_mig"]}{e["pending_mig"]}</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		{e["serial"]}{e["uuid"]}{e["vbios_version"]}{e["gpu_recovery_action"]}
		<pci><pci_gpu_link_info>
			<pcie_gen><max_link_gen>6</max_link_gen>{e["current_link_gen"]}</pcie_gen>
			<link_widths>{e["max_link_width"]}{e["current_link_width"]}</link_widths>
		</pci_gpu_link_info>{e["pci_device_id"]}{e["replay_counter"]}</pci>
		<{reasons}s>
			<{reasons}_gpu_idle>Active</{reasons}_gpu_idle>
			<{reasons}_hw_slowdown>{v["hw_slowdown"]}</{reasons}_hw_slowdown>
			<{reasons}_hw_thermal_slowdown>Not Active</{reasons}_hw_thermal_slowdown>
			<{reasons}_hw_power_brake_slowdown>Not Active</{reasons}_hw_power_brake_slowdown>
			<{reasons}_sync_boost>{v["sync_boost"]}</{reasons}_sync_boost>
			<{reasons}_sw_thermal_slowdown>{v["sw_thermal"]}</{reasons}_sw_thermal_slowdown>
		</{reasons}s>
		<fb_memory_usage>{e["total"]}<reserved>947 MiB</reserved>{e["used"]}</fb_memory_usage>
		<bar1_memory_usage><total>524288 MiB</total></bar1_memory_usage>
		{e["compute_mode"]}
		<ecc_mode>{e["current_ecc"]}{e["pending_ecc"]}</ecc_mode>
		<ecc_errors><volatile>{counts}</volatile><aggregate>{counts}{e["sram_threshold_exceeded"]}</aggregate></ecc_errors>
		<remapped_rows>{e["remapped_row_unc"]}{e["remapped_row_pending"]}{e["remapped_row_failure"]}</remapped_rows>
		<gpu_power_readings>{e["current_power_limit"]}{e["default_power_limit"]}</gpu_power_readings>
		<module_power_readings><current_power_limit>2900.00 W</current_power_limit></module_power_readings>
		{detail(v)}
		<fabric>{e["state"]}{e["status"]}{e["cliqueId"]}{e["clusterUuid"]}<health>{e["summary"]}{e["bandwidth"]}{e["route_unhealthy"]}{e["incorrect_configuration"]}</health></fabric>
		{e["processes"]}
	</gpu>"""


def detail(v: dict[str, str]) -> str:
    """What only GpuDetail reads, besides the blocks that both read."""
    e = {name: f"<{name}>{value}</{name}>" for name, value in v.items()}
    return (
        f"{e['addressing_mode']}{e['c2c_mode']}<temperature>{e['gpu_temp']}{e['gpu_temp_tlimit']}</temperature>"
        f"<cc_protected_memory_usage><total>{v['protected']}</total></cc_protected_memory_usage>"
    )


def smi_xml(*gpus: str, attached: int | None = None) -> str:
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>Fri Aug 21 11:01:42 2026</timestamp>
	<driver_version>580.126.20</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>{len(gpus) if attached is None else attached}</attached_gpus>{"".join(gpus)}
</nvidia_smi_log>
"""


TOPO = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tSYS\t0-71\t0,2-17\t\tN/A
GPU1\tNV18\t X \tNODE\t72-143\t1\t\tN/A
NIC0\tSYS\tNODE\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""

NVLINK = "".join(
    f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-0000000{gpu})\n" + "".join(f"\t Link {i}: 53.125 GB/s\n" for i in range(18))
    for gpu in range(2)
)

IMEX_JSON = """{"nodes": {
 "0": {"status": "READY", "host": "10.0.0.1", "hostName": "N/A", "version": "580.126.20", "connections": {
   "0": {"host": "10.0.0.1", "status": "CONNECTED"}, "1": {"host": "10.0.0.2", "status": "CONNECTED"}}},
 "1": {"status": "READY", "host": "10.0.0.2", "hostName": "N/A", "version": "580.126.20", "connections": {
   "0": {"host": "10.0.0.1", "status": "CONNECTED"}, "1": {"host": "10.0.0.2", "status": "CONNECTED"}}}},
 "timestamp": "9/4/2026 00:00:00.000", "status": "UP"}
"""

IMEX_TABLE = """\
Connectivity Table Legend:
C - Connected - Ready for operation

5/12/2025 06:08:10.580
Nodes:
Node #0   * 10.0.0.1 *      - READY                - Version: 580.126.20
Node #1   - 10.0.0.2        - UNAVAILABLE          - Version:                 - Hostname: tray02

 Nodes From\\To  0   1
       0        C   N
       1        !V! C

Domain State: DEGRADED
"""


def _lines(start: str, names: tuple[str, ...]) -> str:
    return "".join(f"{start}{name}\n" for name in names)


MODULE_NAMES = ("nvidia", "nvidia_uvm", "mlx5_core", "mlx5_ib", "ib_umad")
ABSENT_MODULES = (
    "nvidia_current", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nouveau", "gdrdrv", "amdgpu",
)  # fmt: skip

OPEN = "Open Kernel Module for aarch64  580.126.20  Release Build  (dvs-builder@U22)  Tue Mar  3 19:08:06 UTC 2026"
NVIDIA_PROC = f"""\
= /proc/driver/nvidia/version
|NVRM version: NVIDIA UNIX {OPEN}
|GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04.1)
= /proc/driver/nvidia/params
|CreateImexChannel0: 1
|RegistryDwords: ""
|CoherentGPUMemoryMode: "driver"
+ /proc/driver/nvidia/gpus/0008:06:00.0
+ /proc/driver/nvidia/gpus/0018:06:00.0
+ /dev/nvidia0
+ /dev/nvidia1
+ /dev/nvidia-uvm
+ /dev/nvidia-uvm-tools
+ /dev/nvidiactl
{_lines("+ /sys/module/", MODULE_NAMES)}\
= /sys/module/nvidia/version
|580.126.20
{_lines("- /sys/module/", ABSENT_MODULES)}.
"""
NO_DRIVER = f"""\
- /proc/driver/nvidia/version
- /proc/driver/nvidia/params
- /proc/driver/nvidia/gpus/*
- /dev/nvidia*
{_lines("- /sys/module/", MODULE_NAMES + ABSENT_MODULES)}.
"""

UNIT_BLOCK = """\
Id={name}
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
NRestarts=0
Result=success
LimitMEMLOCK=infinity
LimitNOFILE=1048576
ExecStart={{ path=/usr/bin/x ; argv[]=/usr/bin/x --verbose ; ignore_errors=no ; pid=1 ; code=(null) ; status=0/0 }}
"""

CDI_SPEC = """\
---
cdiVersion: 0.7.0
kind: nvidia.com/gpu
containerEdits:
  mounts:
  - containerPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.126.20
    hostPath: /usr/lib/aarch64-linux-gnu/libcuda.so.580.126.20
    options: [ro, nosuid]
  - containerPath: /usr/lib/libnvidia-egl-gbm.so.1.1.2
    hostPath: /usr/lib/libnvidia-egl-gbm.so.1.1.2
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
  name: all
"""


def quoted(text: str) -> str:
    """Text as the content of a group."""
    return "".join(f"|{line}\n" for line in text.rstrip("\n").split("\n"))


IMAGE = """[{"Id": "sha256:54e6", "RepoTags": ["vllm/vllm-openai:kimi-k3"],
 "RepoDigests": ["vllm/vllm-openai@sha256:54e6"], "Architecture": "arm64", "Os": "linux",
 "Config": {"Env": ["PATH=/bin", "CUDA_VERSION=13.0.2"], "Labels": {"org.opencontainers.image.version": "k3"}}}]
"""


MANIFEST = b'{"config": {"digest": "sha256:' + b"c" * 64 + b'"}, "layers": []}'
INDEX = b'{"manifests": [{"digest": "sha256:%s"}]}' % hashlib.sha256(MANIFEST).hexdigest().encode()


def image_chain(*documents: bytes) -> str:
    """The section as the probe prints it for files with these bytes."""
    entries = [f"= /etc/rackproof/image/{n}\n|{base64.b64encode(data).decode()}\n" for n, data in enumerate(documents)]
    return "".join(entries) + ("" if entries else "- /etc/rackproof/image/*\n") + ".\n"


IMAGE_CHAIN = image_chain(INDEX, MANIFEST)


PODMAN_INFO = """{
  "host": {
    "arch": "amd64", "cgroupControllers": ["cpu", "memory", "pids"], "cgroupManager": "systemd", "cgroupVersion": "v2",
    "conmon": {"package": "conmon_2.1.12-4_amd64", "path": "/usr/bin/conmon"}, "idMappings": {"gidmap": null, "uidmap": null},
    "kernel": "6.12.0", "logDriver": "journald", "networkBackend": "netavark",
    "ociRuntime": {"name": "crun", "package": "crun_1.21-1_amd64", "path": "/usr/bin/crun", "version": "crun version 1.21"},
    "security": {"apparmorEnabled": false, "capabilities": "CAP_CHOWN,CAP_KILL", "rootless": false, "seccompEnabled": true,
                 "seccompProfilePath": "/usr/share/containers/seccomp.json", "selinuxEnabled": false}
  },
  "store": {"configFile": "/usr/share/containers/storage.conf", "graphDriverName": "overlay",
            "graphRoot": "/var/lib/containers/storage", "runRoot": "/run/containers/storage"},
  "version": {"APIVersion": "5.4.2", "Version": "5.4.2"}
}
"""
PODMAN_IMAGE = (
    '{"Id":"' + "1" * 64 + '","RepoTags":["docker.io/vllm/vllm-openai:kimi-k3"],'
    '"RepoDigests":["docker.io/vllm/vllm-openai@sha256:54e6","docker.io/vllm/vllm-openai@sha256:aa"],'
    '"Architecture":"arm64","Config":{"Env":["PATH=/usr/bin","CUDA_VERSION=13.0.2"],"Labels":{"a":"b"}}}\n'
)


def healthy(**changes: str | bytes | Section) -> Evidence:
    """A node on which every section speaks and everything is well."""
    from rackproof.evidence.tools.systemd import UNITS

    texts: dict[str, str | bytes | Section] = {
        **tool_fabric.TEXTS,
        **tool_system.TEXTS,
        "identity": (
            "= /proc/sys/kernel/hostname\n|tray01\n= /proc/sys/kernel/random/boot_id\n|fc13cc59\n"
            "= /sys/class/dmi/id/product_name\n|GB300 NVL72\n= /proc/uptime\n|86400.25 2.0\n"
            "= /sys/class/dmi/id/sys_vendor\n|NVIDIA\n! /sys/class/dmi/id/product_serial\n- /sys/class/dmi/id/product_sku\n"
            "= /sys/class/dmi/id/bios_version\n|02.06.00\n"
            "= uname\n|6.8.0-1039-nvidia-64k aarch64\n= uid\n|0\n= pagesize\n|65536\n= date\n|2026-11-30T15:43:40Z\n.\n"
        ),
        "os_release": 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\n',
        "cmdline": 'BOOT_IMAGE=/vmlinuz ro dyndbg="file a.c +p" iommu.passthrough=1\n',
        "marks": (
            "- /etc/rackproof-lab\n- /etc/rackproof/selfbuild\n= /etc/rackproof/baseline.json\n|{\n|\"hash\": \"a\"}\n"
            "- /run/reboot-required\n.\n"
        ),
        "addresses": (
            "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n"
            "4: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n"
        ),
        "files": f"absent /etc/b\nunread /etc/c\n{'0' * 64}  /etc/a\n.\n",
        "systemd_units": "\n".join(UNIT_BLOCK.format(name=name) for name in UNITS),
        "packages": (
            "source=dpkg\n|ii \tnvidia-imex\t580.126.20-1\tarm64\n|hi \tlibnvidia-compute-580\t580.126.20-1\tarm64\n"
            "|rc \tnvidia-utils-570\t570.1-1\tarm64\ntotal=714 rc=0\n"
        ),
        "apt_config": (
            "- /etc/apt/sources.list\n- /etc/apt/sources.list.d/*.list\n= /etc/apt/sources.list.d/cuda.sources\n"
            "|Types: deb\n|URIs: https://***@mirror/cuda\n- /etc/apt/preferences\n= /etc/apt/preferences.d/pin\n"
            "|Package: *nvidia*\n+ /etc/apt\n- /etc/dnf/plugins/versionlock.list\n"
            "- /etc/yum/pluginconf.d/versionlock.list\n- /etc/dnf/versionlock.toml\n.\n"
        ),
        "nvidia_proc": NVIDIA_PROC,
        "nvidia_modinfo": "filename:       /lib/modules/x/nvidia.ko.zst\nversion:        580.126.20\nlicense:  MIT\n",
        "nvidia_library": (
            "= /usr/lib64/libnvidia-ml.so.1\n|/usr/lib64/libnvidia-ml.so.580.126.20\n"
            "= size /usr/lib64/libnvidia-ml.so.1\n|2293320\n- /lib64/libcuda.so.1\n"
            "= /usr/lib64/libcuda.so.1\n|/usr/lib64/libcuda.so.580.126.20\n= size /usr/lib64/libcuda.so.1\n|96784232\n.\n"
        ),
        "control": (
            '- /var/lib/rackproof/lock\n= working\n|no\n= generation\n|123 45\n= journal\n|{"time": "2026-01-01T00:00:01Z", '
            '"run": "r1", "operator": "a@b", "layer": "host", "step": "x", "event": "end", "rc": 0, "before": {}, "after": {}}\n'
            '- /var/lib/rackproof/selfbuild.record\n+ /etc/rackproof/history\n= stamp 1\n|{"baseline": "b"}\n.\n'
        ),
        "serving": (
            "= /etc/systemd/system/rackproof-k3.service\n|[Service]\n|ExecStart=/usr/bin/docker run --rm --network host a/b@sha256:1 serve /models\n"
            "= /etc/rackproof/serving.env\n|NCCL_DEBUG=WARN\n|HF_TOKEN=***\n"
            "+ /etc/systemd/system/multi-user.target.wants/rackproof-k3.service\n"
            "= /etc/nccl.conf\n|NCCL_DEBUG=WARN\n= /etc/ld.so.preload\n|/usr/lib/a.so\n"
            "= segments\n|nccl- 1\n|psm_ 0\n|sem.mp- 0\n.\n"
        ),
        "docker_running": (
            '{"id":"' + "a" * 64 + '","name":"/rackproof-serving","image":"sha256:1","named":"a/b@sha256:1","labels":{"x":"y"},"engine":true}\nend\n'
        ),
        "virtualization": "none\n.\n",
        "gpu_holders": "77 nvidia-persiste\nend\n",
        "modprobe": (
            "= /proc/cmdline\n|ro quiet\n= /etc/modprobe.d/nvidia.conf\n|options nvidia NVreg_CreateImexChannel0=1\n"
            "= /usr/lib/modprobe.d/nouveau.conf\n|blacklist nouveau \n.\n"
        ),
        "nvidia_smi_xml": smi_xml(gpu_xml(8), gpu_xml(9)),
        "nvidia_smi_topo": TOPO,
        "nvidia_smi_nvlink": NVLINK,
        "imex_ctl": IMEX_JSON,
        "imex_files": (
            "= /etc/nvidia-imex/nodes_config.cfg\n|# trays\n|10.0.0.1\r\n|\n|10.0.0.2\n= /etc/nvidia-imex/config.cfg\n|SERVER_PORT=50000\n"
            "= /proc/devices\n|234 nvidia-caps-imex-channels\n+ /dev/nvidia-caps-imex-channels/channel0\n"
            "= mode /dev/nvidia-caps-imex-channels/channel0\n|666\n.\n"
        ),
        "kernel_log": (
            "source=journalctl lines=5000 matched=1 kept=1 boots=3 first=2026-07-01T00:00:00+0000\n"
            "|2026-08-01T00:00:00+0000 tray01 kernel: nvidia 0008:06:00.0: enabling device\n.\n"
        ),
        "docker_info": (
            '{"ServerVersion":"28.2.2","CgroupVersion":"2","CgroupDriver":"systemd","Runtimes":{"runc":{},"nvidia":{}},'
            '"DefaultRuntime":"runc","LoggingDriver":"json-file","DockerRootDir":"/var/lib/docker","Driver":"overlay2",'
            '"SecurityOptions":["name=seccomp,profile=builtin","name=cgroupns"],'
            '"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=0"}]}\n'
        ),
        "docker_images": IMAGE,
        "podman_info": PODMAN_INFO,
        "podman_images": PODMAN_IMAGE + "end\n",
        "podman_running": (
            '{"id":"' + "b" * 64 + '","name":"rackproof-serving","image":"' + "1" * 64 + '","named":"a/b@sha256:1","labels":null,"engine":true}\nend\n'
        ),
        "podman_config": (
            "= /usr/share/containers/containers.conf\n|\n- /etc/containers/containers.conf\n"
            '= /etc/containers/containers.conf.d/10.conf\n|cdi_spec_dirs = ["/etc/cdi"]\n'
            "- /usr/share/containers/oci/hooks.d/*nvidia*.json\n+ /etc/containers/oci/hooks.d/oci-nvidia-hook.json\n.\n"
        ),
        "image_chain": IMAGE_CHAIN,
        "docker_config": '= /etc/docker/daemon.json\n|{"features": {"cdi": true}}\n- containerd\n= podman\n|podman version 5.4.2\n'
        '- /etc/containerd/config.toml\n- /etc/containerd/conf.d/*.toml\n.\n',
        "nvidia_ctk": "NVIDIA Container Toolkit CLI version 1.20.0\ncommit: 5505e2f9\n\n",
        "cdi_specs": f"- /etc/cdi/*.yaml\n= /run/cdi/nvidia.yaml\n{quoted(CDI_SPEC)}\n.\n",
    }  # fmt: skip
    texts.update(changes)
    return evidence(**texts)
