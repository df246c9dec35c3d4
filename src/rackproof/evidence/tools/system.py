"""The kernel about itself: sysctl, memory, NUMA, limits, Secure Boot, NVMe controllers, the GPUDirect interfaces,
and `lscpu`.

All of it is small files of /proc and /sys, read by one awk. The `read` of dash and busybox takes a byte at a time, and a
number in /proc/sys or a cpulist ends after the first: 65530 would become 6. Of a NUMA node's meminfo only the first
line is kept. Secure Boot is the fifth byte of an EFI variable, four bytes of attributes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Command, Root
from rackproof.evidence.tools.group import Group, read_group, script
from rackproof.evidence.tools.values import as_text, one_line
from rackproof.facts import Fact, Missing
from rackproof.facts_system import GpuDirectFacts, KernelState, Limit, NumaNode, NvmeController

SYSCTLS = (
    "vm.max_map_count", "vm.min_free_kbytes", "vm.overcommit_memory", "vm.swappiness", "vm.zone_reclaim_mode",
    "kernel.numa_balancing", "kernel.threads-max", "kernel.pid_max", "kernel.dmesg_restrict",
    "fs.file-max", "fs.nr_open", "fs.aio-max-nr", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches",
    "net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default",
    "net.core.netdev_max_backlog", "net.core.somaxconn", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
    "net.ipv4.ip_local_port_range", "net.ipv4.ip_forward", "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.arp_announce",
    "net.ipv4.conf.default.arp_ignore", "net.ipv4.conf.default.rp_filter",
)  # fmt: skip
CPU = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"
FIRMWARE = "/sys/firmware"
SECURE_BOOT = f"{FIRMWARE}/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOCKDOWN = "/sys/kernel/security/lockdown"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
NVME = "/sys/class/nvme"
PEER_MEMORY = "/sys/kernel/mm/memory_peers/nv_mem"
PEER_SYMBOL, DMABUF_SYMBOL = "ib_register_peer_memory_client", "ib_umem_dmabuf_get"


def sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


# modules.symbols is depmod's list of what each module exports: 2 ms, where /proc/kallsyms costs 80.
_SCRIPT = f"""
whole() {{
  for f do
    shift
    if [ -f "$f" ] && [ -r "$f" ]; then set -- "$@" "$f"
    elif [ -e "$f" ]; then printf '%s\\n' "! $f"
    else gone "$f"; fi
  done
  [ $# = 0 ] || awk '
    FNR == 1 {{ print "= " FILENAME }}
    FNR == 1 || FILENAME !~ /node[0-9]+.meminfo$/ {{ print "|" $0 }}' "$@"
}}
whole {" ".join(map(sysctl_path, SYSCTLS))} \
  {NODES}/node[0-9]*/cpulist {NODES}/node[0-9]*/meminfo \
  /proc/meminfo /proc/self/limits {THP} {LOCKDOWN} {CPU}/possible {CPU}/online \
  {CPU}/cpu0/cpufreq/scaling_governor
for d in {NVME}/nvme[0-9]*; do show "$d/model" "$d/firmware_rev" "$d/state"; done
mark {FIRMWARE}/* {FIRMWARE}/efi
if command -v lscpu >/dev/null; then printf '= lscpu\\n%s\\n' "$(lscpu | sed 's/^/|/')"
else printf '%s\\n' '- lscpu'; fi
if [ -r {SECURE_BOOT} ]; then say {SECURE_BOOT} "$(od -An -tu1 {SECURE_BOOT})"; else gone {SECURE_BOOT}; fi
mark {PEER_MEMORY} /dev/gdrdrv /sys/module/ib_core
read -r release </proc/sys/kernel/osrelease
f=/lib/modules/$release/modules.symbols
if [ -r "$f" ]; then
  say modules.symbols "$(grep -oE 'symbol:({PEER_SYMBOL}|{DMABUF_SYMBOL}) ' "$f")"
else printf '%s\\n' '- modules.symbols'; fi
"""

COMMANDS = (Command("system", script(_SCRIPT), root=Root.HELPS),)

_MEMINFO = re.compile(r"^([A-Za-z_()0-9]+): +([0-9]{1,18})( kB)?$", re.MULTILINE)
_NODE_TOTAL = re.compile(r"Node [0-9]+ MemTotal: +([0-9]{1,18}) kB")
_LIMIT = {"memlock": "Max locked memory", "nofile": "Max open files"}
_ULIMIT = {"memlock": ("max locked memory", 1024), "nofile": ("open files", 1)}
_CPULIST = re.compile(r"(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?")


def kernel_state(evidence: Evidence) -> Fact[KernelState]:
    group = read_group(evidence, "system", "/proc and /sys")
    if isinstance(group, Missing):
        return group
    meminfo = parse_meminfo(text) if isinstance(text := group.needed("/proc/meminfo"), str) else text
    limits = group.needed("/proc/self/limits")
    return KernelState(
        sysctl=_sysctl(group),
        memory_bytes=_memory(meminfo, "MemTotal"),
        memory_available_bytes=_memory(meminfo, "MemAvailable"),
        hugepages=_memory(meminfo, "HugePages_Total"),
        hugepage_bytes=_memory(meminfo, "Hugepagesize"),
        transparent_hugepages=_chosen(group, THP),
        swap_bytes=_memory(meminfo, "SwapTotal"),
        swap_used_bytes=_swap_used(meminfo),
        memlock=limits if isinstance(limits, Missing) else parse_limit(limits, "memlock"),
        open_files=limits if isinstance(limits, Missing) else parse_limit(limits, "nofile"),
        cpus_possible=_cpus(group, "possible"),
        cpus_online=_cpus(group, "online"),
        governor=group.needed(f"{CPU}/cpu0/cpufreq/scaling_governor"),
        numa=_numa(group),
        secure_boot=_secure_boot(group),
        lockdown=_chosen(group, LOCKDOWN),
        nvme=_nvme(group),
    )


def _sysctl(group: Group) -> Fact[Mapping[str, str]]:
    texts = {name: group.text(sysctl_path(name)) for name in SYSCTLS}
    unread = next((text for text in texts.values() if isinstance(text, Missing)), None)
    return unread or {name: " ".join(text.split()) for name, text in texts.items() if isinstance(text, str)}


def parse_meminfo(text: str) -> Fact[Mapping[str, int]]:
    """Name -> bytes of /proc/meminfo, or a count for what has no unit (HugePages_Total)."""
    rows = _MEMINFO.findall(text.replace("\r\n", "\n"))
    found = {name: int(value) * (1024 if unit else 1) for name, value, unit in rows}
    return found if "MemTotal" in found else Missing(f"/proc/meminfo: {one_line(text) or 'empty'}")


def _memory(meminfo: Fact[Mapping[str, int]], name: str) -> Fact[int]:
    if isinstance(meminfo, Missing):
        return meminfo
    return meminfo.get(name, Missing(f"/proc/meminfo has no {name}"))


def _swap_used(meminfo: Fact[Mapping[str, int]]) -> Fact[int]:
    total, free = _memory(meminfo, "SwapTotal"), _memory(meminfo, "SwapFree")
    if isinstance(total, Missing):
        return total
    return free if isinstance(free, Missing) else total - free


def parse_limit(text: str, name: str) -> Fact[Limit]:
    """memlock or nofile, of /proc/PID/limits (bytes) or of `ulimit -a`, which gives kilobytes and one value for both."""
    text = text.replace("\r\n", "\n")
    row = re.search(rf"^{_LIMIT[name]} +(unlimited|[0-9]{{1,20}}) +(unlimited|[0-9]{{1,20}})(?: |$)", text, re.M)
    if row:
        return Limit(*(None if value == "unlimited" else int(value) for value in row.groups()))
    label, unit = _ULIMIT[name]
    row = re.search(rf"^{label} +\([^)]*\) +(unlimited|[0-9]{{1,20}})$", text, re.M)
    if not row:
        return Missing(f"no limit of {name} in: {one_line(text) or 'empty'}")
    value = None if row[1] == "unlimited" else int(row[1]) * unit
    return Limit(value, value)


def parse_limits(text: str) -> Mapping[str, Fact[Limit]]:
    return {name: parse_limit(text, name) for name in _LIMIT}


def _chosen(group: Group, path: str) -> Fact[str]:
    """The word in brackets: "always [madvise] never"."""
    text = group.needed(path)
    if isinstance(text, Missing):
        return text
    match = re.search(r"\[([a-z]+)\]", text)
    return match[1] if match else Missing(f"{path}: {one_line(text)}")


def _cpus(group: Group, which: str) -> Fact[str]:
    text = group.needed(f"{CPU}/{which}")
    if isinstance(text, Missing):
        return text
    return text if _CPULIST.fullmatch(text) else Missing(f"{CPU}/{which}: {one_line(text)}")


def _numa(group: Group) -> Fact[tuple[NumaNode, ...]]:
    """Nodes by number; a kernel without NUMA shows none, and that is missing, not one node."""
    found = []
    for path in group.entries:
        match = re.fullmatch(rf"{NODES}/node([0-9]{{1,5}})/cpulist", path)
        if not match:
            continue
        cpus, memory = group.text(path), group.needed(path.replace("cpulist", "meminfo"))
        if not isinstance(cpus, str) or not _CPULIST.fullmatch(cpus.strip()):
            return cpus if isinstance(cpus, Missing) else Missing(f"{path}: {one_line(cpus or '') or 'no such file'}")
        total = _NODE_TOTAL.fullmatch(memory) if isinstance(memory, str) else None
        size = memory if isinstance(memory, Missing) else Missing(f"memory of node {match[1]}: {one_line(memory)}")
        found.append(NumaNode(int(match[1]), cpus.strip(), int(total[1]) * 1024 if total else size))
    return tuple(sorted(found, key=lambda node: node.number)) or Missing(f"{NODES} shows no NUMA node")


def _secure_boot(group: Group) -> Fact[bool]:
    """False on a machine that was not started by EFI; a container that hides /sys/firmware proves nothing."""
    text = group.text(SECURE_BOOT)
    if isinstance(text, str):
        numbers = text.split()
        known = len(numbers) == 5 and numbers[4] in ("0", "1")
        return numbers[4] == "1" if known else Missing(f"the EFI variable SecureBoot: {one_line(text) or 'empty'}")
    firmware, efi = group.names(FIRMWARE), group.exists(f"{FIRMWARE}/efi")
    if isinstance(firmware, Missing) or isinstance(efi, Missing):
        return firmware if isinstance(firmware, Missing) else Missing(f"{FIRMWARE}/efi could not be read")
    if not firmware:
        return Missing(f"{FIRMWARE} is empty")
    if efi:
        return text or Missing("EFI shows no variable SecureBoot")
    return False


def parse_mokutil(text: str) -> Fact[bool]:
    """`mokutil --sb-state`: "SecureBoot enabled", and "disabled" with a note in setup mode."""
    match = re.search(r"^SecureBoot (enabled|disabled)$", text.replace("\r\n", "\n"), re.MULTILINE)
    return match[1] == "enabled" if match else Missing(f"mokutil: {one_line(text) or 'empty'}")


def _nvme(group: Group) -> Fact[tuple[NvmeController, ...]]:
    """Controllers by name; () where the class is there and empty, or not there at all."""
    names = sorted({m[1] for path in group.entries if (m := re.fullmatch(rf"{NVME}/(nvme[0-9]+)/state", path))})
    if not names and not any(path.startswith(f"{NVME}/") for path in group.entries):
        return Missing(f"the probe did not look into {NVME}")

    def value(name: str, file: str) -> Fact[str]:
        text = group.needed(f"{NVME}/{name}/{file}")
        return text if isinstance(text, Missing) else as_text(text, file)

    return tuple(
        NvmeController(name, value(name, "model"), value(name, "firmware_rev"), value(name, "state")) for name in names
    )


def gpudirect(evidence: Evidence) -> Fact[GpuDirectFacts]:
    group = read_group(evidence, "system", "/proc and /sys")
    if isinstance(group, Missing):
        return group
    return GpuDirectFacts(
        peer_memory_client=group.exists(PEER_MEMORY),
        peer_memory_symbol=_symbol(group, PEER_SYMBOL),
        dmabuf_symbol=_symbol(group, DMABUF_SYMBOL),
        gdrdrv_device=group.exists("/dev/gdrdrv"),
    )


def _symbol(group: Group, name: str) -> Fact[bool]:
    """Whether a module of the running kernel exports it. An RDMA core built into the kernel is not in that list."""
    text = group.text("modules.symbols")
    if isinstance(text, Missing):
        return text
    return Missing("the running kernel has no modules.symbols") if text is None else f"symbol:{name} " in text + " "
