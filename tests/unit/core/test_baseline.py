"""The baseline: every value has a source, equal nodes are equal, contradictions do not resolve."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from core_builders import GB300, Rack, baseline

from rackproof import hardware, recipes
from rackproof import site as sites
from rackproof.baseline import Baseline, resolve
from rackproof.errors import InputError
from rackproof.site import Site

DOMAIN = tuple(f"10.0.0.{number}" for number in range(1, 19))
SIMULATED = {"image": {name: f"sha256:{number * 64}" for name, number in (("index", "1"), ("amd64", "2"), ("arm64", "3"))}}


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Dotted paths of all that is not itself a dataclass."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    else:
        yield ".".join(path)


def variants(rack: Rack) -> dict[str, Baseline]:
    site = rack.site("gb300")
    return {
        "stranger": baseline("gb300"),
        "hgx": resolve(rack.site("b300")),
        "site": resolve(site, domain=DOMAIN, domain_source="inventory"),
        "simulated": resolve(site.overlaid({"simulation": SIMULATED}, "lab")),
        "amd": baseline("mi355x"),
        "mirror": resolve(site.overlaid({"image": {"repository": "mirror.example/vllm"}}, "here")),
    }


@pytest.mark.parametrize("name", ["stranger", "hgx", "site", "simulated", "mirror", "amd"])
def test_every_value_says_where_it_comes_from(site_folder: Rack, name: str) -> None:
    resolved = variants(site_folder)[name]
    paths = [path for path in leaves(resolved) if path != "provenance" and not path.startswith("provenance")]
    assert len(paths) > 35
    for path in paths:
        parents = [path, *(path.rsplit(".", up)[0] for up in range(1, path.count(".") + 1))]
        sources = [resolved.provenance[key] for key in parents if key in resolved.provenance]
        assert sources and all(sources), path
    for key in resolved.provenance:  # and no source for what there is not
        assert any(path == key or path.startswith(f"{key}.") for path in paths), key


def test_sources_are_exact(site_folder: Rack) -> None:
    resolved = variants(site_folder)["site"]
    assert resolved.source("driver.version") == "group_vars/all.yaml:1"
    assert resolved.source("hardware") == "group_vars/gb300.yaml:1"
    assert resolved.source("layout") == "group_vars/gb300.yaml:2"
    assert resolved.source("packages.key_fingerprint") == "group_vars/gb300.yaml:6"
    assert resolved.source("driver.floor") == hardware.load("gb300").driver_floor.source
    assert resolved.source("driver.branch_min") == recipes.load().host["driver_branch_min"].source
    assert resolved.source("nvlink.domain") == "inventory"
    stranger = baseline("gb300")
    assert (stranger.source("hardware"), stranger.source("driver.version")) == ("--hardware", "the site pins none")


SUPPORTED = ("b200", "b300", "gb200", "gb300", "h200", "mi355x")


@pytest.mark.parametrize("hardware_id", sorted(set(hardware.known_ids()) - set(SUPPORTED)))
def test_a_product_without_a_baseline_is_refused_with_the_reason(hardware_id: str) -> None:
    with pytest.raises(InputError, match=r"no layout for it that works|has no official layout"):
        baseline(hardware_id)


@pytest.mark.parametrize("hardware_id", SUPPORTED)
def test_the_shipped_defaults_resolve_for_each_product(hardware_id: str) -> None:
    resolved = baseline(hardware_id)
    assert (resolved.hardware, resolved.layout.hardware, resolved.layout.tier) == (hardware_id, hardware_id, "official")
    assert (resolved.simulated, resolved.packages, resolved.driver.version) == (False, None, None)
    name = "vllm-openai-rocm" if resolved.vendor == "amd" else "vllm-openai"
    assert resolved.image.reference == f"docker.io/vllm/{name}@{resolved.image.index}"


def test_values_of_an_amd_node() -> None:
    resolved = baseline("mi355x")
    assert resolved.amd is not None and resolved.amd.architecture == "gfx950"
    assert (resolved.nvlink.kind, resolved.nvlink.links_per_gpu, resolved.nvlink.host_imex) == ("xgmi", 7, False)
    assert (resolved.image.cuda_major, resolved.packages, resolved.driver.parameters) == (None, None, ())
    assert resolved.gpus.idle_memory_max_bytes == 2048 * 1024 * 1024
    assert resolved.source("amd.architecture").startswith("rules/amd.yaml:")
    assert baseline("gb300").amd is None


def test_who_runs_imex_is_the_site_s_to_say(site_folder: Rack) -> None:
    site = site_folder.site("gb300")
    assert (resolve(site).nvlink.imex_owner, resolve(site).nvlink.host_imex) == ("host", True)
    managed = resolve(site.overlaid({"imex": {"owner": "kubernetes"}}, "here"))
    assert (managed.nvlink.imex_owner, managed.nvlink.host_imex, managed.driver.parameters) == ("kubernetes", False, ())
    assert managed.source("nvlink.imex_owner") == "here"
    assert resolve(site_folder.site("b300")).nvlink.imex_owner is None
    with pytest.raises(InputError, match=r"imex\.owner"):
        site.overlaid({"imex": {"owner": "nobody"}}, "here")


def test_values_of_a_gb300_tray(site_folder: Rack) -> None:
    resolved = variants(site_folder)["site"]
    image = recipes.load().images["v028"]
    assert (resolved.host.architecture, resolved.image.architecture) == ("aarch64", "arm64")
    assert (resolved.image.platform, resolved.image.index) == (image.arm64, image.index)
    assert resolved.gpus.memory_bytes_min == int(284208 * 1024 * 1024 * 0.995)
    assert resolved.driver.parameters == (("CreateImexChannel0", "1"),)
    assert (resolved.driver.flavour, resolved.driver.branch_min) == ("open", 580)
    assert (resolved.nvlink.across_nodes, resolved.nvlink.domain) == (True, DOMAIN)
    assert resolved.packages is not None
    assert resolved.packages.names.driver[0] == "nvidia-open-580"
    assert resolved.packages.names.fabric == ("nvidia-imex",)


def test_values_of_an_hgx_node(site_folder: Rack) -> None:
    resolved = variants(site_folder)["hgx"]
    assert (resolved.nvlink.kind, resolved.nvlink.across_nodes, resolved.driver.parameters) == ("hgx", False, ())
    assert resolved.image.platform == recipes.load().images["v028"].amd64
    over_rdma = baseline("b200", "b200-tp8pp2")
    assert (over_rdma.layout.nodes, over_rdma.nvlink.across_nodes) == (2, False)


def test_hash_is_of_values_alone(site_folder: Rack) -> None:
    first = resolve(site_folder.site("gb300"), domain=DOMAIN, domain_source="a")
    site_folder.group("gb300", "# moved\n\n" + GB300)
    second = resolve(site_folder.site("gb300"), domain=DOMAIN, domain_source="b")
    assert first.provenance != second.provenance
    assert first.hash == second.hash
    assert first == second and hash(first) == hash(second)
    assert len(first.hash) == 64
    assert json.loads(json.dumps(first.as_dict()))["gpus"]["count"] == 4


def test_hash_does_not_hang_on_the_line_of_a_layout(site_folder: Rack) -> None:
    first = resolve(site_folder.site("gb300"))
    moved = dataclasses.replace(first, layout=dataclasses.replace(first.layout, source="elsewhere:1", why="other words"))
    assert moved.hash == first.hash


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("driver", {"version": "580.95.05"}), ("driver", {"flavour": None}), ("gpus", {"count": 8}),
        ("gpus", {"expect_idle": False}), ("nvlink", {"domain": ("10.0.0.1",)}), ("image", {"index": "sha256:0"}),
        ("host", {"operating_systems": ()}), ("runtime", {"toolkit_version": None}), ("layout", {"tp": 4}),
    ],
)  # fmt: skip
def test_hash_hangs_on_every_value(site_folder: Rack, part: str, change: dict[str, Any]) -> None:
    first = resolve(site_folder.site("gb300"))
    other = dataclasses.replace(first, **{part: dataclasses.replace(getattr(first, part), **change)})
    assert other.hash != first.hash
    assert dataclasses.replace(first, simulated=True).hash != first.hash


@pytest.mark.parametrize(
    ("block", "simulated"),
    [
        ({"architecture": "x86_64"}, True),
        ({"operating_systems": ["debian 13"]}, True),
        (SIMULATED, True),
        ({}, False),
    ],
)
def test_a_simulation_shows(site_folder: Rack, block: dict[str, Any], simulated: bool) -> None:
    resolved = resolve(site_folder.site("gb300").overlaid({"simulation": block}, "lab"))
    assert resolved.simulated is simulated
    if block is SIMULATED:
        assert (resolved.image.index, resolved.image.platform) == ("sha256:" + "1" * 64, "sha256:" + "3" * 64)
        assert resolved.source("image.platform") == "lab"
    if "architecture" in block:
        assert (resolved.host.architecture, resolved.image.architecture) == ("x86_64", "amd64")
        assert resolved.image.platform == recipes.load().images["v028"].amd64


CONTRADICTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"layout_id": "b300-tp8"}, "--layout: layout b300-tp8 is for b300, not gb300\n  accepted: gb300-dep16"),
    ({"layout": "b300-tp8"}, {}, "over: layout b300-tp8 is for b300, not gb300"),
    ({}, {"layout_id": "gb300-tp9"}, "--layout: no layout 'gb300-tp9'"),
    ({}, {"hardware_id": "gb100"}, "--hardware: no hardware profile 'gb100'"),
    ({}, {"layout_id": "gb300-tp4pp4"}, "--layout: layout gb300-tp4pp4 is derived"),
    ({"recipe": "kimi"}, {}, "over: no recipe 'kimi'"),
    ({"driver": {"version": "580.65.06"}}, {}, "over: driver.version is 580.65.06\n  accepted: >= 580.82.07 on gb300"),
    ({"driver": {"version": "575.57.08"}}, {}, "over: driver.version is 575.57.08"),
    ({"driver": {"version": "591.1"}}, {}, "over: no package names are known for driver branch 591\n  accepted: branches"),
    ({"driver": {"version": "latest"}}, {}, "over: driver.version is 'latest'\n  accepted: a version"),
    ({"image": {"id": "v1"}}, {}, "over: no image 'v1' in recipe kimi_k3"),
    ({"container": {"toolkit_version": "1.17.8"}}, {}, "over: container.toolkit_version is 1.17.8\n  accepted: >= 1.18.2"),
    ({"simulation": {"image": {"index": "sha256:" + "0" * 64}}}, {}, "group_vars: nothing sets simulation.image.amd64"),
    ({}, {"domain": (*DOMAIN, "10.0.0.19"), "domain_source": "rack.py"},
     "rack.py: the NVLink domain has 19 nodes\n  accepted: at most 18"),
]  # fmt: skip


@pytest.mark.parametrize(("over", "asked", "message"), CONTRADICTIONS, ids=[c[2][:40] for c in CONTRADICTIONS])
def test_contradictions(site_folder: Rack, over: dict[str, Any], asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(site_folder.site("gb300").overlaid(over, "over"), **asked)
    assert str(caught.value).startswith(message)


def test_a_rejected_layout_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipes.load()
    layout = dataclasses.replace(recipe.layouts["gb300-tp8"], tier="rejected", why="it does not fit")
    changed = dataclasses.replace(recipe, layouts={**recipe.layouts, "gb300-tp8": layout})
    monkeypatch.setattr(recipes, "load", lambda *args, **kwargs: changed)
    with pytest.raises(InputError, match="layout 'gb300-tp8' is rejected: it does not fit"):
        baseline("gb300", "gb300-tp8")
    assert baseline("gb300").layout.id == "gb300-dep16"  # the default steps over it


def test_a_site_that_does_not_say_what_is_needed() -> None:
    with pytest.raises(InputError, match="nothing sets hardware"):
        resolve(sites.shipped())
    with pytest.raises(InputError, match="nothing sets recipe"):
        resolve(Site(), hardware_id="gb300")


def test_a_repository_without_its_key_does_not_resolve(site_folder: Rack) -> None:
    site_folder.group("gb300", "hardware: gb300\npackages:\n  repository: https://mirror.example/\n")
    with pytest.raises(InputError, match=r"nothing sets packages\.key_url"):
        resolve(site_folder.site("gb300"))
