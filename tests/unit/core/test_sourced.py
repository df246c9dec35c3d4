"""Recipe and hardware data: every cell with its source, every mistake with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rackproof import hardware, recipes
from rackproof.errors import InputError
from rackproof.sourced import Cell, freeze

GB300 = (hardware.FOLDER / "gb300.yaml").read_text()
RECIPE = (recipes.FOLDER / "kimi_k3.yaml").read_text()


def line_of(text: str, what: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if what in line)


def broken(folder: Path, name: str, text: str, old: str, new: str) -> int:
    """Write the data with one place changed; returns the line of the change."""
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def test_cells_carry_line_and_sources() -> None:
    gb300 = hardware.load("gb300")
    assert gb300.product == Cell("NVIDIA GB300", f"hardware/gb300.yaml:{line_of(GB300, 'product:')} (smi)")
    assert gb300.links_per_gpu == Cell(18, f"hardware/gb300.yaml:{line_of(GB300, 'links_per_gpu:')} (oci)")
    assert gb300.operating_systems.value[0] == "ubuntu 22.04"
    assert isinstance(gb300.operating_systems.value, tuple)
    recipe = recipes.load()
    source = f"recipes/kimi_k3.yaml:{line_of(RECIPE, 'driver_branch_min:')} (rcp, trt, nim)"
    assert recipe.host["driver_branch_min"] == Cell(580, source)
    assert recipe.layouts["gb300-tp8"].source == f"recipes/kimi_k3.yaml:{line_of(RECIPE, 'id: gb300-tp8,')} (rcp, dyn, ix)"
    assert recipe.images["v028"].source == f"recipes/kimi_k3.yaml:{line_of(RECIPE, '- id: v028')} (rel028)"
    assert (recipe.images["v028"].arm64 or "").startswith("sha256:2a7cde23")
    assert recipe.images["v0271"].arm64 is None
    assert recipe.commit == "8959cf64189c71d36e11c6a30335f923f261b1f7"


@pytest.mark.parametrize("hardware_id", hardware.known_ids())
def test_shipped_profiles(hardware_id: str) -> None:
    profile = hardware.load(hardware_id)
    assert profile.id == hardware_id
    assert hardware.detect(profile.product.value) == hardware_id


def test_shipped_layouts_name_shipped_hardware_and_fit_it() -> None:
    recipe = recipes.load()
    for layout in recipe.layouts.values():
        gpus = layout.nodes * hardware.load(layout.hardware).gpus_per_node.value
        assert gpus == sum(pool.gpus for pool in layout.pools), layout.id
        assert (layout.fabric == "node") == (layout.nodes == 1), layout.id


def test_detection_is_by_the_whole_name() -> None:
    assert hardware.detect("NVIDIA GB300") == "gb300"
    assert hardware.detect("NVIDIA GB200") == "gb200"
    for product in ("NVIDIA H200 NVL", "GB300", "nvidia gb300", "NVIDIA GB300 ", "NVIDIA B300", "NVIDIA GB3001", ""):
        assert hardware.detect(product) is None


def test_unknown_ids_name_those_there_are() -> None:
    known = ", ".join(hardware.known_ids())
    with pytest.raises(InputError, match=f"x.yaml:3: no hardware profile 'gb100'\n  accepted: {known}"):
        hardware.load("gb100", "x.yaml:3")
    with pytest.raises(InputError, match=r"no hardware profile '../gb300'"):
        hardware.load("../gb300")
    with pytest.raises(InputError, match=r"x.yaml:1: no recipe 'kimi'\n  accepted: kimi_k3"):
        recipes.load("kimi", "x.yaml:1")
    with pytest.raises(InputError, match=r"no layout 'gb300-tp9' in recipe kimi_k3\n  accepted: b200-dep16, "):
        recipes.load().layout("gb300-tp9")
    with pytest.raises(InputError, match=r"x.yaml:9: no image 'v1' in recipe kimi_k3\n  accepted: launch, v0271, v028"):
        recipes.load().image("v1", "x.yaml:9")


def test_a_rejected_layout_says_why_and_what_is_usable(tmp_path: Path) -> None:
    text = RECIPE.replace("tier: derived, src: [rcp]}", 'tier: rejected, why: "it does not fit", src: [rcp]}', 1)
    (tmp_path / "kimi_k3.yaml").write_text(text)
    with pytest.raises(InputError, match="--layout: layout 'gb300-tp4pp4' is rejected: it does not fit") as caught:
        recipes.load(folder=tmp_path).layout("gb300-tp4pp4")
    assert "gb300-tp4pp4" not in caught.value.accepted and "gb300-tp8" in caught.value.accepted


@pytest.mark.parametrize(
    ("old", "new", "problem", "accepted"),
    [
        ("product: {value: NVIDIA GB300, src: [smi]}", "product: NVIDIA GB300", "product is 'NVIDIA GB300', a str", "object"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: four, src: [smi]}", "gpus_per_node.value is 'four'", "integer or null"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: 4}", "gpus_per_node lacks src", "value, src"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: null, src: []}", "gpus_per_node lacks confidence", "confidence"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: null, src: [], confidence: maybe}", "gpus_per_node.confidence is 'maybe'",
         "unverified"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: 4, src: [smii]}", "unknown source smii", "azure, crm39, dcgm"),
        ("{value: 4, src: [smi, taxonomy]}", "{value: 4, src: [smi], unit: x}", "unknown key 'unit' in gpus_per_node", "value"),
        ("gpus_per_node:", "gpus:", "unknown key 'gpus' in the file", "gpus_per_node"),
        ("vendor: nvidia", "vendor: intel", "vendor is 'intel'", "nvidia, amd"),
        ("schema: 1", "schema: 2", "schema is 2", "1"),
        ("  kind: {value: nvl72, src: [gpud, azure]}", "  kinds: {value: nvl72, src: []}", "unknown key 'kinds' in nvlink", "kind"),
        ("lspci: {kind: note,", "lspci: {kind: rumour,", "sources.lspci.kind is 'rumour'", "git, url, issue, note, decision"),
    ],
)  # fmt: skip
def test_mistakes_in_a_profile(tmp_path: Path, old: str, new: str, problem: str, accepted: str) -> None:
    line = broken(tmp_path, "gb300.yaml", GB300, old, new)
    with pytest.raises(InputError) as caught:
        hardware.load("gb300", folder=tmp_path)
    assert caught.value.where == f"{tmp_path}/gb300.yaml:{line}"
    assert caught.value.problem.startswith(problem)
    assert accepted in caught.value.accepted


def test_a_null_that_owns_up_is_accepted(tmp_path: Path) -> None:
    broken(tmp_path, "gb300.yaml", GB300, "pci_device_ids: {value: [\"10de:31c2\", \"10de:31a1\"], src: [lspci, dcgm]}",
           "pci_device_ids: {value: null, src: [], confidence: unverified}")  # fmt: skip
    line = line_of(GB300, "pci_device_ids:")
    assert hardware.load("gb300", folder=tmp_path).pci_device_ids == Cell(None, f"hardware/gb300.yaml:{line}")


@pytest.mark.parametrize(
    ("old", "new", "problem", "accepted"),
    [
        ("tier: vendor", "tier: gold", "layouts.1.tier is 'gold'", "official, vendor, derived, rejected"),
        ("tp, nodes: 2", "tp, nodes: 0", "layouts.0.nodes: 0 is less than", ""),
        ("2, tp: 8", "2, tpp: 8", "unknown key 'tpp' in layouts.0", "tp"),
        ("fabric: mnnvl", "fabric: nvlink", "layouts.0.fabric is 'nvlink'", "node, mnnvl, rdma"),
        ("fabric: mnnvl, ", "", "layouts.0 lacks fabric", "fabric"),
        ("src: [rcp, dyn, ix]}\n  - {id: gb300-tep8", "src: [rcp, ds]}\n  - {id: gb300-tep8", "unknown source ds", "dyn"),
        ("index: sha256:61fc8a896b", "index: sha256:61FC8a896b", "images.0.index is 'sha256:61FC", "sha256: and 64 hex digits"),
        ("index: sha256:61fc8a896b0a4fbbbdc063bc4b0dbc25ce98e02b5050c24aeb7830ac02039b14", "index: null", "images.0.index is None",
         "string"),
        ("arm64: sha256:2a", "arm64: sha256:", "images.0.arm64 is", "sha256: and 64 hex digits"),
        ("  upstream_commit: 8959cf64189c71d36e11c6a30335f923f261b1f7\n", "", "provenance lacks upstream_commit", ""),
        ("  fabric_state: {value: Completed, src: [azure]}\n", "", "host lacks fabric_state", "fabric_state"),
    ],
)  # fmt: skip
def test_mistakes_in_a_recipe(tmp_path: Path, old: str, new: str, problem: str, accepted: str) -> None:
    line = broken(tmp_path, "kimi_k3.yaml", RECIPE, old, new)
    with pytest.raises(InputError) as caught:
        recipes.load(folder=tmp_path)
    file, _, at = caught.value.where.rpartition(":")
    assert file == f"{tmp_path}/kimi_k3.yaml"
    if "lacks" not in problem:
        assert int(at) == line
    assert caught.value.problem.startswith(problem)
    assert accepted in caught.value.accepted


def test_freeze() -> None:
    assert freeze([1, [2, ["x"]], "y"]) == (1, (2, ("x",)), "y")
    assert freeze("text") == "text"


def test_every_source_named_in_the_data_is_used_or_at_least_known() -> None:
    """A typo in `src` of any cell would raise here; this reads all of them."""
    for hardware_id in hardware.known_ids():
        text = (hardware.FOLDER / f"{hardware_id}.yaml").read_text()
        known = set(re.findall(r"^  (\w+): \{kind:", text, re.MULTILINE))
        used = {name for names in re.findall(r"src: \[([^\]]*)\]", text) for name in re.split(r",\s*", names) if name}
        assert used <= known
