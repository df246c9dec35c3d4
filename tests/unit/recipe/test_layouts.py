"""The layouts as data: what each source says, what is rejected and why, and that the data holds together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rackproof import hardware, recipes
from rackproof import site as sites
from rackproof.baseline import resolve
from rackproof.errors import InputError
from rackproof.recipes.lint import lint

RECIPE = recipes.load()
TEXT = (recipes.FOLDER / "kimi_k3.yaml").read_text()

TIERS = {
    "gb300-tp8": "official", "gb300-tep8": "vendor", "gb300-dep16": "official", "gb300-tp4dp4": "official",
    "gb300-tp4pp4": "derived", "gb300-pd": "official", "gb200-tp8": "rejected", "gb200-tp16": "vendor",
    "gb200-dep16": "official", "gb200-tp4dp4ep16": "vendor", "gb200-tp12": "rejected", "b300-tp8": "official",
    "b300-tp8pp2": "derived", "b200-tp16": "official", "b200-tp8pp2": "official", "b200-tp8": "rejected",
    "h200-tp16": "official", "h200-tp8dp2": "official", "h200-tp8": "rejected", "h100-tp32": "rejected",
    "mi355x-tp8": "official",
}  # fmt: skip


def test_the_layouts_of_the_reference_and_their_tiers() -> None:
    assert len(TIERS) == 21
    assert {name: RECIPE.layouts[name].tier for name in TIERS} == TIERS


@pytest.mark.parametrize(
    ("layout", "nodes", "fabric"),
    [("gb300-tp8", 2, "mnnvl"), ("b300-tp8", 1, "node"), ("mi355x-tp8", 1, "node"), ("b200-tp16", 2, "rdma"),
     ("gb300-pd", 6, "mnnvl"), ("gb200-tp16", 4, "mnnvl")],
)  # fmt: skip
def test_nodes_and_fabric(layout: str, nodes: int, fabric: str) -> None:
    """Upstream's TP and TEP strategies say that they require InfiniBand; between trays it is NVLink."""
    assert (RECIPE.layouts[layout].nodes, RECIPE.layouts[layout].fabric) == (nodes, fabric)


def test_mega_moe_is_for_nvlink_between_nodes_only() -> None:
    """The launch post says any DEP; the recipe narrowed it to GB200 and GB300 on 2026-08-06."""
    users = {x.id for x in RECIPE.layouts.values() for pool in x.pools if pool.moe == "deep_gemm_mega_moe"}
    assert users == {"gb300-dep16", "gb300-pd", "gb200-dep16", "gb200-pd"}
    assert RECIPE.layouts["b300-dep16"].moe is None
    assert RECIPE.layouts["gb200-tp4dp4ep16"].moe == "flashinfer_trtllm"


def test_all_to_all_follows_the_fabric() -> None:
    for layout in RECIPE.layouts.values():
        for pool in layout.pools:
            wanted = {"mnnvl": "flashinfer_nvlink_one_sided", "rdma": "deepep_v2", "node": None}[layout.fabric]
            if pool.ep and hardware.load(layout.hardware).vendor == "nvidia":
                assert pool.all2all == wanted, layout.id
            if not pool.ep:
                assert pool.all2all is None, layout.id


def test_dep_is_not_for_hopper() -> None:
    assert RECIPE.layouts["h200-dep16"].tier == "rejected"
    assert all(pool.tp == 16 for pool in RECIPE.layouts["h200-pd"].pools)


def test_what_upstream_makes_of_it_is_kept() -> None:
    upstream = {name: RECIPE.layouts[name].upstream for name in ("gb200-tp8", "b200-tp8", "h100-tp32", "h200-dep16", "gb300-tep16")}
    assert upstream == {"gb200-tp8": "recommended", "b200-tp8": "rendered", "h100-tp32": "recommended",
                        "h200-dep16": "unsupported", "gb300-tep16": "absent"}  # fmt: skip
    assert RECIPE.layouts["gb300-tp8"].pools[0].shape == "TP8"


def test_a_derived_layout_needs_the_site_s_word() -> None:
    shipped = sites.shipped()
    with pytest.raises(InputError, match="layout gb300-tp4pp4 is derived") as caught:
        resolve(shipped, hardware_id="gb300", layout_id="gb300-tp4pp4")
    assert "gb300-tp8" in caught.value.accepted and "allow_derived: true" in caught.value.accepted
    told = shipped.overlaid({"allow_derived": True}, "here")
    resolved = resolve(told, hardware_id="gb300", layout_id="gb300-tp4pp4")
    assert resolved.layout.tier == "derived"
    with pytest.raises(InputError, match="is rejected"):
        resolve(told, hardware_id="gb200", layout_id="gb200-tp8")


def test_every_layout_of_official_or_vendor_tier_resolves_the_same_each_time() -> None:
    for layout in RECIPE.layouts.values():
        if layout.tier in ("official", "vendor") and hardware.load(layout.hardware).vendor == "nvidia":
            asked = {"hardware_id": layout.hardware, "layout_id": layout.id}
            first, second = resolve(sites.shipped(), **asked), resolve(sites.shipped(), **asked)
            assert first == second and first.hash == second.hash


def test_words_about_a_layout_are_no_part_of_a_baseline() -> None:
    data = resolve(sites.shipped(), hardware_id="gb200", layout_id="gb200-dep16").as_dict()["layout"]
    assert not {"source", "why", "warn", "upstream"} & set(data)


@pytest.mark.parametrize(
    ("old", "new", "problem", "accepted"),
    [
        ("tier: rejected,\n     why: \"TP12 ", "tier: rejected,\n     warn: \"TP12 ", "layouts.17 lacks why", "why"),
        ("decode: {nodes: 4, dp: 16", "decode: {nodes: 3, dp: 16", "the roles of gb300-pd take 5 nodes", "6, as the layout"),
        ("prefill: {nodes: 2, tp: 8", "prefill: {nodes: 2, tq: 8", "unknown key 'tq' in layouts.6.roles.prefill", "tp"),
        ("moe: flashinfer_trtllm", "moe: trtllm", "layouts.11.moe is 'trtllm'", "deep_gemm_mega_moe"),
        ("upstream: absent", "upstream: gone", "layouts.5.upstream is 'gone'", "recommended, rendered"),
        ("all2all: deepep_v2", "all2all: deepep", "all2all is 'deepep'", "deepep_v2"),
        ("gib: 180.8", "gib: -1", "footprint.resident.0.gib: -1 is less than", ""),
        ("value: 163840", "value: many", "footprint.vocabulary.value is 'many'", "integer or null"),
        ("- {id: gb300-tep8,", "- {id: gb300-tp8,", "layouts gb300-tp8 stand there twice", "each id once"),
    ],
)
def test_mistakes_name_file_line_path_and_what_is_accepted(
    tmp_path: Path, old: str, new: str, problem: str, accepted: str
) -> None:
    assert old in TEXT
    path = tmp_path / "kimi_k3.yaml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        recipes.load(folder=tmp_path)
    file, _, line = caught.value.where.rpartition(":")
    assert file == str(path) and 1 <= int(line) <= TEXT.count("\n")
    assert problem in caught.value.problem
    assert accepted in caught.value.accepted


def test_settings_beside_a_recipe_are_no_recipe(tmp_path: Path) -> None:
    for name in ("kimi_k3.yaml", "kimi_k3_settings.yaml"):
        (tmp_path / name).write_text(TEXT)
    assert recipes.known_ids(tmp_path) == ["kimi_k3"]


# --- lint ---


def test_our_data_holds_together() -> None:
    assert lint() == []


@pytest.mark.parametrize(
    ("file", "old", "new", "finding"),
    [
        ("kimi_k3", "upstream: recommended, tier: rejected,\n     why", "upstream: recommended, tier: vendor,\n     warn",
         "layout gb200-tp8 does not fit gb200 and is not rejected"),
        ("kimi_k3", "src: [rcp, dyn, ix]}", "src: [rcp, dyn, ixx]}", "unknown source ixx"),
        ("kimi_k3", "2, tp: 8, fabric: mnnvl", "2, tp: 4, fabric: mnnvl", "layout gb300-tp8 has TP4 on 8 GPUs"),
        ("kimi_k3", "bytes: {value: 1560998998830, src: [ix, dyn, mm]}", "bytes: {value: 1560998998830, src: []}",
         "model.bytes cites no source"),
        ("kimi_k3", "id: gb300-tp8, hardware: gb300", "id: gb300-tp8, hardware: x1", "is for x1, which has no profile"),
        ("kimi_k3", "nodes: 1, tp: 8, fabric: node", "nodes: 1, tp: 8, fabric: rdma", "takes 1 nodes over fabric rdma"),
        ("kimi_k3", "dp_local: 8, ep: true, all2all: deepep_v2", "dp_local: 8, ep: true, moe: deep_gemm_mega_moe",
         "uses deep_gemm_mega_moe over rdma"),
        ("kimi_k3", "ep: true, all2all: deepep_v2", "ep: true, all2all: flashinfer_nvlink_one_sided",
         "uses flashinfer_nvlink_one_sided over rdma"),
        ("kimi_k3", "nodes: 2, tp: 16, fabric: rdma, upstream: recommended", "nodes: 2, tp: 16, fabric: mnnvl, upstream: absent",
         "crosses nodes by NVLink, which b200 cannot"),
        ("kimi_k3", "  vendor: Run or", "  vender: Run or", "has tier vendor, which no text explains"),
        ("b200", "value: NVIDIA B200", "value: NVIDIA B300 SXM6 AC", "NVIDIA B300 SXM6 AC is also of hardware"),
        ("b200", "value: 183359, src: [smi]", "value: 183359, src: []", "memory_mib cites no source"),
        ("b200", "vendor: nvidia", "vendor: intel", "vendor is 'intel'"),
    ],
)  # fmt: skip
def test_what_does_not_hold_together_is_found(tmp_path: Path, file: str, old: str, new: str, finding: str) -> None:
    folders = {"recipes": tmp_path / "recipes", "hardware": tmp_path / "hardware"}
    folders["recipes"].mkdir()
    (folders["recipes"] / "kimi_k3.yaml").write_text(TEXT)
    shutil.copytree(hardware.FOLDER, folders["hardware"], ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    path = folders["recipes" if file == "kimi_k3" else "hardware"] / f"{file}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    found = lint(recipe_folder=folders["recipes"], hardware_folder=folders["hardware"])
    assert any(finding in line for line in found), found
