"""Many files give the result that the same evidence gives at once, in whatever process it is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from core_builders import Rack, evidence, section, wait_until

from rackproof.cli import main
from rackproof.errors import InputError
from rackproof.evidence.bundle import bundle_paths, write_bundle
from rackproof.evidence.evidence import Evidence
from rackproof.gathering import Gathering
from rackproof.inventory import load_targets
from rackproof.judging import judge_all, judge_one, plan_for_evidence
from rackproof.judging_files import Asked, judge_files
from rackproof.verdict.evaluate import Result
from rackproof.verdict.model import Status, Verdict
from rackproof.verdict.report import json_report

GPU = b'<gpu id="00000008:06:00.0"><product_name>NVIDIA %s</product_name></gpu>'


def node(name: str, product: bytes = b"GB300") -> Evidence:
    xml = b"<nvidia_smi_log><attached_gpus>1</attached_gpus>" + GPU % product + b"</nvidia_smi_log>"
    return replace(evidence(name), sections={"nvidia_smi_xml": section("nvidia_smi_xml", xml)})


def folder(where: Path, *items: Evidence) -> Path:
    for item in items:
        write_bundle(where / f"{item.node}.tar.gz", item)
    return where


def same(one: Result, other: Result) -> bool:
    return json_report.document(one) == json_report.document(other)


def judged(path: Path, workers: int = 1, **asked: object) -> Result:
    return judge_files(bundle_paths(path), Asked(**asked), lambda: None, workers)  # type: ignore[arg-type]


def test_worker_processes_give_the_same_result_as_one(tmp_path: Path) -> None:
    items = [node(f"t{number:03d}", b"B300 SXM6 AC" if number % 5 == 0 else b"GB300") for number in range(140)]
    path = folder(tmp_path / "all", *items)
    at_once = judge_all(plan_for_evidence(items), {item.node: item for item in items})
    told: list[int] = []
    by_two = judge_files(bundle_paths(path), Asked(), lambda: told.append(1), workers=2)
    assert same(at_once, judged(path)) and same(at_once, by_two)
    assert len(told) == 140 and [result.node for result in by_two.nodes] == [item.node for item in items]
    assert len({id(result.baseline) for result in by_two.nodes}) == 2, "one baseline a product, however many nodes"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_is_no_evidence_is_named(tmp_path: Path, workers: int) -> None:
    path = folder(tmp_path / "all", *(node(f"t{number:03d}") for number in range(130)))
    (path / "t060.tar.gz").write_bytes(b"\x1f\x8bnot an archive")
    with pytest.raises(InputError, match=r"t060.tar.gz: is not a readable archive"):
        judged(path, workers)


def test_two_files_of_one_node_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path / "all", node("t1"))
    write_bundle(path / "u.tar.gz", node("t1"))
    with pytest.raises(InputError, match=r"t1.tar.gz and .*u.tar.gz: two pieces of evidence are of node 't1'"):
        judged(path)


def test_evidence_without_a_node_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "junk.txt").write_text("nothing of ours\n")
    with pytest.raises(InputError, match=r"junk.txt: "):
        judged(tmp_path)


def test_another_nonce_proves_nothing(tmp_path: Path) -> None:
    path = folder(tmp_path / "all", node("t1"))
    assert judged(path, nonce="friday").nodes[0].verdict is Verdict.UNDETERMINED
    assert same(judged(path, nonce=node("t1").nonce), judged(path))


def test_an_inventory_s_nodes_and_units_whatever_the_order_of_files(tmp_path: Path, site_folder: Rack) -> None:
    inventory = site_folder.inventory(
        'g = rack("t[1-6]", group="gb300", nvlink_domain="r", units=["t1,t6", "t2,t5", "t3,t4"])'
    )
    plan = load_targets([inventory])
    items = [node(f"t{number}") for number in (1, 2, 3, 5, 6)]
    path = folder(tmp_path / "all", *items, node("stranger"))
    at_once = judge_all(plan, {item.node: item for item in items})
    found = judged(path, plan=plan)
    assert same(at_once, found)
    assert [result.node for result in found.nodes] == [f"t{number}" for number in range(1, 7)]
    assert (
        next(o for o in found.nodes[3].outcomes if o.status is Status.UNKNOWN).reason
        == "no evidence of this node was given"
    )
    limited = load_targets([inventory], limit="t[1-2]")
    assert same(judge_all(limited, {item.node: item for item in items[:2]}), judged(path, plan=limited))


def test_limit_without_an_inventory_keeps_the_others_as_left_out(tmp_path: Path) -> None:
    items = [node("t1"), node("t2")]
    path = folder(tmp_path / "all", *items)
    found = judged(path, only=frozenset({"t1"}))
    wanted = judge_all(plan_for_evidence(items).limited(("t1",)), {"t1": items[0]})
    assert same(found, wanted)
    with pytest.raises(InputError, match="--limit: there is no evidence of t9"):
        judged(path, only=frozenset({"t9"}))


def test_facts_are_let_go_as_soon_as_nothing_needs_them(site_folder: Rack) -> None:
    plan = load_targets([site_folder.inventory('g = rack("t[1-4]", group="gb300", spares="t3,t4")')])
    gathering = Gathering(plan.units)
    held = []
    for item in plan.nodes:
        gathering.add(*judge_one(item, node(item.name)))
        held.append(len(gathering._facts))
    assert held == [1, 0, 0, 0]
    alone = Gathering()
    for number in range(60):
        alone.add(*judge_one(replace(plan.nodes[0], name=f"n{number}"), node(f"n{number}")))
    assert not alone._facts


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    path = folder(tmp_path / "all", *(node(f"t{number:03d}") for number in range(130)))
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom rackproof.judging_files import Asked, judge_files\n"
        "def tell():\n    print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)\n    sys.stdin.read()\n"
        "if __name__ == '__main__':\n    judge_files(sorted(Path(sys.argv[1]).iterdir()), Asked(), tell, 2)\n"
    )
    (tmp_path / "run.py").write_text(script)
    command = [sys.executable, str(tmp_path / "run.py"), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        process.kill()
    assert len(workers) >= 2
    wait_until(
        lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers), "workers outlive their parent"
    )


def test_the_command_takes_many_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "all", *(node(f"t{number:03d}") for number in range(40)))
    report = tmp_path / "verdict.json"
    assert main(["judge", str(path), "--json", str(report)]) == 1
    document = json.loads(report.read_text())
    assert len(document["nodes"]) == 40
    assert "judging: 40 of 40" in capsys.readouterr().err
    few = folder(tmp_path / "few", *(node(f"t{number:03d}") for number in range(3)))
    assert main(["judge", str(few), "-q"]) == 1 and capsys.readouterr().err == ""
