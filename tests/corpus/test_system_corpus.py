"""nvidia-smi's other forms, fabric daemons, kernel events and the system on outputs of real nodes, file by file.

Every file of these folders has an expectation: its facts, or the words of the reason why there are none. The summary
counts both per tool over the whole corpus, and fails on a crash and on a folder nobody decided about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from test_corpus import CORPUS, MIB
from test_corpus import PARSERS as FIRST_PARSERS

from rackproof.commands.parse import TOOLS
from rackproof.evidence.tools import (
    cpu,
    fabric_manager,
    kernel_events,
    kernels,
    nvidia_nvlink,
    nvidia_smi_table,
    nvidia_smi_text,
    nvidia_topo,
    package_policy,
    system,
)
from rackproof.facts import Missing, SmiFacts

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus of real outputs at {CORPUS}")

Check = Callable[[Any], bool]


def missing(words: str) -> Check:
    return lambda facts: isinstance(facts, Missing) and words in facts.reason


def gpus(driver: str | None, count: int, product: str | None, mib: int | None, **same: object) -> Check:
    """So many GPUs, all of this product and memory, with these values; None is a value that is not printed."""

    def value(found: object, wanted: object) -> bool:
        return isinstance(found, Missing) if wanted is None else found == wanted

    def check(facts: Any) -> bool:
        size = None if mib is None else mib * MIB
        return (
            isinstance(facts, SmiFacts) and value(facts.driver_version, driver) and len(facts.gpus) == count
            and all(value(g.product, product) and value(g.memory_bytes, size) for g in facts.gpus)
            and all(value(getattr(g, name), wanted) for g in facts.gpus for name, wanted in same.items())
        )  # fmt: skip

    return check


def some(check: Callable[[SmiFacts], bool]) -> Check:
    return lambda facts: isinstance(facts, SmiFacts) and check(facts)


H100, H200, L40S, RTX = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA L40S", "NVIDIA GeForce RTX 2080 SUPER"
GB300, B300 = "NVIDIA GB300", "NVIDIA B300 SXM6 AC"
OK: dict[str, object] = {"remap_pending": False, "remap_failure": False}

TEXT: dict[str, Check] = {
    "001": gpus("535.129.03", 1, "NVIDIA A10", 23028, remap_pending=True),
    "002": some(lambda f: f.attached == 8 and len(f.gpus) == 3 and f.gpus[0].ecc_uncorrectable_aggregate == 0),
    "003": some(lambda f: len(f.gpus) == 4 and f.gpus[0].memory_bytes == 97871 * MIB and f.gpus[0].remap_pending is False),
    "004": some(lambda f: (f.attached, len(f.gpus), f.gpus[0].remap_pending) == (8, 1, True)),
    "005": some(lambda f: (f.attached, len(f.gpus)) == (8, 8) and isinstance(f.gpus[0].product, Missing)),
    "006": missing("describes no GPU"), "007": missing("describes no GPU"), "008": missing("describes no GPU"),
    "009": gpus("550.54.15", 4, "NVIDIA GH200 120GB", 97871, fabric_state=None, compute_mode="Exclusive_Process"),
    "010": some(lambda f: (f.attached, len(f.gpus)) == (8, 1) and isinstance(f.gpus[0].slowdown_reasons, Missing)),
    "011": missing("describes no GPU"),
    "012": gpus("590.48.01", 1, H100, 81559, mig_current=True, recovery_action="None", processes=()),
    "013": gpus("535.161.08", 8, H100, 81559, fabric_state="Completed", fabric_status="Success", **OK),
    "014": gpus("535.183.01", 8, H100, 81559, fabric_state="Completed", **OK),
    "015": missing("describes no GPU"),
    "016": gpus("590.48.01", 1, H200, 143771, recovery_action="None", clique_id=0, power_limit_w=700.0, **OK),
    "017": gpus("590.48.01", 1, H200, 143771, mig_current=True, processes=()),
    "018": some(lambda f: [p.pid for p in f.gpus[0].processes] == [12249, 12250, 12267]),  # type: ignore[union-attr]
    "019": gpus("595.80", 1, L40S, 46068, recovery_action="None", **OK),
    "020": gpus("595.71.05", 1, RTX, 8192, ecc_uncorrectable_volatile=None),
    "021": gpus("610.57.04", 1, RTX, 8192, power_limit_w=250.0),
    "022": gpus("535.154.05", 8, "NVIDIA GeForce RTX 4090", 24564),
    "023": some(lambda f: len(f.gpus) == 8 and f.gpus[0].product == "NVIDIA GeForce RTX 4090"),
    "024": missing("describes no GPU"),
}  # fmt: skip

TABLE: dict[str, Check] = {
    "001": gpus("450.80.02", 1, "A100-SXM4-40GB", 40537, mig_current=False),
    "002": gpus("580.126.20", 1, "NVIDIA A100-SXM4-80GB", 81920, power_limit_w=275.0),
    "003": some(lambda f: len(f.gpus) == 4 and [isinstance(g.ecc_uncorrectable_volatile, Missing) for g in f.gpus].count(True) == 2),
    "004": gpus("510.54", 1, "NVIDIA A30X", 24576), "005": missing("cut off at its top"),
    "006": gpus("610.43.02", 2, "NVIDIA B200", 183359), "007": gpus("580.95.05", 8, "NVIDIA B200", 183359),
    "008": gpus("610.57.04", 7, B300, 275040), "009": missing("damaged at GPU 1"), "010": missing("cut off at its top"),
    "011": gpus("580.126.09", 4, "NVIDIA GB200", 189471, power_limit_w=1200.0),
    "012": gpus("595.58.03", 4, "NVIDIA GB200", 189471), "013": gpus("580.82.07", 3, GB300, 284208),
    "014": some(lambda f: [g.product for g in f.gpus] == ["NVIDIA RTX 6000", GB300]),
    "015": gpus("580.105.08", 4, GB300, 284208, power_limit_w=1400.0), "016": gpus("580.105.08", 4, GB300, 284208),
    "017": gpus("525.125.06", 1, None, 23028, compute_mode="Exclusive_Process"),
    "018": gpus("570.124.06", 1, "NVIDIA GH200 480GB", 97871), "019": gpus("590.48.01", 1, H100, 81559),
    "020": gpus("590.48.01", 1, H100, 81559, mig_current=True, ecc_uncorrectable_volatile=None),
    "021": gpus("590.48.01", 1, H100, 81559, mig_current=True), "022": gpus("580.105.08", 1, H100, 81559),
    "023": gpus("535.104.12", 8, H100, None, mig_current=True), "024": gpus("535.161.08", 8, H100, 81559),
    "025": gpus("590.48.01", 1, H200, 143771, mig_current=True), "026": gpus("570.124.06", 8, H200, 143771),
    "027": gpus("570.124.06", 8, H200, 143771),
    "028": missing("GPU3: 0000:04:00.0"), "029": missing("0000:04:00.0"), "030": missing("mismatch"),
    "031": missing("mismatch"), "032": missing("couldn't communicate"), "033": missing("No devices were found"),
    "034": missing("cut off at its top"), "035": gpus("595.71.05", 1, None, 8192),
    "036": gpus("610.57.04", 1, None, 8192), "037": gpus("510.47.03", 1, "Tesla T4", 15360), "038": missing("cut off"),
}  # fmt: skip

CSV: dict[str, Check] = {
    "001": gpus("610.57.04", 7, B300, None), "002": missing("no header"),
    "003": gpus(None, 2, None, 283264), "004": gpus("590.48.01", 1, H100, 81559, recovery_action="None", slowdown_reasons=()),
    "005": gpus("590.48.01", 1, H100, 81559, mig_current=True),
    "006": gpus("590.48.01", 1, H200, 143771, fabric_state="Completed", power_limit_w=700.0),
    "007": gpus("590.48.01", 1, H200, 143771, mig_current=True), "008": missing("GPU3"),
    "009": gpus("595.80", 1, L40S, 46068), "010": missing("no header"), "011": gpus("610.57.04", 1, RTX, 8192),
}  # fmt: skip


def kinds(*names: str) -> Check:
    return lambda events: [event.kind for event in events] == list(names)


FABRIC: dict[str, Check] = {
    "001": kinds("subnet-manager", "configured"), "002": kinds("version-mismatch"), "003": kinds("version-mismatch"),
    "004": kinds(), "005": kinds("configured"), "006": kinds("configured", "switch-error"), "007": kinds(),
    "008": lambda events: "version-mismatch" not in {event.kind for event in events},
    "009": lambda events: events[-1].kind == "configured", "010": kinds(),
}  # fmt: skip


def sxids(*codes: int) -> Check:
    return lambda events: [sxid.code for sxid in events.sxids] == list(codes)


EVENTS: dict[str, Check] = {f"{number:03d}": sxids() for number in range(1, 17)} | {
    "001": lambda events: len(events.machine_checks) == 24,
    "003": lambda events: any("not supported by the" in line for line in events.nvidia),
    "006": lambda events: len(events.nvidia) == 7 and "invalid context" in events.nvidia[0],
    "009": lambda events: [(s.code, s.fatal) for s in events.sxids] == [(22013, False)],
    "011": sxids(20009, 24007, 12033, 28006, 26006, 26008, 22013, 12028),
}
CPUS: dict[str, Check] = {
    "001": lambda f: (f.cpus, f.sockets, len(f.numa_cpus)) == (96, 2, 8),
    "002": lambda f: (f.cpus, f.model, len(f.numa_cpus)) == (256, "AMD EPYC 9534 64-Core Processor", 2),
    "003": lambda f: (f.cpus, f.numa_cpus[0], f.numa_cpus[1:]) == (72, "0-71", ("",) * 8),
    "004": lambda f: (f.cpus, f.sockets, f.architecture) == (72, 1, "aarch64"),
    "005": lambda f: (f.cpus, f.sockets, f.numa_cpus) == (144, 2, ("0-71", "72-143")),
    "006": lambda f: (f.cpus, f.sockets, f.numa_cpus) == (2, 2, ("0,1",)),
}


def limit(memlock: int, files: int) -> Check:
    return lambda found: (found["memlock"].soft, found["nofile"].soft) == (memlock, files)


EXPECTED: dict[str, tuple[Callable[[str], Any], dict[str, Check]]] = {
    "nvidia-smi-q": (nvidia_smi_text.parse_text, TEXT),
    "nvidia-smi": (nvidia_smi_table.parse_table, TABLE),
    "nvidia-smi-query-gpu": (nvidia_smi_table.parse_csv, CSV),
    "fabricmanager": (fabric_manager.parse_log, FABRIC),
    "dmesg": (kernel_events.parse_events, EVENTS),
    "lscpu": (cpu.parse_lscpu, CPUS),
    "ulimit": (system.parse_limits, {"001": limit(65536, 65535), "002": limit(65536, 1024), "003": limit(65536, 1024)}),
    "numactl": (cpu.parse_numactl, {
        "001": missing("no nodes in order"), "002": lambda sizes: sizes == (1547872 * MIB, 1548129 * MIB),
    }),
}  # fmt: skip

# What the probe does not run, or has no facts of: other tools' reports, tests under load, registry answers.
NOT_READ = {
    "collect_env": "a report of others about what we read ourselves", "dcgmi-diag": "DCGM is not run",
    "dcgmi-discovery": "DCGM is not run", "dcgmi-health": "DCGM is not run", "dcgmi-nvlink": "DCGM is not run",
    "ib_write_bw": "a load test", "nccl-tests": "a load test", "docker-manifest": "a registry's answer",
    "nvidia-container-cli": "says what nvidia-smi says", "systemctl-misc": "`systemctl status`; the probe asks `show`",
}  # fmt: skip
ELSEWHERE = {  # test_fabric_corpus.py
    "amd-smi", "rocm-smi", "rocminfo", "lspci", "lsmod", "ibstat", "ibv_devinfo", "ibdev2netdev", "rdma-link",
    "show_gids", "mlxlink", "uname", "proc-cmdline",
}  # fmt: skip


def files(folder: str) -> list[Path]:
    found = sorted((CORPUS / folder).iterdir()) if (CORPUS / folder).is_dir() else []
    return found or pytest.skip(f"this corpus has no {folder}")


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("folder", EXPECTED)
def test_every_file_says_what_its_index_row_states(folder: str) -> None:
    parse, checks = EXPECTED[folder]
    for path in files(folder):
        assert path.name[:3] in checks, f"{path.name} is new: say what it states"
        found = parse(text_of(path))
        assert checks[path.name[:3]](found), (path.name, found)
        assert parse(text_of(path).replace("\n", "\r\n")) == found, f"{path.name} with CRLF"


def test_no_cut_of_a_real_text_is_whole() -> None:
    for path in files("nvidia-smi-q"):
        text = text_of(path)
        for percent in range(5, 95, 10):
            facts = nvidia_smi_text.parse_text(text[: len(text) * percent // 100])
            assert isinstance(facts, Missing) or not nvidia_smi_text.whole(facts), (path.name, percent)


def test_smaller_answers() -> None:
    def read(name: str) -> str:
        folder, number = name.split("/")
        return text_of(next(path for path in files(folder) if path.name.startswith(number)))

    assert fabric_manager.parse_version(read("fabricmanager/010")) == "610.57.04"
    assert nvidia_topo.parse_p2p(read("nvidia-smi-topo/013")) == {(0, 1): "CNS", (1, 0): "CNS"}
    eight = nvidia_topo.parse_p2p(read("nvidia-smi-topo/014"))
    assert isinstance(eight, dict) and (len(eight), set(eight.values())) == (56, {"OK"})
    assert isinstance(nvidia_topo.parse_p2p(read("nvidia-smi-topo/010")), Missing)
    assert isinstance(nvidia_nvlink.parse_errors(read("nvidia-smi-nvlink/005")), Missing)  # elided with [...]
    modules = kernels.parse_dkms_status(read("dpkg-rpm/006"))
    assert isinstance(modules, tuple)
    assert {(m.module, m.version) for m in modules} >= {("nvidia", "580.173.02"), ("xpmem", "2604.0.2")}
    assert {m.state for m in modules} == {"installed"}
    for name in ("dpkg-rpm/003", "lsmod/001"):
        assert isinstance(kernels.parse_dkms_status(read(name)), tuple)
    assert "nvidia-modprobe" in package_policy.parse_holds(read("dpkg-rpm/005"))
    assert nvidia_smi_table.parse_list(read("nvidia-smi-misc/002")) == (B300,)
    assert isinstance(nvidia_smi_table.parse_list(read("nvidia-smi-misc/001")), Missing)
    assert nvidia_smi_table.parse_list(read("nvidia-smi-misc/004")) == (GB300,)


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Facts, reasoned unknowns and what is not read, per tool; every parser meets every file and none raises."""
    parsers: dict[str, Callable[[str], Any]] = {**FIRST_PARSERS, **{name: parse for name, (parse, _) in EXPECTED.items()}}
    parsers["nvidia-smi-misc"] = nvidia_smi_table.parse_list
    every = {getattr(import_module(f"rackproof.evidence.tools.{module}"), function) for module, function in TOOLS.values()}
    lines = []
    for folder in sorted(path for path in CORPUS.iterdir() if path.is_dir()):
        counts: Counter[str] = Counter()
        assert folder.name in {*parsers, *NOT_READ, *ELSEWHERE}, f"nobody decided about {folder.name}"
        for path in files(folder.name):
            text = text_of(path)
            for parse in {*parsers.values(), *every}:
                parse(text[:60_000])
            if folder.name in parsers:
                counts["unknown" if isinstance(parsers[folder.name](text), Missing) else "facts"] += 1
            else:
                counts["elsewhere" if folder.name in ELSEWHERE else "not read"] += 1
        why = NOT_READ.get(folder.name, "")
        lines.append(f"{folder.name:28} {', '.join(f'{count} {what}' for what, count in counts.items())}  {why}")
    with capsys.disabled():
        print("\n" + "\n".join(lines))
