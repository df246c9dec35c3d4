"""A self-built host in the lab: built for real from a small repository on a small base image, and never accepted.

vLLM itself is not built: the base image's python3 is the lab's stand-in (lab/rackproof_lab/engine.c). git, the archive,
the container engine's build, labels, marks and the way back are the real ones.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import deploy, describe

from conftest import ROOT, Rack

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY = "tray04"
SELFBUILD, OFFICIAL = str(ROOT / "deploys/k3_selfbuild.py"), str(ROOT / "deploys/k3.py")
MODEL = "/models/Kimi-K3"
SERVING = {"install": True, "model_directory": MODEL, "interface": "eth0"}
TAGGED = "vllm/vllm-openai:v0.28.0"


class Bench:
    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder = rack, folder
        self.source = folder / "source"
        self.commit = self._repository()
        self.digests: dict[str, str] = describe(rack)["image"]
        self.base = f"docker.io/vllm/vllm-openai@{self.digests['other_index']}"
        self.tag = f"rackproof/vllm:{self.commit[:12]}-selfbuild-unsupported"

    def _repository(self) -> str:
        for name in ("pyproject.toml", "use_existing_torch.py", "requirements/build.txt"):
            path = self.source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("# a stand-in\n")
        git = ["git", "-c", "user.name=lab", "-c", "user.email=lab@example.test", "-C", str(self.source)]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *words], check=True, capture_output=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()

    def site(self, **more: Any) -> dict[str, Any]:
        asked = {"commit": self.commit, "base": self.base, "repository": str(self.source), "accept_unsupported": True}
        return {"selfbuild": {**asked, **more.pop("selfbuild", {})}, **more}

    def deploy(self, file: str, **values: Any) -> tuple[int, str]:
        return deploy(self.rack, self.folder, file, TRAY, values)

    def verdict(self) -> str:
        inventory = str(self.folder / "inventories/lab_test.py")
        done = self.rack.run("rackproof", "verify", inventory, "--limit", TRAY, "--json", "-")
        document = json.loads(done.stdout)
        return str(next(node["verdict"] for node in document["nodes"] if node["node"] == TRAY))

    def ssh(self, command: str) -> str:
        return self.rack.ssh(TRAY, command)


@pytest.fixture(scope="module")
def bench(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(deployed, tmp_path_factory.mktemp("selfbuild"))
    bench.ssh(f"mkdir -p {MODEL}")
    try:
        yield bench
    finally:
        deployed.run("rackproof-lab", "ssh", TRAY, "docker rm -f rackproof-serving; systemctl stop rackproof-serving")
        deployed.lab("restore", TRAY)


def test_a_self_build_must_be_asked_for_by_somebody_who_knows(bench: Bench) -> None:
    code, said = bench.deploy(SELFBUILD, **bench.site(selfbuild={"accept_unsupported": False}))
    assert code == 3 and "never passes for official" in said and "fail at model init" in said
    code, said = bench.deploy(SELFBUILD, **bench.site(selfbuild={"commit": "0" * 40}))
    assert code == 3 and f"has no commit {'0' * 40}" in said
    assert bench.ssh("ls /etc/rackproof/selfbuild 2>/dev/null; true").strip() == "", "nothing was begun"


def test_a_self_build_is_marked_everywhere_and_never_accepted(bench: Bench) -> None:
    code, said = bench.deploy(SELFBUILD, **bench.site(serving=SERVING))
    assert code == 0 and "UNSUPPORTED self-build" in said and "fail at model init" in said, said[-3000:]
    labels = json.loads(bench.ssh(f"docker image inspect --format '{{{{json .Config.Labels}}}}' {bench.tag}"))
    assert labels["org.rackproof.support"] == "UNSUPPORTED-SELFBUILD"
    assert labels["org.opencontainers.image.revision"] == bench.commit
    assert labels["org.opencontainers.image.base.digest"] == bench.digests["other_index"]
    assert json.loads(labels["org.rackproof.selfbuild.versions"])["torch"] == "2.13.0+lab"
    assert "@" in labels["org.rackproof.selfbuild.builder"] and labels["org.opencontainers.image.created"]
    for path in ("/etc/rackproof/selfbuild", "/etc/motd.d/rackproof-selfbuild"):
        assert bench.ssh(f"cat {path}").startswith(f"UNSUPPORTED-SELFBUILD: vLLM {bench.commit[:12]}")
    shown = bench.ssh("systemctl show -p Description --value rackproof-serving.service")
    assert shown.startswith("UNSUPPORTED-SELFBUILD")
    assert bench.verdict() == "unsupported"
    inventory = str(bench.folder / "inventories/lab_test.py")
    done = bench.rack.run("rackproof", "verify", inventory, "--limit", TRAY)
    assert "unsupported" in done.stdout.lower()
    code, said = bench.deploy(SELFBUILD, **bench.site(serving=SERVING))
    assert code == 0 and "selfbuild: in place" in said, said[-2000:]


def test_verify_ends_with_4_where_the_nodes_asked_are_all_self_built(bench: Bench) -> None:
    stream = bench.folder / "node.probe"
    probe = bench.rack.run("rackproof", "probe").stdout
    done = subprocess.run(
        ["rackproof-lab", "ssh", TRAY, "sh -s"], input=probe, env=bench.rack.env, text=True, capture_output=True, check=False
    )
    stream.write_text(done.stdout)
    judged = bench.rack.run("rackproof", "judge", str(stream), "--hardware", "gb300")
    assert judged.returncode == 4, judged.stdout[-1500:] + judged.stderr


def test_an_official_deploy_refuses_it_and_nothing_that_is_hidden_helps(bench: Bench) -> None:
    """One trace after the other is taken away; the deploy refuses and the verdict stays until the last is."""
    official = f"docker.io/vllm/vllm-openai@{bench.digests['index']}"
    for hide, still in (
        ("true", "mark: UNSUPPORTED-SELFBUILD"),
        ("rm /etc/rackproof/selfbuild /etc/motd.d/rackproof-selfbuild", "stamp: tier unsupported-selfbuild"),
        ("rm /etc/rackproof/baseline.json", "journal:"),
        ("rm /var/lib/rackproof/journal*.jsonl", "record: built"),
    ):
        bench.ssh(hide)
        code, said = bench.deploy("image_only.py")
        assert code == 1 and "was self-built" in said and still in said and "convert: true" in said, (hide, said[-1500:])
        assert bench.verdict() == "unsupported", hide
    bench.ssh("rm /var/lib/rackproof/selfbuild.record; rm -rf /etc/rackproof/history")
    assert bench.verdict() == "unsupported", "its unit starts the image"
    bench.ssh(f"docker tag {bench.tag} {TAGGED}; rm /etc/systemd/system/rackproof-serving.service")
    assert bench.verdict() == "unsupported", "it carries the official name"
    bench.ssh(f"docker pull -q {official}; docker tag {official} {TAGGED}")
    bench.ssh(f"docker run -d --rm --name web --entrypoint vllm {bench.tag} serve /none --headless; docker rmi -f {bench.tag}")
    assert bench.verdict() == "unsupported", "it runs, under another name and by its id"
    bench.ssh("docker rm -f web")


def test_digests_in_the_site_make_no_difference(bench: Bench) -> None:
    """The lab's site may name digests, a site of real hosts may not; here it names the self-built image."""
    code, said = bench.deploy(SELFBUILD, **bench.site())
    assert code == 0, said[-2000:]
    bench.ssh(f"docker tag {bench.tag} {TAGGED}")
    own = bench.ssh(f"docker image inspect --format '{{{{.Id}}}}' {bench.tag}").strip()
    pins = {"simulation": {"image": dict.fromkeys(("index", "amd64", "arm64"), own)}}
    bench.ssh("rm -f /etc/rackproof/selfbuild /etc/rackproof/baseline.json /var/lib/rackproof/selfbuild.record "
              "/var/lib/rackproof/journal*; rm -rf /etc/rackproof/history")  # fmt: skip
    bench.deploy("image_only.py", **pins)
    assert bench.verdict() == "unsupported"


def test_a_conversion_takes_everything_away_and_the_host_is_accepted(bench: Bench) -> None:
    code, said = bench.deploy(SELFBUILD, **bench.site())
    assert code == 0, said[-2000:]
    code, said = bench.deploy(OFFICIAL, convert=True)
    assert code == 0 and "Converted: what the self-build left is removed" in said, said[-3000:]
    assert bench.verdict() == "accept"
    assert "selfbuild" not in bench.ssh("docker image ls; ls /etc/rackproof /etc/motd.d /var/lib/rackproof | grep -v record")
    code, said = bench.deploy(OFFICIAL)
    assert code == 0 and "image: in place" in said, said[-2000:]
