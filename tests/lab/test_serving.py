"""A serving unit on two trays: installed, started by stages, failing at each of them, stopped, and gone back from.

The engine is the lab's stand-in (lab/rackproof_lab/engine.c) in the real container engine: it prints vLLM's lines and
answers /health. Nothing here says anything about vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import deploy, describe

from conftest import Rack, statuses

pytestmark = [pytest.mark.lab, pytest.mark.long]

UNIT, TRAYS = "lab-u01", ("tray01", "tray02")
MODEL, CACHE = "/models/Kimi-K3", "/var/cache/rackproof"
SERVING = {"install": True, "model_directory": MODEL, "cache_directory": CACHE, "interface": "eth0"}


class Bench:
    """Two trays with the unit, and the commands that act on it."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder, self.ledger = rack, folder, folder / "ledger.jsonl"

    def deploy(self, file: str = "serving_only.py", **serving: Any) -> str:
        values = {"serving": {**SERVING, **serving}, "gpus": {"expect_idle": False}}
        code, said = deploy(self.rack, self.folder, file, ",".join(TRAYS), values)
        assert code == 0, said[-3000:]
        return said

    def serve(self, *words: str) -> Any:
        inventory = str(self.folder / "inventories/lab_test.py")
        more = ("--ledger", str(self.ledger)) if words[0] == "start" else ()
        return self.rack.run("rackproof", "serve", words[0], inventory, "--limit", UNIT, *more, *words[1:])

    def verify(self) -> dict[str, dict[str, set[str]]]:
        done = self.rack.run(
            "rackproof",
            "verify",
            str(self.folder / "inventories/lab_test.py"),
            "--json",
            "-",
            "--limit",
            ",".join(TRAYS),
        )
        assert done.returncode in (0, 1, 2, 4), done.stderr
        document = json.loads(done.stdout)
        return {tray: statuses(document, tray) for tray in TRAYS}

    def ssh(self, command: str, node: str = TRAYS[0]) -> str:
        return self.rack.ssh(node, command)

    def fails(self, stage: str) -> None:
        self.ssh(f"echo {stage} >{MODEL}/lab-fails" if stage else f"rm -f {MODEL}/lab-fails")

    def start_entry(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ledger.read_text().splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def bench(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(deployed, tmp_path_factory.mktemp("serving"))
    for tray in TRAYS:
        bench.ssh(f"mkdir -p {MODEL} {CACHE}", tray)
    try:
        bench.deploy()
        yield bench
    finally:
        for tray in TRAYS:
            deployed.run(
                "rackproof-lab", "ssh", tray, "systemctl stop rackproof-serving; docker rm -f rackproof-serving web"
            )
        deployed.lab("restore")


def test_the_unit_of_each_rank_is_installed_and_not_started(bench: Bench) -> None:
    for rank, tray in enumerate(TRAYS):
        assert f"--node-rank {rank}" in bench.ssh("cat /etc/systemd/system/rackproof-serving.service", tray)
        assert "VLLM_ENGINE_READY_TIMEOUT_S=3600\n" in bench.ssh("cat /etc/rackproof/serving.env", tray)
        assert bench.ssh(
            "systemctl is-enabled rackproof-serving; systemctl is-active rackproof-serving; true", tray
        ).split() == ["disabled", "inactive"]
    assert "serving: in place" in bench.deploy()
    for found in bench.verify().values():
        ours = {
            name
            for status in ("fail", "unknown", "blocked")
            for name in found.get(status, ())
            if name.startswith("serving.")
        }
        assert not ours
        assert "serving.unit" in found["pass"]


def test_a_hand_edit_shows_and_is_not_started(bench: Bench) -> None:
    bench.ssh("sed -i s/TIMEOUT_S=3600/TIMEOUT_S=600/ /etc/rackproof/serving.env")
    try:
        assert bench.verify()[TRAYS[0]]["fail"] >= {"serving.unit", "serving.ready_timeout"}
        done = bench.serve("start")
        assert done.returncode == 1 and "/etc/rackproof/serving.env is not as the baseline renders it" in done.stdout, (
            done.stderr
        )
        assert bench.ssh("docker ps -q", TRAYS[1]).strip() == "", "the tray that could start is stopped again"
    finally:
        bench.deploy()


def test_a_start_passes_its_stages_and_leaves_evidence_and_a_stop_leaves_nothing(bench: Bench) -> None:
    done = bench.serve("start")
    assert done.returncode == 0, done.stdout + done.stderr
    for stage in ("container", "weights", "engine", "port"):
        assert f"{TRAYS[0]}: {stage}\n" in done.stderr
    assert f"{UNIT}: ready" in done.stdout and "port 8000 answers 200" in bench.serve("status").stdout
    again = bench.serve("start")
    assert again.returncode == 1 and "it runs already" in again.stdout
    entry = json.loads(bench.ledger.read_text().splitlines()[-2])
    head = entry["nodes"][0]
    assert entry["outcome"] == "ready" and entry["image"].endswith(describe(bench.rack)["image"]["index"])
    assert list(head["stages_s"]) == ["container", "weights", "engine", "port"] and head["driver"] == "580.126.20"
    assert head["arguments"][:2] == ["serve", MODEL] and head["versions"] and head["memory"]
    kept = bench.rack.run(
        "rackproof", "journal", str(bench.folder / "inventories/lab_test.py"), "--limit", TRAYS[1], "--json"
    )
    assert any(json.loads(line)["event"] == "started" for line in kept.stdout.splitlines())


def test_what_runs_is_judged_while_it_runs(bench: Bench) -> None:
    if bench.serve("status").returncode != 0:
        assert bench.serve("start").returncode == 0
    found = bench.verify()[TRAYS[0]]
    assert found["pass"] >= {"serving.running", "serving.holders", "image.selfbuild"}
    stray = f"docker.io/vllm/vllm-openai@{describe(bench.rack)['image']['other_index']}"
    bench.ssh(f"docker run -d --rm --name web --entrypoint vllm {stray} serve /none --headless")
    bench.ssh(
        "docker tag vllm/vllm-openai:v0.28.0 keep; docker rmi -f $(docker inspect -f '{{.Image}}' web) 2>/dev/null; true"
    )
    found = bench.verify()[TRAYS[0]]
    assert found["fail"] >= {"serving.running", "serving.holders"}, "a container of another image, whatever its name"
    bench.ssh("docker rm -f web; docker rmi keep")
    done = bench.serve("stop")
    assert done.returncode == 0 and f"{TRAYS[0]}: stopped" in done.stdout, done.stdout + done.stderr
    assert bench.ssh("find /proc/[0-9]*/fd -lname '/dev/nvidia[0-9]*' 2>/dev/null | wc -l").strip() == "0"


def test_a_stop_names_who_still_holds_a_gpu(bench: Bench) -> None:
    hold = "import time; f = open('/dev/nvidia9', 'w'); time.sleep(3600)"
    bench.ssh(
        f'touch /dev/nvidia9; systemd-run -q --unit=job --uid=nobody python3 -c "{hold}" || true; chmod 666 /dev/nvidia9; systemctl restart job 2>/dev/null; true'
    )
    bench.ssh(f'systemctl is-active -q job || systemd-run -q --unit=job --uid=nobody python3 -c "{hold}"')
    try:
        done = bench.serve("stop")
        assert done.returncode == 1 and "GPUs are still held by python3" in done.stderr and "user nobody" in done.stderr
        start = bench.serve("start")
        assert start.returncode == 1 and "its GPUs are in use by python3" in start.stdout
    finally:
        bench.ssh("systemctl stop job; rm -f /dev/nvidia9")


@pytest.mark.parametrize(
    ("stage", "reached", "said"),
    [
        ("start", ["container"], "container-start"),
        ("weights", ["container", "weights"], "weights-load"),
        ("engine", ["container", "weights", "engine"], "engine-init"),
    ],
)
def test_a_start_that_fails_shows_what_triage_says_and_is_stopped(
    bench: Bench, stage: str, reached: list[str], said: str
) -> None:
    bench.fails(stage)
    try:
        done = bench.serve("start")
    finally:
        bench.fails("")
    assert done.returncode == 1 and f"failed on {TRAYS[0]}" in done.stdout, done.stdout + done.stderr
    entry = bench.start_entry()
    assert list(entry["nodes"][0]["stages_s"]) == reached
    assert entry["nodes"][0]["triage"]["stage"] == said, done.stdout
    for tray in TRAYS:
        assert bench.ssh("docker ps -q", tray).strip() == ""
        assert bench.ssh("systemctl is-active rackproof-serving; true", tray).strip() == "inactive"


def test_a_port_that_never_answers_ends_at_the_deadline(bench: Bench) -> None:
    bench.fails("port")
    try:
        done = bench.serve("start", "--timeout", "4")
    finally:
        bench.fails("")
    assert done.returncode == 1 and f"not ready after 4 s: {TRAYS[0]}" in done.stdout
    assert bench.ssh("docker ps -q").strip() == ""


def test_a_rollback_returns_to_the_unit_before(bench: Bench) -> None:
    before = bench.ssh("sha256sum /etc/systemd/system/rackproof-serving.service /etc/rackproof/serving.env")
    bench.deploy(ports={"serve": 8100}, env={"NCCL_DEBUG": "WARN"})
    assert "--port 8100" in bench.ssh("cat /etc/systemd/system/rackproof-serving.service")
    assert bench.serve("start").returncode == 0
    assert "port 8100 answers 200" in bench.serve("status").stdout
    assert bench.serve("stop").returncode == 0
    said = bench.deploy("serving_back.py", ports={"serve": 8100}, env={"NCCL_DEBUG": "WARN"})
    assert "group_vars still ask for" in said
    assert bench.ssh("sha256sum /etc/systemd/system/rackproof-serving.service /etc/rackproof/serving.env") == before
    bench.deploy()
    assert bench.serve("start").returncode == 0
    assert "port 8000 answers 200" in bench.serve("status").stdout
    assert bench.serve("stop").returncode == 0


def test_a_site_that_wants_it_started_gets_it_started_and_a_changed_unit_needs_consent(bench: Bench) -> None:
    bench.deploy(start=True)
    try:
        assert bench.ssh("systemctl is-enabled rackproof-serving; systemctl is-active rackproof-serving").split() == [
            "enabled",
            "active",
        ]
        assert "serving: in place" in bench.deploy(start=True)
        values = {"serving": {**SERVING, "start": True, "ports": {"serve": 8200}}, "gpus": {"expect_idle": False}}
        code, said = deploy(bench.rack, bench.folder, "serving_only.py", TRAYS[0], values)
        assert code == 1 and "its GPUs are in use by" in said
    finally:
        bench.deploy()
        bench.serve("stop")
