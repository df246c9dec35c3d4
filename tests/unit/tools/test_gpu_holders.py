"""Who holds a GPU open, as the probe lists them."""

from __future__ import annotations

import pytest
from tool_evidence import evidence, reason

from rackproof.evidence.tools.gpu_holders import holders


def test_programs_with_user_and_container_and_daemons_left_out() -> None:
    listed = "77 nvidia-persiste\troot\t\n4711 VLLM::Worker\troot\t0123456789ab\n99 python3\talice\t\nend\n"
    assert holders(evidence(gpu_holders=listed)) == (
        "VLLM::Worker (4711, user root, container 0123456789ab)", "python3 (99, user alice)",
    )  # fmt: skip


def test_lists_of_an_older_probe_are_read_too() -> None:
    assert holders(evidence(gpu_holders="5 python3\nend\n")) == ("python3 (5)",)


@pytest.mark.parametrize("listed", ["", "5 python3\troot\t\n", "x y\nend\n", "5\nend\n", "\tx\ty\nend\n"])
def test_anything_else_is_no_list(listed: str) -> None:
    assert reason(holders(evidence(gpu_holders=listed)))
