"""The collection of real cases: every log gives the stage and class it is labelled with, and no part of it another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackproof.triage.diagnose import diagnose
from rackproof.triage.reader import lines

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
ORDER = ["none", "unknown", "provisioning", "container-start", "weights-load", "engine-init", "multi-node", "serving"]
if not CASES.is_dir():
    pytest.skip(f"the collection of cases is not at {CASES}", allow_module_level=True)

LOGS: list[dict[str, Any]] = [
    {"id": case["id"], **case["log"]}
    for case in (yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml")))
    if "log" in case
]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["id"])
def test_case(log: dict[str, Any]) -> None:
    stage, class_ = log["expected_stage"], log["expected_advice_class"]
    content = (CASES / log["file"]).read_bytes().splitlines(keepends=True)
    answer = diagnose(lines(io.BytesIO(b"".join(content))))
    assert (answer.stage, answer.class_) == (stage, class_)
    for end in range(len(content)):
        part = diagnose(lines(io.BytesIO(b"".join(content[:end]))))
        assert ORDER.index(part.stage) <= ORDER.index(stage), end
        assert part.class_ in (class_, "unknown", "none"), end
