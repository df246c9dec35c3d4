"""The nvidia-smi stand-in, run here on a made-up node: formats, faults and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

profile = pytest.importorskip("rackproof_lab.profile")
smi = pytest.importorskip("rackproof_lab.standins.standins.smi")
truth = pytest.importorskip("rackproof_lab.standins.standins.truth")

Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """Calls nvidia-smi on a tray with the given faults and driver versions."""

    def call(*args: str, faults: object = None, library: str | None = "580.126.20",
             loaded: tuple[str, bool] | None = ("580.126.20", True)) -> tuple[int, str]:  # fmt: skip
        truth.node.cache_clear()
        truth.faults.cache_clear()
        (tmp_path / "node.json").write_text(json.dumps(profile.node(profile.load("gb300"), "t", "tray01", 1)))
        (tmp_path / "faults.json").write_text(json.dumps({"f": faults or {}}))
        monkeypatch.setattr(truth, "library_version", lambda: library)
        monkeypatch.setattr(truth, "loaded_driver", lambda: loaded)
        code = smi.main("nvidia-smi", "580.126.20", args)
        return code, capsys.readouterr().out

    monkeypatch.setattr(truth, "SIM", tmp_path)
    monkeypatch.setattr(truth, "RW", tmp_path)
    yield call
    truth.node.cache_clear()
    truth.faults.cache_clear()


def test_the_xml_is_well_formed_and_says_it_is_simulated(say: Say) -> None:
    code, text = say("-q", "-x")
    root = ElementTree.fromstring(text)
    assert code == 0 and "rackproof lab stand-in: simulated GPU" in text
    assert [g.get("id") for g in root.iter("gpu")] == [f"000000{d}:06:00.0" for d in ("08", "09", "18", "19")]
    assert root.findtext("gpu/fb_memory_usage/total") == "284208 MiB"
    assert root.findtext("gpu/fabric/state") == "Completed"


def test_a_fault_overrides_one_value_of_one_gpu(say: Say) -> None:
    _, text = say("-q", "-x", faults={"gpu": {"1": {"ecc_pending": "Disabled"}}})
    pending = [g.findtext("ecc_mode/pending_ecc") for g in ElementTree.fromstring(text).iter("gpu")]
    assert pending == ["Enabled", "Disabled", "Enabled", "Enabled"]


def test_a_missing_gpu_is_missing_everywhere(say: Say) -> None:
    for args in (("-L",), ("--query-gpu=index", "--format=csv,noheader")):
        _, text = say(*args, faults={"gpus_missing": [3]})
        assert len(text.splitlines()) == 3


def test_one_link_down(say: Say) -> None:
    _, text = say("nvlink", "-s", faults={"nvlinks_down": [[1, 7]]})
    assert text.count("53.125 GB/s") == 71 and text.count("Link 7: <inactive>") == 1


@pytest.mark.parametrize(
    ("library", "loaded", "code", "words"),
    [
        ("580.178.04", ("580.126.20", True), 18, "Driver/library version mismatch\nNVML library version: 580.178\n"),
        ("580.126.20", None, 9, "couldn't communicate with the NVIDIA driver"),
        (None, ("580.126.20", True), 12, "couldn't find libnvidia-ml.so"),
    ],
)
def test_exit_codes(say: Say, library: str | None, loaded: tuple[str, bool] | None, code: int, words: str) -> None:
    got, text = say("-L", library=library, loaded=loaded)
    assert got == code and words in text


def test_csv_has_units_and_refuses_unknown_fields(say: Say) -> None:
    _, text = say("--query-gpu=index,memory.total", "--format=csv")
    assert text.splitlines()[:2] == ["index, memory.total [MiB]", "0, 284208 MiB"]
    code, text = say("--query-gpu=cuda_version", "--format=csv")
    assert code == 2 and 'Field "cuda_version" is not a valid field to query.' in text


def test_a_truncated_report_is_not_well_formed_and_exits_0(say: Say) -> None:
    code, text = say("-q", "-x", faults={"smi": "truncate"})
    assert code == 0
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring(text)


def test_the_table_keeps_its_width(say: Say) -> None:
    _, text = say()
    assert {len(line) for line in text.splitlines() if line.startswith(("|", "+"))} == {91}
