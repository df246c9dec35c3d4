"""Bringing an image onto a node: the programs run with a stand-in for docker, the chain of an archive, and the decision
between registry and archive."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rackproof import site as sites
from rackproof.baseline_parts import ImageBaseline
from rackproof.deploy import image_preflight, image_scripts
from rackproof.deploy.image_archive import archive_of, find_chain, manifest_json
from rackproof.errors import InputError
from rackproof.registry import RegistryError, Trouble
from rackproof.registry.credentials import Credentials
from rackproof.registry.reference import Reference

INDEX, PLATFORM = "sha256:" + "1" * 64, "sha256:" + "2" * 64
IMAGE = ImageBaseline("r.example/vllm", "v1", INDEX, PLATFORM, "arm64", 13)

# What docker does is in $SAYS: a script for `pull`; an image is there once $THERE exists.
DOCKER = r"""
printf '%s\n' "$*" >>"$LOG"
[ -z "${DOCKER_CONFIG:-}" ] || cp "$DOCKER_CONFIG/config.json" "$LOG.config"
case "$1 $2" in
  "info --format") case $3 in *DockerRootDir*) echo / ;; *) echo '[]' ;; esac ;;
  "image inspect")
    case "$*" in *r.example/vllm@*) [ -e "$THERE" ] || exit 1 ;; *:v1*) [ -e "$THERE.old" ] || exit 1; echo sha256:old; exit ;; esac
    case "$*" in *Architecture*) echo "${ARCH:-arm64}" ;; *RepoDigests*) cat "$THERE" ;; *Id*) echo sha256:new ;; esac ;;
  pull*) . "$SAYS" ;;
esac
"""


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "docker").write_text(f"#!/bin/sh\n{DOCKER}")
        (folder / "docker").chmod(0o755)
        self.says(f"echo 'r.example/vllm@{INDEX}' >$THERE")

    def says(self, script: str) -> None:
        (self.folder / "says").write_text(script + "\n")

    def pull(
        self, monkeypatch: pytest.MonkeyPatch, room: int = 1, login: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(image_scripts, "STATE", str(self.folder / "state"))
        monkeypatch.setattr(image_scripts, "SECRETS", str(self.folder / "secrets"))
        script = image_scripts.pull(IMAGE, room, "a test", with_login=bool(login), pause_s=0)
        names = {"LOG": "log", "THERE": "there", "SAYS": "says"}
        known = {key: str(self.folder / name) for key, name in names.items()}
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", f"set -eu\n{script}"], input=login, capture_output=True, text=True, check=False,
                              env={**os.environ, **known, **path, **env})  # fmt: skip

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_pull_verify_tag(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    done = node.pull(monkeypatch)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert (
        f"pull r.example/vllm@{INDEX}" in node.log and node.log[-1] == f"tag r.example/vllm@{INDEX} r.example/vllm:v1"
    )
    assert not list((node.folder / "state").iterdir())


def test_the_platforms_own_digest_counts_too(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.says(f"echo 'r.example/vllm@{PLATFORM}' >$THERE")
    assert node.pull(monkeypatch).returncode == 0


def test_an_engine_that_says_another_digest_is_not_believed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.says(f"echo 'r.example/vllm@sha256:{'3' * 64}' >$THERE")
    done = node.pull(monkeypatch)
    assert done.returncode == 1 and "does not say that r.example/vllm" in done.stderr
    assert not [line for line in node.log if line.startswith("tag")]


def test_another_architecture_is_refused_before_the_tag(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    done = node.pull(monkeypatch, ARCH="amd64")
    assert done.returncode == 1 and "the image is for amd64, this host needs arm64" in done.stderr
    assert not [line for line in node.log if line.startswith("tag")]


def test_the_image_before_is_kept_under_a_tag(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.folder / "there.old").touch()
    assert node.pull(monkeypatch).returncode == 0
    assert "tag sha256:old r.example/vllm:rackproof-previous" in node.log
    assert not [
        line for line in node.log if line.split()[0] in ("rmi", "rm", "prune") or " rm" in line or "prune" in line
    ]


def test_a_cut_pull_is_started_again_and_at_last_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.says(
        f"if [ -e $THERE.1 ]; then echo 'r.example/vllm@{INDEX}' >$THERE; else touch $THERE.1; echo 'unexpected EOF' >&2; exit 1; fi"
    )
    done = node.pull(monkeypatch)
    assert done.returncode == 0 and "is started again (1 of 5): unexpected EOF" in done.stdout
    node.says("rm -f $THERE; echo 'read: connection reset by peer' >&2; exit 1")
    (node.folder / "there").unlink()
    done = node.pull(monkeypatch)
    assert (
        done.returncode == 1
        and "the pull broke off 5 times" in done.stderr
        and "connection reset by peer" in done.stderr
    )


REFUSALS = {
    "write /var/lib/docker/tmp/x: no space left on device": "the disk of the engine ran full",
    "filesystem layer verification failed for digest sha256:1": "does not have the pinned digest, and was thrown away",
    "manifest for r not found: manifest unknown: manifest unknown": "the registry does not have r.example/vllm@",
    "no matching manifest for linux/arm64/v8 in the manifest list entries": "has no linux/arm64, which this host needs",
    "no match for platform in manifest: not found": "has no linux/arm64, which this host needs",  # containerd's store
    "tls: failed to verify certificate: x509: certificate signed by unknown authority": "is not trusted on this host (image.ca_file)",
    "http: server gave HTTP response to HTTPS client": "insecure-registries",
    "Head x: unauthorized: authentication required": "the registry wants a login",
    "pull access denied for r, repository does not exist or may require 'docker login'": "the registry wants a login",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_is_final_and_clear(node: Node, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    node.says(f'echo "Error response from daemon: {said}" >&2; exit 1')
    done = node.pull(monkeypatch)
    assert done.returncode == 1 and REFUSALS[said] in done.stderr and len(done.stderr.splitlines()) == 1
    assert len([line for line in node.log if line.startswith("pull")]) == 1


def test_too_little_room(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    done = node.pull(monkeypatch, room=10**18)
    assert done.returncode == 1 and f"the image needs {10**18} (a test)" in done.stderr
    assert not [line for line in node.log if line.startswith("pull")]
    assert not list((node.folder / "state").iterdir())


def test_what_was_begun_is_not_refused_for_the_room_it_takes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.says("echo 'no space left on device' >&2; exit 1")
    node.pull(monkeypatch)
    node.says(f"echo 'r.example/vllm@{INDEX}' >$THERE")
    assert node.pull(monkeypatch, room=10**18).returncode == 0


def test_a_login_is_a_file_while_it_is_needed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    login = image_scripts.login_file(Reference("r.example", "vllm"), Credentials("u", "s3cret"))
    done = node.pull(monkeypatch, login=login)
    assert done.returncode == 0 and "s3cret" not in done.stdout + done.stderr + "".join(node.log)
    kept = json.loads((node.folder / "log.config").read_text())
    assert kept == {"auths": {"r.example": {"auth": "dTpzM2NyZXQ="}}}
    assert not list((node.folder / "secrets").iterdir())


def test_login_files() -> None:
    hub = image_scripts.login_file(Reference("docker.io", "a/b"), Credentials("<token>", "t", is_token=True))
    assert json.loads(hub) == {"auths": {"https://index.docker.io/v1/": {"identitytoken": "t"}}}
    assert image_scripts.ca_path("r.example:5000/a/b") == "/etc/docker/certs.d/r.example:5000/rackproof-ca.crt"


# --- the chain of an archive ---


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


CONFIG, LAYER = "sha256:" + "c" * 64, "sha256:" + "e" * 64
MANIFEST = json.dumps({"config": {"digest": CONFIG}, "layers": [{"digest": LAYER}]}).encode()


def entry(digest: str, architecture: str = "arm64") -> dict[str, Any]:
    return {"digest": digest, "platform": {"os": "linux", "architecture": architecture}}


OCI_INDEX = json.dumps({"manifests": [entry("sha256:" + "4" * 64, "amd64"), entry(sha(MANIFEST))]}).encode()
PINNED = replace(IMAGE, index=sha(OCI_INDEX), platform=None)


def chain(image: ImageBaseline, *documents: bytes) -> Any:
    kept = {sha(data): data for data in documents}
    return find_chain(image, kept.get, "site.yaml:1")


def test_from_the_pinned_index_to_the_configuration() -> None:
    found = chain(PINNED, OCI_INDEX, MANIFEST)
    assert (found.manifest, found.config, found.layers, found.documents) == (
        sha(MANIFEST),
        CONFIG,
        (LAYER,),
        (OCI_INDEX, MANIFEST),
    )
    assert json.loads(manifest_json(found)) == [
        {"Config": f"blobs/sha256/{'c' * 64}", "RepoTags": None, "Layers": [f"blobs/sha256/{'e' * 64}"]}
    ]


def test_from_the_pinned_manifest_of_the_platform_where_there_is_no_index() -> None:
    assert chain(replace(PINNED, platform=sha(MANIFEST)), MANIFEST).documents == (MANIFEST,)


def test_an_archive_without_the_pin_is_refused() -> None:
    for documents in ((), (MANIFEST,), (OCI_INDEX,)):
        with pytest.raises(InputError, match="holds neither the pinned index"):
            chain(PINNED, *documents)


def test_a_changed_document_is_refused() -> None:
    for wrong in (sha(OCI_INDEX), sha(MANIFEST)):
        kept = {sha(OCI_INDEX): OCI_INDEX, sha(MANIFEST): MANIFEST}
        kept[wrong] += b" "
        with pytest.raises(InputError, match=f"what the archive has as {wrong}"):
            find_chain(PINNED, kept.get, "site.yaml:1")


def test_an_index_without_the_hosts_platform_is_refused() -> None:
    index = json.dumps({"manifests": [entry(sha(MANIFEST), "amd64")]}).encode()
    with pytest.raises(InputError, match="no linux/arm64"):
        chain(replace(PINNED, index=sha(index)), index, MANIFEST)


@pytest.mark.parametrize(
    "document", [b"[]", b"{", b"{}", b'{"config": {}, "layers": [{}]}', b'{"config": {"digest": "x"}, "layers": []}']
)
def test_what_is_no_manifest_is_refused(document: bytes) -> None:
    with pytest.raises(InputError):
        chain(replace(IMAGE, index=sha(document)), document)
    with pytest.raises(InputError):
        chain(replace(IMAGE, platform=sha(document)), document)


def overlaid(tmp_path: Path, **archive: str) -> sites.Site:
    return sites.shipped().overlaid({"image": {"archive": archive}}, "test")


def test_where_an_archive_is(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    file.touch()
    assert archive_of(IMAGE, sites.shipped(), 1, "") is None
    found = archive_of(IMAGE, overlaid(tmp_path, host="/a.tar"), 1, "")
    assert found is not None and (found.host, found.control) == ("/a.tar", None)
    found = archive_of(IMAGE, overlaid(tmp_path, control=str(file), manifests=str(tmp_path)), 1, "")
    assert found is not None and (found.host, found.control, found.manifests) == (None, file, tmp_path)
    for wrong in ({"control": str(tmp_path / "b.tar")}, {"control": str(file), "host": "/a.tar"},
                  {"control": str(file), "manifests": str(file)}):  # fmt: skip
        with pytest.raises(InputError):
            archive_of(IMAGE, overlaid(tmp_path, **wrong), 1, "")


# --- how much room ---


def test_room_by_the_site_the_manifest_or_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    said = image_preflight.room_for(IMAGE, sites.shipped().overlaid({"image": {"free_bytes": 7}}, "site.yaml"))
    assert said == image_preflight.Room(7, "image.free_bytes, site.yaml")
    image_preflight._asked.cache_clear()
    monkeypatch.setattr(image_preflight.kept, "find", lambda _: None)

    def refuse(*_: object) -> None:
        raise RegistryError(Trouble.UNREACHABLE, "r.example", "no answer")

    monkeypatch.setattr(image_preflight, "resolve", refuse)
    floor = image_preflight.room_for(IMAGE, sites.shipped())
    assert floor.bytes == 4 * 13327998789 and "no registry could be asked" in floor.source and not floor.refusal
    image_preflight._asked.cache_clear()
    listed = type("Resolved", (), {"platforms": {}, "listed": {"amd64": INDEX}})()
    monkeypatch.setattr(image_preflight, "resolve", lambda *_: listed)
    assert (
        "has no linux/arm64, which this host needs; it has linux/amd64"
        in image_preflight.room_for(IMAGE, sites.shipped()).refusal
    )
    image_preflight._asked.cache_clear()
    listed.platforms = {"arm64": type("Platform", (), {"bytes": 1000})()}
    assert image_preflight.room_for(IMAGE, sites.shipped()).bytes == 4000
    image_preflight._asked.cache_clear()
