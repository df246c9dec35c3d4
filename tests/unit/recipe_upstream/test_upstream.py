"""Upstream files against the pinned snapshot. The files themselves are read where they lie, beside the project.

The snapshot is written again, on purpose only, with

    RACKPROOF_REGENERATE=1 pytest tests/unit/recipe_upstream/test_upstream.py
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackproof.cli import main
from rackproof.errors import InputError
from rackproof.recipes import FOLDER, upstream

SHARED = Path(__file__).resolve().parents[4] / "shared" / "upstream"
PINNED = SHARED / "Kimi-K3@8959cf6-2026-08-21.yaml"
FIRST = SHARED / "Kimi-K3@ae7c7b1-first.yaml"
needs_upstream = pytest.mark.skipif(
    not PINNED.is_file(), reason=f"no upstream recipe files in {SHARED}: they are read where they lie, never copied"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The pinned files laid out as in upstream's repository."""
    (tmp_path / "models" / "moonshotai").mkdir(parents=True)
    (tmp_path / "strategies").mkdir()
    shutil.copy(PINNED, tmp_path / "models" / "moonshotai" / "Kimi-K3.yaml")
    shutil.copy(SHARED / "taxonomy@8959cf6.yaml", tmp_path / "taxonomy.yaml")
    for file in SHARED.glob("strategy-*@8959cf6.yaml"):
        shutil.copy(file, tmp_path / "strategies" / f"{file.name.removeprefix('strategy-').split('@')[0]}.yaml")
    return tmp_path


def minimal(**more: Any) -> dict[str, Any]:
    return {"meta": {"hardware": {}}, "model": {"model_id": upstream.MODEL}, **more}


def written(tmp_path: Path, data: object) -> Path:
    file = tmp_path / "Kimi-K3.yaml"
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return file


def changes_of(path: Path) -> dict[str, tuple[str | None, str | None]]:
    found = upstream.compare(upstream.pinned(), upstream.read(path))
    return {change.path: (change.ours, change.theirs) for change in found}


@needs_upstream
def test_snapshot_is_what_the_pinned_commit_says(checkout: Path) -> None:
    recipe = yaml.safe_load((FOLDER / "kimi_k3.yaml").read_text())
    text = upstream.write_snapshot(upstream.read(checkout), recipe["provenance"])
    file = FOLDER / "kimi_k3_snapshot.yaml"
    if os.environ.get("RACKPROOF_REGENERATE") == "1":
        file.write_text(text)
    assert file.read_text() == text, "RACKPROOF_REGENERATE=1 writes it again; read the difference first"


@needs_upstream
def test_pinned_file_and_checkout_change_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "diff", str(PINNED)]) == 0
    out = capsys.readouterr().out
    assert "the very file" in out and "nothing that we pin changed" in out and "not compared" in out
    assert main(["recipe", "diff", str(checkout)]) == 0
    assert "not compared" not in capsys.readouterr().out


@needs_upstream
def test_first_version_shows_the_changes_that_are_known() -> None:
    found = changes_of(FIRST)
    assert found["model.min_vllm_version"] == ("0.27.1", "0.26.0")
    assert found["model.docker_image.nvidia"] == (None, "vllm/vllm-openai:kimi-k3")
    assert found["model.docker_image.amd"] == (None, "vllm/vllm-openai-rocm:kimi-k3")
    assert found["meta.hardware.b200"] == found["meta.hardware.gb200"] == ("verified", None)
    assert found["guide.driver_branches"] == ("580", None)
    assert found["strategy_overrides.pd_cluster.env.NCCL_NVLS_ENABLE"] == (None, "0")
    assert found["hardware_overrides.blackwell.extra_env.VLLM_ENGINE_READY_TIMEOUT_S"] == ("3600", None)
    assert found["hardware_overrides.amd.extra_env.AITER_SITUV2_A8W4"] == (None, "1")
    decode = "strategy_overrides.pd_cluster.decode.vllm_args"
    assert found[f"{decode}.--max-num-seqs"] == ("8", "32")
    assert found[f"{decode}.--all2all-backend"] == (None, "flashinfer_nvlink_one_sided")
    assert found["strategy_min_gpus.h100"] == ("32", None)
    assert "multi_node_tp_pp" not in str(found["compatible_strategies"][1])


@needs_upstream
def test_first_version_through_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "diff", str(FIRST), "--json", "-"]) == 1
    out = capsys.readouterr()
    data = json.loads(out.out)
    assert data["changed"] is True and "our layouts of it: gb200-dep16" in out.err
    kinds = {change["kind"] for change in data["changes"]}
    assert {"environment", "arguments", "driver", "image", "version", "hardware", "layouts", "memory", "prose"} == kinds


@needs_upstream
def test_later_correction_of_the_two_tray_floor_is_seen(checkout: Path) -> None:
    file = checkout / "models" / "moonshotai" / "Kimi-K3.yaml"
    file.write_text(file.read_text().replace("  multi_node_tp: 8\n", "  multi_node_tp: 8\n  gb200: 16\n"))
    assert changes_of(checkout) == {"strategy_min_gpus.gb200": (None, "16")}


@needs_upstream
@pytest.mark.parametrize(
    ("file", "old", "new", "kind"),
    [
        ("models/moonshotai/Kimi-K3.yaml", "an r580+ NVIDIA", "an r595+ NVIDIA", "driver"),
        ("models/moonshotai/Kimi-K3.yaml", "  default_hardware: b300", "  default_hardware: gb300", "hardware"),
        ("models/moonshotai/Kimi-K3.yaml", "\nfeatures:", "\nhost_rules: {hugepages: 1}\n\nfeatures:", "unknown"),
        ("strategies/pd_cluster.yaml", 'NCCL_NVLS_ENABLE: "1"', 'NCCL_NVLS_ENABLE: "0"', "environment"),
        ("taxonomy.yaml", "vram_gb: 2144", "vram_gb: 2304", "hardware"),
    ],
)
def test_each_kind_of_change_is_seen(file: str, old: str, new: str, kind: str, checkout: Path) -> None:
    text = (checkout / file).read_text()
    assert old in text
    (checkout / file).write_text(text.replace(old, new, 1))
    found = [c for c in upstream.compare(upstream.pinned(), upstream.read(checkout)) if upstream.counts(c)]
    assert kind in {change.kind for change in found} and len(found) <= 2


@needs_upstream
def test_other_words_around_the_same_facts_are_shown_and_do_not_count(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = checkout / "models" / "moonshotai" / "Kimi-K3.yaml"
    file.write_text(file.read_text().replace("## Overview", "## Overview of it"))
    assert main(["recipe", "diff", str(checkout)]) == 0
    assert "the words of the guide changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "NoneType"),
        ("- a\n- b\n", "a list"),
        ("{", "not usable YAML"),
        ("!!python/object/apply:os.system ['touch /tmp/never']", "not usable YAML"),
        ({"meta": [1], "model": {}}, "meta is list"),
        ({"meta": {}, "model": "x"}, "model is str"),
        ({"meta": {}}, "model is absent"),
        ({"meta": {}, "model": {"model_id": "other/Model"}}, "is the recipe of 'other/Model'"),
        ("a: &a [b]\n" + "x" * (1024 * 1024), "larger than"),
        ("date: 2026-99-99\n", "not usable YAML"),
    ],
)
def test_what_is_no_recipe_is_an_error_with_exit_code_3(
    data: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recipe", "diff", str(written(tmp_path, data))]) == 3
    assert said in capsys.readouterr().err


def test_aliases_to_aliases_and_deep_nesting_end_in_a_message(tmp_path: Path) -> None:
    bomb = "meta: {}\nmodel: {model_id: moonshotai/Kimi-K3}\na0: &a0 {k: v}\n" + "".join(
        f"a{n}: &a{n} {{" + ", ".join(f"k{m}: *a{n - 1}" for m in range(10)) + "}\n" for n in range(1, 9)
    )
    with pytest.raises(InputError, match="more than"):
        upstream.read(written(tmp_path, bomb))
    loop = "model: {model_id: moonshotai/Kimi-K3}\nmeta: &m\n  again: *m\n"
    with pytest.raises(InputError, match="deep"):
        upstream.read(written(tmp_path, loop))
    with pytest.raises(InputError):
        upstream.read(written(tmp_path, "a: " + "[" * 5000 + "]" * 5000))


def test_odd_types_are_read_as_text(tmp_path: Path) -> None:
    odd = minimal(
        hardware_overrides={"hopper": {"extra_args": ["--a", 1, 2.5, None, "--b"], "extra_env": {"X": True}}, 7: [1, "b"]},
        strategy_min_gpus=8,
        new=[{"deep": 1}, ["x"]],
    )
    facts = upstream.read(written(tmp_path, odd)).facts
    assert facts["hardware_overrides.hopper.extra_args.--a"] == "1 2.5 null"
    assert facts["hardware_overrides.hopper.extra_env.X"] == "true"
    assert facts["strategy_min_gpus"] == "8" and facts["hardware_overrides.7"] == "1, b" and facts["new.0.deep"] == "1"


def test_last_flag_wins_and_json_is_compared_without_its_blanks(tmp_path: Path) -> None:
    words = ["--x", "1", "--x", "2", "--j", '{"b": 1, "a":2}', "--k", "{no json}"]
    facts = upstream.read(written(tmp_path, minimal(model={"model_id": upstream.MODEL, "base_args": words}))).facts
    assert facts["model.base_args.--x"] == "2" and facts["model.base_args.--j"] == '{"a":2,"b":1}'
    assert facts["model.base_args.--k"] == "{no json}"


def test_places_that_are_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none.yaml", tmp_path, Path("/dev/zero")):
        assert main(["recipe", "diff", str(path)]) == 3
    for name in ("Kimi-K3@a.yaml", "Kimi-K3@b.yaml"):
        (tmp_path / name).write_text("x")
    capsys.readouterr()
    assert main(["recipe", "diff", str(tmp_path)]) == 3
    assert "2 files" in capsys.readouterr().err


def test_show_says_sources_and_conflicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "show", "conflicts"]) == 0
    out = capsys.readouterr().out
    assert "b: 1,560,998,998,830 bytes in 96 shards (ix, 2026-08-22)" in out and "we follow b: counted" in out
    assert main(["recipe", "show"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name}\n" in out for name in ("PROVENANCE", "MODEL", "LAYOUTS", "RULES", "CONFLICTS"))
    assert main(["recipe", "show", "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["conflicts"][0]["a"]["since"] == "2026-07-28" and data["provenance"]["sources"]["rcp"]
    assert main(["recipe", "show", "nonsense"]) == 3


def test_every_conflict_of_the_reference_is_held() -> None:
    from rackproof.recipes import settings

    topics = {conflict.topic for conflict in settings.load().conflicts}
    assert {"image", "weight size", "minimum NVIDIA hardware", "minimum vLLM version", "deep_gemm_mega_moe", "tool parser",
            "all-to-all backend", "UCX_TLS on GB300", "prefix caching", "H200 on one node", "CUDA 12.9 self-build",
            "NCCL variables for NVLink across nodes", "AITER variable on AMD", "name of the ROCm image"} <= topics  # fmt: skip
