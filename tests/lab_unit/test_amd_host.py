"""A simulated host with AMD GPUs, made here without booting one: what its kernel comes up with, and that rackproof reads
what amd-smi and rocm-smi print of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_boot_model import with_boot

from rackproof.evidence.tools import amd
from rackproof.evidence.tools.amd_smi import parse_amd_smi
from rackproof.evidence.tools.rocm_smi import parse_rocm_smi
from rackproof.facts import Missing
from rackproof.facts_amd import AmdGpu, KfdNode

kernel_amd = pytest.importorskip("rackproof_lab.kernel_amd")
hardware = pytest.importorskip("rackproof_lab.hardware")
hardware_amd = pytest.importorskip("rackproof_lab.hardware_amd")
packages_amd = pytest.importorskip("rackproof_lab.packages_amd")
profile = pytest.importorskip("rackproof_lab.profile")
standins = {
    name: pytest.importorskip(f"rackproof_lab.standins.standins.{name}")
    for name in ("amd_smi", "rocm_smi", "amd_truth", "truth")
}

VERSION = "6.19.14"
VRAM = 309220868096
Say = Callable[..., tuple[int, str]]


def host(root: Path, *, built: bool = True, initrd: str = "", grub: str = "") -> Path:
    """A root file system with as much of a host as the boot model reads: the kernel's own amdgpu, and AMD's where built."""
    modules = root / "usr/lib/modules" / os.uname().release
    files = {kernel_amd.OWN: "srcversion=00\n"}
    if built:
        files[kernel_amd.BUILT] = f"version={VERSION}\nsrcversion=AB\n"
    for name, text in files.items():
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text(text)
    return with_boot(root, initrd, grub)


def test_the_packaged_module_wins_over_the_kernel_s_own(tmp_path: Path) -> None:
    assert kernel_amd.boot(host(tmp_path / "a")).version == VERSION
    own = kernel_amd.boot(host(tmp_path / "b", built=False))
    assert own.module is not None and own.version == "" and not own.drives


@pytest.mark.parametrize("words", [{"initrd": "blacklist amdgpu\n"}, {"grub": "ro modprobe.blacklist=a,amdgpu"}])
def test_a_blacklist_keeps_out_both(tmp_path: Path, words: dict[str, str]) -> None:
    assert kernel_amd.boot(host(tmp_path, **words)).module is None


def test_names_and_versions_of_packages() -> None:
    found = {(deb.name, deb.version) for deb in packages_amd.everything()}
    assert ("amdgpu-dkms", "1:6.16.13.30300300-2327507.24.04") in found
    assert ("amdgpu-dkms-firmware", "1:31.40.0.0.31400000-2364437.24.04") in found
    assert ("amd-container-toolkit", "1.3.0~24.04") in found
    names = [deb.filename for deb in packages_amd.everything()]
    assert len(names) == len(set(names))


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node's folder, with its file system and its identity."""
    host(tmp_path / "root")
    (tmp_path / "sim").mkdir()
    data = profile.node(profile.load("mi355x"), "t", "tray01", 1)
    (tmp_path / "sim/node.json").write_text(json.dumps(data))
    return tmp_path


def test_a_boot_lays_out_what_the_probe_reads(node: Path) -> None:
    hardware.boot(node)
    assert (node / "rw/module/amdgpu/version").read_text() == f"{VERSION}\n"
    assert (node / "rw/module/amdgpu/srcversion").read_text() == "AB\n"
    assert "mk /dev/dri/renderD135 226 135 render" in (node / "sim/nodes.sh").read_text()
    found = [
        amd.parse_kfd((folder / "properties").read_text(), int(folder.name))
        for folder in sorted((node / "sim/class/kfd/kfd/topology/nodes").iterdir(), key=lambda path: int(path.name))
    ]
    assert found[:2] == [None, None]
    assert found[2] == KfdNode(2, "gfx950", 256, "00000000:05:00.0", "1002:75a3") and len(found) == 10
    folder = node / "sim/pci/0000:05:00.0"
    assert (folder / "mem_info_vram_total").read_text() == f"{VRAM}\n"
    link = folder / "current_compute_partition"
    assert link.readlink() == Path("/run/rackproof-lab-rw/partition/0000:05:00.0/current_compute_partition")
    assert (node / "rw/partition/0000:05:00.0/current_compute_partition").read_text() == "SPX\n"


def test_the_kernel_s_own_module_drives_nothing(node: Path) -> None:
    (node / "root/usr/lib/modules" / os.uname().release / kernel_amd.BUILT).unlink()
    hardware.boot(node)
    assert (node / "rw/module/amdgpu/srcversion").exists() and not (node / "rw/module/amdgpu/version").exists()
    assert not (node / "sim/class/drm").exists() and "renderD" not in (node / "sim/nodes.sh").read_text()
    assert not (node / "sim/pci/0000:05:00.0/mem_info_vram_total").exists()
    nodes = sorted(path.name for path in (node / "sim/class/kfd/kfd/topology/nodes").iterdir())
    assert nodes == ["0", "1"]


def test_a_gpu_that_fell_off_the_bus(node: Path) -> None:
    hardware.boot(node)
    (node / "sim/faults.json").write_text(json.dumps({"f": {"gpus_missing": [7]}}))
    hardware.refresh(node)
    assert not (node / "sim/pci/0000:f5:00.0").exists() and (node / "sim/pci/0000:e5:00.0").exists()


@pytest.fixture
def say(node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """Calls a stand-in on a booted node."""
    hardware.boot(node)
    for path in (node / "sim/pci").glob("*/current_*"):  # where the links lead on the node
        target = node / "rw/partition" / path.parent.name / path.name
        path.unlink()
        path.symlink_to(target)
    truth = standins["truth"]
    monkeypatch.setattr(truth, "SIM", node / "sim")
    monkeypatch.setattr(standins["amd_truth"], "MODULE", node / "rw/module/amdgpu")
    monkeypatch.setattr(standins["amd_truth"], "DEVICES", node / "sim/pci")

    def call(program: str, *args: str, faults: object = None) -> tuple[int, str]:
        truth.node.cache_clear()
        truth.faults.cache_clear()
        (node / "sim/faults.json").write_text(json.dumps({"f": faults or {}}))
        code = standins[program].main(program.replace("_", "-"), "26.2.2", args)
        return code, capsys.readouterr().out

    yield call
    truth.node.cache_clear()
    truth.faults.cache_clear()


def gpus(found: object) -> tuple[AmdGpu, ...]:
    assert isinstance(found, tuple) and len(found) == 8, found
    return found


@pytest.mark.parametrize("form", [("--json",), ()])
def test_rackproof_reads_every_subcommand(say: Say, form: tuple[str, ...]) -> None:
    static, metric, pages = (
        gpus(parse_amd_smi(say("amd_smi", name, *form)[1])) for name in ("static", "metric", "bad-pages")
    )
    assert (static[0].pci_address, static[0].product, static[7].index) == ("00000000:05:00.0", "AMD Instinct MI355X", 7)
    assert (static[0].memory_bytes, static[0].compute_units, static[0].driver_version) == (VRAM, 256, VERSION)
    assert (static[0].power_limit_w, static[0].poison_enabled) == (1400.0, True)
    assert (metric[0].ecc_uncorrectable_volatile, metric[0].throttled, metric[0].pcie_width) == (0, False, 16)
    assert (metric[7].power_w, metric[0].temperature_c) == (246.0, 36.0)
    assert (pages[3].bad_pages_retired, pages[3].bad_pages_pending, pages[3].bad_pages_unreservable) == (0, 0, 0)


def test_processes_and_firmware(say: Say) -> None:
    assert gpus(parse_amd_smi(say("amd_smi", "process", "--json")[1]))[0].processes == ()
    firmware = gpus(parse_amd_smi(say("amd_smi", "firmware", "--json")[1]))[0].firmware
    assert isinstance(firmware, dict) and firmware["CP_MEC1"] == "180"


def test_rocm_smi(say: Say) -> None:
    words = "--showid --showproductname --showbus --showmeminfo vram --showuniqueid --showmaxpower --showpower"
    found = gpus(parse_rocm_smi(say("rocm_smi", *words.split(), "--showdriverversion", "--json")[1]))
    assert (found[0].pci_address, found[0].memory_bytes, found[0].power_max_w) == ("00000000:05:00.0", VRAM, 1400.0)
    assert found[7].product == "AMD Instinct MI355X" and found[7].driver_version == VERSION
    table = gpus(parse_rocm_smi(say("rocm_smi")[1]))
    assert (table[0].compute_partition, table[0].memory_partition) == ("SPX", "NPS1")


def test_a_mode_is_set_for_one_gpu(say: Say) -> None:
    assert say("amd_smi", "set", "--gpu", "1", "--compute-partition", "CPX")[0] == 0
    found = gpus(parse_amd_smi(say("amd_smi", "partition", "--json")[1]))
    assert [gpu.compute_partition for gpu in found[:3]] == ["SPX", "CPX", "SPX"]


def test_faults_show(say: Say) -> None:
    broken = {"gpu": {"1": {"ecc_uncorrectable": 2}}}
    found = gpus(parse_amd_smi(say("amd_smi", "metric", "--json", faults=broken)[1]))
    assert [gpu.ecc_uncorrectable_volatile for gpu in found[:3]] == [0, 2, 0]
    cut = say("amd_smi", "static", "--json", faults={"smi": "truncate"})[1]
    assert isinstance(parse_amd_smi(cut), Missing)


def test_without_a_driver_no_gpu_is_listed(say: Say, node: Path) -> None:
    (node / "rw/module/amdgpu/version").unlink()
    assert say("amd_smi", "static", "--json")[0] == 255
    assert say("rocm_smi", "--json")[0] == 2
