"""`rackproof eligible` on the simulated rack: two trays hold TP8, only four hold DEP16, and GB200 is never the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rackproof import schemas

pytestmark = pytest.mark.lab


def answers(rack: Any, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = rack.run("rackproof", "eligible", *words, "--json", "-")
    assert done.returncode == code, done.stderr[-3000:]
    document = json.loads(done.stdout)
    Draft202012Validator(schemas.load("eligible")).validate(document)
    assert document["simulated"] is True
    return {item["layout"]: item for item in document["layouts"]}


def test_four_trays(deployed: Any) -> None:
    found = answers(deployed, "inventories/lab.py")
    assert (found["gb300-tp8"]["answer"], found["gb300-tp8"]["slack_gib_per_gpu"]) == ("yes", 72.86)
    assert (found["gb300-dep16"]["answer"], len(found["gb300-dep16"]["nodes"])) == ("yes", 4)
    assert (found["gb300-pd"]["answer"], found["gb200-tp8"]["answer"]) == ("no", "no")
    assert "434 MB/s" in " ".join(found["gb300-tp8"]["missing"])


@pytest.mark.parametrize(("limit", "tp8", "code"), [("tray[01-02]", "yes", 0), ("tray[01-03]", "yes", 0), ("tray01", "no", 1)])
def test_fewer_trays(deployed: Any, limit: str, tp8: str, code: int) -> None:
    found = answers(deployed, "inventories/lab.py", "--limit", limit, code=code)
    assert (found["gb300-tp8"]["answer"], found["gb300-dep16"]["answer"]) == (tp8, "no")


def test_from_evidence(deployed: Any, tmp_path: Path) -> None:
    kept = deployed.run("rackproof", "collect", "inventories/lab.py", "--to", str(tmp_path / "evidence"))
    assert kept.returncode == 0, kept.stderr[-3000:]
    found = answers(deployed, str(tmp_path / "evidence"), "--inventory", "inventories/lab.py")
    assert [found[name]["answer"] for name in ("gb300-tp8", "gb300-dep16", "gb200-tp8")] == ["yes", "yes", "no"]
