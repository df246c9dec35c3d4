"""Evidence small enough to write down, and a catalogue that such evidence can satisfy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rackproof.evidence.bundle import write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.evidence.sections import Section, Status
from rackproof.verdict import evaluate
from rackproof.verdict.catalogue import requirements

Bundle = Callable[..., Path]


def evidence(
    node: str = "b1", uuid: str = "GPU-1", ecc: int = 0, started: str = "2026-01-01T00:00:00Z", **more: str
) -> Evidence:
    xml = (
        "<nvidia_smi_log><driver_version>580.126.20</driver_version><attached_gpus>1</attached_gpus>"
        f'<gpu id="00000000:0F:00.0"><product_name>NVIDIA B300 SXM6 AC</product_name><uuid>{uuid}</uuid>'
        f"<ecc_errors><aggregate><sram_uncorrectable>0</sram_uncorrectable><dram_uncorrectable>{ecc}</dram_uncorrectable></aggregate></ecc_errors></gpu></nvidia_smi_log>"
    )
    texts = {"nvidia_smi_xml": xml, **more}
    sections = {name: Section(name, Status.RAN, 0, 0.1, text.encode(), b"", 10) for name, text in texts.items()}
    sha256 = hashlib.sha256(f"{node}{texts}{started}".encode()).hexdigest()
    return Evidence(node, sections, "0.1", "nonce", started, 1.0, None, sha256)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """Writes one node's evidence and gives its path."""
    count = iter(range(1000))

    def write(problem: str | None = None, **said: object) -> Path:
        item = evidence(**said)  # type: ignore[arg-type]
        path = tmp_path / f"bundle-{next(count)}.tar.gz"
        write_bundle(path, item if problem is None else Evidence(item.node, problem=problem))
        return path

    return write


@pytest.fixture
def small_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that the node was read whole, and its unit."""
    small = {name: requirements()[name] for name in ("host.evidence", "fleet.members")}
    monkeypatch.setattr(evaluate, "requirements", lambda: small)
