"""Beside the answer: how what it names stands on nodes, and whether the layout in the log can fit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from test_triage_command import SCHEMA
from triage_logs import API, FAILED, HEALTHY, INFO, OOM, START, TP0, WEIGHTS, judged, traceback

from rackproof import recipes
from rackproof.cli import main
from rackproof.evidence.cksum import cksum
from rackproof.recipes.fit import Answer
from rackproof.triage.arithmetic import advised, fitting
from rackproof.triage.diagnose import LOAD_FIRST
from rackproof.triage.now import standing
from rackproof.triage.render import Triaged
from rackproof.verdict.catalogue import requirements
from rackproof.verdict.evaluate import NodeResult, combine
from rackproof.verdict.model import Outcome, Status, Verdict

NONCE, EMPTY = "nonce-0123456789", 4294967295
KERNEL = (
    "source=dmesg lines=900 matched=1 kept=1 boots=1 first=[0.000000]\n"
    "|[ 4711.5] NVRM: Xid (PCI:0000:dc:00): 79, pid=90, name=python3, GPU has fallen off the bus.\n.\n"
)


def probe(node: str, **sections: str) -> str:
    """Evidence as a probe writes it."""
    lines = [f"#@{NONCE} probe format=2 version=0.1 node={node} uid=0 sudo= started=2026-01-01T00:00:00Z"]
    for name, text in sections.items():
        size = len(text.encode())
        lines += [f"#@{NONCE} begin {name}", *(f"|{line}" for line in text.splitlines())]
        lines.append(
            f"#@{NONCE} end {name} status=ran rc=0 begin=10.00 finish=10.50 stdout={size} "
            f"stdout_cksum={cksum(text.encode())} stderr=0 stderr_cksum={EMPTY} deadline=10"
        )
    lines.append(f"#@{NONCE} done begin=10.00 finish=11.25 sections={len(sections)}")
    return "".join(f"{line}\n" for line in lines)


def logged(path: Path, log: list[str]) -> str:
    path.write_text("\n".join(log))
    return str(path)


def evidence(path: Path, node: str, **sections: str) -> str:
    path.write_text(probe(node, **sections))
    return str(path)


def asked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["triage", "--json", "-", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    Draft202012Validator(SCHEMA).validate(found)
    return found


def test_what_the_advice_names_is_judged_node_by_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logged(tmp_path / "a.log", FAILED["kernel"][0])
    sick = evidence(tmp_path / "1.txt", "tray01", kernel_log=KERNEL)
    blind = evidence(tmp_path / "2.txt", "tray02")
    found = asked([log, "--evidence", sick, "--evidence", blind, "--hardware", "gb300"], capsys)
    now = {(one["requirement"], node): one for one in found["now"] for node in one["nodes"]}
    assert {name for name, _ in now} == set(found["requirements"])
    assert now["gpus.xid", "tray01"]["status"] == "fail"
    assert "79" in now["gpus.xid", "tray01"]["observed"] and now["gpus.xid", "tray01"]["remedy"]
    assert now["gpus.xid", "tray02"]["status"] in ("unknown", "blocked")
    assert found["now"][0]["status"] == "fail"
    assert "pass" not in {one["status"] for (_, node), one in now.items() if node == "tray02"}


def test_page_shows_failures_with_their_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logged(tmp_path / "a.log", FAILED["kernel"][0])
    sick = evidence(tmp_path / "1.txt", "tray01", kernel_log=KERNEL)
    assert main(["triage", "--plain", log, "--evidence", sick, "--hardware", "gb300"]) == 0
    page = capsys.readouterr().out
    assert "right now    1 fail" in page
    assert re.search(r"fail +gpus\.xid: tray01\n +is: .*79", page)
    assert requirements()["gpus.xid"].remedy.split(";")[0][:40] in " ".join(page.split())


def test_nodes_that_cannot_be_read_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logged(tmp_path / "a.log", FAILED["driver"][0])
    found = asked([log, "--inventory", "nobody@127.0.0.1:1", "--timeout", "5", "-q"], capsys)
    assert {one["status"] for one in found["now"]} == {"unknown"}
    assert [one["requirement"] for one in found["now"]] == found["requirements"]


def test_evidence_of_a_healthy_log_names_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logged(tmp_path / "a.log", HEALTHY["uvicorn"])
    found = asked([log, "--evidence", evidence(tmp_path / "1.txt", "tray01")], capsys)
    assert (found["now"], found["class"]) == ([], "none")


def test_without_evidence_nothing_is_said_of_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked([logged(tmp_path / "a.log", FAILED["driver"][0])], capsys)["now"] is None


def test_evidence_that_is_none_is_an_input_error(tmp_path: Path) -> None:
    assert main(["triage", logged(tmp_path / "a.log", FAILED["driver"][0]), "--evidence", str(tmp_path / "no")]) == 3


def test_standing_folds_nodes_and_never_takes_what_was_not_judged_for_well() -> None:
    def node(name: str, **found: Status) -> NodeResult:
        known = requirements()
        outcomes = tuple(Outcome(known[key.replace("__", ".")], status) for key, status in found.items())
        return NodeResult(name, "gb300", Verdict.ACCEPT, outcomes, "", False, None)

    nodes = [
        node("a", gpus__xid=Status.PASS),
        node("b", gpus__xid=Status.PASS),
        node("c", gpus__xid=Status.FAIL),
        node("d"),
    ]
    found = standing(combine(nodes, ()), ("gpus.xid", "fleet.members"))
    assert [(one.requirement, one.status, one.nodes) for one in found] == [
        ("gpus.xid", Status.FAIL, ("c",)),
        ("gpus.xid", Status.UNKNOWN, ("d",)),
        ("fleet.members", Status.UNKNOWN, ("a", "b", "c", "d")),
        ("gpus.xid", Status.PASS, ("a", "b")),
    ]


def started(**arguments: object) -> list[str]:
    """A start of the recipe's model, as 0.27 prints its arguments."""
    given = {"model": "moonshotai/Kimi-K3", **arguments}
    return [START[0], f"{API}{INFO}non-default args: {given}", *START[3:]]


def product(name: str) -> str:
    return f"{TP0}{INFO}Config file not found at /x/E=896,N=384,device_name={name.replace(' ', '_')}.json"


def loading_fails(name: str, **arguments: object) -> list[str]:
    return [*started(**arguments), WEIGHTS[0], product(name), *traceback(TP0, "load_weights", OOM)]


def test_what_cannot_fit_says_expand_or_move_with_the_numbers() -> None:
    answer = judged(loading_fails("NVIDIA H200", tensor_parallel_size=8))
    triaged = Triaged.of({"a.log": answer})
    assert triaged.fit is not None and triaged.fit.memory.answer is Answer.NO
    assert triaged.fit.layout == "h200-tp8"
    layouts = recipes.load().layouts
    assert triaged.fit.expand and all(layouts[name].hardware == "h200" for name in triaged.fit.expand)
    assert triaged.fit.move and not [
        name for name in triaged.fit.move if layouts[name].hardware.startswith(("h200", "mi"))
    ]
    assert all(layouts[name].tier in ("official", "vendor") for name in (*triaged.fit.expand, *triaged.fit.move))
    advice = triaged.answer.advice
    assert re.search(r"TP8 on h200 cannot fit: [\d.]+ GiB of weights a GPU, [\d.]+ GiB to put them in", advice)
    assert "expand (h200-tp16" in advice and "move to larger GPUs" in advice
    assert advice.index("Verify") < advice.index("expand")


def test_the_share_of_memory_in_the_log_is_the_one_that_counts() -> None:
    words = [
        Triaged.of(
            {"a": judged(loading_fails("NVIDIA H200", tensor_parallel_size=8, gpu_memory_utilization=share))}
        ).fit
        for share in (0.5, 0.95)
    ]
    assert [round(float(said.memory.words.split("a GPU, ")[1].split()[0])) for said in words if said] == [70, 133]


def test_what_fits_does_not_say_expand_or_move() -> None:
    triaged = Triaged.of({"a.log": judged(loading_fails("NVIDIA B300 SXM6 AC", tensor_parallel_size=8))})
    assert triaged.fit is not None and triaged.fit.memory.answer is Answer.YES
    assert not re.search(r"expand|move|more or larger", triaged.answer.advice)
    assert (triaged.answer.class_, triaged.answer.confidence) == ("environment", "possible")
    assert "gpus.idle" in triaged.answer.requirements


def test_a_context_that_does_not_fit_says_so() -> None:
    error = "ValueError: To serve at least one request with the model's max seq len (131072),"
    log = [*started(tensor_parallel_size=16, max_model_len=131072), product("NVIDIA H200"), *WEIGHTS,
           f"{TP0}{INFO}Model loading took 129.75 GiB memory and 510.0 seconds", *traceback(TP0, "get_kv_cache_configs", error)]  # fmt: skip
    triaged = Triaged.of({"a.log": judged(log)})
    assert triaged.fit is not None and triaged.fit.context.answer is Answer.NO
    assert "131,072 asked for" in triaged.answer.advice and "shorten --max-model-len" in triaged.answer.advice
    assert triaged.answer.class_ == "tuning"


@pytest.mark.parametrize(
    "log",
    [
        loading_fails("NVIDIA H200", model="another/model", tensor_parallel_size=8),
        [*START, WEIGHTS[0], product("NVIDIA H200"), *traceback(TP0, "load_weights", OOM)],
        loading_fails("NVIDIA T1000", tensor_parallel_size=8),
    ],
    ids=["another model", "no arguments", "a product nobody describes"],
)
def test_where_something_is_not_known_nothing_is_computed(log: list[str]) -> None:
    triaged = Triaged.of({"a.log": judged(log)})
    assert triaged.fit is None
    assert triaged.answer.class_ == "capacity"


def test_the_product_may_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = [*started(tensor_parallel_size=8), WEIGHTS[0], *traceback(TP0, "load_weights", OOM)]
    path = logged(tmp_path / "a.log", log)
    assert asked([path], capsys)["fit"] is None
    assert asked([path, "--hardware", "b200"], capsys)["fit"]["memory"]["answer"] == "no"
    for wrong in (["--hardware", "no-such"], ["--layout", "h200-tp8"], ["--limit", "tray01"], ["--sudo"]):
        assert main(["triage", path, *wrong]) == 3


@pytest.mark.parametrize("hardware", ["h200", "b200", "gb300", "b300", "mi355x"])
@pytest.mark.parametrize("tp", [1, 3, 8, 16])
def test_no_arithmetic_advises_lower_concurrency_at_load_time(hardware: str, tp: int) -> None:
    for log, stage, _ in FAILED.values():
        answer = judged([*started(tensor_parallel_size=tp), *log[len(START) :]])
        found = advised(answer, fitting(answer, hardware))
        if stage in LOAD_FIRST:
            assert not re.search(r"concurren|max-num-seqs", found.advice, re.I)
            assert found.requirements == answer.requirements
        else:
            assert found == answer


def test_only_memory_is_explained_by_arithmetic() -> None:
    answer = judged([*started(tensor_parallel_size=8), *FAILED["driver"][0][len(START) :]])
    assert advised(answer, fitting(answer, "h200")) == answer
