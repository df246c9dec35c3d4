"""Documents that are generated are the ones that the code generates."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from rackproof.commands.explain import markdown
from rackproof.commands.options import FORMATS
from rackproof.judging import HARDWARE
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import combine
from rackproof.verdict.report import prometheus

SCHEMA = Path(__file__).parents[2] / "src/rackproof/schemas/verdict.schema.json"
DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_requirement_catalogue_is_current() -> None:
    wanted = markdown([HARDWARE, *requirements().values()])
    assert (DOCS / "requirements.md").read_text() == wanted, "run `make docs`"


def test_the_schema_of_the_json_report_is_published() -> None:
    assert (DOCS / "verdict.schema.json").read_text() == SCHEMA.read_text(), "run `make docs`"


def test_every_metric_and_format_is_documented() -> None:
    text = (DOCS / "reports.md").read_text()
    metrics = {
        family.name for family in text_string_to_metric_families(prometheus.render(combine([], []), lambda name: None))
    }
    assert metrics and not [name for name in metrics if name not in text]
    assert not [name for name in FORMATS if f"--{name}" not in text]
