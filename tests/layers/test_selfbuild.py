"""No combination of settings, names and deleted files makes a self-built host acceptable.

Each row takes a host that the self-build path brought up, and hides or renames something. Every subset of what can be
hidden is tried; the last thing that is left decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.errors import InputError
from rackproof.facts import ImageFacts, NodeFacts
from rackproof.facts_control import Change, ControlFacts
from rackproof.facts_selfbuild import LAYER, TIER, traces
from rackproof.facts_serving import DockerRun, RunningContainer, ServingUnitFile
from rackproof.verdict.evaluate import evaluate_node
from rackproof.verdict.model import Status, Verdict, verdict_of

from .fixtures import baseline, host, node, official_image, runtime, strangers
from .fixtures_storage import serves, serving

OFFICIAL = official_image("gb300")
BUILT_ID = "sha256:" + "b" * 64
LABEL = {"org.rackproof.support": "UNSUPPORTED-SELFBUILD"}
BUILT = ImageFacts(BUILT_ID, ("vllm/vllm-openai:658f2f56e557-selfbuild-unsupported",), (), "arm64", "12.9.1", LABEL)
RUNS = RunningContainer("c" * 64, "rackproof-serving", BUILT_ID, BUILT.tags[0], True, LABEL)
UNIT = ServingUnitFile("rackproof-serving.service", True, DockerRun(BUILT_ID, {}, {}, ()))
STAMP = {"tier": TIER, "baseline": "b"}


def change(step: str, event: str = "end", rc: int = 0) -> Change:
    return Change("2026-11-30T08:00:00Z", "r", "a@b", LAYER, step, event, rc, {}, {})


CONTROL = ControlFacts(
    lock=None,
    journal=(change("Build vLLM 658f2f56e557"),),
    generation="1 2",
    history=(),
    selfbuild="built 658f2f56e557",
)


def self_built() -> NodeFacts:
    """A host as deploys/k3_selfbuild.py leaves it, and with the official image pulled beside its own."""
    facts = runtime(node(), images=(OFFICIAL, BUILT))
    facts = runtime(serving(facts, units=(UNIT,)), running=(RUNS,))
    return replace(host(facts, selfbuild="vLLM 658f2f56e557 by a@b", stamp=STAMP), control=CONTROL)


def without_mark(facts: NodeFacts) -> NodeFacts:
    return host(facts, selfbuild=None)


def without_stamp(facts: NodeFacts) -> NodeFacts:
    return host(facts, stamp=node().host.stamp)


def _control(facts: NodeFacts, **changes: object) -> NodeFacts:
    assert isinstance(facts.control, ControlFacts)
    return replace(facts, control=replace(facts.control, **changes))  # type: ignore[arg-type]


def without_journal(facts: NodeFacts) -> NodeFacts:
    return _control(facts, journal=())


def without_record(facts: NodeFacts) -> NodeFacts:
    return _control(facts, selfbuild=None)


def without_unit(facts: NodeFacts) -> NodeFacts:
    return serving(facts, units=())


def stopped(facts: NodeFacts) -> NodeFacts:
    return runtime(facts, running=())


HIDE: tuple[Callable[[NodeFacts], NodeFacts], ...] = (
    without_mark, without_stamp, without_journal, without_record, without_unit, stopped,
)  # fmt: skip


def verdicts(facts: NodeFacts, wanted: Baseline) -> Verdict:
    return verdict_of(evaluate_node(facts, wanted))


@pytest.mark.parametrize(
    "wanted", [baseline("gb300"), strangers("gb300"), serves()], ids=["site", "stranger", "serves"]
)
def test_every_subset_of_what_can_be_hidden_still_tells(wanted: Baseline) -> None:
    for size in range(len(HIDE)):
        for hidden in combinations(HIDE, size):
            facts = self_built()
            for hide in hidden:
                facts = hide(facts)
            left = [
                found.requirement.id
                for found in evaluate_node(facts, wanted)
                if found.decides and found.status is Status.FAIL
            ]
            names = [hide.__name__ for hide in hidden]
            assert verdicts(facts, wanted) is Verdict.UNSUPPORTED, (names, left)


def named(*tags: str, digests: tuple[str, ...] = (), labels: dict[str, str] | None = None) -> ImageFacts:
    return replace(BUILT, tags=tags, digests=digests, labels=LABEL if labels is None else labels)


OFFICIAL_TAG = "vllm/vllm-openai:v0.28.0"
PIN = OFFICIAL.digests[0]


@pytest.mark.parametrize(
    ("what", "image", "expected"),
    [
        ("its own tag, not running", named("mine/vllm:1"), Verdict.ACCEPT),
        ("the official tag", named(OFFICIAL_TAG), Verdict.UNSUPPORTED),
        ("the official tag by Docker's full name", named(f"docker.io/{OFFICIAL_TAG}"), Verdict.UNSUPPORTED),
        ("another tag of the official name", named("vllm/vllm-openai:latest"), Verdict.UNSUPPORTED),
        (
            "the official digest forged in the engine's own files",
            named(OFFICIAL_TAG, digests=(PIN,)),
            Verdict.UNSUPPORTED,
        ),
        ("the official tag, the label left out of the build", named(OFFICIAL_TAG, labels={}), Verdict.REJECT),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_retagging(what: str, image: ImageFacts, expected: Verdict) -> None:
    """All other traces are gone; the official image lies there as well, untagged where its tag was taken."""
    official = replace(OFFICIAL, tags=() if OFFICIAL_TAG in what or "official tag" in what else OFFICIAL.tags)
    assert verdicts(runtime(node(), images=(official, image)), baseline("gb300")) is expected


@pytest.mark.parametrize("name", [BUILT.tags[0], BUILT_ID, OFFICIAL_TAG, f"docker.io/{PIN}", "x"])
@pytest.mark.parametrize("container", ["rackproof-serving", "web"])
@pytest.mark.parametrize("labels", [LABEL, {}])
@pytest.mark.parametrize("wanted", [baseline("gb300"), strangers("gb300")], ids=["site", "stranger"])
def test_what_runs_is_judged_by_the_image_it_was_made_from(
    name: str, container: str, labels: dict[str, str], wanted: Baseline
) -> None:
    """Everything on disk is official, and a container of another image serves under whatever name."""
    facts = runtime(node(), running=(replace(RUNS, name=container, named=name, labels=labels),))
    assert verdicts(facts, wanted) in (Verdict.UNSUPPORTED, Verdict.REJECT)
    assert verdicts(facts, wanted) is Verdict.UNSUPPORTED or not labels


def test_a_unit_that_starts_a_self_built_image_by_digest() -> None:
    facts = serving(runtime(node(), images=(*node().runtime.images, replace(BUILT, tags=()))), units=(UNIT,))  # type: ignore[misc]
    for wanted in (baseline("gb300"), strangers("gb300"), serves()):
        assert verdicts(facts, wanted) is Verdict.UNSUPPORTED


# --- settings ---


def test_a_site_cannot_name_a_digest_of_its_own() -> None:
    for group in ({"index": BUILT_ID}, {"digest": BUILT_ID}, {"id": BUILT_ID}, {"id": "selfbuild"}):
        with pytest.raises(InputError):
            resolve(site.shipped().overlaid({"hardware": "gb300", "image": group}, "a test"))
    for group in ({"repository": f"vllm/vllm-openai@{BUILT_ID}"}, {"repository": "mine/vllm:1"}):
        with pytest.raises(InputError):
            resolve(site.shipped().overlaid({"hardware": "gb300", "image": group}, "a test"))


def test_a_mirror_that_holds_the_self_built_image_does_not_have_the_pin() -> None:
    mirror = resolve(
        site.shipped().overlaid({"hardware": "gb300", "image": {"repository": "mine.example/vllm"}}, "a test")
    )
    here = named("mine.example/vllm:v0.28.0", digests=(f"mine.example/vllm@{BUILT_ID}",))
    assert verdicts(runtime(node(), images=(here,)), mirror) is Verdict.UNSUPPORTED
    unlabelled = replace(here, labels={})
    assert (
        verdicts(runtime(node(), images=(unlabelled,), running=(replace(RUNS, labels={}, named=here.tags[0]),)), mirror)
        is Verdict.REJECT
    )


def test_digests_of_a_simulation_accept_no_real_host_and_no_self_built_image() -> None:
    pins = dict.fromkeys(("index", "amd64", "arm64"), BUILT_ID)
    lab = resolve(site.shipped().overlaid({"hardware": "gb300", "simulation": {"image": pins}}, "a test"))
    assert lab.simulated
    here = named(OFFICIAL_TAG, digests=(f"vllm/vllm-openai@{BUILT_ID}",))
    real = runtime(node(), images=(here,))
    assert verdicts(real, lab) is Verdict.UNSUPPORTED
    assert verdicts(runtime(node(), images=(replace(here, labels={}),)), lab) is Verdict.REJECT, (
        "no lab's mark, no simulation"
    )
    marked = host(real, simulated="rackproof lab")
    assert verdicts(marked, lab) is Verdict.UNSUPPORTED, "by the image's label"


# --- what remembers, and until when ---


@pytest.mark.parametrize(
    ("control", "stamp", "where"),
    [
        (CONTROL, STAMP, {"stamp", "journal", "record"}),
        (replace(CONTROL, selfbuild=None), None, {"journal"}),
        (replace(CONTROL, journal=(), history=(STAMP,), selfbuild=None), None, {"earlier stamp"}),
        (replace(CONTROL, journal=(), history=(STAMP,), selfbuild=None), {"tier": "official"}, set()),
        (replace(CONTROL, journal=(change("Build x"), change("Converted: y")), selfbuild=None), {"tier": "official"}, set()),
        (replace(CONTROL, journal=(change("Converted: y", "begin"),), selfbuild=None), {"tier": "official"}, {"journal"}),
        (replace(CONTROL, journal=(change("Build x"), change("Converted: y", rc=1)), selfbuild=None), {}, {"journal"}),
        (replace(CONTROL, journal=(change("Converted: y"), change("Build x")), selfbuild=None), {}, {"journal"}),
        (replace(CONTROL, journal=(change("Build x", rc=1),), selfbuild=None), {}, set()),
    ],
)  # fmt: skip
def test_what_remembers(control: ControlFacts, stamp: dict[str, str] | None, where: set[str]) -> None:
    facts = replace(host(node(), stamp=stamp), control=control)
    assert {place for place, found in traces(facts).items() if found} == where
