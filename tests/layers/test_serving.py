"""Layer serving: units as the launch renders them, and everything that may be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from rackproof import site
from rackproof.baseline import Baseline, resolve
from rackproof.baseline_launch import Member, with_launch
from rackproof.errors import InputError
from rackproof.evidence.tools.serving import parse_unit
from rackproof.facts import Missing, NodeFacts
from rackproof.facts_serving import RunningContainer, ServingFacts, ServingUnitFile
from rackproof.facts_state import Listener, ServingUnit
from rackproof.facts_weights import WeightsFacts
from rackproof.managed import SERVING_ENVIRONMENT, SERVING_UNIT
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import applies, evaluate_node
from rackproof.verdict.model import Severity, Status, Verdict, verdict_of

from .cases import Cases, Red, outcome, verify
from .fixtures import GONE, baseline, files, node, runtime
from .fixtures_storage import (
    MODEL,
    SERVING,
    UNIT,
    mounts,
    rendered,
    serves,
    serving,
    state,
    system,
    weights,
    with_files,
    with_unit,
)

NONE = baseline("gb300")  # its site installs no unit
TRAY, HGX, RDMA = serves(), serves("b300"), serves("b200")
GB300 = with_files(with_unit(node(), "gb300-tp8"), TRAY)
B300 = with_files(with_unit(node("b300", "b300-01"), "b300-tp8"), HGX)
READY = serves(start=False)  # installed, and left to people
B200 = with_unit(node("b300", "b300-02"), "b200-tp16")  # for what depends on the layout alone
IDLE = node()
UNITS = (ServingUnitFile(UNIT, True, rendered("gb300-tp8")),)
OTHER = ServingUnitFile("rackproof-old.service", True, rendered("gb300-tp8"))
UNREAD = [
    replace(GB300, serving=GONE),
    serving(GB300, units=GONE),
    serving(GB300, units=(ServingUnitFile(UNIT, True, Missing("the unit does not start docker run")),)),
]


def env(facts: NodeFacts = GB300, layout: str = "gb300-tp8", **variables: str | None) -> NodeFacts:
    """The unit with variables added, or taken out (None)."""
    found = {**rendered(layout).env, **variables}
    return with_unit(facts, layout, env={name: value for name, value in found.items() if value is not None})


def options(facts: NodeFacts = GB300, layout: str = "gb300-tp8", **changes: tuple[str, ...] | None) -> NodeFacts:
    """The unit with options of docker run changed, or taken out (None)."""
    found = {**rendered(layout).options, **{f"--{name}": value for name, value in changes.items()}}
    return with_unit(facts, layout, options={name: value for name, value in found.items() if value is not None})


def file(**variables: str) -> NodeFacts:
    return serving(GB300, env_file=variables)


def loaded(*active: str) -> NodeFacts:
    return state(
        GB300, serving_units=tuple(ServingUnit(f"{n}-{UNIT}", "loaded", one, "x") for n, one in enumerate(active))
    )


def listens(*ports: int) -> NodeFacts:
    return state(IDLE, listening=tuple(Listener("0.0.0.0", port) for port in ports))


def segments(found: Mapping[str, int] | Missing) -> NodeFacts:
    return serving(IDLE, segments=found)


ENV_LOST = [serving(GB300, env_file=GONE)]


def case(
    green: list[NodeFacts], red: list[tuple[NodeFacts, str]], garbage: list[NodeFacts], wanted: Any = TRAY
) -> Cases:
    """Of a requirement that applies where the site installs a unit."""
    return Cases(
        green=[(facts, wanted) for facts in green],
        red=[Red(facts, says, wanted) for facts, says in red],
        garbage=[*UNREAD, *garbage],
        not_applicable=NONE,
        garbage_baseline=wanted,
    )


def always(
    green: list[NodeFacts], red: list[tuple[NodeFacts, str]], garbage: list[NodeFacts], idle: bool = False
) -> Cases:
    """Of a requirement that any node can be asked."""
    wanted = baseline("gb300")
    busy = replace(wanted, gpus=replace(wanted.gpus, expect_idle=False))
    return Cases(
        green, [Red(*one) for one in red], [replace(IDLE, serving=GONE, system=GONE), *garbage], busy if idle else None
    )


ID, PINNED = "c" * 64, node().runtime.images[0].id  # type: ignore[union-attr]
ENGINE = RunningContainer(ID, "rackproof-serving", PINNED, TRAY.image.reference, True, {})


def runs(*containers: RunningContainer, facts: NodeFacts = GB300) -> NodeFacts:
    return runtime(facts, running=containers)


def holds(*names: str, facts: NodeFacts | None = None) -> NodeFacts:
    facts = facts or runs(ENGINE)
    return replace(facts, driver=replace(facts.driver, holders=names))


TABLE = {
    "serving.running": Cases(
        green=[
            (runs(ENGINE), TRAY),
            (runs(replace(ENGINE, name="mine", named="c0ffee")), NONE),
            (runs(replace(ENGINE, name="dcgm", image="sha256:7", named="nvidia/dcgm-exporter:4", engine=False)), NONE),
            (IDLE, NONE),
        ],
        red=[
            Red(runs(ENGINE, replace(ENGINE, name="other", image="sha256:0271")), "other runs"),
            Red(runs(replace(ENGINE, image="sha256:7", engine=False)), "rackproof-serving runs"),
            Red(runs(replace(ENGINE, name="x", image="sha256:7", engine=False)), "x runs docker.io/vllm"),
            Red(runs(replace(ENGINE, name="x", named="x", image="sha256:7", engine=False, labels={"a": "UNSUPPORTED-SELFBUILD"})), "x runs x"),
            Red(runtime(runs(ENGINE), images=()), "rackproof-serving runs"),
        ],
        garbage=[runtime(GB300, running=GONE), runtime(runs(ENGINE), images=GONE)],
    ),
    "serving.holders": Cases(
        green=[(holds(f"vllm (7, user root, container {ID[:12]})"), TRAY), (holds(), TRAY)],
        red=[
            Red(holds("python3 (7, user bob)"), "python3 (7, user bob)", TRAY),
            Red(holds("vllm (7, user root, container 0123456789ab)"), "0123456789ab", TRAY),
            Red(holds(f"vllm (7, user root, container {ID[:12]})", facts=runs(replace(ENGINE, image="sha256:0271"))), "vllm (7", TRAY),
        ],
        garbage=[holds(facts=runtime(GB300, running=GONE)), replace(GB300, driver=replace(GB300.driver, holders=GONE))],
        not_applicable=NONE,
        garbage_baseline=TRAY,
    ),
    "serving.unit": case(
        [GB300],
        [
            (IDLE, "no rackproof-*.service"),
            (serving(GB300, units=(*UNITS, OTHER)), "several: rackproof-serving.service, rackproof-old.service"),
            (serving(GB300, units=(replace(UNITS[0], enabled=False),)), "enabled: no"),
            (files(GB300, SERVING_UNIT, "0" * 64), f"{SERVING_UNIT}: changed"),
            (files(GB300, SERVING_ENVIRONMENT, None), f"{SERVING_ENVIRONMENT}: does not exist"),
        ],
        [serving(GB300, units=(replace(UNITS[0], enabled=GONE),)), replace(GB300, host=replace(GB300.host, files=GONE))],
    ),
    "serving.state": case(
        [loaded("active"), loaded("inactive")],
        [(loaded("failed"), "failed"), (loaded("active", "failed"), f"1-{UNIT}: failed")],
        [loaded(), state(GB300, serving_units=GONE), system(GB300, state=GONE)],
    ),
    "serving.image": case(
        [GB300, with_unit(GB300, "gb300-tp8", image=TRAY.image.reference.removeprefix("docker.io/"))],
        [
            (with_unit(GB300, "gb300-tp8", image="docker.io/vllm/vllm-openai:v0.28.0"), "v0.28.0"),
            (with_unit(GB300, "gb300-tp8", image="docker.io/vllm/vllm-openai@sha256:0"), "sha256:0"),
        ],
        [with_unit(GB300, "gb300-tp8", image="")],
    ),
    "serving.weights": case(
        [GB300],
        [(with_unit(GB300, "gb300-tp8", arguments=("serve", "/models/old")), "serve /models/old")],
        [with_unit(GB300, "gb300-tp8", arguments=())],
    ),
    "serving.environment": case(
        [GB300, env(NCCL_DEBUG="WARN"), file(NCCL_P2P_DISABLE="0")],
        [
            (env(NCCL_P2P_DISABLE="1"), "NCCL_P2P_DISABLE=1"),
            (env(NCCL_MNNVL_ENABLE="0"), "NCCL_MNNVL_ENABLE=0"),
            (file(NCCL_SHM_DISABLE="1"), "NCCL_SHM_DISABLE=1"),
        ],
        ENV_LOST,
    ),
    "serving.gpus": case(
        [GB300, env(CUDA_VISIBLE_DEVICES="0,1,2,3"), env(NVIDIA_VISIBLE_DEVICES="all")],
        [
            (env(CUDA_VISIBLE_DEVICES="0,1"), "CUDA_VISIBLE_DEVICES=0,1"),
            (env(NVIDIA_VISIBLE_DEVICES="void"), "void"),
            (file(CUDA_VISIBLE_DEVICES=""), "CUDA_VISIBLE_DEVICES="),
            (options(device=("nvidia.com/gpu=0",)), "devices: nvidia.com/gpu=0"),
            (options(device=None), "devices: none"),
        ],
        ENV_LOST,
    ),
    "serving.ready_timeout": case(
        [GB300, env(VLLM_ENGINE_READY_TIMEOUT_S="7200"), replace(file(VLLM_ENGINE_READY_TIMEOUT_S="600"))],
        [
            (env(VLLM_ENGINE_READY_TIMEOUT_S=None), "not set"),
            (env(VLLM_ENGINE_READY_TIMEOUT_S="600"), "600"),
            (env(VLLM_ENGINE_READY_TIMEOUT_S="-3600"), "-3600"),
        ],
        [*ENV_LOST, env(VLLM_ENGINE_READY_TIMEOUT_S="an hour"), env(VLLM_ENGINE_READY_TIMEOUT_S="\u0663600")],
    ),
    "serving.network": case(
        [GB300],
        [(options(network=None), "network: bridge"), (options(network=("rackproof",)), "rackproof")],
        [options(network=("",))],
    ),
    "serving.memlock": case(
        [B200, options(B200, "b200-tp16", ulimit=("memlock=-1",))],
        [
            (options(B200, "b200-tp16", ulimit=None), "memlock: not set"),
            (options(B200, "b200-tp16", ulimit=("nofile=1",)), "not set"),
            (options(B200, "b200-tp16", ulimit=("memlock=8388608:8388608",)), "8388608"),
        ],
        [options(B200, "b200-tp16", ulimit=("memlock=",))],
        RDMA,
    ),
    "serving.rdma_devices": case(
        [B200, options(B200, "b200-tp16", device=("/dev/infiniband/uverbs0",))],
        [(options(B200, "b200-tp16", device=("nvidia.com/gpu=all",)), "devices: nvidia.com/gpu=all")],
        [options(B200, "b200-tp16", device=())],
        RDMA,
    ),
    "serving.imex_channel": case(
        [GB300],
        [(options(device=("nvidia.com/gpu=all",)), "devices: nvidia.com/gpu=all")],
        [options(device=("/dev/nvidia-caps-imex-channels",))],
    ),
    "serving.privileged": case(
        [GB300, options(privileged=("false",))],
        [(options(privileged=()), "privileged: yes"), (options(privileged=("true",)), "yes")],
        [],
    ),
    "serving.secrets": Cases(
        green=[(GB300, TRAY)],
        red=[Red(serving(GB300, secrets=("HF_TOKEN",)), "HF_TOKEN", TRAY)],
        garbage=[UNREAD[0], serving(GB300, secrets=GONE)],
        not_applicable=NONE,
        garbage_baseline=TRAY,
    ),
    "serving.cache": case(
        [GB300],
        [(options(mount=None), "mounts: none"), (options(mount=("type=bind,source=/x,target=/y",)), "/x")],
        [options(mount=("",))],
    ),
    "serving.ports": always(
        [IDLE, listens(22, 8001)],
        [
            (listens(22, 8000), "ports: 8000"),
            (state(IDLE, listening=(Listener("::", 29501), Listener("127.0.0.1", 8000))), "ports: 8000, 29501"),
        ],
        [state(IDLE, listening=GONE)],
        idle=True,
    ),
    "serving.segments": always(
        [IDLE],
        [(segments({"nccl-": 4711, "psm_": 0}), "/dev/shm/nccl-*: 4711")],
        [segments(GONE), segments({}), segments({"nccl-": -1})],
        idle=True,
    ),
    "serving.shared_memory": always(
        [IDLE, mounts(IDLE, "/dev/shm", available_bytes=450 * 2**30)],
        [(mounts(IDLE, "/dev/shm", available_bytes=0), "used: 100%")],
        [
            mounts(IDLE, "/dev/shm", available_bytes=GONE),
            mounts(IDLE, "/dev/shm", size_bytes=0),
            mounts(IDLE, "/dev/shm", size_bytes=-1),
            system(IDLE, filesystems=GONE),
            system(IDLE, filesystems=()),
        ],
        idle=True,
    ),
    "serving.nccl_conf": always(
        [IDLE, serving(IDLE, nccl_conf={"NCCL_DEBUG": "WARN"})],
        [(serving(IDLE, nccl_conf={"NCCL_P2P_DISABLE": "1"}), "/etc/nccl.conf: NCCL_P2P_DISABLE=1")],
        [serving(IDLE, nccl_conf=GONE)],
    ),
    "serving.preload": always(
        [IDLE],
        [(serving(IDLE, preload=("/usr/local/vgpu/libvgpu.so",)), "libvgpu.so")],
        [serving(IDLE, preload=GONE)],
    ),
}
SOFT = {
    f"serving.{name}"
    for name in (
        "state", "privileged", "secrets", "cache", "ports", "segments", "shared_memory", "nccl_conf", "preload",
    )
}  # fmt: skip


@pytest.mark.parametrize("requirement", TABLE)
def test_requirement(requirement: str) -> None:
    verify(TABLE, requirement)


def test_a_variable_is_judged_by_the_fabric_of_the_layout() -> None:
    over_ib = env(B200, "b200-tp16", NCCL_IB_DISABLE="1")
    assert outcome("serving.environment", over_ib, RDMA).status is Status.FAIL
    assert outcome("serving.environment", env(NCCL_IB_DISABLE="1"), TRAY).status is Status.PASS
    assert outcome("serving.environment", env(B300, "b300-tp8", NCCL_MNNVL_ENABLE="1"), HGX).status is Status.FAIL
    assert outcome("serving.environment", env(NCCL_MNNVL_ENABLE="1"), TRAY).status is Status.PASS


def test_slow_storage_asks_for_the_longer_timeout() -> None:
    slow = serves(storage="slow")
    assert outcome("serving.ready_timeout", GB300, slow).status is Status.FAIL
    assert outcome("serving.ready_timeout", env(VLLM_ENGINE_READY_TIMEOUT_S="7200"), slow).status is Status.PASS


@pytest.mark.parametrize("hardware", ["gb300", "b300"])
def test_a_node_that_serves_as_rendered_is_accepted(hardware: str) -> None:
    facts = loaded_too(GB300 if hardware == "gb300" else B300)
    outcomes = evaluate_node(facts, serves(hardware))
    wrong = [found for found in outcomes if found.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    ours = [found for found in wrong if found.requirement.layer in ("container_runtime", "image", "weights", "serving")]
    assert not ours
    assert verdict_of(outcomes) is Verdict.ACCEPT, wrong


def loaded_too(facts: NodeFacts) -> NodeFacts:
    return state(facts, serving_units=(ServingUnit(UNIT, "loaded", "inactive", "dead"),))


# Facts that only warnings read, or nothing: what serves is proven without them.
ONLY_RECORDED = {
    "serving.secrets", "serving.nccl_conf", "serving.preload", "serving.segments", "weights.resolved",
    "weights.bytes", "weights.indexed_bytes", "weights.incomplete", "weights.revision", "weights.revision_source",
    "weights.config", "weights.shard_sizes",
}  # fmt: skip


@pytest.mark.parametrize("section, kind", [("serving", ServingFacts), ("weights", WeightsFacts)])
def test_a_node_without_one_fact_of_what_serves_is_not_accepted(section: str, kind: Any) -> None:
    facts = loaded_too(GB300)
    for field in fields(kind):
        part = replace(getattr(facts, section), **{field.name: GONE})
        verdict = verdict_of(evaluate_node(replace(facts, **{section: part}), TRAY))
        recorded = f"{section}.{field.name}" in ONLY_RECORDED
        assert verdict is (Verdict.ACCEPT if recorded else Verdict.UNDETERMINED), f"{section}.{field.name}"


def test_nonsense_never_serves() -> None:
    for nonsense in (None, "", "\x1b[31m", -1, (), {}, object()):
        part = replace(SERVING, **dict.fromkeys((field.name for field in fields(ServingFacts)), nonsense))  # type: ignore[arg-type]
        assert verdict_of(evaluate_node(replace(loaded_too(GB300), serving=part), TRAY)) is not Verdict.ACCEPT, nonsense


def test_gates_of_a_unit_apply_only_where_the_site_installs_one() -> None:
    of_nodes = ("serving.running", "serving.holders")  # what runs now, unit or not
    gates = [
        found for found in requirements().values()
        if found.layer == "serving" and found.severity is Severity.GATE and found.id not in of_nodes
    ]  # fmt: skip
    assert len(gates) >= 9
    assert not [found.id for found in gates if applies(found, NONE)]
    assert {found.id for found in gates if applies(found, RDMA)} >= {"serving.memlock", "serving.rdma_devices"}


def test_an_empty_directory_says_nothing_about_what_is_served() -> None:
    assert outcome("serving.weights", weights(GB300, files=0), TRAY).status is Status.PASS
    assert MODEL in rendered("gb300-tp8").arguments


# --- what the deploy installs ---


@pytest.mark.parametrize("wanted", [TRAY, HGX, READY], ids=["tray", "hgx", "not started"])
def test_what_the_deploy_installs_is_what_the_checks_want(wanted: Baseline) -> None:
    """The unit and environment file as they are written, read back by the probe's own parsers."""
    unit, env_text = (text for _, text in wanted.serving.files)
    lines = [line for line in env_text.splitlines() if not line.startswith("#")]
    found = dict(line.split("=", 1) for line in lines)
    facts = with_files(node() if wanted.hardware == "gb300" else node("b300", "b300-01"), wanted)
    facts = serving(facts, units=(ServingUnitFile(UNIT, wanted.serving.start, parse_unit(unit)),), env_file=found)
    outcomes = [one for one in evaluate_node(facts, wanted) if one.requirement.layer == "serving"]
    wrong = [one for one in outcomes if one.status not in (Status.PASS, Status.NOT_APPLICABLE)]
    assert {one.requirement.id for one in wrong} <= {"serving.state"}, wrong


def test_a_unit_that_the_site_leaves_to_people_is_not_started_by_a_boot() -> None:
    at_boot = with_files(GB300, READY)
    assert outcome("serving.unit", at_boot, READY).status is Status.FAIL
    left = serving(at_boot, units=(replace(UNITS[0], enabled=False),))
    assert outcome("serving.unit", left, READY).status is Status.PASS


def test_where_nobody_says_which_rank_a_node_has_its_unit_is_unknown() -> None:
    nobody = replace(TRAY, serving=replace(TRAY.serving, launch=None, files=()))
    assert outcome("serving.unit", GB300, nobody).status is Status.UNKNOWN


def test_the_trays_of_a_unit_have_one_baseline_and_their_own_ranks() -> None:
    unit = tuple((f"tray{n:02d}", f"10.1.0.{n}") for n in (1, 2))
    said = {"hardware": "gb300", "serving": {"install": True, "model_directory": MODEL, "interface": "eth0"}}
    chosen = site.shipped().overlaid(said, "a test")
    plain = resolve(chosen)
    first, second = (with_launch(plain, chosen, Member(name, unit, "a test")) for name, _ in unit)
    assert first.hash == second.hash and first.serving.launch == second.serving.launch
    ranks = [" --node-rank 0 ", " --node-rank 1 "]
    assert [rank in one.serving.files[0][1].replace("\\\n", "") for one, rank in zip((first, second), ranks, strict=True)] == [True, True]
    moved = with_launch(plain, chosen, Member("tray01", (unit[0], ("tray09", "10.1.0.9")), "a test"))
    assert moved.serving.files == first.serving.files and moved.hash == first.hash, "rank 0 only names itself"
    assert with_launch(plain, chosen, None).serving.install is False, "a spare serves nothing"


@pytest.mark.parametrize(
    ("serving_", "says"),
    [({"start": True}, "no unit is installed"), ({"start": True, "install": True}, "gpus.expect_idle")],
)
def test_a_start_that_contradicts_the_site_is_refused(serving_: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        resolve(site.shipped().overlaid({"hardware": "gb300", "serving": serving_}, "a test"))


def test_ports_are_those_of_the_strategy_and_of_the_site() -> None:
    pd = resolve(site.shipped().overlaid({"hardware": "gb300", "layout": "gb300-pd"}, "test"))
    assert pd.serving.ports == (5557, 5558, 8001, 8002, 29501)
    own = resolve(site.shipped().overlaid({"hardware": "b300", "serving": {"ports": {"serve": 9000}}}, "test"))
    assert own.serving.ports == (9000,)
    assert own.source("serving.ports") == "test"
