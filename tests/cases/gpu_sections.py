"""Sections of NVIDIA's tools and driver, in the forms of R580, for a healthy node."""

from __future__ import annotations

from .machine import CLUSTER, NIL, NVIDIA_DRIVER, Machine, gone, shown, there

MODULES = ("nvidia", "nvidia_uvm", "mlx5_core", "mlx5_ib", "ib_umad")
OTHER_MODULES = ("nvidia_current", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "nouveau", "gdrdrv", "amdgpu")
CHANNELS = "/dev/nvidia-caps-imex-channels"
CHANNEL = f"{CHANNELS}/channel0"
NO_PROCESS = "<processes></processes>"


def uuid(machine: Machine, index: int) -> str:
    return f"GPU-{machine.number:08d}-0000-0000-0000-{index:012d}"


def sections(machine: Machine) -> dict[str, str]:
    found = {
        "nvidia_smi_xml": smi(machine),
        "nvidia_smi_topo": topo(machine),
        "nvidia_smi_p2p": p2p(machine),
        "nvidia_smi_nvlink": nvlink(machine),
        "nvidia_smi_nvlink_errors": nvlink_errors(machine),
        "nvidia_proc": proc(machine),
        "nvidia_modinfo": (
            f"filename:       /lib/modules/{machine.kernel}/updates/dkms/nvidia.ko.zst\n"
            f"version:        {NVIDIA_DRIVER}\nlicense:        Dual MIT/GPL\n"
        ),
        "nvidia_library": library(machine),
        "modprobe": (
            shown("/proc/cmdline", "ro quiet")
            + shown("/etc/modprobe.d/nvidia.conf", f"options nvidia NVreg_CreateImexChannel0={int(machine.tray)}")
            + shown("/usr/lib/modprobe.d/nouveau.conf", "blacklist nouveau \noptions nouveau modeset=0") + ".\n"
        ),
        "gpu_holders": "1204 nvidia-persiste\nend\n",
        "imex_files": imex_files(machine),
    }  # fmt: skip
    if machine.tray:
        found["imex_ctl"] = imex_ctl()
    else:
        found["fabric_manager"] = fabric_manager(machine)
    return found


def smi(machine: Machine) -> str:
    gpus = "".join(_gpu(machine, index, address) for index, address in enumerate(machine.gpus))
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
	<timestamp>Fri Aug 21 11:01:42 2026</timestamp>
	<driver_version>{NVIDIA_DRIVER}</driver_version>
	<cuda_version>13.0</cuda_version>
	<attached_gpus>{len(machine.gpus)}</attached_gpus>
{gpus}</nvidia_smi_log>
"""


def _gpu(machine: Machine, index: int, address: str) -> str:
    tray, hopper = machine.tray, machine.hardware == "h200"
    errors = (
        "<sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>"
        "<sram_uncorrectable_secded>0</sram_uncorrectable_secded><dram_correctable>0</dram_correctable>"
        "<dram_uncorrectable>0</dram_uncorrectable>"
    )
    return f"""\
	<gpu id="0000{address.upper()}">
		<product_name>{machine.product}</product_name>
		<product_brand>NVIDIA</product_brand>
		<addressing_mode>{"ATS" if tray else "None"}</addressing_mode>
		<persistence_mode>Enabled</persistence_mode>
		<mig_mode>
			<current_mig>Disabled</current_mig>
			<pending_mig>Disabled</pending_mig>
		</mig_mode>
		<mig_devices>
			None
		</mig_devices>
		<serial>16500{machine.number:03d}0000{index}</serial>
		<uuid>{uuid(machine, index)}</uuid>
		<vbios_version>97.10.4A.00.01</vbios_version>
		<board_part_number>900-2G548-A801-000</board_part_number>
		<gsp_firmware_version>{NVIDIA_DRIVER}</gsp_firmware_version>
		<platformInfo>
			<chassis_serial_number>{"1820225000001" if tray else "N/A"}</chassis_serial_number>
			<slot_number>{machine.number if tray else "N/A"}</slot_number>
			<tray_index>{machine.number if tray else "N/A"}</tray_index>
			<module_id>{index + 1}</module_id>
		</platformInfo>
		<c2c_mode>{"Enabled" if tray else "N/A"}</c2c_mode>
		<gpu_recovery_action>None</gpu_recovery_action>
		<pci>
			<pci_device_id>{machine.device.upper()}10DE</pci_device_id>
			<pci_sub_system_id>{ {"b200": "1999", "h200": "18BE"}.get(machine.hardware, "20E5") }10DE</pci_sub_system_id>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>{5 if hopper else 6}</max_link_gen>
					<current_link_gen>{5 if hopper else 6}</current_link_gen>
				</pcie_gen>
				<link_widths>
					<max_link_width>16x</max_link_width>
					<current_link_width>16x</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
			<replay_counter>0</replay_counter>
		</pci>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
			<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
			<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
			<clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
			<clocks_event_reason_sync_boost>Not Active</clocks_event_reason_sync_boost>
			<clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
		</clocks_event_reasons>
		<fb_memory_usage>
			<total>{machine.memory_mib} MiB</total>
			<reserved>947 MiB</reserved>
			<used>0 MiB</used>
			<free>{machine.memory_mib - 947} MiB</free>
		</fb_memory_usage>
		<cc_protected_memory_usage>
			<total>0 MiB</total>
		</cc_protected_memory_usage>
		<compute_mode>Default</compute_mode>
		<ecc_mode>
			<current_ecc>Enabled</current_ecc>
			<pending_ecc>Enabled</pending_ecc>
		</ecc_mode>
		<ecc_errors>
			<volatile>{errors}</volatile>
			<aggregate>{errors}<sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate>
			<channel_repair_pending>No</channel_repair_pending>
			<tpc_repair_pending>No</tpc_repair_pending>
			<unrepairable_memory>No</unrepairable_memory>
		</ecc_errors>
		<remapped_rows>
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_unc>0</remapped_row_unc>
			<remapped_row_pending>No</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		</remapped_rows>
		<temperature>
			<gpu_temp>{31 + index} C</gpu_temp>
			<gpu_temp_tlimit>{56 - index} C</gpu_temp_tlimit>
			<memory_temp>33 C</memory_temp>
		</temperature>
		<gpu_power_readings>
			<current_power_limit>{machine.power_w}.00 W</current_power_limit>
			<default_power_limit>{machine.power_w}.00 W</default_power_limit>
			<min_power_limit>200.00 W</min_power_limit>
			<max_power_limit>{machine.power_w}.00 W</max_power_limit>
		</gpu_power_readings>
		<fabric>
			<state>Completed</state>
			<status>Success</status>
			<cliqueId>{32766 if tray else 0}</cliqueId>
			<clusterUuid>{CLUSTER if tray else NIL}</clusterUuid>
			<health>
				<summary>{"N/A" if hopper else "Healthy"}</summary>
				<bandwidth>{"Full" if tray else "N/A"}</bandwidth>
				<route_recovery_in_progress>{"N/A" if hopper else "False"}</route_recovery_in_progress>
				<route_unhealthy>{"N/A" if hopper else "False"}</route_unhealthy>
				<access_timeout_recovery>{"N/A" if hopper else "False"}</access_timeout_recovery>
				<incorrect_configuration>{"None" if tray else "N/A"}</incorrect_configuration>
			</health>
		</fabric>
		{NO_PROCESS}
	</gpu>
"""


def _matrix(machine: Machine, same: str, other: str) -> str:
    size = range(len(machine.gpus))
    return "".join(
        f"{{start}}GPU{one}\t" + "\t".join(same if one == two else other for two in size) + "{end}\n" for one in size
    )


def topo(machine: Machine) -> str:
    head = "\t".join(f"GPU{index}" for index in range(len(machine.gpus)))
    rows = _matrix(machine, " X ", "NV18").format(start="", end=f"\t{machine.cpus[0]}\t0\t\tN/A")
    legend = "  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    return f"\t\x1b[4m{head}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n{rows}\nLegend:\n\n{legend}"


def p2p(machine: Machine) -> str:
    head = "\t".join(f"GPU{index}" for index in range(len(machine.gpus)))
    rows = _matrix(machine, "X", "OK").format(start=" ", end="")
    return f"\t{head}\n{rows}\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  NS   = Not supported\n"


def _each_link(machine: Machine, line: str) -> str:
    return "".join(
        f"GPU {index}: {machine.product} (UUID: {uuid(machine, index)})\n"
        + "".join(line.format(link=link) for link in range(18))
        for index in range(len(machine.gpus))
    )


def nvlink(machine: Machine) -> str:
    return _each_link(machine, f"\t Link {{link}}: {machine.link_gb_per_s:g} GB/s\n")


def nvlink_errors(machine: Machine) -> str:
    return _each_link(
        machine,
        "\t Link {link}: Replay Errors: 0\n\t Link {link}: Recovery Errors: 0\n\t Link {link}: CRC Errors: 0\n\n",
    )


def proc(machine: Machine) -> str:
    form = "Open Kernel Module for " + ("aarch64" if machine.aarch64 else "x86_64")
    banner = f"{form}  {NVIDIA_DRIVER}  Release Build  (dvs-builder@U22)  Tue Mar  3 19:08:06 UTC 2026"
    return (
        shown(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX {banner}\nGCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04.1)",
        )
        + shown(
            "/proc/driver/nvidia/params",
            f'ModifyDeviceFiles: 1\nCreateImexChannel0: {int(machine.tray)}\nRegistryDwords: ""\n'
            f'CoherentGPUMemoryMode: "{"driver" if machine.tray else ""}"',
        )
        + there(*(f"/proc/driver/nvidia/gpus/{address}" for address in machine.gpus))
        + there(*(f"/dev/nvidia{index}" for index in range(len(machine.gpus))))
        + there("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
        + there(*(f"/sys/module/{name}" for name in MODULES))
        + shown("/sys/module/nvidia/version", NVIDIA_DRIVER)
        + gone(*(f"/sys/module/{name}" for name in OTHER_MODULES))
        + ".\n"
    )


def library(machine: Machine) -> str:
    folder, text = f"/usr/lib/{machine.tag}", ""
    for name, size in (("libnvidia-ml", 2293320), ("libcuda", 96784232)):
        text += shown(f"{folder}/{name}.so.1", f"{folder}/{name}.so.{NVIDIA_DRIVER}")
        text += shown(f"size {folder}/{name}.so.1", size)
    return text + ".\n"


def imex_files(machine: Machine) -> str:
    if not machine.tray:
        return (
            gone("/etc/nvidia-imex/nodes_config.cfg", "/etc/nvidia-imex/config.cfg")
            + shown("/proc/devices", "195 nvidia\n234 nvidia-caps-imex-channels") + gone(f"{CHANNELS}/*") + ".\n"
        )  # fmt: skip
    return (
        shown("/etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2")
        + shown("/etc/nvidia-imex/config.cfg", "SERVER_PORT=50000\nIMEX_WAIT_FOR_QUORUM=RECOVERY")
        + shown("/proc/devices", "195 nvidia\n234 nvidia-caps-imex-channels")
        + there(CHANNEL) + shown(f"mode {CHANNEL}", "666") + ".\n"
    )  # fmt: skip


def imex_ctl() -> str:
    links = ", ".join(f'"{i}": {{"host": "10.0.0.{i + 1}", "status": "CONNECTED"}}' for i in range(2))
    nodes = ",\n ".join(
        f'"{i}": {{"status": "READY", "host": "10.0.0.{i + 1}", "hostName": "N/A", "version": "{NVIDIA_DRIVER}", '
        f'"connections": {{{links}}}}}'
        for i in range(2)
    )
    return f'{{"nodes": {{\n {nodes}}},\n "timestamp": "9/4/2026 00:00:00.000", "status": "UP"}}\n'


def fabric_manager(machine: Machine) -> str:
    configured = "Successfully configured all the available GPUs and NVSwitches to route NVLink traffic. NVLink Peer-to-Peer support will be enabled once the GPUs are successfully registered with the NVLink fabric."
    return (
        shown("version", f"Fabric Manager version is : {NVIDIA_DRIVER}\nBuild Info - Branch: rel/gpu_drv/r580")
        + shown("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\nFABRIC_MODE=0")
        + shown("/var/log/fabricmanager.log", f"[Aug 27 2026 07:13:21] [INFO] [tid 31082] {configured}")
        + shown("/var/log/nvlsm.log", "Aug 27 07:13:17 [A000] 0x80 -> Entering MASTER state") + ".\n"
    )  # fmt: skip
