"""Healthy sections of the system, the fabric daemons and nvidia-smi's smaller answers, for the tray of tool_evidence."""

from __future__ import annotations

from rackproof.evidence.tools.system import (
    CPU,
    FIRMWARE,
    LOCKDOWN,
    NODES,
    NVME,
    PEER_MEMORY,
    SECURE_BOOT,
    SYSCTLS,
    THP,
    sysctl_path,
)

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
"""
MEMINFO = """\
MemTotal:       940000000 kB
MemAvailable:   900000000 kB
SwapTotal:       8388604 kB
SwapFree:        8388600 kB
HugePages_Total:    8192
Hugepagesize:       2048 kB
"""
LSCPU = """\
Architecture:                       aarch64
CPU(s):                             144
On-line CPU(s) list:                0-143
Model name:                         Neoverse-V2
Thread(s) per core:                 1
Core(s) per socket:                 72
Socket(s):                          2
NUMA node(s):                       3
NUMA node0 CPU(s):                  0-71
NUMA node1 CPU(s):                  72-143
NUMA node2 CPU(s):
"""


def shown(path: str, text: str) -> str:
    return f"= {path}\n" + "".join(f"|{line}\n" for line in text.splitlines())


SYSTEM = "".join(
    [shown(sysctl_path(name), "1" if name != "net.ipv4.tcp_rmem" else "4096\t131072\t6291456") for name in SYSCTLS]
    + [
        shown("/proc/meminfo", MEMINFO), shown("/proc/self/limits", LIMITS), shown(THP, "always [madvise] never"),
        shown(LOCKDOWN, "none [integrity] confidentiality"), shown(f"{CPU}/possible", "0-143"),
        shown(f"{CPU}/online", "0-143"), shown(f"{CPU}/cpu0/cpufreq/scaling_governor", "performance"),
        shown(f"{NODES}/node0/cpulist", "0-71"), shown(f"{NODES}/node0/meminfo", "Node 0 MemTotal: 490000000 kB"),
        f"= {NODES}/node2/cpulist\n|\n", shown(f"{NODES}/node2/meminfo", "Node 2 MemTotal: 290000000 kB"),
        shown(f"{NVME}/nvme0/model", "KIOXIA"), shown(f"{NVME}/nvme0/firmware_rev", "1.0"),
        shown(f"{NVME}/nvme0/state", "live"),
        f"+ {FIRMWARE}/acpi\n+ {FIRMWARE}/efi\n", shown("lscpu", LSCPU), shown(SECURE_BOOT, "   6   0   0   0   1"),
        f"+ {PEER_MEMORY}\n- /dev/gdrdrv\n+ /sys/module/ib_core\n",
        shown("modules.symbols", "symbol:ib_umem_dmabuf_get \nsymbol:ib_register_peer_memory_client "), ".\n",
    ]
)  # fmt: skip

STORAGE = (
    shown("/proc/self/mounts", (
        "/dev/md0 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw,nosuid 0 0\n"
        "/dev/nvme0n1 /data\\040set xfs rw 0 0\nfiler:/m /mnt/models nfs4 ro,hard 0 0"
    ))
    + shown("df", (
        "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
        "/dev/md0         934000000 100000000 834000000      11% /\ntmpfs 470000000 0 470000000 0% /dev/shm"
    ))
    + ".\n"
)  # fmt: skip
LSBLK = """{"blockdevices": [
 {"name":"loop0", "type":"loop", "size":4096, "rota":false, "model":null, "tran":null, "mountpoint":"/snap"},
 {"name":"nvme0n1", "type":"disk", "size":3840755982336, "rota":false, "model":"KIOXIA", "tran":"nvme", "mountpoint":null,
  "children": [{"name":"nvme0n1p1", "type":"part", "size":"1024", "rota":"0", "model":null, "tran":null,
                "mountpoint":"/data"}]}]}
"""
KERNELS = f"""\
+ /boot/vmlinuz-6.8.0-1039-nvidia-64k
+ /boot/vmlinuz-6.8.0-1040-nvidia-64k
- /lib/modules/*/vmlinuz
+ /lib/modules/6.8.0-1039-nvidia-64k/modules.dep
{shown("kernel 6.8.0-1039-nvidia-64k", "580.126.20")}\
{shown("kernel 6.8.0-1040-nvidia-64k", "modinfo: ERROR: Module nvidia-current not found.")}\
{shown("kernel 5.15.0-1-removed", "580.126.20")}\
- /boot/grub2/grubenv
{shown("/boot/grub/grubenv", "# GRUB Environment Block")}\
{shown("grub.cfg", "        linux   /boot/vmlinuz-6.8.0-1040-nvidia-64k root=UUID=1 ro")}\
{shown("GRUB_DEFAULT", "0")}\
+ /var/lib/dkms/nvidia/580.126.20/source
+ /var/lib/dkms/nvidia/580.126.20/6.8.0-1039-nvidia-64k/aarch64/module
+ /var/lib/dkms/nvidia/kernel-6.8.0-1039-nvidia-64k-aarch64
+ /var/lib/dkms/gdrdrv/2.5/source
.
"""
POLICY = """\
nvidia-imex:
  Installed: 580.126.20-1
  Candidate: 610.43.02-1ubuntu1
  Version table:
     610.43.02-1ubuntu1 600
        600 https://mirror/cuda  Packages
 *** 580.126.20-1 100
        100 /var/lib/dpkg/status
nvlsm:
  Installed: 2025.10.14-1
  Candidate: 2025.10.14-1
"""
APT = shown("settings", 'APT::Architecture "arm64";\nAPT::Periodic::Unattended-Upgrade "0";') + shown("policy", POLICY) + ".\n"
FM_LOG = "[Aug 27 2026 07:13:21] [INFO] [tid 31082] Successfully configured all the available GPUs and NVSwitches"
FABRIC = (
    shown("version", "Fabric Manager version is : 580.126.20\nBuild Info - Branch: rel/gpu_drv/r580")
    + shown("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\nFABRIC_MODE=0")
    + shown("/var/log/fabricmanager.log", FM_LOG)
    + shown("/var/log/nvlsm.log", "Aug 27 07:13:17 [A000] 0x80 -> Entering MASTER state")
    + ".\n"
)
TRACKING = "A9FEA97B,169.254.169.123,4,1790000000.1,-0.000012345,0.0,0.0,-1.2,0.0,0.0,0.0,0.0,16.0,Normal"
P2P = "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n  X    = Self\n  OK   = Status Ok\n"
NVLINK_ERRORS = "".join(
    f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-0000000{gpu})\n" + "".join(
        f"\t Link {link}: Replay Errors: 0\n\t Link {link}: CRC Errors: 0\n\t Link {link}: Effective BER: 15e-255\n\n"
        for link in range(18)
    )
    for gpu in range(2)
)

STATE = (
    shown("units", "rackproof-gb300-tp8.service loaded active running\nfoo.service loaded failed failed\nrc=0\nunits=212")
    + shown("processes", "D 77 0 nvidia-smi\nP 900 dockerd\nprocesses=412 first=1")
    + shown("limits dockerd 900", "Max locked memory         8388608     8388608     bytes\nMax open files     1048576    1048576    files")
    + shown("/proc/net/tcp", "0100007F:1F90\n00000000:0016\nlines=9")
    + shown("/proc/net/tcp6", "00000000000000000000000000000000:0016\nlines=3")
    + ".\n"
)
SMART = """{
  "critical_warning" : 0,
  "temperature" : 310,
  "avail_spare" : 100,
  "percent_used" : 3,
  "media_errors" : 0
}"""

CONFIG = '{"architectures":["KimiK3ForCausalLM"],"model_type":"kimi_k3","quantization_config":{"quant_method":"compressed-tensors"}}'
WEIGHTS = (
    "asked /models/k3\npath /models/k3\nfile 3000 ./model-00001-of-00002.safetensors\n"
    "file 5000 ./model-00002-of-00002.safetensors\nfile 90 ./config.json\nindex\ntotal 7000\n"
    "indexed model-00001-of-00002.safetensors\nindexed model-00002-of-00002.safetensors\n"
    f"revision {'1' * 40}\ncommit {'1' * 40}\nconfig {CONFIG}\nincomplete 0\n"
    "df /dev/md0 934000000 100000000 834000000 11% /\nmount /dev/md0 / ext4 rw,relatime 0 0\n.\n"
)
HEADERS = "header 492 2500 model-00001-of-00002.safetensors\nheader 492 4500 model-00002-of-00002.safetensors\nshards=2\n.\n"

TEXTS: dict[str, str] = {
    "weights": WEIGHTS,
    "weights_headers": HEADERS,
    "node_state": STATE,
    "own_name": shown("own name", "10.0.0.1        STREAM tray01\n10.0.0.1        DGRAM\nrc=0") + ".\n",
    "nvme_health": shown("/dev/nvme0", SMART) + ".\n",
    "system": SYSTEM,
    "storage": STORAGE,
    "lsblk": LSBLK,
    "time_sync": shown("timedatectl", "NTPSynchronized=yes") + shown("chronyc", TRACKING) + ".\n",
    "kernels": KERNELS,
    "apt": APT,
    "fabric_manager": FABRIC,
    "nvidia_smi_p2p": P2P,
    "nvidia_smi_nvlink_errors": NVLINK_ERRORS,
}
