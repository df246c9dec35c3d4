"""Sections of the operating system under the GPUs of a healthy node: Ubuntu 24.04."""

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
from rackproof.evidence.tools.systemd import UNITS

from .machine import NVIDIA_DRIVER, Machine, gone, shown, there

KIB = 1024
ROOT_KIB, ROOT_FREE_KIB = 3_700_000_000, 3_400_000_000
MODELS = "/models"


def sections(machine: Machine) -> dict[str, str]:
    return {
        "identity": identity(machine),
        "os_release": 'NAME="Ubuntu"\nVERSION_ID="24.04"\nVERSION="24.04.3 LTS (Noble Numbat)"\nID=ubuntu\nID_LIKE=debian\n',
        "cmdline": cmdline(machine),
        "marks": gone("/etc/rackproof-lab", "/etc/rackproof/selfbuild", "/etc/rackproof/baseline.json", "/run/reboot-required") + ".\n",
        "addresses": (
            "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n"
            f"4: eth0    inet {machine.address}/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever\n"
        ),
        "systemd_units": "\n".join(unit(machine, name) for name in UNITS),
        "packages": packages(machine),
        "apt_config": (
            gone("/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list")
            + shown("/etc/apt/sources.list.d/ubuntu.sources", "Types: deb\nURIs: http://archive.ubuntu.com/ubuntu\nSuites: noble noble-updates")
            + gone("/etc/apt/preferences") + shown("/etc/apt/preferences.d/nvidia", f"Package: *nvidia*\nPin: version {NVIDIA_DRIVER}*\nPin-Priority: 1001")
            + there("/etc/apt") + gone("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml") + ".\n"
        ),
        "kernel_log": kernel_log(machine),
        "system": system(machine),
        "storage": storage(machine),
        "lsblk": lsblk(),
        "nvme_health": "".join(shown(f"/dev/nvme{n}", SMART) for n in range(2)) + ".\n",
        "time_sync": shown("timedatectl", "NTPSynchronized=yes") + shown("chronyc", TRACKING) + ".\n",
        "kernels": kernels(machine),
        "apt": apt(),
        "node_state": node_state(),
        "own_name": shown("own name", f"{machine.address}        STREAM {machine.name}\n{machine.address}        DGRAM\nrc=0") + ".\n",
        "serving": serving(),
        "virtualization": "none\n.\n",
        "control": gone("/var/lib/rackproof/lock", "/var/lib/rackproof/selfbuild.record", "/var/lib/rackproof/journal.jsonl", "/etc/rackproof/history") + ".\n",
    }  # fmt: skip


SMART = """{
  "critical_warning" : 0,
  "temperature" : 310,
  "avail_spare" : 100,
  "percent_used" : 3,
  "media_errors" : 0
}"""
TRACKING = "A9FEA97B,169.254.169.123,4,1790000000.1,-0.000012345,0.0,0.0,-1.2,0.0,0.0,0.0,0.0,16.0,Normal"


def identity(machine: Machine) -> str:
    return (
        shown("/proc/sys/kernel/hostname", machine.name)
        + shown("/proc/sys/kernel/random/boot_id", f"fc13cc59-0000-4000-8000-00000000000{machine.number}")
        + shown("/sys/class/dmi/id/product_name", "a GPU server") + shown("/proc/uptime", "86400.25 2.0")
        + shown("/sys/class/dmi/id/sys_vendor", "NVIDIA")
        + shown("/sys/class/dmi/id/product_serial", f"serial-of-{machine.name}")
        + gone("/sys/class/dmi/id/product_sku") + shown("/sys/class/dmi/id/bios_version", "02.06.00")
        + shown("uname", f"{machine.kernel} {'aarch64' if machine.aarch64 else 'x86_64'}") + shown("uid", "0")
        + shown("pagesize", 65536 if machine.aarch64 else 4096) + shown("date", "2026-11-30T15:43:40Z") + ".\n"
    )  # fmt: skip


def cmdline(machine: Machine) -> str:
    if machine.aarch64:
        arguments = "init_on_alloc=0 iommu.passthrough=1"
    elif machine.vendor == "amd":
        arguments = "amd_iommu=on iommu=pt pci=realloc=off pci=bfsort"
    else:
        arguments = "intel_iommu=on iommu=pt"
    return f"BOOT_IMAGE=/boot/vmlinuz-{machine.kernel} root=UUID=1 ro {arguments}\n"


def unit(machine: Machine, name: str) -> str:
    nvidia = machine.vendor == "nvidia"
    absent = {"dnf-automatic.timer", "podman.socket", "nvidia-fabricmanager" if machine.tray else "nvidia-imex"}
    if name in absent or (not nvidia and name.startswith("nvidia-")):
        return f"Id={name}\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nNRestarts=0\nResult=success\n"
    return f"""\
Id={name if "." in name else name + ".service"}
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


def packages(machine: Machine) -> str:
    found = {"docker.io": "28.2.2-0ubuntu1~24.04.1", "unattended-upgrades": "2.9.1+nmu4ubuntu1"}
    if machine.vendor == "nvidia":
        fabric = ["nvidia-imex"] if machine.tray else ["nvidia-fabricmanager"]
        names = (
            "nvidia-open",
            "nvidia-driver-open",
            "nvidia-dkms-open",
            "libnvidia-compute",
            "nvidia-driver-pinning-580.126.20",
            *fabric,
        )
        found |= dict.fromkeys(names, f"{NVIDIA_DRIVER}-1ubuntu1")
        toolkit = (
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
            "libnvidia-container-tools",
            "libnvidia-container1",
        )
        found |= dict.fromkeys(toolkit, "1.19.1-1")
        found |= {} if machine.tray or machine.hardware == "h200" else {"nvlsm": "2025.10.14-1"}
    else:
        found["amdgpu-dkms"] = "1:6.19.14.31400000-2364437.24.04"
    lines = "".join(
        f"|ii \t{name}\t{version}\t{'arm64' if machine.aarch64 else 'amd64'}\n" for name, version in found.items()
    )
    return f"source=dpkg\n{lines}total=714 rc=0\n"


def kernel_log(machine: Machine, *lines: str) -> str:
    """The kernel log since boot with these messages in it, each by the journal's short-iso form."""
    kept = [f"pci {machine.gpus[0]}: nvidia 0: enabling device (0000 -> 0002)", *lines]
    rows = "".join(f"|2026-11-30T01:00:{n:02d}+0000 {machine.name} kernel: {text}\n" for n, text in enumerate(kept))
    return f"source=journalctl lines=5000 matched={len(kept)} kept={len(kept)} boots=1 first=2026-11-30T00:59:00+0000\n{rows}.\n"


def system(machine: Machine) -> str:
    sysctls = {
        **dict.fromkeys(SYSCTLS, "1"), "vm.max_map_count": "65530", "kernel.numa_balancing": "0",
        "net.ipv4.conf.all.arp_announce": "2", "net.ipv4.conf.all.arp_ignore": "1",
    }  # fmt: skip
    total = machine.memory_gib * KIB**2
    last = machine.cpus[1].split("-")[1]
    meminfo = (
        f"MemTotal:       {total} kB\nMemAvailable:   {total * 97 // 100} kB\nSwapTotal:             0 kB\n"
        "SwapFree:              0 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB"
    )
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max open files            1048576              1048576              files\n"
        "Max locked memory         unlimited            unlimited            bytes"
    )
    nodes = "".join(
        shown(f"{NODES}/node{n}/cpulist", machine.cpus[n])
        + shown(f"{NODES}/node{n}/meminfo", f"Node {n} MemTotal: {total // 2} kB")
        for n in range(2)
    )
    drives = "".join(
        shown(f"{NVME}/nvme{n}/model", "SOLIDIGM")
        + shown(f"{NVME}/nvme{n}/firmware_rev", "1.0")
        + shown(f"{NVME}/nvme{n}/state", "live")
        for n in range(2)
    )
    return (
        "".join(shown(sysctl_path(name), value) for name, value in sysctls.items())
        + shown("/proc/meminfo", meminfo) + shown("/proc/self/limits", limits) + shown(THP, "always [madvise] never")
        + shown(LOCKDOWN, "[none] integrity confidentiality") + shown(f"{CPU}/possible", f"0-{last}")
        + shown(f"{CPU}/online", f"0-{last}") + shown(f"{CPU}/cpu0/cpufreq/scaling_governor", "performance")
        + nodes + drives + there(f"{FIRMWARE}/acpi", f"{FIRMWARE}/efi") + shown("lscpu", lscpu(machine))
        + shown(SECURE_BOOT, "   6   0   0   0   0") + gone(PEER_MEMORY, "/dev/gdrdrv") + there("/sys/module/ib_core")
        + shown("modules.symbols", "symbol:ib_umem_dmabuf_get ") + ".\n"
    )  # fmt: skip


def lscpu(machine: Machine) -> str:
    model = "Neoverse-V2" if machine.aarch64 else "AMD EPYC 9575F 64-Core Processor"
    cores = 72 if machine.aarch64 else 64
    return (
        f"Architecture:            {'aarch64' if machine.aarch64 else 'x86_64'}\nCPU(s):                  {2 * cores}\n"
        f"On-line CPU(s) list:     0-{2 * cores - 1}\nModel name:              {model}\nThread(s) per core:      1\n"
        f"Core(s) per socket:      {cores}\nSocket(s):               2\nNUMA node(s):            2\n"
        f"NUMA node0 CPU(s):       {machine.cpus[0]}\nNUMA node1 CPU(s):       {machine.cpus[1]}"
    )


def storage(machine: Machine) -> str:
    shm = machine.memory_gib * KIB**2 // 2
    return (
        shown("/proc/self/mounts", f"/dev/nvme0n1p2 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n/dev/nvme1n1 {MODELS} xfs rw,noatime 0 0")
        + shown("df", (
            "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
            f"/dev/nvme0n1p2 {ROOT_KIB} {ROOT_KIB - ROOT_FREE_KIB} {ROOT_FREE_KIB} 9% /\ntmpfs {shm} 0 {shm} 0% /dev/shm\n"
            f"/dev/nvme1n1 {ROOT_KIB} 1600000000 2100000000 43% {MODELS}"
        )) + ".\n"
    )  # fmt: skip


def lsblk() -> str:
    rows = ",\n ".join(
        f'{{"name":"nvme{n}n1", "type":"disk", "size":3840755982336, "rota":false, "model":"SOLIDIGM", "tran":"nvme", "mountpoint":{mount}}}'
        for n, mount in enumerate(('"/"', f'"{MODELS}"'))
    )
    return f'{{"blockdevices": [\n {rows}]}}\n'


def kernels(machine: Machine) -> str:
    release = machine.kernel
    nvidia = machine.vendor == "nvidia"
    module, version = ("nvidia", NVIDIA_DRIVER) if nvidia else ("amdgpu", "6.19.14-2364437.24.04")
    arch = "aarch64" if machine.aarch64 else "x86_64"
    return (
        there(f"/boot/vmlinuz-{release}") + gone("/lib/modules/*/vmlinuz") + there(f"/lib/modules/{release}/modules.dep")
        + (shown(f"kernel {release}", NVIDIA_DRIVER) if nvidia else shown(f"kernel {release}", "modinfo: ERROR: Module nvidia not found."))
        + gone("/boot/grub2/grubenv") + shown("/boot/grub/grubenv", "# GRUB Environment Block")
        + shown("grub.cfg", f"        linux   /boot/vmlinuz-{release} root=UUID=1 ro") + shown("GRUB_DEFAULT", "0")
        + there(f"/var/lib/dkms/{module}/{version}/source", f"/var/lib/dkms/{module}/{version}/{release}/{arch}/module")
        + there(f"/var/lib/dkms/{module}/kernel-{release}-{arch}") + ".\n"
    )  # fmt: skip


def apt() -> str:
    policy = "nvidia-open:\n  Installed: {0}-1ubuntu1\n  Candidate: {0}-1ubuntu1\n  Version table:\n *** {0}-1ubuntu1 1001\n        100 /var/lib/dpkg/status\n"
    settings = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "0";'
    return shown("settings", settings) + shown("policy", policy.format(NVIDIA_DRIVER)) + ".\n"


def node_state() -> str:
    limits = (
        "/proc/900/limits:Max locked memory         unlimited            unlimited            bytes\n"
        "/proc/900/limits:Max open files            1048576              1048576              files"
    )
    return (
        shown("units", "rc=0\nunits=212") + shown("processes", "P 900 dockerd\nprocesses=412 first=1") + shown("limits", limits)
        + shown("/proc/net/tcp", "00000000:0016\nlines=9") + shown("/proc/net/tcp6", "00000000000000000000000000000000:0016\nlines=3")
        + ".\n"
    )  # fmt: skip


def serving() -> str:
    return (
        gone("/etc/systemd/system/rackproof-*.service", "/etc/rackproof/serving.env")
        + gone("/etc/systemd/system/multi-user.target.wants/rackproof-*.service", "/etc/nccl.conf", "/etc/ld.so.preload")
        + shown("segments", "nccl- 0\npsm_ 0\nsem.mp- 0") + ".\n"
    )  # fmt: skip
