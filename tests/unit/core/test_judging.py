"""From evidence to a result: no declared node is passed over, no product guessed, no unit assumed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from core_builders import SHA, Rack, evidence, section

from rackproof import hardware as profiles
from rackproof import site as sites
from rackproof.errors import InputError
from rackproof.evidence.evidence import Evidence
from rackproof.inventory import load_targets, planned
from rackproof.judging import judge_all, plan_for_evidence
from rackproof.plan import Plan
from rackproof.verdict import evaluate
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult
from rackproof.verdict.model import Outcome, Status, Verdict

SMALL = {name: requirements()[name] for name in ("host.evidence", "fleet.members")}


@pytest.fixture
def small_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that each node was read, and each unit whole: what is left of accepting when everything else is well."""
    monkeypatch.setattr(evaluate, "requirements", lambda: SMALL)


def smi(*products: str) -> bytes:
    gpus = "".join(
        f'<gpu id="0000000{n}:06:00.0"><product_name>{product}</product_name></gpu>' for n, product in enumerate(products)
    )
    return f"<nvidia_smi_log><attached_gpus>{len(products)}</attached_gpus>{gpus}</nvidia_smi_log>".encode()


def node(name: str, *products: str, pci: str = "0x31c2") -> Evidence:
    ids = f"= 0008:06:00.0\n|{pci} 0x10de 0x1234\n= devices\n|30\n.\n".encode()
    return evidence(name, nvidia_smi_xml=smi(*products), pci=ids)


def plan(*names: str, hardware: str | None = None, layout: str | None = None) -> Plan:
    return Plan(tuple(planned(name, sites.shipped(), hardware, layout) for name in names))


def only(outcomes: tuple[Outcome, ...]) -> Outcome:
    (outcome,) = outcomes
    return outcome


def named(result: NodeResult, requirement: str) -> Outcome:
    return next(outcome for outcome in result.outcomes if outcome.requirement.id == requirement)


def test_a_declared_node_without_evidence_is_undetermined() -> None:
    result = judge_all(plan("a", "b", hardware="gb300"), {"a": node("a", "NVIDIA GB300")})
    assert [item.node for item in result.nodes] == ["a", "b"]
    missing = result.nodes[1]
    assert missing.verdict is Verdict.UNDETERMINED and missing.evidence_sha256 == ""
    root = named(missing, "host.evidence")
    assert (root.status, root.reason) == (Status.UNKNOWN, "no evidence of this node was given")
    for outcome in missing.outcomes[1:]:
        assert outcome.status in (Status.BLOCKED, Status.NOT_APPLICABLE), outcome.requirement.id
        assert outcome.blocked_by in ("host.evidence", "")
    members = next(outcome for outcome in result.fleet if outcome.requirement.id == "fleet.members")
    assert (members.status, members.unit) == (Status.UNKNOWN, "the nodes given")
    assert "no evidence of this node was given" in members.reason
    assert result.verdict is not Verdict.ACCEPT


@pytest.mark.parametrize("problem", ["unreachable: timed out", "the probe output is cut off after 3 sections"])
def test_what_a_node_without_a_product_says(problem: str) -> None:
    result = judge_all(plan("a"), {"a": Evidence("a", problem=problem)})
    outcome = only(result.nodes[0].outcomes)
    assert (outcome.requirement.id, outcome.status, outcome.reason) == ("host.evidence", Status.UNKNOWN, problem)
    assert (result.nodes[0].hardware, result.nodes[0].baseline, result.verdict) == ("unknown", None, Verdict.UNDETERMINED)
    assert result.fleet == ()


@pytest.mark.usefixtures("small_catalogue")
def test_a_cut_off_stream_is_judged_and_not_accepted() -> None:
    cut = replace(node("a", "NVIDIA GB300"), problem="the probe output is cut off after 2 sections")
    for asked in ("gb300", None):
        result = judge_all(plan("a", hardware=asked), {"a": cut})
        assert result.nodes[0].verdict is Verdict.UNDETERMINED
        assert named(result.nodes[0], "host.evidence").reason == "the probe output is cut off after 2 sections"
    whole = judge_all(plan("a", hardware="b300"), {"a": node("a")})
    assert whole.verdict is Verdict.ACCEPT  # or the test above would prove nothing


@pytest.mark.usefixtures("small_catalogue")
def test_nodes_left_out_by_limit(site_folder: Rack) -> None:
    path = site_folder.inventory('g = rack("t[1-4]", group="gb300", nvlink_domain="r")')
    found = {name: node(name) for name in ("t1", "t2", "t3")}
    limited = load_targets([path], limit="t[1-3]")
    result = judge_all(limited, found)
    assert [item.verdict for item in result.nodes] == [Verdict.ACCEPT] * 3 + [Verdict.UNDETERMINED]
    assert named(result.nodes[3], "host.evidence").reason == "left out by --limit"
    assert [(outcome.unit, outcome.status) for outcome in result.fleet] == [("r-u01", Status.PASS), ("r-u02", Status.UNKNOWN)]
    assert result.verdict is Verdict.UNDETERMINED
    assert judge_all(load_targets([path]), {**found, "t4": node("t4")}).verdict is Verdict.ACCEPT


@pytest.mark.usefixtures("small_catalogue")
def test_the_plan_s_name_counts_not_the_node_s() -> None:
    result = judge_all(plan("tray01", hardware="b300"), {"tray01": node("some-other-name")})
    assert result.nodes[0].node == "tray01"
    assert only(result.fleet).nodes == ("tray01",)


@pytest.mark.parametrize(
    ("products", "hardware"),
    [
        (["NVIDIA GB300"] * 4, "gb300"),
        (["NVIDIA B300 SXM6 AC"] * 8, "b300"),
        (["NVIDIA GB300"], "gb300"),  # too few is the checks' to say
        (["NVIDIA GB200"] * 4, "gb200"),
        (["NVIDIA B200"] * 8, "b200"),
        (["NVIDIA H200 NVL"] * 8, None),
        (["NVIDIA H100 80GB HBM3"] * 8, None),  # known, and no layout for it works
        (["NVIDIA B300"] * 8, None),
        (["NVIDIA GB300 "], "gb300"),  # as parsed: outer blanks are no part of a name
        (["nvidia gb300"], None),
        (["NVIDIA GB3000"], None),
        ([], None),
    ],
)
def test_detection_is_by_exact_name(products: list[str], hardware: str | None) -> None:
    result = judge_all(plan("a"), {"a": node("a", *products)}).nodes[0]
    assert result.hardware == (hardware or "unknown")
    if hardware:
        assert result.baseline is not None and result.baseline.layout.tier == "official"
    else:
        assert result.verdict is Verdict.UNDETERMINED


def test_an_unknown_product_prints_its_ids() -> None:
    result = judge_all(plan("a"), {"a": node("a", *["NVIDIA GB100"] * 4, pci="0x2940")})
    outcome = only(result.nodes[0].outcomes)
    assert (outcome.requirement.id, outcome.status) == ("host.hardware", Status.UNKNOWN)
    known = ", ".join(profiles.known_ids())
    assert outcome.reason == f"no hardware profile for NVIDIA GB100, PCI ids 10de:2940; known: {known}"
    assert result.nodes[0].evidence_sha256 == SHA
    assert (result.verdict, result.fleet) == (Verdict.UNDETERMINED, ())


@pytest.mark.parametrize(
    ("products", "reason"),
    [
        (["NVIDIA GB300", "NVIDIA GB300", "NVIDIA GB200"], "no hardware profile for NVIDIA GB200, NVIDIA GB300, PCI ids"),
        (["NVIDIA GB300", "N/A"], "no hardware profile for NVIDIA GB300, PCI ids"),
        (["N/A"], "no hardware profile for an unnamed product, PCI ids"),
    ],
)
def test_mixed_products_are_no_product(products: list[str], reason: str) -> None:
    result = judge_all(plan("a"), {"a": node("a", *products)})
    outcome = only(result.nodes[0].outcomes)
    assert (outcome.requirement.id, outcome.status) == ("host.hardware", Status.UNKNOWN)
    assert outcome.reason.startswith(reason)


def amd(name: str, device: str, count: int = 8, tool: str = "", loaded: bool = True) -> Evidence:
    """A node with AMD GPUs: amdgpu's own files, what PCI shows, and amd-smi's list where a product is named."""
    places = [f"0000:{number:02x}:00.0" for number in range(5, 5 + count)]
    gpus = "".join(f"= gpu {place}\n|0x{device}\n" for place in places)
    driver = f"+ /sys/module/amdgpu\n+ /dev/kfd\n{gpus}.\n" if loaded else "- /sys/module/amdgpu\n- /dev/kfd\n.\n"
    top = "/sys/bus/pci/devices"
    devices = "".join(f"= {top}/{place}\n|0x1002 0x{device} 0x120000 /sys/devices/{place}\n" for place in places)
    sections = {"amd": driver.encode(), "pci": f"{devices}= devices\n|30\n.\n".encode()}
    if tool:
        listed = [{"gpu": n, "bus": {"bdf": place}, "asic": {"market_name": tool}} for n, place in enumerate(places)]
        sections["amd_smi_static"] = json.dumps(listed).encode()
    return evidence(name, **sections)


@pytest.mark.parametrize(
    ("found", "hardware"),
    [
        (amd("a", "75a3", tool="AMD Instinct MI355X"), "mi355x"),
        (amd("a", "75a3"), "mi355x"),  # no tool of ROCm: by PCI id
        (amd("a", "75a3", loaded=False), "mi355x"),  # no driver either
        (amd("a", "75a3", count=7), "mi355x"),  # too few is the checks' to say
        (amd("a", "75a3", tool="AMD Instinct MI400X"), None),  # a name nobody described, whatever its id
        (amd("a", "75b3"), None),  # a virtual function
        (amd("a", "74a1", tool="AMD Instinct MI300X"), None),
        (amd("a", "75a0"), None),  # MI350X: no official layout
    ],
)
def test_amd_is_detected_by_name_or_pci_id(found: Evidence, hardware: str | None) -> None:
    result = judge_all(plan("a"), {"a": found}).nodes[0]
    assert result.hardware == (hardware or "unknown")
    assert result.verdict is not Verdict.ACCEPT
    if hardware is None:
        assert (result.verdict, only(result.outcomes).requirement.id) == (Verdict.UNDETERMINED, "host.hardware")


def test_an_amd_node_without_its_driver_is_rejected_for_that() -> None:
    result = judge_all(plan("a"), {"a": amd("a", "75a3", loaded=False)}).nodes[0]
    assert (result.verdict, named(result, "gpu_driver.amdgpu").status) == (Verdict.REJECT, Status.FAIL)


def test_a_rejected_product_is_refused_with_the_recipe_s_reason() -> None:
    outcome = only(judge_all(plan("a"), {"a": amd("a", "74a1")}).nodes[0].outcomes)
    assert "has no layout for it that works" in outcome.reason and "no native MXFP4 MoE back end" in outcome.reason
    with pytest.raises(InputError, match="no native MXFP4 MoE back end"):
        plan("a", hardware="mi300x")


def test_a_product_with_derived_layouts_alone_asks_for_one() -> None:
    outcome = only(judge_all(plan("a"), {"a": amd("a", "75a0")}).nodes[0].outcomes)
    assert "no official layout for it; name one of mi350x-tp8 (derived)" in outcome.reason
    site = sites.shipped().overlaid({"allow_derived": True}, "test")
    asked = Plan((planned("a", site, None, "mi350x-tp8"),))
    assert judge_all(asked, {"a": amd("a", "75a0")}).nodes[0].hardware == "mi350x"


def test_a_product_that_cannot_be_read() -> None:
    broken = Evidence("a", {"nvidia_smi_xml": section("nvidia_smi_xml", b"", b"Failed to initialize NVML", rc=9)}, sha256=SHA)
    outcome = only(judge_all(plan("a"), {"a": broken}).nodes[0].outcomes)
    assert outcome.reason == "the product could not be detected: nvidia-smi: Failed to initialize NVML"


def test_a_detected_product_takes_the_layout_that_was_asked_for() -> None:
    found = {"a": node("a", "NVIDIA GB300")}
    result = judge_all(plan("a", layout="gb300-dep16"), found)
    assert result.nodes[0].baseline is not None and result.nodes[0].baseline.layout.id == "gb300-dep16"
    with pytest.raises(InputError, match="--layout: layout b300-tp8 is for b300, not gb300"):
        judge_all(plan("a", layout="b300-tp8"), found)


@pytest.mark.usefixtures("small_catalogue")
class TestUndeclaredUnits:
    def test_a_layout_of_one_node(self) -> None:
        names = ("a", "b", "c")
        result = judge_all(plan(*names, hardware="b300"), {name: node(name) for name in names})
        assert [(o.unit, o.nodes, o.status) for o in result.fleet] == [(n, (n,), Status.PASS) for n in names]
        assert result.verdict is Verdict.ACCEPT

    def test_as_many_nodes_as_the_layout_takes(self) -> None:
        names = ("a", "b")
        result = judge_all(plan(*names, hardware="gb300"), {name: node(name) for name in names})
        assert (only(result.fleet).unit, only(result.fleet).nodes) == ("the nodes given", names)
        assert (only(result.fleet).status, result.verdict) == (Status.PASS, Verdict.ACCEPT)

    @pytest.mark.parametrize("number", [1, 3, 4, 18])
    def test_any_other_number_is_not_proven_to_work_together(self, number: int) -> None:
        names = tuple(f"t{n}" for n in range(number))
        result = judge_all(plan(*names, hardware="gb300"), {name: node(name) for name in names})
        assert {item.verdict for item in result.nodes} == {Verdict.ACCEPT}
        outcome = only(result.fleet)
        assert (outcome.requirement.id, outcome.status, outcome.nodes) == ("fleet.members", Status.UNKNOWN, names)
        assert outcome.reason == (
            f"layout gb300-tp8 takes 2 nodes together; {number} were given and no deployment unit is declared"
        )
        assert result.verdict is Verdict.UNDETERMINED

    def test_two_products(self) -> None:
        found = {"a": node("a", "NVIDIA GB300"), "b": node("b", *["NVIDIA B300 SXM6 AC"] * 8)}
        result = judge_all(plan("a", "b"), found)
        assert (only(result.fleet).status, result.verdict) == (Status.UNKNOWN, Verdict.UNDETERMINED)
        assert "layout b300-tp8 takes 1 nodes together and layout gb300-tp8 takes 2" in only(result.fleet).reason

    def test_one_of_two_is_unknown(self) -> None:
        found = {"a": node("a", "NVIDIA GB300"), "b": node("b", "NVIDIA GB200")}
        result = judge_all(plan("a", "b"), found)
        assert result.verdict is Verdict.UNDETERMINED

    def test_nothing_at_all(self) -> None:
        assert judge_all(Plan(()), {}).verdict is Verdict.UNDETERMINED


@pytest.mark.usefixtures("small_catalogue")
def test_a_declared_unit_of_the_wrong_size_is_rejected(site_folder: Rack) -> None:
    path = site_folder.inventory('g = rack("t[1-3]", group="gb300", units=["t[1-2]", "t3"])')
    result = judge_all(load_targets([path]), {name: node(name) for name in ("t1", "t2", "t3")})
    assert [outcome.status for outcome in result.fleet] == [Status.PASS, Status.FAIL]
    assert result.verdict is Verdict.REJECT


def test_a_plan_for_evidence_from_files(site_folder: Rack) -> None:
    given = [node("b"), node("a")]
    made = plan_for_evidence(given, hardware="gb300", layout="gb300-dep16")
    assert [item.name for item in made.nodes] == ["b", "a"]
    assert {item.baseline.layout.id for item in made.nodes if item.baseline} == {"gb300-dep16"}
    path = site_folder.inventory('g = rack("t[1-2]", group="gb300")')
    assert [item.name for item in plan_for_evidence(given, inventory=path).nodes] == ["t1", "t2"]
    with pytest.raises(InputError, match="inventory: host a is named twice"):
        plan_for_evidence([node("a"), node("a")])
    with pytest.raises(InputError, match="evidence: it has no header line"):
        plan_for_evidence([node("a"), Evidence("", problem="it has no header line")])


def test_one_host_under_two_names_counts_once_also_where_each_node_serves_alone() -> None:
    def told(name: str, boot: str) -> Evidence:
        identity = f"= /proc/sys/kernel/hostname\n|{name}\n= /proc/sys/kernel/random/boot_id\n|{boot}\n.\n"
        return evidence(name, identity=identity.encode())

    def verdicts(*boots: str) -> dict[str, str]:
        names = [f"n{number}" for number, _ in enumerate(boots)]
        judged = judge_all(plan(*names, hardware="b300"), {name: told(name, boot) for name, boot in zip(names, boots, strict=True)})
        assert judged.verdict is not Verdict.ACCEPT
        found = {o.unit: o for o in judged.fleet if o.requirement.id == "fleet.distinct_hosts"}
        return {unit: f"{outcome.status.value} {outcome.observed}" for unit, outcome in found.items()}

    assert verdicts("one", "two") == {"n0": "pass its own (2 of 2)", "n1": "pass its own (2 of 2)"}
    twice = verdicts("one", "two", "one")
    assert twice["n0"] == "fail n0, boot id: one, as n2" and twice["n2"] == "fail n2, boot id: one, as n0"
    assert twice["n1"].startswith("pass")
