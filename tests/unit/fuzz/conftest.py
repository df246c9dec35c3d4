"""Profiles of the property tests: `quick` in every run, `nightly` with RACKPROOF_FUZZ=nightly.

RACKPROOF_FUZZ_EXAMPLES sets how many examples `nightly` tries, for a look in between.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

UNIT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(UNIT / "core"), str(UNIT / "tools")]  # the builders of small streams and healthy nodes

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
# Quick finds the same every time, so that a change is never blamed for an old defect; nightly looks further each night.
settings.register_profile(
    "quick", max_examples=10, deadline=None, database=None, derandomize=True, suppress_health_check=_SLOW
)
EXAMPLES = int(os.environ.get("RACKPROOF_FUZZ_EXAMPLES", "20000"))
settings.register_profile("nightly", max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("RACKPROOF_FUZZ", "quick"))
