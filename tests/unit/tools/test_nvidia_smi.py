"""`nvidia-smi -q -x`: one healthy document, and the ways in which a sick node answers."""

from __future__ import annotations

import pytest
from tool_evidence import evidence, gpu_xml, reason, section, smi_xml

from rackproof.evidence.tools.nvidia_smi import parse_xml, smi
from rackproof.facts import Gpu, GpuProcess, Missing, SmiFacts


def parsed(text: str, rc: int = 0, errors: str = "") -> SmiFacts:
    facts = parse_xml(text, rc, errors)
    assert isinstance(facts, SmiFacts), facts
    return facts


def one(**changes: str) -> Gpu:
    return parsed(smi_xml(gpu_xml(8, **changes))).gpus[0]


def test_healthy() -> None:
    facts = parsed(smi_xml(gpu_xml(8), gpu_xml(9)))
    assert (facts.driver_version, facts.cuda_version, facts.attached) == ("580.126.20", "13.0", 2)
    assert facts.warnings == ()
    gpu = facts.gpus[1]
    assert (gpu.index, gpu.pci_address, gpu.product) == (1, "00000009:06:00.0", "NVIDIA GB300")
    assert gpu.memory_bytes == 284208 * 2**20
    assert (gpu.persistence, gpu.mig_current, gpu.ecc_current, gpu.remap_failure) == (True, False, True, False)
    assert (gpu.ecc_uncorrectable_volatile, gpu.ecc_uncorrectable_aggregate) == (0, 0)
    assert (gpu.power_limit_w, gpu.power_default_w) == (1400.0, 1400.0)
    assert (gpu.pcie_gen, gpu.pcie_width, gpu.pcie_width_max) == (6, 16, 16)
    assert (gpu.fabric_state, gpu.fabric_status, gpu.fabric_health, gpu.clique_id) == (
        "Completed", "Success", "Healthy", 32766,
    )  # fmt: skip
    assert (gpu.recovery_action, gpu.slowdown_reasons, gpu.processes) == ("None", (), ())


@pytest.mark.parametrize(
    "word",
    ["N/A", "[N/A]", "[Not Supported]", "Unknown Error", "ERR!", "Insufficient Permissions", "",
     "Requested functionality has been deprecated", "GPU is lost", "[Unknown Error]"],
)  # fmt: skip
def test_words_that_are_no_value(word: str) -> None:
    gpu = one(
        product_name=word, total=word, current_ecc=word, remapped_row_pending=word, gpu_recovery_action=word,
        current_power_limit=word, current_link_width=word, cliqueId=word, summary=word, hw_slowdown=word, secded=word,
    )  # fmt: skip
    for fact in (
        gpu.product, gpu.memory_bytes, gpu.ecc_current, gpu.remap_pending, gpu.recovery_action, gpu.power_limit_w,
        gpu.pcie_width, gpu.clique_id, gpu.fabric_health, gpu.slowdown_reasons, gpu.ecc_uncorrectable_aggregate,
    ):  # fmt: skip
        assert reason(fact).endswith(word or "empty")


def test_sick_values() -> None:
    gpu = one(
        dram_uncorrectable="3", parity="1", secded="2", hw_slowdown="Active", sw_thermal="N/A", state="In Progress",
        remapped_row_failure="Yes", gpu_recovery_action="Drain and Reset", pending_mig="Enabled", summary="Unhealthy",
    )  # fmt: skip
    assert gpu.ecc_uncorrectable_volatile == 6
    assert gpu.slowdown_reasons == ("hw_slowdown",)  # an unreadable reason does not hide an active one
    assert (gpu.fabric_state, gpu.fabric_health) == ("In Progress", "Unhealthy")
    assert (gpu.remap_failure, gpu.recovery_action, gpu.mig_pending) == (True, "Drain and Reset", True)


def test_a_block_that_is_one_word_is_the_value_of_all_below() -> None:
    block = "<remapped_rows><remapped_row_unc>0</remapped_row_unc><remapped_row_pending>No</remapped_row_pending>"
    text = smi_xml(gpu_xml(8))
    start, end = text.index(block), text.index("</remapped_rows>")
    gpu = parsed(text[:start] + "<remapped_rows>N/A" + text[end:]).gpus[0]
    assert gpu.remap_pending == Missing("remapped_rows/remapped_row_pending: N/A")


def test_a_counter_the_driver_should_print_and_does_not() -> None:
    text = smi_xml(gpu_xml(8)).replace("<dram_uncorrectable>0</dram_uncorrectable>", "")
    assert "not printed" in reason(parsed(text).gpus[0].ecc_uncorrectable_aggregate)
    text = smi_xml(gpu_xml(8)).replace("<sram_uncorrectable_secded>0</sram_uncorrectable_secded>", "")
    assert "not printed" in reason(parsed(text).gpus[0].ecc_uncorrectable_volatile)


def test_names_of_older_drivers() -> None:
    text = smi_xml(gpu_xml(8, parity="0", secded="0"))
    text = text.replace("<sram_uncorrectable_parity>0</sram_uncorrectable_parity>", "")
    text = text.replace("sram_uncorrectable_secded", "sram_uncorrectable").replace("clocks_event", "clocks_throttle")
    text = text.replace("gpu_power_readings", "power_readings").replace("current_power_limit", "enforced_power_limit")
    gpu = parsed(text).gpus[0]
    assert (gpu.ecc_uncorrectable_volatile, gpu.slowdown_reasons, gpu.power_limit_w) == (0, (), 1400.0)


def test_processes() -> None:
    entry = (
        "<processes><process_info><pid>7</pid><type>C</type><process_name>VLLM::Worker</process_name>"
        "<used_memory>1024 MiB</used_memory></process_info></processes>"
    )
    text = smi_xml(gpu_xml(8)).replace("<processes></processes>", entry)
    assert parsed(text).gpus[0].processes == (GpuProcess(7, "VLLM::Worker", 2**30),)
    assert reason(one(processes="N/A").processes) == "processes: N/A"


def test_fewer_gpus_than_attached_are_left_for_a_check_to_compare() -> None:
    facts = parsed(smi_xml(gpu_xml(8), attached=4))
    assert (facts.attached, len(facts.gpus)) == (4, 1)


def test_warnings_and_exit_codes_stay_visible() -> None:
    text = "WARNING: before\n" + smi_xml(gpu_xml(8)) + "WARNING: infoROM is corrupted at gpu 0008:06:00.0\r\n"
    facts = parsed(text, rc=14, errors="on stderr\n")
    assert facts.warnings == (
        "WARNING: before", "WARNING: infoROM is corrupted at gpu 0008:06:00.0", "on stderr",
        "nvidia-smi ended with exit code 14",
    )  # fmt: skip
    assert facts.gpus[0].product == "NVIDIA GB300"


def test_a_cut_document_is_no_document() -> None:
    text = smi_xml(gpu_xml(8), gpu_xml(9))
    assert parse_xml(text[: text.rindex("</gpu>") + 6]) == Missing("the XML is cut off after 2 GPUs")
    assert parse_xml(text[: text.index("</gpu>")]) == Missing("the XML is cut off after 0 GPUs")


@pytest.mark.parametrize(
    ("said", "rc"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173", 18),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that", 9),
        ("No devices were found", 6),
        ("Unable to determine the device handle for GPU3: 0000:04:00.0: Unknown Error", 255),
    ],
)
def test_nvidia_smi_says_why_not(said: str, rc: int) -> None:
    fact = smi(evidence(nvidia_smi_xml=section("nvidia_smi_xml", said, rc=rc)))
    assert said.split("\n", maxsplit=1)[0] in reason(fact)
    assert "exit code 9" in reason(smi(evidence(nvidia_smi_xml=section("nvidia_smi_xml", "", rc=9))))


BOMB = """<?xml version="1.0"?>
<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>"""


def test_hostile_documents() -> None:
    assert "entities" in reason(parse_xml(BOMB))
    assert "damaged" in reason(parse_xml("<nvidia_smi_log>&b;</nvidia_smi_log>"))
    assert "larger" in reason(parse_xml("<nvidia_smi_log>" + "x" * 9_000_000 + "</nvidia_smi_log>"))
    parse_xml("<nvidia_smi_log>" + "<a>" * 300_000 + "</a>" * 300_000 + "</nvidia_smi_log>")
