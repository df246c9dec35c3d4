"""The image from a real registry onto a real engine: by digest, through a registry that misbehaves, from an archive.

The proxy in front of the lab's registry (rackproof_lab/proxy.py) cuts, changes bytes, limits and asks for a login.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_site import deploy, describe

from conftest import ROOT, Rack, statuses

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRAY, PORT, STRANGE_PORT = "tray04", 5443, 5444
SECRET = "s3cret-of-the-lab"


class Bench:
    """One tray without the image, and a registry that does as it is told."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder, self.lab = rack, folder, describe(rack)
        self.digests: dict[str, str] = self.lab["image"]
        self.host = self.lab["registry"]["url"].removeprefix("https://")
        self.faults = folder / "faults.json"
        self.rule()

    def rule(self, *rules: dict[str, Any], login: str = "") -> None:
        self.faults.write_text(json.dumps({"rules": rules, "login": login}))

    @property
    def through_proxy(self) -> dict[str, Any]:
        return {"image": {"repository": f"{self.host}:{PORT}/vllm/vllm-openai"}}

    def deploy(self, values: dict[str, Any], **env: str) -> tuple[int, str]:
        return deploy(self.rack, self.folder, "image_only.py", TRAY, values, **env)

    def cli(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.rack.run("rackproof-lab", "exec", "rackproof", "image", *words, env=env)

    def ssh(self, command: str) -> str:
        return self.rack.ssh(TRAY, command)

    def empty(self) -> None:
        """Take every image off the tray, and what a pull that failed left."""
        self.ssh("docker image ls -aq | sort -u | xargs -r docker image rm -f >/dev/null; rm -rf /etc/rackproof/image "
                 "/var/lib/rackproof /etc/docker/certs.d")  # fmt: skip


@pytest.fixture(scope="module")
def proxied(deployed: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(deployed, tmp_path_factory.mktemp("image"))
    state = Path(bench.lab["ca"]).parent
    started = [_proxy(bench, PORT, state, state), _proxy(bench, STRANGE_PORT, state, _strange_certificate(bench))]
    try:
        yield bench
    finally:
        for process in started:
            process.kill()
            process.wait()
        deployed.lab("restore", TRAY)


def _proxy(bench: Bench, port: int, state: Path, certificate: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        ["rackproof-lab", "exec", sys.executable, "-m", "rackproof_lab.proxy", bench.host, str(port),
         bench.lab["registry"]["url"], str(state / "ca.crt"), str(certificate / "chain.crt"),
         str(certificate / "server.key"), str(bench.faults)],
        env={**bench.rack.env, "PYTHONPATH": f"{ROOT}/lab"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _strange_certificate(bench: Bench) -> Path:
    """A certificate that no CA of the lab signed."""
    folder = bench.folder / "strange"
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=strange", "-addext", f"subjectAltName=IP:{bench.host}", "-keyout", str(folder / "server.key"),
         "-out", str(folder / "chain.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def bench(proxied: Bench) -> Bench:
    proxied.empty()
    proxied.rule()
    return proxied


def verdict(bench: Bench) -> dict[str, set[str]]:
    return statuses(bench.rack.verify("--limit", TRAY), TRAY)


# --- asking the registry ---


@pytest.fixture
def site(bench: Bench) -> str:
    path = bench.folder / "site.yaml"
    pins = {key: bench.digests[key] for key in ("index", "amd64", "arm64")}
    values = {
        "hardware": "b300",
        "image": {"ca_file": bench.lab["ca"]},
        "simulation": {"architecture": "x86_64", "image": pins},
    }
    path.write_text(json.dumps(values))
    return str(path)


def test_resolve_and_check(bench: Bench, site: str) -> None:
    done = bench.cli("resolve", "vllm/vllm-openai:v0.28.0", "--site", site, "--json", "-")
    found = json.loads(done.stdout)
    assert found["index"] == bench.digests["index"]
    assert {name: one["digest"] for name, one in found["platforms"].items()} == {
        k: bench.digests[k] for k in ("amd64", "arm64")
    }
    done = bench.cli("check", "--site", site)
    assert done.returncode == 0 and "v0.28.0 is the pinned image" in done.stdout, done.stdout + done.stderr
    done = bench.cli("check", f"registry.lab/vllm/vllm-openai@{bench.digests['index']}")
    assert done.returncode == 2 and "its certificate is not trusted" in done.stdout


def test_a_moved_tag_whose_old_image_was_deleted(bench: Bench, site: str) -> None:
    bench.rack.lab("break", TRAY, "image-digest-changed")
    try:
        done = bench.cli("check", "--site", site)
        assert done.returncode == 1
        assert f"has no {bench.digests['index']}" in done.stdout and "v0.28.0 has moved" in done.stdout
        bench.empty()
        code, said = bench.deploy({})
        assert code == 1 and "the registry does not have docker.io/vllm/vllm-openai@sha256:" in said
    finally:
        bench.rack.lab("heal", TRAY, "image-digest-changed")
    assert bench.cli("check", "--site", site).returncode == 0


def test_login_and_rate_limit_from_the_command_line(bench: Bench, site: str) -> None:
    bench.rule(
        {"path": "manifests/v0", "do": 429, "times": 1, "headers": {"Retry-After": "1"}}, login=f"puller:{SECRET}"
    )
    name = f"{bench.host}:{PORT}/vllm/vllm-openai:v0.28.0"
    assert "wants a login" in bench.cli("resolve", name, "--site", site).stderr
    given = {"RACKPROOF_REGISTRY_HOST": f"{bench.host}:{PORT}", "RACKPROOF_REGISTRY_USER": "puller"}
    done = bench.cli("resolve", name, "--site", site, **given, RACKPROOF_REGISTRY_PASSWORD=SECRET)
    assert done.returncode == 0 and bench.digests["index"] in done.stdout, done.stderr
    wrong = bench.cli("resolve", name, "--site", site, **given, RACKPROOF_REGISTRY_PASSWORD="wrong")
    assert wrong.returncode == 3 and "does not take the credentials" in wrong.stderr


# --- pulling ---


def test_pull_is_verified_tagged_and_not_repeated(bench: Bench) -> None:
    code, said = bench.deploy({})
    assert code == 0, said[-3000:]
    assert verdict(bench)["pass"] >= {"image.digest", "image.architecture", "image.cuda"}
    code, said = bench.deploy({})
    assert code == 0 and "image: in place" in said


def test_the_image_that_was_there_before_stays(bench: Bench) -> None:
    other = f"docker.io/vllm/vllm-openai@{bench.digests['other_index']}"
    bench.ssh(f"docker pull -q {other}; docker tag {other} vllm/vllm-openai:v0.28.0")
    before = bench.ssh("docker image inspect --format '{{.Id}}' vllm/vllm-openai:v0.28.0")
    code, said = bench.deploy({})
    assert code == 0 and "stays, as docker.io/vllm/vllm-openai:rackproof-previous" in said, said[-3000:]
    assert bench.ssh("docker image inspect --format '{{.Id}}' vllm/vllm-openai:rackproof-previous") == before
    assert bench.ssh("docker image inspect --format '{{.Id}}' vllm/vllm-openai:v0.28.0") != before
    assert "image.digest" in verdict(bench)["pass"]


def test_a_registry_that_drops_the_line_at_half(bench: Bench) -> None:
    bench.rule({"path": "blobs/", "do": "cut", "times": 1}, {"path": "manifests/sha256:", "do": "cut", "times": 1})
    code, said = bench.deploy({**_room(bench, 1)})
    assert code == 0 and "broke off and is started again" in said, said[-3000:]


def test_bytes_that_were_changed_on_the_way(bench: Bench) -> None:
    layer = {"path": "blobs/", "do": "tamper"}
    bench.rule(layer)
    code, said = bench.deploy(_room(bench, 1))
    assert code == 1 and "does not have the pinned digest, and was thrown away" in said, said[-3000:]
    assert "vllm" not in bench.ssh("docker image ls -a --format '{{.Repository}}'")
    bench.rule()
    assert bench.deploy(_room(bench, 1))[0] == 0


def _room(bench: Bench, size: int) -> dict[str, Any]:
    """Through the proxy, without asking the registry for the size first."""
    return {"image": {**bench.through_proxy["image"], "free_bytes": size}}


def test_a_platform_that_the_image_does_not_have(bench: Bench) -> None:
    index = bench.rack.run("rackproof-lab", "exec", "python", str(ROOT / "tests/lab/arm_only.py"),
                           bench.lab["registry"]["url"], bench.lab["ca"], bench.digests["index"])  # fmt: skip
    pins = {"simulation": {"image": {"index": index.stdout.strip()}}}
    asked = {"image": {"repository": f"{bench.host}/vllm/vllm-openai", "free_bytes": None}}
    code, said = bench.deploy({**pins, **asked})
    assert code == 1 and "has no linux/amd64, which this host needs; it has linux/arm64" in said, (
        said[-3000:] + index.stderr
    )
    code, said = bench.deploy({**pins, **_room(bench, 1)})  # the engine says it too, where nobody asked before
    assert code == 1 and "has no linux/amd64, which this host needs" in said, said[-3000:]


def test_a_certificate_of_another_ca(bench: Bench) -> None:
    strange = {"repository": f"{bench.host}:{STRANGE_PORT}/vllm/vllm-openai"}
    code, said = bench.deploy({"image": strange})
    assert code == 1 and "the registry's certificate is not trusted on this host (image.ca_file)" in said, said[-3000:]
    code, said = bench.deploy({"image": {**strange, "ca_file": str(bench.folder / "strange/chain.crt")}})
    assert code == 0, said[-3000:]


def test_login_reaches_the_engine_and_nothing_else(bench: Bench) -> None:
    bench.rule(login=f"puller:{SECRET}")
    code, said = bench.deploy(bench.through_proxy)
    assert code == 1 and "the registry wants a login" in said, said[-3000:]
    given = {"RACKPROOF_REGISTRY_HOST": f"{bench.host}:{PORT}", "RACKPROOF_REGISTRY_USER": "puller"}
    code, said = bench.deploy(bench.through_proxy, **given, RACKPROOF_REGISTRY_PASSWORD=SECRET)
    assert code == 0 and SECRET not in said, said[-3000:]
    assert bench.ssh("ls -A /run/rackproof; ls -A /root/.docker 2>/dev/null; true").strip() == ""


def test_too_little_room_is_said_before_and_a_full_disk_after(bench: Bench) -> None:
    code, said = bench.deploy(_room(bench, 10**15))
    assert code == 1 and f"and the image needs {10**15} (image.free_bytes, a test)" in said, said[-3000:]
    bench.ssh("mount -t tmpfs -o size=64k none /var/lib/docker/tmp")
    try:
        code, said = bench.deploy(_room(bench, 1))
        assert code == 1 and "the disk of the engine ran full while pulling" in said, said[-3000:]
    finally:
        bench.ssh("umount /var/lib/docker/tmp")
    assert bench.deploy(_room(bench, 1))[0] == 0


# --- without a registry ---


@pytest.fixture
def layout(bench: Bench) -> Path:
    """An OCI layout of the image, as skopeo writes it."""
    path = bench.folder / "layout.tar"
    if not path.exists():
        done = bench.rack.run("rackproof-lab", "exec", "python", str(ROOT / "tests/lab/oci_layout.py"),
                              bench.lab["registry"]["url"], bench.lab["ca"], bench.digests["index"], str(path))  # fmt: skip
        assert done.returncode == 0, done.stderr
    return path


def put(bench: Bench, path: Path) -> None:
    """Give the tray a file as /root/archive.tar."""
    done = subprocess.run(
        ["rackproof-lab", "ssh", TRAY, "cat >/root/archive.tar"], env=bench.rack.env, stdin=path.open("rb"), check=False
    )
    assert done.returncode == 0


ON_HOST = {"image": {"archive": {"host": "/root/archive.tar"}, "free_bytes": 1}}


def test_import_of_an_oci_layout_is_proven(bench: Bench, layout: Path) -> None:
    put(bench, layout)
    code, said = bench.deploy(ON_HOST)
    assert code == 0, said[-3000:]
    assert "none" in bench.ssh("docker image ls --digests --format '{{.Digest}}'"), "the engine knows no digest of it"
    assert verdict(bench)["pass"] >= {"image.digest", "image.architecture", "image.cuda"}
    code, said = bench.deploy(ON_HOST)
    assert code == 0 and "image: in place" in said
    bench.ssh("rm -r /etc/rackproof/image")
    assert "image.digest" in verdict(bench)["fail"], "without the proof it is just some image"


def test_import_from_this_machine_of_what_docker_save_wrote(bench: Bench, site: str) -> None:
    """docker save loses the manifests, so they come from `image resolve --manifests`."""
    reference = f"docker.io/vllm/vllm-openai@{bench.digests['index']}"
    bench.ssh(f"docker pull -q {reference} && docker save -o /root/saved.tar $(docker image ls -q)")
    saved, kept = bench.folder / "saved.tar", bench.folder / "manifests"
    with saved.open("wb") as out:
        subprocess.run(
            ["rackproof-lab", "ssh", TRAY, "cat /root/saved.tar"], env=bench.rack.env, stdout=out, check=True
        )
    bench.empty()
    control = {"image": {"archive": {"control": str(saved)}, "free_bytes": 1}}
    code, said = bench.deploy(control)
    assert code == 1 and "the archive holds neither the pinned index" in said, said[-3000:]
    assert bench.cli("resolve", reference, "--site", site, "--manifests", str(kept)).returncode == 0
    control["image"]["archive"]["manifests"] = str(kept)  # type: ignore[index]
    code, said = bench.deploy(control)
    assert code == 0, said[-3000:]
    assert "image.digest" in verdict(bench)["pass"]
    assert bench.ssh("ls /var/lib/rackproof/*.tar 2>/dev/null; true").strip() == "", "the copy is not left behind"


def test_an_archive_that_was_changed_is_refused(bench: Bench, layout: Path) -> None:
    spoiled = bench.folder / "spoiled.tar"
    data = layout.read_bytes()
    for what, old, new in (
        ("index", b'"architecture": "amd64"', b'"architecture": "amd46"'),
        ("layer", b"\x1f\x8b\x08", b"\x1f\x8b\x09"),
    ):
        assert old in data
        spoiled.write_bytes(data.replace(old, new))
        put(bench, spoiled)
        code, said = bench.deploy(ON_HOST)
        assert code == 1, (what, said[-3000:])
        assert ("has the digest" in said) if what == "index" else ("docker load refused" in said), (what, said[-3000:])
        assert "vllm" not in bench.ssh("docker image ls -a --format '{{.Repository}}'")


def test_an_archive_of_another_image_is_refused(bench: Bench) -> None:
    path = bench.folder / "other.tar"
    bench.rack.run("rackproof-lab", "exec", "python", str(ROOT / "tests/lab/oci_layout.py"),
                   bench.lab["registry"]["url"], bench.lab["ca"], bench.digests["other_index"], str(path))  # fmt: skip
    put(bench, path)
    code, said = bench.deploy(ON_HOST)
    assert code == 1 and "the archive holds neither the pinned index" in said, said[-3000:]


def test_import_into_containerds_image_store(bench: Bench, layout: Path) -> None:
    """There the engine keeps the digest itself."""
    put(bench, layout)
    bench.ssh("mkdir -p /etc/docker; touch /etc/docker/daemon.json; cp /etc/docker/daemon.json /root/daemon.json; "
              "echo '{\"features\": {\"containerd-snapshotter\": true}}' >/etc/docker/daemon.json; systemctl restart docker")  # fmt: skip
    try:
        code, said = bench.deploy(ON_HOST)
        assert code == 0, said[-3000:]
        assert bench.digests["index"] in bench.ssh(
            "docker image inspect --format '{{.RepoDigests}}' vllm/vllm-openai:v0.28.0"
        )
        assert "image.digest" in verdict(bench)["pass"]
    finally:
        bench.empty()
        bench.ssh("mv /root/daemon.json /etc/docker/daemon.json; systemctl restart docker")
