"""RDMA, PCI, network and AMD parsers on outputs of real nodes, file by file, against what INDEX.tsv states of each.

Every file of these folders has an expectation here: its facts, or the words of the reason why there are none. A file
that has none fails, so that a growing corpus is not passed over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackproof.evidence.tools import amd, amd_values, host, ib_tools, kernel_modules, lspci, mlxlink, rocm_smi, rocminfo
from rackproof.evidence.tools.amd_smi import parse_amd_smi
from rackproof.facts import Missing

CORPUS = Path(os.environ.get("RACKPROOF_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no corpus of real outputs at {CORPUS} (set RACKPROOF_CORPUS)"
)

MIB = 2**20
UP = ("ACTIVE", "LinkUp")
OFF = ("DOWN", "Disabled")


def missing(words: str) -> Callable[[Any], bool]:
    return lambda facts: isinstance(facts, Missing) and words in facts.reason


def links(count: int, **exceptions: tuple[str, str]) -> Callable[[Any], bool]:
    """So many devices with one port, all up but the named ones."""

    def check(facts: Any) -> bool:
        states = {hca.name: [(port.state, port.phys_state) for port in hca.ports] for hca in facts}
        return len(states) == count and all(ports == [exceptions.get(name, UP)] for name, ports in states.items())

    return check


def stats(**wanted: int) -> Callable[[Any], bool]:
    """How many ports are ACTIVE, down, Ethernet, of 400 Gb/s ..."""

    def check(facts: Any) -> bool:
        found: Counter[str] = Counter()
        for hca in facts:
            for port in hca.ports:
                found.update([str(port.state), str(port.phys_state), str(port.link_layer), str(hca.product)])
                if isinstance(port.rate_bits_per_s, int):
                    found[f"G{port.rate_bits_per_s // 10**9}"] += 1
        return all(found[name] == count for name, count in wanted.items())

    return check


def netdevs(**wanted: str) -> Callable[[Any], bool]:
    """Device -> "interface Up"."""
    return lambda facts: wanted == {
        hca.name: f"{hca.ports[0].netdevs[0]} {'Up' if hca.ports[0].netdev_up else 'Down'}" for hca in facts
    }


def gids(*wanted: tuple[str, str]) -> Callable[[Any], bool]:
    """(scope, version) of each GID in order, over all devices."""
    return lambda facts: list(wanted) == [
        (gid.scope, gid.version[-2:]) for hca in facts for port in hca.ports for gid in port.gids
    ]


def ibv(state: tuple[str, ...], layer: str, pci_id: str, mtu: tuple[int, ...]) -> Callable[[Any], bool]:
    return lambda facts: (state, {layer}, {pci_id}, mtu) == (
        tuple(hca.ports[0].state for hca in facts), {hca.ports[0].link_layer for hca in facts},
        {hca.pci_id for hca in facts}, tuple(hca.ports[0].active_mtu_bytes for hca in facts),
    )  # fmt: skip


def each(count: int, **fields: Any) -> Callable[[Any], bool]:
    """So many items, all of which have these values."""
    return lambda facts: len(facts) == count and all(
        getattr(item, name) == value for item in facts for name, value in fields.items()
    )


def has(**fields: Any) -> Callable[[Any], bool]:
    return lambda facts: all(getattr(facts, name) == value for name, value in fields.items())


def is_(wanted: object) -> Callable[[Any], bool]:
    return lambda facts: facts == wanted


def holds(*words: str) -> Callable[[Any], bool]:
    return lambda facts: all(word in facts for word in words)


def every(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda facts: all(check(facts) for check in checks)


def module(name: str, **fields: Any) -> Callable[[Any], bool]:
    return lambda facts: all(getattr(facts[name], field) == value for field, value in fields.items())


def _downgraded(facts: Any) -> bool:
    links = [device for device in facts if not isinstance(device.link_speed, Missing)]
    acs = {device.acs for device in facts if not isinstance(device.acs, Missing)}
    redirected = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    return len(facts) == 20 and all(link.link_downgraded for link in links) and acs == {("SrcValid",), redirected}


def _used(facts: Any) -> bool:
    return [gpu.memory_used_percent for gpu in facts] == [0, 0, 0, 17, 0, 0, 0, 0]


def _uname(kernel: str, architecture: str) -> Callable[[Any], bool]:
    return lambda facts: (facts["kernel"], facts["architecture"]) == (kernel, architecture)


LSPCI, LINKS = lspci.parse_lspci, lspci.parse_links
SMI, CARDS = parse_amd_smi, rocm_smi.parse_rocm_smi
LINK, STAT, DEVINFO = ib_tools.parse_rdma_link, ib_tools.parse_ibstat, ib_tools.parse_ibv_devinfo
NETDEV, GIDS = ib_tools.parse_ibdev2netdev, ib_tools.parse_show_gids
LSMOD, UNAME, CMDLINE = kernel_modules.parse_lsmod, kernel_modules.parse_uname, host.parse_cmdline
MLXLINK = mlxlink.parse_mlxlink
V1, V2 = "v1", "v2"
LOCAL, IPV4 = "link-local", "ipv4"

EXPECTED: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool]]] = {
    "rdma-link/001": (LINK, links(8)),
    "rdma-link/002": (LINK, links(3)),
    "rdma-link/003": (LINK, links(10, mlx5_9=OFF)),
    "rdma-link/004": (LINK, links(8)),
    "rdma-link/005": (LINK, links(4)),
    "rdma-link/006": (LINK, links(8)),
    "ibstat/001": (STAT, stats(ACTIVE=9, LinkUp=9, Ethernet=1, InfiniBand=8, G200=9)),
    "ibstat/002": (STAT, stats(ACTIVE=1, InfiniBand=1, G100=1, MT4125=1)),
    "ibstat/003": (STAT, stats(MT4131=7, MT4129=4, ACTIVE=4, DOWN=7, Disabled=7)),
    "ibstat/004": (STAT, stats(DOWN=1, Polling=1, MT4129=1)),
    "ibstat/005": (STAT, stats(DOWN=1, Disabled=1, Ethernet=1, MT4131=1)),
    "ibstat/006": (STAT, stats(ACTIVE=9, DOWN=3, Disabled=3, Ethernet=4, InfiniBand=8, G40=3, G400=8)),
    "ibstat/007": (STAT, stats(ACTIVE=12, LinkUp=12, Ethernet=12)),
    "ibstat/008": (STAT, stats(DOWN=2, Polling=1, Disabled=1)),
    "ibv_devinfo/001": (DEVINFO, ibv(("ACTIVE", "ACTIVE"), "InfiniBand", "15b3:1021", (4096, 4096))),
    "ibv_devinfo/002": (DEVINFO, ibv(("ACTIVE", "ACTIVE"), "Ethernet", "15b3:1021", (4096, 4096))),
    "ibv_devinfo/003": (DEVINFO, lambda facts: [hca.node_guid[-1] for hca in facts] == list("01234567")),
    "ibv_devinfo/004": (DEVINFO, missing("not found")),
    "ibv_devinfo/005": (DEVINFO, every(ibv(("ACTIVE",), "Ethernet", "1dd8:0001", (4096,)),
                                       gids((LOCAL, V1), (LOCAL, V2)))),
    "ibv_devinfo/006": (DEVINFO, ibv(("DOWN", "ACTIVE"), "Ethernet", "15b3:1021", (1024, 4096))),
    "ibdev2netdev/001": (NETDEV, netdevs(mlx5_0="enp94s0f0np0 Down", mlx5_1="enp94s0f1np1 Up")),
    "ibdev2netdev/002": (NETDEV, lambda facts: [hca.ports[0].netdev_up for hca in facts] == [True, False] * 2),
    "ibdev2netdev/003": (NETDEV, netdevs(mlx5_0="ens192f0 Up", mlx5_1="ens192f1 Down")),
    "show_gids/001": (GIDS, gids((LOCAL, V1), (LOCAL, V2), (IPV4, V1), (IPV4, V2))),
    "show_gids/002": (GIDS, every(gids((LOCAL, V1), (LOCAL, V2), (LOCAL, V1)),
                                  lambda facts: facts[1].ports[0].netdevs == ())),
    "show_gids/003": (GIDS, gids((LOCAL, V1), (LOCAL, V2), (IPV4, V1), (IPV4, V2))),
    "mlxlink/001": (MLXLINK, has(state="Active", speed="100G", phys_state="LinkUp", raw_ber=1e-8)),
    "mlxlink/002": (MLXLINK, missing("no port")),  # mlxconfig
    "mlxlink/003": (MLXLINK, has(state="Active", speed="NVLink-XDR", recommendation="No issue was observed",
                                 phys_state=Missing("Physical state: N/A"))),
    "lspci/001": (LSPCI, lambda facts: sum("EFA" in item.name for item in facts) == 2 and len(facts) == 12),
    "lspci/002": (LSPCI, each(2, id="10de:3182", class_code="0302")),
    "lspci/003": (LSPCI, each(2, class_name="Infiniband controller")),
    "lspci/004": (LSPCI, lambda facts: Counter(item.id for item in facts)
                  == {"1af4:1050": 1, "10de:2330": 4, "10de:22a3": 2}),
    "lspci/005": (LSPCI, lambda facts: Counter(item.id for item in facts)
                  == {"1a03:2000": 1, "10de:2330": 8, "10de:22a3": 4}),
    "lspci/006": (LSPCI, each(4, id="10de:31c2", class_code="0302")),
    "lspci/007": (LINKS, is_({"32GT/s x16": 1})),
    "lspci/008": (LSPCI, every(each(8, class_name="Processing accelerators"),
                               lambda facts: all(len(item.bridges) == 5 for item in facts))),
    "lspci/009": (LINKS, is_({"16GT/s x2": 4, "32GT/s x16": 8})),
    "lspci/010": (LSPCI, each(1, acs=("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"), link_downgraded=False)),
    "lspci/011": (LSPCI, each(1, link_speed=16e9, link_width=16, link_downgraded=False, acs=())),
    "lspci/012": (LSPCI, each(1, link_speed=32e9, link_width=16, link_downgraded=False, max_read_request_bytes=4096,
                              class_name="Ethernet controller", uncorrectable_status=())),
    "lspci/013": (LSPCI, _downgraded),
    "lspci/014": (LSPCI, each(1, link_speed=32e9, link_width=16, link_downgraded=False, uncorrectable_status=(),
                              correctable_status=("RxErr", "BadTLP", "Timeout"))),
    "lspci/015": (LSPCI, each(1, link_speed=16e9, link_width=2, link_width_max=2, link_downgraded=False)),
    "lsmod/001": (LSMOD, missing("not a list of kernel modules")),  # dkms status: kernels.parse_dkms_status
    "lsmod/002": (LSMOD, holds("gdrdrv", "nvidia_peermem")),
    "lsmod/003": (LSMOD, every(holds("nvidia_fs", "nvidia_peermem"),
                               lambda facts: "nvidia_peermem" not in facts["ib_core"].used_by)),
    "lsmod/004": (LSMOD, every(module("nvidia", size_bytes=11669504), lambda facts: "nvidia_modeset" not in facts)),
    "lsmod/005": (LSMOD, lambda facts: "nvidia_peermem" in facts["ib_core"].used_by),
    "lsmod/006": (LSMOD, every(module("nvidia", taint="POE"), module("drm", taint=""))),
    "lsmod/007": (LSMOD, module("nvidia", used_by=("nvidia_vgpu_vfio",))),
    "amd-smi/001": (SMI, every(each(1, product="AMD Instinct MI210", pci_id="1002:740f", architecture="gfx90a",
                                    compute_units=104, memory_bytes=65520 * MIB, power_limit_w=300.0),
                               lambda facts: "has no version" in facts[0].driver_version.reason)),
    "amd-smi/002": (SMI, each(1, product="MI300A", pci_address="00000000:01:00.0", memory_bytes=64289 * MIB,
                              compute_partition="SPX", memory_partition="NPS1", driver_version="6.9.0-rc5+")),
    "amd-smi/003": (SMI, each(2, bad_pages_retired=0, bad_pages_pending=0, bad_pages_unreservable=0)),
    "amd-smi/004": (SMI, lambda facts: len(facts[0].firmware) == 10 and facts[0].firmware["VCN"] == "61.13.00.C"),
    "amd-smi/005": (SMI, lambda facts: [(gpu.pci_address, gpu.uuid[:4]) for gpu in facts] == [
        ("00000000:05:00.0", "beff"), ("00000000:26:00.0", "6bff"), ("00000000:46:00.0", "c4ff")]),
    "amd-smi/006": (SMI, lambda facts: len(facts) == 8 and facts[0].processes[0].used_bytes == 7889485824),
    "amd-smi/007": (SMI, lambda facts: [gpu.processes[0].used_bytes // 2**30 for gpu in facts] == [7, 7]),
    "amd-smi/008": (SMI, missing('"type": "HBM"')),  # one block of a GPU that is not named
    "amd-smi/009": (SMI, each(1, product="MI300X-O", pci_id="1002:74a1", pcie_width_max=16)),
    "amd-smi/010": (SMI, each(1, pci_address="00000000:05:00.0", uuid="65ff75a3-0000-1000-802c-2ba4bec81033")),
    "amd-smi/011": (SMI, each(1, memory_bytes=294896 * MIB, memory_used_bytes=283 * MIB, power_w=239.0,
                              utilization_percent=0.0, temperature_c=36.0)),
    "amd-smi/012": (SMI, lambda facts: [(item.pid, item.used_bytes) for item in facts[0].processes] == [(15910, 0)]),
    "amd-smi/013": (SMI, each(1, product="AMD Instinct MI355X", driver_version="6.16.6", power_limit_w=1400.0)),
    "rocm-smi/001": (CARDS, each(4, pci_id="1002:738c", memory_bytes=34342961152, power_max_w=290.0)),
    "rocm-smi/002": (CARDS, each(1, architecture="gfx1031", memory_bytes=12868124672, driver_version="6.3.6",
                                 uuid=Missing("Unique ID: N/A"))),
    "rocm-smi/003": (CARDS, every(each(8, product="AMD Instinct MI300X", pci_id="1002:74a1", power_limit_w=750.0,
                                       compute_partition="SPX", memory_partition="NPS1"), _used)),
    "rocm-smi/004": (rocm_smi.parse_rocm_topo, lambda facts: len(facts) == 56 and set(facts.values()) == {"XGMI"}),
    "rocm-smi/005": (CARDS, each(8, pci_id="1002:75a3", power_limit_w=1400.0, memory_used_percent=17.0)),
    "rocm-smi/006": (CARDS, each(8, pci_id="1002:75a3", power_limit_w=1400.0, memory_used_percent=98.0)),
    "rocminfo/001": (rocminfo.parse_rocminfo, every(
        has(complete=False, module_loaded=True, dmabuf=True),
        lambda facts: each(1, architecture="gfx942", compute_units=304, memory_bytes=196592 * MIB)(facts.gpus))),
    "uname/001": (UNAME, _uname("6.8.0-1013-nvidia-64k", "aarch64")),
    "uname/002": (UNAME, _uname("6.8.0-1013-nvidia-64k", "aarch64")),
    "uname/003": (UNAME, _uname("2.6.18-194.e15PAE", "i686")),
    "uname/004": (UNAME, _uname("5.14.0-570.33.2.el9_6.x86_64", "x86_64")),
    "proc-cmdline/001": (CMDLINE, holds("iommu.passthrough=1", "console=ttyAMA0,115200n8")),
    "proc-cmdline/002": (CMDLINE, holds("numa_balancing=disable", "ro")),
    "proc-cmdline/003": (CMDLINE, holds("iommu.passthrough=1", "numa_balancing=disable", "init_on_alloc=0")),
    "proc-cmdline/004": (CMDLINE, holds("module_blacklist=nouveau", "rd.driver.blacklist=nouveau")),
    "proc-cmdline/005": (CMDLINE, holds("pci=realloc=off", "pci=bfsort", "iommu=pt")),
    "proc-cmdline/006": (CMDLINE, lambda facts: facts[0].startswith("BOOT_IMAGE=(hd0,msdos1)/ostree/")),
    "proc-cmdline/007": (CMDLINE, holds("crashkernel=auto", "LANG=en_GB.utf8")),
    "proc-cmdline/008": (CMDLINE, holds("kvm_intel.tdx=1")),
}  # fmt: skip

FOLDERS = sorted({name.split("/")[0] for name in EXPECTED})
PARSERS = sorted({parser for parser, _ in EXPECTED.values()}, key=lambda parser: parser.__qualname__)


def paths(folder: str) -> list[Path]:
    found = sorted((CORPUS / folder).glob("*")) if (CORPUS / folder).is_dir() else []
    if not found:
        pytest.skip(f"this corpus has no {folder}")
    return found


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_says_what_its_index_row_states(folder: str, record_property: Callable[[str, object], None]) -> None:
    facts = unknown = 0
    for path in paths(folder):
        name = f"{folder}/{path.name[:3]}"
        assert name in EXPECTED, f"{name} is new: say what it states"
        parser, check = EXPECTED[name]
        found = parser(text_of(path))
        assert check(found), (path, found)
        facts, unknown = facts + (not isinstance(found, Missing)), unknown + isinstance(found, Missing)
    record_property("counts", f"{folder}: {facts} with facts, {unknown} unknown with a reason")
    print(f"{folder}: {facts} with facts, {unknown} unknown with a reason")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_parser_raises_on_any_of_it(folder: str) -> None:
    for path in paths(folder):
        text = text_of(path)
        for part in (text[: len(text) // 2], text[::-1]):
            for parser in PARSERS:
                parser(part)


def test_crlf_changes_nothing() -> None:
    for folder in FOLDERS:
        for path in paths(folder):
            parser, _ = EXPECTED[f"{folder}/{path.name[:3]}"]
            assert parser(text_of(path).replace("\n", "\r\n")) == parser(text_of(path)), path


def test_the_memory_of_a_lone_vram_block() -> None:
    """Without a GPU number it is nobody's, but its number reads as the others do: amd-smi's MB is 2**20."""
    assert amd_values.memory({"value": 196592, "unit": "MB"}, "vram.size") == 196592 * MIB


def test_kernel_log_of_amd_gpus() -> None:
    events = amd.parse_ras(text_of(paths("dmesg")[0]))
    kinds = [(event.kind, event.pci_address[9:]) for event in events]
    assert kinds == [("poison", "01:00.0"), ("poison", "01:00.0"), ("bad-pages", "02:00.0"), ("aca", "03:00.0")]
    assert events[2].count == 150
    spam = amd.parse_ras(text_of(paths("dmesg")[1]))
    assert {(event.kind, event.count) for event in spam} == {("correctable", 1048560), ("uncorrectable", 1048560)}
    for path in paths("dmesg")[2:]:
        assert amd.parse_ras(text_of(path)) == (), path
