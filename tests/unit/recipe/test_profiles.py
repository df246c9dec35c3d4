"""Hardware profiles: the exact product, the printed memory, what is not published, and a new product by data alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackproof import hardware, recipes
from rackproof.eligibility import eligible
from rackproof.eligibility_nodes import NodeView
from rackproof.errors import InputError
from rackproof.facts import Missing
from rackproof.recipes.fit import Answer, fit

GB300 = (hardware.FOLDER / "gb300.yaml").read_text()
MIB = 1024 * 1024

PRINTED = {
    "NVIDIA H100 80GB HBM3": ("h100", 81559),
    "NVIDIA H200": ("h200", 143771),
    "NVIDIA B200": ("b200", 183359),
    "NVIDIA B300 SXM6 AC": ("b300", 275040),
    "NVIDIA GB200": ("gb200", 189471),
    "NVIDIA GB300": ("gb300", 284208),
    "AMD Instinct MI300X": ("mi300x", 196592),
    "MI300X-O": ("mi300x", 196592),  # what amd-smi calls it
    "AMD Instinct MI350X": ("mi350x", 294896),
    "AMD Instinct MI355X": ("mi355x", 294896),
}


@pytest.mark.parametrize(("product", "hardware_id", "mib"), [(name, *rest) for name, rest in PRINTED.items()])
def test_product_and_memory_as_printed(product: str, hardware_id: str, mib: int) -> None:
    assert hardware.detect(product) == hardware_id
    assert hardware.load(hardware_id).memory_bytes == mib * MIB


def test_every_profile_is_one_of_the_printed() -> None:
    assert sorted({hardware_id for hardware_id, _ in PRINTED.values()}) == hardware.known_ids()


@pytest.mark.parametrize(
    "product",
    ["NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA B300", "NVIDIA H100", "NVIDIA H100 PCIe", "H200", "GB200",
     "AMD Instinct MI325X", "AMD Instinct MI300A", "AMD Instinct MI355X VF"],
)  # fmt: skip
def test_a_name_that_only_looks_like_one_is_none(product: str) -> None:
    assert hardware.detect(product) is None


@pytest.mark.parametrize(
    ("pci", "hardware_id"),
    [("10de:2330", "h100"), ("10de:2335", "h200"), ("10de:2901", "b200"), ("10de:3182", "b300"), ("10de:2941", "gb200"),
     ("10de:31c2", "gb300"), ("1002:75a3", "mi355x"), ("1002:75a0", "mi350x"), ("1002:74a1", "mi300x"),
     ("10de:2342", None), ("1002:75b3", None)],
)  # fmt: skip
def test_pci_ids(pci: str, hardware_id: str | None) -> None:
    assert hardware.detect_pci(pci) == hardware_id


def test_288_gib_is_more_than_an_mi355x_has() -> None:
    """309220868096 B: a floor of 288e9 passes, one of 288 GiB would fail every healthy GPU by 16 MiB."""
    assert 288 * 10**9 < hardware.load("mi355x").memory_bytes == 309220868096 < 288 * 1024**3


def test_fabric_and_daemons_by_kind() -> None:
    kinds = {name: hardware.load(name).fabric_kind.value for name in hardware.known_ids()}
    assert kinds == {
        "b200": "hgx", "b300": "hgx", "gb200": "nvl72", "gb300": "nvl72", "h100": "hgx", "h200": "hgx",
        "mi300x": "xgmi", "mi350x": "xgmi", "mi355x": "xgmi",
    }  # fmt: skip
    for name, kind in kinds.items():
        profile = hardware.load(name)
        required, forbidden = profile.daemons_required.value, profile.daemons_forbidden.value
        wanted = {"hgx": (("nvidia-fabricmanager",), ()), "nvl72": (("nvidia-imex",), ("nvidia-fabricmanager",)),
                  "xgmi": ((), ())}  # fmt: skip
        assert (required, forbidden) == wanted[kind], name
        assert profile.links_per_gpu.value == (7 if kind == "xgmi" else 18)
        assert profile.domain_nodes_max.value == (18 if kind == "nvl72" else 1)


def test_expected_ports_are_a_matter_of_product_and_provider() -> None:
    """800 on a B300 node is not wrong on an XDR fabric, nor are twice as many of 400 on OCI."""
    b300 = {(nic.provider, nic.ports, nic.rate_gbit_per_s) for nic in hardware.load("b300").nics}
    assert b300 == {(None, 8, 800), ("oci", 16, 400)}
    gb300 = {(nic.provider, nic.ports, nic.rate_gbit_per_s) for nic in hardware.load("gb300").nics}
    assert gb300 == {(None, 4, 800), ("oci", 8, 400), ("gcp", 8, 400), ("azure", 4, 400)}
    for name in hardware.known_ids():
        assert all(nic.source for nic in hardware.load(name).nics)


def test_what_nobody_published_is_none() -> None:
    for name in ("h100", "h200", "gb200", "mi300x", "mi350x", "mi355x"):
        assert hardware.load(name).driver_floor.value is None
    assert hardware.load("b300").driver_floor.value == "580.82.07"
    assert hardware.load("b300").pci_subsystem_ids.value is None


@pytest.mark.parametrize(
    ("old", "new", "problem", "accepted"),
    [
        ("vendor: nvidia", "vendor: amd", "the file lacks xgmi", "xgmi"),
        ("link_layer: InfiniBand", "link_layer: IB", "nics.3.link_layer is 'IB'", "InfiniBand, Ethernet, None"),
        ("ports: 4, rate_gbit_per_s: 800", "ports: 0, rate_gbit_per_s: 800", "nics.0.ports: 0 is less than", ""),
        ("confidence: unverified, src: [nod]", "src: [nod]", "nics.0 lacks confidence", "confidence"),
        ("src: [nod]}", "src: [nodd]}", "unknown source nodd", "nod"),
        ("pci_subsystem_ids: {value: null", "pci_subsystem_ids: {value: 7", "pci_subsystem_ids.value is 7", "array or null"),
    ],
)
def test_mistakes_name_file_line_path_and_what_is_accepted(
    tmp_path: Path, old: str, new: str, problem: str, accepted: str
) -> None:
    assert old in GB300
    path = tmp_path / "gb300.yaml"
    path.write_text(GB300.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        hardware.load("gb300", folder=tmp_path)
    file, _, line = caught.value.where.rpartition(":")
    assert (file, caught.value.problem[: len(problem)]) == (str(path), problem)
    assert 1 <= int(line) <= GB300.count("\n") + 1 and accepted in caught.value.accepted
    if "lacks xgmi" not in problem:
        text = path.read_text().splitlines()
        assert new.split(":")[0].split(" ")[0] in text[int(line) - 1] or "provider" in text[int(line) - 1]


def test_a_new_product_is_one_file_and_no_code(tmp_path: Path) -> None:
    """A made-up part: its profile, and a layout that names it."""
    for name in ("id: gb300", "value: NVIDIA GB300", "value: 284208", "10de:31c2"):
        assert name in GB300
    text = GB300.replace("id: gb300", "id: x100").replace("NVIDIA GB300", "NVIDIA X100").replace("284208", "500000")
    (tmp_path / "x100.yaml").write_text(text.replace('"10de:31c2", "10de:31a1"', '"10de:9999"'))
    assert hardware.known_ids(tmp_path) == ["x100"]
    assert hardware.detect("NVIDIA X100", tmp_path) == hardware.detect_pci("10de:9999", tmp_path) == "x100"
    recipe = recipes.load()
    layout = recipes.Layout("x100-tp8", "x100", "multi_node_tp", 2, "mnnvl", "vendor", "here", tp=8)
    profile = hardware.load("x100", folder=tmp_path)
    assert fit(recipe, layout, profile, profile.memory_bytes).answer is Answer.YES
    nodes = [
        NodeView(name, "x100", 4, profile.memory_bytes, "aarch64", (1, "cluster"), None, 2) for name in ("t1", "t2")
    ]
    (answer,) = eligible(recipe, nodes, [layout], tmp_path)
    assert (answer.answer, answer.nodes) == (Answer.YES, ("t1", "t2"))
    (alone,) = eligible(recipe, [NodeView("t1", Missing("?"), 4, 1, "aarch64")], [layout], tmp_path)
    assert alone.answer is Answer.NO
