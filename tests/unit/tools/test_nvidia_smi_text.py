"""The other forms of nvidia-smi: `-q` text, the plain table, CSV, and when the probe falls back to one of them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from test_tool_scripts import SHELLS, command, run, tool
from tool_evidence import evidence, gpu_xml, reason, section, smi_xml

from rackproof.evidence.tools import nvidia_smi, nvidia_smi_table, nvidia_smi_text
from rackproof.facts import GpuProcess, Missing, SmiFacts

GPU = """\
GPU 0000000{number}:06:00.0
    Product Name                          : NVIDIA GB300
    Persistence Mode                      : Enabled
    Addressing Mode                       : ATS
    GPU C2C Mode                          : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Serial Number                         : 165000000000{number}
    GPU UUID                              : GPU-0000000{number}-0000-0000-0000-0
    VBIOS Version                         : 97.10.4A.00.01
    GPU Recovery Action                   : None
    PCI
        Bus Id                            : 0000000{number}:06:00.0
        Device Id                         : 0x31C210DE
        Replays Since Reset               : 0
        GPU Link Info
            PCIe Generation
                Max                       : 6
                Current                   : 6
            Link Width
                Max                       : 16x
                Current                   : 16x
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
        Sync Boost                        : Not Active
    FB Memory Usage
        Total                             : 284208 MiB
        Reserved                          : 947 MiB
        Used                              : 0 MiB
    Conf Compute Protected Memory Usage
        Total                             : 0 MiB
    Compute Mode                          : Default
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
    Temperature
        GPU Current Temp                  : 31 C
        GPU T.Limit Temp                  : 56 C
    Remapped Rows
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    GPU Power Readings
        Current Power Limit               : 1400.00 W
        Default Power Limit               : 1400.00 W
    Module Power Readings
        Current Power Limit               : 2900.00 W
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 32766
        ClusterUUID                       : b2daed23-0000-4000-8000-000000000001
        Health
            Summary                       : Healthy
            Bandwidth                     : Full
            Route Unhealthy               : False
            Incorrect Configuration       : None
    Processes                             : None
"""
HEAD = """
==============NVSMI LOG==============

Timestamp                                 : Fri Aug 21 11:01:42 2026
Driver Version                            : 580.126.20
CUDA Version                              : 13.0

Attached GPUs                             : {count}
"""
TEXT = HEAD.format(count=2) + GPU.format(number=8) + "\n" + GPU.format(number=9)


def parsed(text: str) -> SmiFacts:
    facts = nvidia_smi_text.parse_text(text)
    assert isinstance(facts, SmiFacts), facts
    return facts


def test_text_and_xml_say_the_same() -> None:
    assert parsed(TEXT) == nvidia_smi.parse_xml(smi_xml(gpu_xml(8), gpu_xml(9)))
    assert nvidia_smi_text.whole(parsed(TEXT))
    assert parsed(TEXT.replace("\n", "\r\n")) == parsed(TEXT) == parsed("\x1b[1mwarning\x1b[0m\n" + TEXT)


def test_a_sick_gpu_in_text() -> None:
    sick = TEXT.replace("Pending                           : No\n", "Pending                           : Yes\n", 1)
    sick = sick.replace("HW Slowdown                       : Not Active", "HW Slowdown                       : Active", 1)
    sick = sick.replace("Recovery Action                   : None", "Recovery Action                   : Reset", 1)
    sick = sick.replace("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 3", 1)
    sick = sick.replace("Total                             : 284208 MiB", "Total     : GPU is lost", 1)
    gpu = parsed(sick).gpus[0]
    assert (gpu.remap_pending, gpu.slowdown_reasons, gpu.recovery_action) == (True, ("hw_slowdown",), "Reset")
    assert gpu.ecc_uncorrectable_volatile == 3
    assert "GPU is lost" in reason(gpu.memory_bytes)
    start, end = TEXT.index("    Remapped Rows"), TEXT.index("    GPU Power Readings")
    words = TEXT[:start] + "    Remapped Rows   : N/A\n" + TEXT[end:]
    assert "N/A" in reason(parsed(words).gpus[0].remap_failure)


def test_names_of_r610_and_r530() -> None:
    new = TEXT.replace("Driver Version    ", "Driver Version : 1.2 [Deprecated; see KMD]\nKMD Version       ")
    new = new.replace("CUDA Version  ", "CUDA UMD Version")
    new = new.replace("        Current Power Limit               : 1400",
                      "        GPU Ceiling Power Limit\n            Current Power Limit           : 1400")  # fmt: skip
    assert (parsed(new).driver_version, parsed(new).cuda_version) == ("580.126.20", "13.0")
    assert parsed(new).gpus[0].power_limit_w == 1400.0
    old = TEXT.replace("Clocks Event Reasons", "Clocks Throttle Reasons").replace("GPU Power Readings", "Power Readings")
    old = old.replace("Current Power Limit               : 14", "Power Limit                       : 14")
    old = old.replace("            SRAM Uncorrectable SEC-DED    : 0\n", "").replace("Uncorrectable Parity", "Uncorrectable")
    assert parsed(old).gpus == parsed(TEXT).gpus


def test_processes_in_text() -> None:
    busy = (
        "    Processes\n        GPU instance ID                   : N/A\n        Process ID                        : 77\n"
        "            Type                          : C\n            Name                          : a : b\n"
        "            Used GPU Memory               : 2 MiB\n        Process ID                        : 78\n"
        "    Capabilities\n        EGM     : disabled\n"
    )
    facts = parsed(TEXT.replace("    Processes                             : None\n", busy))
    found = facts.gpus[0].processes
    assert isinstance(found, tuple)
    assert found[0] == GpuProcess(77, "a : b", 2 * 2**20)
    assert (found[1].pid, found[1].name) == (78, "?")
    cut = parsed(TEXT.rsplit("    Processes", 1)[0] + "    Processes\n")
    assert "cut off" in reason(cut.gpus[1].processes)
    assert not nvidia_smi_text.whole(cut)


def test_no_cut_makes_a_healthy_text() -> None:
    for end in range(0, len(TEXT) - 20, 37):
        facts = nvidia_smi_text.parse_text(TEXT[:end])
        assert isinstance(facts, Missing) or not nvidia_smi_text.whole(facts), end


def test_text_with_flipped_bytes_never_raises() -> None:
    noise = random.Random(5)
    for text, parse in ((TEXT, nvidia_smi_text.parse_text), (TABLE, nvidia_smi_table.parse_table),
                        (CSV, nvidia_smi_table.parse_csv), (LIST, nvidia_smi_table.parse_list)):  # fmt: skip
        for _ in range(200):
            data = bytearray(text.encode())
            for _ in range(noise.randint(1, 20)):
                data[noise.randrange(len(data))] = noise.randrange(256)
            parse(data.decode("utf-8", "replace"))


# --- the probe's fallback


@pytest.mark.parametrize("shell", SHELLS)
def test_the_probe_asks_for_text_when_the_xml_has_no_end(tmp_path: Path, shell: str) -> None:
    (tmp_path / "q").write_text(TEXT)
    tool(tmp_path, "nvidia-smi", f'[ "$2" = -x ] && {{ echo "<nvidia_smi_log><gpu>"; exit 0; }}; cat {tmp_path}/q')
    ran = run(command("nvidia_smi_xml").script, tmp_path, shell)
    facts = nvidia_smi.smi(evidence(nvidia_smi_xml=ran))
    assert isinstance(facts, SmiFacts), facts
    assert facts.gpus == parsed(TEXT).gpus
    assert facts.warnings == (
        "facts are from nvidia-smi -q, because of its XML: the XML is cut off after 0 GPUs",
    )


@pytest.mark.parametrize(
    ("body", "rc", "says"),
    [
        ("echo No devices were found; exit 6", 6, "No devices were found"),
        ("echo 'couldn'\"'\"'t communicate with the NVIDIA driver'; exit 9", 9, "communicate"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", 18, "mismatch"),
    ],
)
def test_a_refusal_is_not_asked_twice(tmp_path: Path, body: str, rc: int, says: str) -> None:
    tool(tmp_path, "nvidia-smi", f"echo x >>{tmp_path}/calls; {body}")
    ran = run(command("nvidia_smi_xml").script, tmp_path)
    assert (ran.rc, (tmp_path / "calls").read_text()) == (rc, "x\n")
    assert says in reason(nvidia_smi.smi(evidence(nvidia_smi_xml=ran)))


@pytest.mark.parametrize(
    "second", [f"0\n{TEXT[: len(TEXT) * 2 // 5]}", f"255\n{TEXT}", "0\n", "0\nUnable to determine the device handle", "0"]
)
def test_a_second_answer_that_is_not_whole_counts_for_nothing(second: str) -> None:
    handle = "Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error"
    given = section("nvidia_smi_xml", f"{handle}\n\n{nvidia_smi.FALLBACK}: {second}", rc=255)
    assert reason(nvidia_smi.smi(evidence(nvidia_smi_xml=given))) == f"nvidia-smi: {handle}"


def test_a_whole_document_is_never_second_guessed() -> None:
    given = smi_xml(gpu_xml(8)) + f"\n{nvidia_smi.FALLBACK}: 0\n{TEXT}"
    facts = nvidia_smi.smi(evidence(nvidia_smi_xml=given))
    assert isinstance(facts, SmiFacts)
    assert (len(facts.gpus), facts.warnings) == (1, ())


# --- table, CSV, list

ROW = """\
|   {n}  NVIDIA GB300                   On  |   0000000{b}:06:00.0 Off |                    0 |
| N/A   28C    P0            172W / 1400W |       0MiB / 284208MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
TABLE = (
    "Fri Aug 21 11:01:42 2026\n"
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 580.82.07              Driver Version: 580.82.07      CUDA Version: 13.0     |\n"
    "+-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "|=========================================+========================+======================|\n"
    + ROW.format(n=0, b=8) + ROW.format(n=1, b=9)
)  # fmt: skip


def test_table() -> None:
    facts = nvidia_smi_table.parse_table(TABLE)
    assert isinstance(facts, SmiFacts)
    assert (facts.driver_version, facts.cuda_version, len(facts.gpus)) == ("580.82.07", "13.0", 2)
    gpu = facts.gpus[1]
    assert (gpu.index, gpu.pci_address, gpu.product, gpu.persistence) == (1, "00000009:06:00.0", "NVIDIA GB300", True)
    assert (gpu.memory_bytes, gpu.power_limit_w, gpu.compute_mode) == (284208 * 2**20, 1400.0, "Default")
    assert (gpu.mig_current, gpu.ecc_uncorrectable_volatile) == (False, 0)
    assert "does not say" in reason(facts.attached)
    for nothing in (gpu.fabric_state, gpu.remap_pending, gpu.ecc_current, gpu.recovery_action, gpu.processes):
        assert reason(nothing)


def test_a_sick_table() -> None:
    lost = TABLE.replace("NVIDIA GB300 ", "ERR!         ", 1).replace("172W / 1400W", "ERR! /  ERR!", 1)
    lost = lost.replace(" Off |                    0 |", " Off |                 ERR! |", 1)
    facts = nvidia_smi_table.parse_table(lost)
    assert isinstance(facts, SmiFacts)
    gpu = facts.gpus[0]
    for nothing in (gpu.product, gpu.power_limit_w, gpu.ecc_uncorrectable_volatile):
        assert reason(nothing)
    mig = TABLE.replace("    0%      Default |\n|                                         |                        |             Disabled",
                        "   N/A      Default |\n|                                         |                        |              Enabled")  # fmt: skip
    facts = nvidia_smi_table.parse_table(mig)
    assert isinstance(facts, SmiFacts) and facts.gpus[0].mig_current is True


@pytest.mark.parametrize(
    ("text", "says"),
    [(TABLE.split("\n", 2)[2], "top"), (TABLE.replace("|   0  ", "|   1  "), "damaged"), ("No devices were found", "found"),
     (TABLE[: TABLE.index("|   0")], "no GPU"), (ROW, "printed no table"), ("", "empty"),
     (TABLE[: TABLE.rindex("+---")], "damaged at GPU 1")],
)  # fmt: skip
def test_a_table_that_is_not_whole(text: str, says: str) -> None:
    assert says in reason(nvidia_smi_table.parse_table(text))


CSV = """\
index, count, name, pci.bus_id, driver_version, memory.total [MiB], power.limit [W], pcie.link.width.current, ecc.errors.uncorrected.volatile.total, gpu_recovery_action
0, 2, NVIDIA B300 SXM6 AC, 00000000:1A:00.0, 580.95.05, 275040 MiB, 1100.00 W, 16, 0, None
1, 2, NVIDIA B300 SXM6 AC, 00000001:1A:00.0, 580.95.05, 275040 MiB, [N/A], 16, [N/A], Reset
"""


def test_csv() -> None:
    facts = nvidia_smi_table.parse_csv(CSV)
    assert isinstance(facts, SmiFacts)
    assert (facts.driver_version, facts.attached, facts.warnings) == ("580.95.05", 2, ())
    first, second = facts.gpus
    assert (first.pci_address, first.memory_bytes, first.power_limit_w) == ("00000000:1a:00.0", 275040 * 2**20, 1100.0)
    assert (first.pcie_width, first.ecc_uncorrectable_volatile, first.recovery_action) == (16, 0, "None")
    assert second.recovery_action == "Reset"
    assert "N/A" in reason(second.ecc_uncorrectable_volatile) and "N/A" in reason(second.power_limit_w)
    bare = nvidia_smi_table.parse_csv(CSV.replace(" MiB,", ",").replace(".00 W", ".00"))  # nounits
    assert isinstance(bare, SmiFacts)
    assert replace(bare, warnings=()) == facts


def test_a_lost_gpu_in_csv() -> None:
    handle = "Unable to determine the device handle for GPU1: 0001:1A:00.0: Unknown Error"
    lines = CSV.splitlines()
    facts = nvidia_smi_table.parse_csv("\n".join([handle, *lines[:2]]))
    assert isinstance(facts, SmiFacts)
    assert (facts.attached, len(facts.gpus), facts.warnings) == (2, 1, (handle,))
    assert "no header" in reason(nvidia_smi_table.parse_csv(f"{handle}\n{lines[1]}\n"))
    assert "no row" in reason(nvidia_smi_table.parse_csv(f"{lines[0]}\nNo devices were found\n"))
    assert "no header" in reason(nvidia_smi_table.parse_csv('Field "x" is not a valid field to query.'))


LIST = "GPU 0: NVIDIA GB300 (UUID: GPU-1)\n  MIG 1g.31gb     Device  0: (UUID: MIG-1)\nGPU 1: NVIDIA GB300 (UUID: GPU-2)\n"


def test_list() -> None:
    assert nvidia_smi_table.parse_list(LIST) == ("NVIDIA GB300", "NVIDIA GB300")
    assert "gpu 0000:18" in reason(nvidia_smi_table.parse_list(f"Unable to determine the device handle for gpu 0000:18\n{LIST}"))
    assert reason(nvidia_smi_table.parse_list(LIST.replace("GPU 0", "GPU 2")))
    assert reason(nvidia_smi_table.parse_list(""))
