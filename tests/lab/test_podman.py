"""Real podman in place of docker: from bare trays to accepted, its storage, and the unit that serves.

tray01 has no docker at all, tray02 keeps the one that was there. The engine of the image is the lab's stand-in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import deploy, describe, site

from conftest import LAB_ID, ROOT, Rack, all_accepted, rack_of, statuses

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAYS = ("tray01", "tray02")
UNIT, MODEL, CACHE = "lab-u01", "/models/Kimi-K3", "/var/cache/rackproof"
PODMAN: dict[str, Any] = {"container": {"engine": "podman"}}
SERVING = {
    "serving": {"install": True, "model_directory": MODEL, "cache_directory": CACHE, "interface": "eth0"},
    "gpus": {"expect_idle": False},
}
PORT, SECRET = 5443, "s3cret-of-the-lab"
DOCKER_PACKAGES = "docker.io docker-cli containerd runc"
IN_STORAGE = "podman image inspect --format '{{.RepoDigests}}' docker.io/vllm/vllm-openai:v0.28.0"


class Bench:
    """Two trays and a site folder; `values` of a call come on top of a site that names podman."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder = rack, folder
        self.image: dict[str, str] = describe(rack)["image"]

    def deploy(
        self, values: dict[str, Any] | None = None, file: str = "../../deploys/k3.py", node: str = ",".join(TRAYS), **env: str
    ) -> tuple[int, str]:
        return deploy(self.rack, self.folder, file, node, {**PODMAN, **(values or {})}, **env)

    def verify(self, values: dict[str, Any] | None = None) -> dict[str, Any]:
        inventory = site(self.folder, {**PODMAN, **(values or {})})
        done = self.rack.run("rackproof", "verify", str(inventory), "--json", "-")
        assert done.returncode in (0, 1, 2), done.stderr[-3000:]
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def serve(self, *words: str) -> subprocess.CompletedProcess[str]:
        inventory, ledger = site(self.folder, {**PODMAN, **SERVING}), self.folder / "ledger.jsonl"
        more = ("--ledger", str(ledger)) if words[0] == "start" else ()
        return self.rack.run("rackproof", "serve", words[0], str(inventory), "--limit", UNIT, *more)

    def ssh(self, command: str, node: str = TRAYS[0]) -> str:
        return self.rack.ssh(node, command)

    def empty(self, node: str = TRAYS[0]) -> None:
        self.ssh("podman rmi -af >/dev/null 2>&1; rm -rf /etc/rackproof/image /etc/containers/certs.d", node)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two bare trays."""
    with rack_of(f"{LAB_ID[:12]}-pod", len(TRAYS), "--state", "bare") as rack:
        rack.ssh(TRAYS[0], f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y purge {DOCKER_PACKAGES} >/dev/null 2>&1")
        for tray in TRAYS:  # the lab's way of running docker in the unit, in a mount namespace that podman does not need
            rack.ssh(tray, "rm -r /etc/systemd/system/rackproof-serving.service.d; systemctl daemon-reload")
        yield Bench(rack, tmp_path_factory.mktemp("podman"))


@pytest.fixture(scope="module")
def deployed(bench: Bench) -> Bench:
    code, said = bench.deploy()
    assert code == 0, said[-4000:]
    return bench


def observed(document: dict[str, Any], node: str, requirement: str) -> tuple[str, str]:
    outcomes = next(one for one in document["nodes"] if one["node"] == node)["outcomes"]
    found = next(one for one in outcomes if one["requirement"] == requirement)
    return found["status"], found["observed"] or found["reason"]


def test_a_docker_that_is_there_is_not_the_engine_that_is_asked_for(bench: Bench) -> None:
    document = bench.verify()
    assert document["verdict"] == "reject"
    for tray in TRAYS:
        assert observed(document, tray, "container_runtime.engine") == ("fail", "engine: none installed")
    assert bench.ssh("systemctl is-active docker", TRAYS[1]).strip() == "active"


def test_bare_trays_are_accepted_and_a_second_deploy_changes_nothing(deployed: Bench) -> None:
    document = deployed.verify()
    assert all_accepted(document), {tray: statuses(document, tray) for tray in TRAYS}
    for tray in TRAYS:
        assert "container_runtime.live_restore" not in statuses(document, tray).get("pass", set())
        assert observed(document, tray, "container_runtime.live_restore")[0] == "not_applicable"
    plan = deployed.rack.run("rackproof", "plan", str(site(deployed.folder, PODMAN)), "--file", str(ROOT / "deploys/k3.py"))
    assert plan.returncode == 0 and "Nothing to change" in plan.stdout, plan.stdout[-3000:]
    code, said = deployed.deploy()
    assert code == 0 and "Lock the node" not in said, said[-3000:]
    for tray in TRAYS:
        for layer in ("host", "gpu_driver", "nvlink", "container_runtime", "image", "stamp"):
            assert f"[{tray}] {layer}: in place" in said


def test_what_is_on_the_trays(deployed: Bench) -> None:
    for tray in TRAYS:
        digests = deployed.ssh(IN_STORAGE, tray)
        assert deployed.image["index"] in digests and deployed.image["amd64"] in digests
        assert deployed.ssh("ls /var/run/cdi/nvidia.yaml /etc/docker/daemon.json 2>/dev/null; true", tray).split() == ["/var/run/cdi/nvidia.yaml"]
        assert deployed.ssh("systemctl is-enabled nvidia-cdi-refresh.path nvidia-cdi-refresh.service", tray).split() == ["enabled"] * 2
    assert "absent" in deployed.ssh("command -v docker || echo absent")
    assert deployed.ssh("docker image ls -q", TRAYS[1]).strip() == "", "docker beside it is left as it was"


def test_after_a_boot_spec_and_image_are_there_again(deployed: Bench) -> None:
    deployed.ssh("systemctl disable -q --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service")
    code, said = deployed.deploy(node=TRAYS[0])
    assert code == 0 and "The CDI spec is refreshed at boot" in said, said[-3000:]
    before = deployed.ssh("cat /proc/sys/kernel/random/boot_id")
    deployed.rack.lab("snapshot")
    deployed.rack.lab("restore", TRAYS[0])  # as after a power cut
    after = deployed.ssh("systemctl is-system-running --wait >/dev/null; cat /proc/sys/kernel/random/boot_id /var/run/cdi/nvidia.yaml")
    assert before.strip() not in after and "nvidia.com/gpu" in after
    assert statuses(deployed.verify(), TRAYS[0])["pass"] >= {
        "container_runtime.engine", "container_runtime.cdi", "container_runtime.configuration", "image.digest",
    }  # fmt: skip


def test_a_site_with_docker_rejects_the_tray_that_has_podman_only(deployed: Bench) -> None:
    document = deployed.verify({"container": {"engine": "docker"}})
    assert observed(document, TRAYS[0], "container_runtime.engine")[0] == "fail"
    assert "container_runtime.engine" in statuses(document, TRAYS[0])["fail"]


# --- the image ---


def test_a_wrong_digest_is_refused(deployed: Bench) -> None:
    deployed.empty()
    wrong = {"simulation": {"image": {"index": "sha256:" + "0" * 64}}}
    code, said = deployed.deploy(wrong, "image_only.py", TRAYS[0])
    assert code == 1 and "the registry does not have docker.io/vllm/vllm-openai@sha256:" in said, said[-3000:]
    assert deployed.ssh("podman image ls -aq").strip() == ""
    moved = {"simulation": {"image": {"index": deployed.image["other_index"]}}}
    assert deployed.deploy(moved, "image_only.py", TRAYS[0])[0] == 0
    assert "image.digest" in statuses(deployed.verify(), TRAYS[0])["fail"]
    code, said = deployed.deploy(None, "image_only.py", TRAYS[0])
    assert code == 0 and "stays, as docker.io/vllm/vllm-openai:rackproof-previous" in said, said[-3000:]
    assert "image.digest" in statuses(deployed.verify(), TRAYS[0])["pass"]
    code, said = deployed.deploy(None, "image_only.py", TRAYS[0])
    assert code == 0 and "image: in place" in said


@pytest.fixture
def proxied(deployed: Bench) -> Iterator[Path]:
    """The registry behind a proxy that does as a file tells it (rackproof_lab/proxy.py); the file."""
    lab, faults = describe(deployed.rack), deployed.folder / "faults.json"
    state, url = Path(lab["ca"]).parent, lab["registry"]["url"]
    faults.write_text('{"rules": [], "login": ""}')
    process = subprocess.Popen(
        ["rackproof-lab", "exec", sys.executable, "-m", "rackproof_lab.proxy", url.removeprefix("https://"), str(PORT), url,
         str(state / "ca.crt"), str(state / "chain.crt"), str(state / "server.key"), str(faults)],
        env={**deployed.rack.env, "PYTHONPATH": f"{ROOT}/lab"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield faults
    finally:
        process.kill()
        process.wait()


def test_what_podman_refuses_is_said_as_of_docker(deployed: Bench, proxied: Path) -> None:
    host = describe(deployed.rack)["registry"]["url"].removeprefix("https://")
    through = {"image": {"repository": f"{host}:{PORT}/vllm/vllm-openai"}}
    deployed.empty()
    proxied.write_text(json.dumps({"rules": [{"path": "blobs/", "do": "tamper"}], "login": ""}))
    code, said = deployed.deploy(through, "image_only.py", TRAYS[0])
    assert code == 1 and "does not have the pinned digest, and was thrown away" in said, said[-3000:]
    assert deployed.ssh("podman image ls -aq").strip() == ""
    proxied.write_text(json.dumps({"rules": [], "login": f"puller:{SECRET}"}))
    code, said = deployed.deploy(through, "image_only.py", TRAYS[0])
    assert code == 1 and "the registry wants a login: podman login" in said, said[-3000:]
    given = {"RACKPROOF_REGISTRY_HOST": f"{host}:{PORT}", "RACKPROOF_REGISTRY_USER": "puller", "RACKPROOF_REGISTRY_PASSWORD": SECRET}
    code, said = deployed.deploy(through, "image_only.py", TRAYS[0], **given)
    assert code == 0 and SECRET not in said, said[-3000:]
    assert deployed.ssh("ls -A /run/rackproof; ls /run/containers/0/auth.json 2>/dev/null; true").strip() == ""
    proxied.write_text(json.dumps({"rules": [{"path": "blobs/", "do": "cut", "times": 1}], "login": ""}))
    deployed.empty()
    code, said = deployed.deploy(through, "image_only.py", TRAYS[0])
    assert code == 0, "podman tries again by itself, or the deploy does:" + said[-3000:]
    deployed.empty()
    assert deployed.deploy(None, "image_only.py", TRAYS[0])[0] == 0


def test_an_archive_is_proven_and_one_that_was_changed_is_refused(deployed: Bench) -> None:
    lab, path = describe(deployed.rack), deployed.folder / "layout.tar"
    done = deployed.rack.run("rackproof-lab", "exec", "python", str(ROOT / "tests/lab/oci_layout.py"),
                             lab["registry"]["url"], lab["ca"], deployed.image["index"], str(path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    on_host = {"image": {"archive": {"host": "/root/archive.tar"}, "free_bytes": 1}}
    data = path.read_bytes()
    deployed.empty()
    for content, wanted in ((data.replace(b"\x1f\x8b\x08", b"\x1f\x8b\x09"), 1), (data, 0)):
        put = subprocess.run(["rackproof-lab", "ssh", TRAYS[0], "cat >/root/archive.tar"], env=deployed.rack.env, input=content, check=False)
        assert put.returncode == 0
        code, said = deployed.deploy(on_host, "image_only.py", TRAYS[0])
        assert code == wanted, said[-3000:]
        if wanted:
            assert "podman load refused" in said and deployed.ssh("podman image ls -aq").strip() == ""
    assert deployed.image["index"] in deployed.ssh(IN_STORAGE), "podman keeps the digests of an OCI layout"
    assert statuses(deployed.verify(), TRAYS[0])["pass"] >= {"image.digest", "image.architecture", "image.cuda"}
    code, said = deployed.deploy(on_host, "image_only.py", TRAYS[0])
    assert code == 0 and "image: in place" in said


def test_what_podman_save_wrote_is_known_by_its_proof_alone(deployed: Bench) -> None:
    """It has lost the manifests, and podman gives it the digest of one of its own."""
    reference, kept = f"docker.io/vllm/vllm-openai@{deployed.image['index']}", deployed.folder / "manifests"
    values = {
        "hardware": "b300", "image": {"ca_file": describe(deployed.rack)["ca"]},
        "simulation": {"architecture": "x86_64", "image": {key: deployed.image[key] for key in ("index", "amd64", "arm64")}},
    }  # fmt: skip
    (deployed.folder / "site.yaml").write_text(json.dumps(values))
    done = deployed.rack.run("rackproof-lab", "exec", "rackproof", "image", "resolve", reference,
                             "--site", str(deployed.folder / "site.yaml"), "--manifests", str(kept))  # fmt: skip
    assert done.returncode == 0, done.stderr
    deployed.ssh("rm -f /root/archive.tar; podman save -q -o /root/archive.tar docker.io/vllm/vllm-openai:v0.28.0")
    archive = {"image": {"archive": {"host": "/root/archive.tar", "manifests": str(kept)}, "free_bytes": 1}}
    deployed.empty()
    code, said = deployed.deploy(archive, "image_only.py", TRAYS[0])
    assert code == 0, said[-3000:]
    assert deployed.image["index"] not in deployed.ssh(IN_STORAGE)
    assert statuses(deployed.verify(), TRAYS[0])["pass"] >= {"image.digest", "image.architecture", "image.cuda"}
    code, said = deployed.deploy(archive, "image_only.py", TRAYS[0])
    assert code == 0 and "image: in place" in said
    deployed.ssh("rm -r /etc/rackproof/image")
    assert "image.digest" in statuses(deployed.verify(), TRAYS[0])["fail"], "without the proof it is just some image"
    deployed.empty()
    assert deployed.deploy(None, "image_only.py", TRAYS[0])[0] == 0


# --- serving ---


def test_the_unit_serves_in_podman_and_leaves_nothing(deployed: Bench) -> None:
    for tray in TRAYS:
        deployed.ssh(f"mkdir -p {MODEL} {CACHE}", tray)
    code, said = deployed.deploy(SERVING, "serving_only.py")
    assert code == 0, said[-3000:]
    assert "podman run --rm" in deployed.ssh("cat /etc/systemd/system/rackproof-serving.service")
    started = deployed.serve("start")
    assert started.returncode == 0, started.stdout[-3000:] + started.stderr[-2000:]
    entry = json.loads((deployed.folder / "ledger.jsonl").read_text().splitlines()[-1])
    here = "sha256:" + deployed.ssh("podman image inspect --format '{{.Id}}' docker.io/vllm/vllm-openai:v0.28.0").strip()
    assert entry["outcome"] == "ready" and entry["nodes"][0]["running_image"] == here
    document = deployed.verify(SERVING)
    for tray in TRAYS:
        found = statuses(document, tray)
        assert {"serving.unit", "serving.image", "serving.running"} <= found["pass"], found
        assert "serving.holders" in found["pass"]
    stopped = deployed.serve("stop")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    for tray in TRAYS:
        assert deployed.ssh("podman ps -aq", tray).strip() == ""
