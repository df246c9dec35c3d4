"""The parsers on outputs of real nodes, read where they lie (RACKPROOF_CORPUS, or shared/corpus beside the repository).

No file of the corpus is part of this project. Values asserted here were read by eye from the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.evidence.tools import (
    container,
    host,
    imex,
    kernel_log,
    nvidia_driver,
    nvidia_nvlink,
    nvidia_smi,
    nvidia_topo,
    packages,
)
from rackproof.evidence.tools.values import load_object
from rackproof.facts import Gpu, Missing, SmiFacts
from rackproof.facts_gpu import GpuDetail
from rackproof.facts_nvlink import ImexDomain

CORPUS = Path(os.environ.get("RACKPROOF_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")

pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no corpus of real outputs at {CORPUS} (set RACKPROOF_CORPUS)"
)

MIB = 2**20


def read(name: str) -> str:
    """The one file whose number starts the name: read("dmesg/014")."""
    folder, number = name.split("/")
    found = sorted((CORPUS / folder).glob(f"{number}-*"))
    if not found:
        pytest.skip(f"this corpus has no {name}")
    return found[0].read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")


def smi(number: str) -> SmiFacts:
    facts = nvidia_smi.parse_xml(read(f"nvidia-smi-q-x/{number}"))
    assert isinstance(facts, SmiFacts), facts
    return facts


def same(gpus: tuple[Gpu, ...], field: str) -> Any:
    """The value of a field that all GPUs share."""
    values = {getattr(gpu, field) for gpu in gpus}
    assert len(values) == 1, values
    return values.pop()


PARSERS: dict[str, Callable[[str], Any]] = {
    "nvidia-smi-q-x": nvidia_smi.parse_xml,
    "nvidia-smi": nvidia_smi.parse_xml,
    "nvidia-smi-q": nvidia_smi.parse_xml,
    "nvidia-smi-topo": nvidia_topo.parse_topo,
    "nvidia-smi-nvlink": nvidia_nvlink.parse_nvlink,
    "nvidia-imex-ctl": imex.parse_domain,
    "proc-driver-nvidia-version": nvidia_driver.parse_nvrm_version,
    "nvidia-ctk": container.parse_toolkit_version,
    "dmesg": kernel_log.parse_xids,
    "docker-inspect-image": container.parse_images,
    "docker-daemon-json": lambda text: load_object(text, "daemon.json"),
    "docker-info": lambda text: container.runtimes(_docker_info(text)),
    "os-release": host.parse_os_release,
    "proc-cmdline": host.parse_cmdline,
    "dpkg-rpm": packages.parse_packages,
}


def _docker_info(text: str) -> Evidence:
    return Evidence("n", {"docker_info": Section("docker_info", Status.RAN, 0, 0.1, text.encode(), b"")})


@pytest.mark.parametrize("folder", PARSERS)
def test_every_file_is_parsed_without_an_exception(folder: str) -> None:
    files = sorted((CORPUS / folder).iterdir()) if (CORPUS / folder).is_dir() else []
    if not files:
        pytest.skip(f"this corpus has no {folder}")
    for path in files:
        text = path.read_bytes().decode("utf-8", "replace")
        PARSERS[folder](text)
        for other in PARSERS.values():
            other(text[: len(text) // 2])


def test_only_documents_give_smi_facts() -> None:
    """Tables, logs and error messages of nvidia-smi are not the document that was asked for."""
    for folder in ("nvidia-smi", "nvidia-smi-q"):
        for path in (CORPUS / folder).iterdir():
            fact = nvidia_smi.parse_xml(path.read_bytes().decode("utf-8", "replace"))
            assert isinstance(fact, Missing), path
    for path in (CORPUS / "nvidia-smi-q-x").iterdir():
        assert isinstance(nvidia_smi.parse_xml(path.read_bytes().decode("utf-8", "replace")), SmiFacts), path


def test_gb200_tray_580() -> None:
    facts = smi("005")
    assert (facts.driver_version, facts.cuda_version, facts.attached, len(facts.gpus)) == ("580.173.02", "13.0", 4, 4)
    assert facts.warnings == ()
    gpus = facts.gpus
    assert same(gpus, "product") == "NVIDIA GB200"
    assert same(gpus, "memory_bytes") == 189471 * MIB
    assert (same(gpus, "power_limit_w"), same(gpus, "power_default_w")) == (1200.0, 1200.0)
    assert (same(gpus, "fabric_state"), same(gpus, "fabric_status")) == ("Completed", "Success")
    assert (same(gpus, "fabric_health"), same(gpus, "clique_id")) == ("Healthy", 2)
    assert same(gpus, "cluster_uuid") == "00000001-0000-0000-0000-000000000001"
    assert same(gpus, "ecc_uncorrectable_aggregate") == 0
    assert (same(gpus, "remap_pending"), same(gpus, "remap_failure")) == (False, False)
    assert (same(gpus, "persistence"), same(gpus, "mig_current"), same(gpus, "ecc_current")) == (True, False, True)
    assert (same(gpus, "recovery_action"), same(gpus, "slowdown_reasons")) == ("None", ())
    assert gpus[0].pci_address == "00000000:29:00.0"
    assert gpus[0].vbios == "97.00.B9.00.69"


def test_hgx_b200_580() -> None:
    facts = smi("004")
    assert (facts.driver_version, facts.attached, len(facts.gpus)) == ("580.105.08", 8, 8)
    assert same(facts.gpus, "product") == "NVIDIA B200"
    assert same(facts.gpus, "memory_bytes") == 183359 * MIB
    assert (same(facts.gpus, "fabric_health"), same(facts.gpus, "clique_id")) == ("Healthy", 0)
    assert same(facts.gpus, "power_limit_w") == 1000.0
    assert (same(facts.gpus, "pcie_width"), same(facts.gpus, "pcie_width_max")) == (16, 16)
    assert len({gpu.pci_address for gpu in facts.gpus}) == 8


def test_hgx_h100_570() -> None:
    facts = smi("007")
    assert (facts.driver_version, len(facts.gpus)) == ("570.86.15", 8)
    assert same(facts.gpus, "product") == "NVIDIA H100 80GB HBM3"
    assert same(facts.gpus, "memory_bytes") == 81559 * MIB
    assert same(facts.gpus, "persistence") is False
    assert same(facts.gpus, "fabric_state") == "Completed"
    assert same(facts.gpus, "fabric_health") == Missing("fabric/health/summary: not printed")


def test_a_lost_gpu_and_injected_errors() -> None:
    healthy, lost = smi("009").gpus
    assert isinstance(healthy.memory_bytes, int)
    assert lost.memory_bytes == Missing("fb_memory_usage/total: GPU is lost")
    assert isinstance(lost.recovery_action, Missing)
    first, second = smi("008").gpus
    assert (first.ecc_uncorrectable_volatile, first.ecc_uncorrectable_aggregate) == (5, 8)  # though SRAM reads N/A
    assert isinstance(second.ecc_uncorrectable_aggregate, Missing)


def test_older_documents() -> None:
    a100 = smi("002")
    assert (a100.driver_version, a100.attached, len(a100.gpus)) == ("535.54.03", 4, 1)
    assert a100.gpus[0].mig_current is True
    assert a100.gpus[0].ecc_uncorrectable_aggregate == 0
    t4 = smi("017").gpus[0]
    assert (t4.product, t4.power_limit_w, t4.slowdown_reasons) == ("Tesla T4", 70.0, ())
    t4_595 = smi("016")
    assert (t4_595.driver_version, t4_595.gpus[0].ecc_uncorrectable_volatile) == ("595.91.07", 0)
    trimmed = smi("006")
    assert trimmed.driver_version == Missing("driver_version: not printed")
    assert isinstance(trimmed.gpus[0].ecc_current, Missing)
    p400 = smi("012").gpus[0]
    assert isinstance(p400.ecc_uncorrectable_volatile, Missing) and isinstance(p400.remap_pending, Missing)


def test_processes_on_a_workstation() -> None:
    processes = smi("015").gpus[0].processes
    assert isinstance(processes, tuple) and processes
    assert smi("014").gpus[0].processes == ()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("028", "Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error"),
        ("030", "Driver/library version mismatch NVML library version: 535.288"),
        ("032", "couldn't communicate with the NVIDIA driver"),
        ("033", "No devices were found"),
    ],
)
def test_start_up_errors(number: str, words: str) -> None:
    fact = nvidia_smi.parse_xml(read(f"nvidia-smi/{number}"))
    assert isinstance(fact, Missing)
    assert words in fact.reason


@pytest.mark.parametrize(
    ("number", "gpus", "path"),
    [("002", 8, "NV12"), ("005", 8, "NV18"), ("006", 4, "NV18"), ("009", 8, "NV18"), ("010", 8, "NV18"),
     ("012", 8, "NV18"), ("001", 2, "PHB"), ("007", 2, "NV2"), ("015", 4, "SYS")],
)  # fmt: skip
def test_topologies(number: str, gpus: int, path: str) -> None:
    paths = nvidia_topo.parse_topo(read(f"nvidia-smi-topo/{number}"))
    assert isinstance(paths, dict), paths
    assert len(paths) == gpus * (gpus - 1)
    assert set(paths.values()) == {path}


def test_topologies_that_are_not_whole() -> None:
    assert nvidia_topo.parse_topo(read("nvidia-smi-topo/008")) == {}  # one GPU, underlined header
    for number in ("003", "004"):
        assert isinstance(nvidia_topo.parse_topo(read(f"nvidia-smi-topo/{number}")), Missing)


@pytest.mark.parametrize(
    ("number", "ports", "rate"), [("001", 12, 25.0), ("002", 96, 25.0), ("003", 126, 53.125), ("008", 18, 26.562)]
)
def test_nvlinks(number: str, ports: int, rate: float) -> None:
    found = nvidia_nvlink.parse_nvlink(read(f"nvidia-smi-nvlink/{number}"))
    assert isinstance(found, tuple), found
    assert len(found) == ports
    assert {(port.rate_gb_per_s, port.active) for port in found} == {(rate, True)}


def test_nvlinks_that_are_no_answer() -> None:
    inactive = nvidia_nvlink.parse_nvlink(read("nvidia-smi-nvlink/011"))
    assert isinstance(inactive, tuple) and not any(port.active for port in inactive)
    for number in ("004", "005", "006", "007", "009", "010"):
        assert isinstance(nvidia_nvlink.parse_nvlink(read(f"nvidia-smi-nvlink/{number}")), Missing), number


def test_imex_domains() -> None:
    rack = imex.parse_domain(read("nvidia-imex-ctl/005"))
    assert isinstance(rack, ImexDomain), rack
    assert (rack.status, len(rack.peers), rack.bad_links) == ("UP", 18, ())
    assert {(peer.status, peer.version) for peer in rack.peers} == {("READY", "570.172")}
    assert rack.peers[0].host == "172.31.56.39"
    pair = imex.parse_domain(read("nvidia-imex-ctl/008"))
    assert isinstance(pair, ImexDomain)
    assert (pair.status, [peer.host for peer in pair.peers], pair.bad_links) == ("UP", ["10.0.0.1", "10.0.0.2"], ())
    for number in ("001", "002", "003", "004", "006", "007", "009", "010"):
        assert isinstance(imex.parse_domain(read(f"nvidia-imex-ctl/{number}")), Missing), number


@pytest.mark.parametrize(
    ("number", "version", "flavour"),
    [
        ("001", "515.76", "proprietary"), ("002", "535.104.05", "proprietary"), ("003", "540.4.0", "open"),
        ("004", "550.120", "proprietary"), ("005", "555.58.02", "open"), ("006", "570.195.03", "open"),
        ("007", "570.86.15", "open"), ("008", "580.142", "open"), ("010", "590.48.01", "open"),
        ("011", "595.91.07", "open"),
    ],
)  # fmt: skip
def test_loaded_drivers(number: str, version: str, flavour: str) -> None:
    text = read(f"proc-driver-nvidia-version/{number}")
    assert nvidia_driver.parse_nvrm_version(text) == version
    assert nvidia_driver.parse_flavour(text) == flavour


def test_modinfo() -> None:
    assert nvidia_driver.parse_modinfo(read("dpkg-rpm/011")) == "610.57.04"


@pytest.mark.parametrize(
    ("number", "codes"),
    [
        ("004", [145, 145, 149, 149, 145, 149, 149, 145, 149]),
        ("005", [149, 154, 149, 154, 149, 149, 149, 154, 154]),
        ("009", []), ("011", []),  # SXids
        ("014", [63]), ("015", [94, 94, 95, 95]),
        ("016", [13, 13, 13, 32, 46, 69, 74, 79, 154, 119]),
    ],
)  # fmt: skip
def test_xids(number: str, codes: list[int]) -> None:
    xids = kernel_log.parse_xids(read(f"dmesg/{number}"))
    assert [xid.code for xid in xids] == codes


def test_xids_in_other_line_forms() -> None:
    assert {xid.code for xid in kernel_log.parse_xids(read("dmesg/012"))} == {119}
    assert {xid.code for xid in kernel_log.parse_xids(read("dmesg/013"))} == {48, 63, 94}
    mig = kernel_log.parse_xids(read("dmesg/015"))[0]
    assert mig.pci_address == "00000000:01:00.0"
    assert mig.text == "pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"


def test_toolkits() -> None:
    versions = [container.parse_toolkit_version(read(f"nvidia-ctk/{number}")) for number in ("006", "007", "008")]
    assert versions == ["1.16.1", "1.17.0", "1.20.0"]
    assert isinstance(container.parse_toolkit_version(read("nvidia-ctk/005")), Missing)  # the hook, another program
    assert isinstance(container.parse_toolkit_version(read("nvidia-ctk/001")), Missing)


def test_images() -> None:
    hello = container.parse_images(read("docker-inspect-image/002"))
    assert isinstance(hello, tuple)
    digest = "sha256:54e66cc1dd1fcb1c3c58bd8017914dbed8701e2d8c74d9262e26bd9cc1642d31"
    assert (hello[0].id, hello[0].digests, hello[0].architecture) == (digest, (f"hello-world@{digest}",), "arm64")
    bare = container.parse_images(read("docker-inspect-image/004"))
    assert isinstance(bare, tuple) and isinstance(bare[0].architecture, Missing)


def test_docker_daemons_that_are_down() -> None:
    for number in ("006", "007", "008"):
        assert isinstance(container.runtimes(_docker_info(read(f"docker-info/{number}"))), Missing), number


def test_daemon_settings() -> None:
    settings = load_object(read("docker-daemon-json/003"), "daemon.json")
    assert isinstance(settings, dict)
    assert settings["default-runtime"] == "nvidia"


@pytest.mark.parametrize(
    ("number", "os_id", "version"),
    [
        ("001", "amzn", "2"), ("003", "cos", "77"), ("007", "ol", "9.0"), ("009", "rocky", "8.5"),
        ("011", "ubuntu", "22.04"),
    ],
)  # fmt: skip
def test_os_releases(number: str, os_id: str, version: str) -> None:
    found = host.parse_os_release(read(f"os-release/{number}"))
    assert (found["ID"], found["VERSION_ID"]) == (os_id, version)


def test_cmdlines() -> None:
    assert "init_on_alloc=0" in host.parse_cmdline(read("proc-cmdline/003"))
    assert "module_blacklist=nouveau" in host.parse_cmdline(read("proc-cmdline/004"))


def detail(gpu: Gpu) -> GpuDetail:
    assert isinstance(gpu.detail, GpuDetail)
    return gpu.detail


def test_gpu_detail() -> None:
    gb200 = [detail(gpu) for gpu in smi("005").gpus]
    assert {(one.pci_id, one.subsystem_id, one.addressing_mode, one.c2c) for one in gb200} == {
        ("10de:2941", "10de:2046", "ATS", True)
    }
    assert {(one.fabric_bandwidth, one.fabric_route_unhealthy, one.unrepairable_memory) for one in gb200} == {("Full", False, False)}
    assert {one.slot for one in gb200} == {14} and {one.protected_bytes for one in gb200} == {0}
    assert gb200[0].fabric_incorrect_configuration == Missing("fabric/health/incorrect_configuration: N/A")
    assert (gb200[0].temperature_c, gb200[0].temperature_margin_c, gb200[0].power_max_w) == (27.0, 60.0, 1200.0)
    b200 = detail(smi("004").gpus[0])
    assert (b200.c2c, b200.addressing_mode, b200.fabric_access_timeout_recovery) == (False, "None", False)
    assert b200.fabric_bandwidth == Missing("fabric/health/bandwidth: N/A")
    assert (b200.memory_reserved_bytes, b200.memory_used_bytes) == (728 * MIB, 0)
    assert detail(smi("010").gpus[0]).fabric_incorrect_configuration == "None"
    t4 = detail(smi("017").gpus[0])
    assert (t4.power_max_w, t4.sync_boost, t4.gsp_firmware) == (70.0, False, "515.105.01")
    assert isinstance(detail(smi("009").gpus[1]).memory_used_bytes, Missing)  # a lost GPU
